"""How many bytes of forwarded connections may be under way."""

from __future__ import annotations

from jupyter_smx.agent.system.forwarding import channel_frames
from jupyter_smx.agent.system.forwarding.channel_frames import PIECE, WINDOW, SendTotal, SendWindow


def fill(window: SendWindow) -> int:
    """Send all that a window has room for; return the bytes."""
    sent = 0
    while count := window.room():
        window.add_sent(count)
        sent += count
    return sent


def test_a_channel_has_one_window_of_bytes_under_way_until_they_are_delivered() -> None:
    window = SendWindow(SendTotal())
    assert window.room() == PIECE
    assert fill(window) == WINDOW
    window.add_delivered(1_000)
    assert window.room() == 1_000
    window.add_delivered(10 * WINDOW)
    assert fill(window) == WINDOW


def test_many_channels_share_a_limit_and_each_keeps_some_room() -> None:
    total = SendTotal()
    windows = [SendWindow(total) for _ in range(20)]
    sent = [fill(window) for window in windows]
    assert sent[:3] == [WINDOW] * 3
    assert sent[3:] == [32 * 1024] * 17
    windows[0].close()
    assert total.bytes == sum(sent[1:])
    assert windows[5].room() == 0, "the others have more than the limit"
    for window in windows[1:5]:
        window.close()
    assert windows[5].room() == PIECE
    for window in windows:
        window.close()
    assert total.bytes == 0


def test_a_credit_of_another_form_counts_nothing() -> None:
    assert channel_frames.credit_of(channel_frames.frame(1, channel_frames.CREDIT, 7)) == 7
    assert [channel_frames.credit_of(header) for header in ({}, {"bytes": "7"}, {"bytes": None})] == [0, 0, 0]
    window = SendWindow(SendTotal())
    window.add_sent(5)
    window.add_delivered(-100)
    assert fill(window) == WINDOW - 5
