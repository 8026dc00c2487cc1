"""What a waiting cell prints of a log that ends with a traceback."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.kernel.logs.traceback_buffer import TracebackBuffer

TRACE = 'Traceback (most recent call last):\n  File "<train>", line 2, in <module>\n    f()\nKeyError: 1\n'
CAUSE = (
    TRACE + "\nDuring handling of the above exception, another exception occurred:\n\n" + TRACE.replace("1\n", "2\n")
)


def written(pieces: list[str], traceback: str) -> str:
    out: list[str] = []
    held = TracebackBuffer(out.append)
    for piece in pieces:
        held(piece)
    held.flush(traceback)
    held.flush()
    return "".join(out)


@pytest.mark.parametrize("trace", [TRACE, CAUSE], ids=["one", "with its cause"])
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_the_traceback_of_the_failure_is_left_out_however_it_comes(trace: str, size: int) -> None:
    whole = "epoch 1\nepoch 2\n" + trace
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    assert written(pieces, trace) == "epoch 1\nepoch 2\n"


def test_another_traceback_stays_and_so_does_everything_that_is_none() -> None:
    assert written([TRACE], "") == TRACE
    assert written([TRACE], TRACE.replace("KeyError: 1", "ValueError")) == TRACE
    assert written([TRACE, "goes on\n"], TRACE) == TRACE + "goes on\n"
    assert written([TRACE, "goes on\n", TRACE], TRACE) == TRACE + "goes on\n"
    assert written(["no line end"], "") == "no line end"


def test_a_traceback_that_was_logged_is_written_when_more_or_nothing_comes() -> None:
    for after in ("epoch 3\n", ""):
        out: list[str] = []
        held = TracebackBuffer(out.append)
        held(TRACE)
        assert out == []
        held(after)
        assert "".join(out) == TRACE + after


def test_nothing_is_held_for_ever() -> None:
    out: list[str] = []
    TracebackBuffer(out.append)(TRACE.partition("\n")[0] + "\n" + "  deep\n" * 20_000)
    assert len("".join(out)) > 100_000


@given(st.lists(st.sampled_from(["a", "\n", "\r", " ", "Trace", TRACE, TRACE[:40], CAUSE, ""]), max_size=20))
def test_no_byte_of_a_job_that_completed_is_lost(pieces: list[str]) -> None:
    assert written(pieces, "") == "".join(pieces)
