"""pip without a way out: it is ended after some seconds of failed connections, and never while it makes progress."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.code.requirements.pip_process import RetryWatch, run_pip

if TYPE_CHECKING:
    from pathlib import Path

RETRY = "WARNING: Retrying (Retry(total=4, connect=None)) after connection broken by 'NewConnectionError'"
PATIENCE = 15.0
FAKE_PIP = """
import signal, sys
print("Looking in indexes", flush=True)
for line in sys.argv[2:]:
    print(line, flush=True)
if sys.argv[1] == "waits":
    signal.pause()
sys.exit(1)
"""


def fake_pip(folder: Path, how: str, *lines: str) -> list[str]:
    program = folder / "fake_pip.py"
    program.write_text(FAKE_PIP)
    return [sys.executable, str(program), how, *lines]


def test_failed_connections_count_from_the_first_of_them_and_progress_ends_them() -> None:
    watch = RetryWatch(PATIENCE, 100.0)
    assert watch.remaining(1_000.0) is None, "pip that prints nothing may download"
    watch.update("Looking in indexes: https://host/simple\n", 124.0)
    watch.update(RETRY, 125.0)
    assert watch.remaining(126.0) is None, "a slow index may answer the second time"
    watch.update(RETRY, 130.0)
    assert watch.remaining(131.0) == 9.0
    assert watch.remaining(141.0) == 0.0
    watch.update("\n", 141.5)
    assert watch.remaining(142.0) == 0.0
    watch.update("Collecting alpha\n", 143.0)
    assert watch.remaining(1_000.0) is None


def test_a_connection_that_nothing_refuses_is_not_repeated_for_long() -> None:
    """A firewall that drops packets: pip reports each failure after 15 s only."""
    dropped = RETRY.replace("NewConnectionError", "ConnectTimeoutError")
    watch = RetryWatch(PATIENCE, 100.0)
    watch.update("Looking in indexes: https://host/simple\n", 101.0)
    watch.update(dropped, 116.0)
    assert watch.remaining(116.0) == 0.0
    watch.update("Collecting alpha\n", 117.0)
    assert watch.remaining(1_000.0) is None
    watch.update(RETRY.replace("NewConnectionError", "NameResolutionError"), 123.0)
    assert watch.remaining(124.0) == 8.0, "a name server may be away for a moment"
    watch.update("Collecting alpha\n", 125.0)
    late = RETRY.replace("NewConnectionError", "ReadTimeoutError")
    watch.update(late, 132.0)
    assert watch.remaining(132.0) is None, "an index that is slow may answer"
    watch.update(late, 147.0)
    assert watch.remaining(147.0) == 0.0


@pytest.mark.parametrize("line", ["  Downloading torch.whl (900 MB)\n", "  Installing build dependencies: started\n"])
def test_a_connection_that_fails_at_once_after_long_work_may_be_repeated(line: str) -> None:
    watch = RetryWatch(PATIENCE, 100.0)
    watch.update("Collecting torch\n", 101.0)
    watch.update(line, 102.0)
    watch.update(RETRY, 202.0)
    assert watch.remaining(202.0) is None, "pip has no progress bar, so that its download had no line"
    watch.update(RETRY, 203.0)
    assert watch.remaining(203.0) == PATIENCE - 1.0


def test_pip_that_only_repeats_failed_connections_is_ended(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    end = run_pip(fake_pip(tmp_path, "waits", RETRY, RETRY), str(tmp_path), patience=0.1)
    assert (end.is_cut_off, end.code != 0) == (True, True)
    assert capfd.readouterr().out == f"Looking in indexes\n{RETRY}\n{RETRY}\n"


@pytest.mark.parametrize(
    ("line", "is_cut_off"),
    [
        ("ERROR: [Errno -3] Temporary failure in name resolution", True),
        ("ERROR: No matching distribution found for alpha==9", False),
    ],
)
def test_pip_that_ends_by_itself_says_whether_it_reached_a_server(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], line: str, is_cut_off: bool
) -> None:
    end = run_pip(fake_pip(tmp_path, "ends", line), str(tmp_path))
    assert (end.code, end.is_cut_off) == (1, is_cut_off)
    assert capfd.readouterr().out.endswith(f"{line}\n")
