"""What executors write into files of their worker comes into the log: once, in whole lines, and marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.launchers.executor_output import ExecutorLogs

if TYPE_CHECKING:
    from pathlib import Path

HEAD = b'Spark Executor Command: "java" "-cp" "x"\n' + b"=" * 40 + b"\n\n"


@pytest.fixture
def executor(tmp_path: Path) -> Path:
    folder = tmp_path / "wo[rk" / "app-1" / "3"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def seen() -> list[bytes]:
    return []


@pytest.fixture
def outputs(tmp_path: Path, seen: list[bytes]) -> ExecutorLogs:
    return ExecutorLogs(str(tmp_path / "wo[rk"), seen.append)


def test_a_worker_without_executors_says_nothing(tmp_path: Path, seen: list[bytes]) -> None:
    ExecutorLogs(str(tmp_path / "none"), seen.append).forward(last=True)
    assert seen == []


def test_whole_lines_are_shown_once_and_the_rest_at_the_end(
    executor: Path, outputs: ExecutorLogs, seen: list[bytes]
) -> None:
    with (executor / "stdout").open("wb", buffering=0) as file:
        file.write(b"one\ntw")
        outputs.forward()
        outputs.forward()
        assert b"".join(seen) == b"[executor 3] one\n"
        file.write(b"o\n\nthree")
        outputs.forward()
        outputs.forward(last=True)
        outputs.forward(last=True)
    assert b"".join(seen) == b"[executor 3] one\n[executor 3] two\n[executor 3] \n[executor 3] three\n"


def test_the_command_that_started_it_is_left_out_however_it_comes(
    executor: Path, outputs: ExecutorLogs, seen: list[bytes]
) -> None:
    with (executor / "stderr").open("wb", buffering=0) as file:
        file.write(HEAD[:50])
        outputs.forward()
        file.write(HEAD[50:] + b"WARN this\n")
        outputs.forward()
        file.write(HEAD)
        outputs.forward()
    assert seen[0] == b"[executor 3] WARN this\n"
    assert b"Command" in seen[1], "only where a file begins"


@pytest.mark.parametrize("last", [False, True])
def test_much_is_shown_in_pieces_and_a_line_without_end_keeps_nothing_back(
    executor: Path, outputs: ExecutorLogs, seen: list[bytes], *, last: bool
) -> None:
    (executor / "stdout").write_bytes(b"x" * (5 << 19) + b"\n" + b"y\n" * 100)
    outputs.forward(last=last)
    text = b"".join(seen).replace(b"[executor 3] ", b"")
    assert text.count(b"x") == 5 << 19
    assert text.endswith(b"y\n" * 100)
