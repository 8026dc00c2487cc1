"""A cell prints a long log within its budget, and no faster than a Jupyter server takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.kernel.logs import cell_log
from jupyter_smx.kernel.logs.cell_log import SETTINGS, CellLog, open_cell_log
from jupyter_smx.kernel.logs.log_budget import LogBudget
from jupyter_smx.kernel.logs.write_rate import WriteRate, message_size
from jupyter_smx.model.text import format_size

if TYPE_CHECKING:
    from conftest import Screenshots
    from IPython.core.interactiveshell import InteractiveShell

WINDOW, SERVER_LIMIT = 3.0, 3_000_000
"""Seconds that Jupyter Server looks at, and the bytes that it lets through in them."""
LINE = "x" * 80 + "\n"


class Clock:
    """A clock that only sleeping moves, and the writes at each of its times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.writes: list[tuple[float, str]] = []
        monkeypatch.setattr(cell_log, "write", lambda text: self.writes.append((self.now, text)))

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def text(self) -> str:
        return "".join(text for _, text in self.writes)


def print_log(clock: Clock, pieces: list[str], limit: int, rate: WriteRate) -> None:
    with CellLog("train-1", LogBudget(limit), rate, clock, clock.sleep) as log:
        for piece in pieces:
            log(piece)


def test_what_is_left_out_is_said_between_the_first_and_the_last_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    print_log(clock, [f"{number}\n" for number in range(1_000)], 200, WriteRate())
    lines = clock.text().splitlines()
    said = [number for number, line in enumerate(lines) if line.startswith("jupyter_smx: ")]
    assert said == [said[0], said[0] + 1]
    assert lines[: said[0]] == [str(number) for number in range(said[0])]
    left = 1_000 - (len(lines) - 2)  # the two lines of the tool
    size = sum(len(f"{number}\n") for number in range(1_000)) - sum(len(line) + 1 for line in lines if line.isdigit())
    assert lines[said[1]] == f"jupyter_smx: {left} lines ({format_size(size)}) are left out here."
    assert lines[-1] == "999"


def test_of_a_progress_bar_the_size_that_is_left_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    print_log(clock, [f"\r{number:>99}%" for number in range(30_000)], 1_000_000, WriteRate())
    assert "\njupyter_smx: 1.9 MiB of this log were left out here.\n" in clock.text()
    assert "0 lines" not in clock.text()


@pytest.mark.parametrize("text", [LINE * 50_000, "\x1b" * 900_000, "日" * 1_500_000], ids=["lines", "escapes", "wide"])
def test_no_window_of_a_server_gets_more_than_its_limit(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    clock, rate = Clock(monkeypatch), WriteRate()
    for _cell in range(2):
        print_log(clock, [text], 0, rate)
    sizes = [(at, message_size(piece)) for at, piece in clock.writes]
    for begin, _size in sizes:
        assert sum(size for at, size in sizes if begin <= at < begin + WINDOW) < SERVER_LIMIT
    assert clock.text() == text * 2


def test_a_short_log_is_printed_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    print_log(clock, [LINE] * 100, 1_000_000, WriteRate())
    assert (clock.now, clock.text()) == (100.0, LINE * 100)


def test_a_kernel_has_the_limit_of_its_magics_and_a_terminal_has_none(
    shell: InteractiveShell,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    monkeypatch.setattr(SETTINGS, "limit", SETTINGS.limit)  # the first magics change it
    with open_cell_log("train-1") as log:
        log(LINE * 20_000)
    assert capsys.readouterr().out == LINE * 20_000
    _front_end: Screenshots = request.getfixturevalue("front_end")
    magics: Any = shell.find_line_magic("smx").__self__  # type: ignore[union-attr]
    monkeypatch.setattr(magics, "log_limit", 1_000)
    assert SETTINGS.limit == 1_000
    with open_cell_log("train-1") as log:
        log(LINE * 20_000)
    assert len(capsys.readouterr().out) < 2_000
