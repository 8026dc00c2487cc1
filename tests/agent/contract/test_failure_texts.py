"""What is written of the end of a job: the failure file and the exit message, row by row as SageMaker has them."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.contract import failure, scriptmode
from jupyter_smx.agent.contract import failure_command as command
from jupyter_smx.agent.paths import HostInfo

if TYPE_CHECKING:
    from pathlib import Path

GROUP = {"instance_group_name": "homogeneousCluster", "instance_type": "local", "hosts": ["algo-1"]}
KEY_ERROR = {"type": "KeyError", "message": "'x'", "traceback": "", "line": 3}
PYTHON = sys.executable
TORCH = {"a": "1", "sagemaker_torch_distributed_enabled": "true", "sagemaker_mpi_num_of_processes_per_host": "2"}
CALLED = "subprocess.CalledProcessError: Command '['{}', 'train.py', '--a', 'true']' returned non-zero exit status 3."


def facts(ml: Path, status: int | None, *, fate: str = "", report: dict[str, Any] | None = None, **spec: Any) -> Any:
    place = HostInfo("algo-1", ["algo-1"], [GROUP], "homogeneousCluster", "local", 2, 0, str(ml))
    whole = scriptmode.complete({"source": "", **spec})
    (ml / "output").mkdir(exist_ok=True)
    return failure.Facts(str(ml), whole, place, report or {}, status, fate)


def text(code: int, message: str, command: str, extra: str = "") -> str:
    lines = ["ExecuteUserScriptError:", f"ExitCode {code}", f'ErrorMessage "{message}"']
    return "\n".join([*lines, *([f'ExtraInfo "{extra}"'] if extra else []), f'Command "{command}"'])


KILLED_CHILD = "OutOfMemory: a program was ended by SIGKILL (signal 9)."


@pytest.mark.parametrize(
    ("status", "more", "expected"),
    [
        (0, {}, ""),
        (3 << 8, {}, text(3, "", f"{PYTHON} -- train.py")),
        (1 << 8, {"report": {"exception": KEY_ERROR}}, text(1, "KeyError: 'x'", f"{PYTHON} -- train.py")),
        (1 << 8, {"hyperparameters": {"n": "3"}}, text(1, "", f"{PYTHON} -- train.py -n 3")),
        (signal.SIGSEGV, {}, text(-11, "", f"{PYTHON} -- train.py")),
        (signal.SIGKILL, {}, text(-9, "", f"{PYTHON} -- train.py")),
        (
            signal.SIGKILL,
            {"fate": "its process had 3 GiB."},
            text(-9, "", f"{PYTHON} -- train.py", "OutOfMemory: its process had 3 GiB."),
        ),
        (137 << 8, {"entry_point": "fit.sh"}, text(137, "", "/bin/sh -c ./fit.sh", KILLED_CHILD)),
        (2 << 8, {"entry_point": "fit.sh"}, text(2, "", "/bin/sh -c ./fit.sh")),
        (1 << 8, {"hyperparameters": TORCH}, text(1, "", "torchrun --nnodes 1 --nproc_per_node 2 train.py -a 1")),
        (
            1 << 8,
            {"hyperparameters": {**TORCH, "sagemaker_mpi_num_of_processes_per_host": "two"}},
            text(1, "", f"{PYTHON} -- train.py -a 1"),
        ),
        (1 << 8, {"report": {"failure": "InstallModuleError: no"}}, "InstallModuleError: no"),
        (1 << 8, {"report": {"refused": "send: no such file"}}, ""),
        (None, {}, ""),
        (
            1 << 8,
            {"contract": "v3", "report": {"exception": {**KEY_ERROR, "traceback": "Traceback: no"}}},
            "Traceback: no",
        ),
        (
            3 << 8,
            {"contract": "v3", "hyperparameters": {"a": "true"}},
            CALLED.format(PYTHON),
        ),
        (
            signal.SIGKILL,
            {"contract": "v3", "entry_point": "fit.sh"},
            "subprocess.CalledProcessError: Command '['/bin/sh', '-c', './fit.sh']' died with <Signals.SIGKILL: 9>.",
        ),
        (1 << 8, {"kind": "process", "report": {"exception": KEY_ERROR}}, ""),
        (signal.SIGKILL, {"kind": "process"}, ""),
    ],
)
def test_without_words_of_its_own_a_failure_has_those_of_sagemakers_toolkit(
    tmp_path: Path, status: int | None, more: dict[str, Any], expected: str
) -> None:
    assert failure.format_failure_file(facts(tmp_path, status, **more)) == expected


def test_a_script_of_ranks_was_started_by_mpirun(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "setup.py").touch()
    wish = {"entry_point": "fit.py", "source_dir": {}, "hyperparameters": {"a": "1", "sagemaker_mpi_enabled": "true"}}
    found = facts(tmp_path, 9 << 8, **wish)
    assert command.command_prefix(found.spec, found.place)[-6:] == [PYTHON, "-m", "mpi4py", "fit.py", "-a", "1"]
    of_a_package = {**found.spec, "source_dir": {"folder": "/home/me"}}
    words = command.command_prefix(of_a_package, found.place)
    assert words[-7:] == [PYTHON, "-m", "mpi4py", "-m", "fit", "-a", "1"]
    assert words[:5] == ["mpirun", "--host", "algo-1:1", "-np", "1"]
    handed = [words[number + 1] for number, word in enumerate(words) if word == "-x"]
    assert {"PATH", "SM_HP_A", "SM_TRAINING_ENV"} <= set(handed)
    assert failure.format_failure_file(found).startswith(text(9, "", "mpirun --host algo-1:1 -np 1")[:-1])


@pytest.mark.parametrize("kind", ["train", "process"])
def test_the_scripts_own_words_win_and_1024_characters_are_read(tmp_path: Path, kind: str) -> None:
    found = facts(tmp_path, 1 << 8, kind=kind, report={"exception": KEY_ERROR})
    (tmp_path / "output" / "failure").write_text("é" * 2000, encoding="utf-8")
    assert failure.format_failure_file(found) == "é" * 1024
    assert failure.failure_fields(found)["failure"] == "é" * 1024


def test_a_long_message_does_not_pass_1024_characters(tmp_path: Path) -> None:
    found = facts(tmp_path, 1 << 8, report={"exception": {**KEY_ERROR, "message": "x" * 3000}})
    assert len(failure.format_failure_file(found)) == 1024


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", ""),
        ("12 Zeilen übrig".encode(), "12 Zeilen übrig"),
        (b"a" * 3000, "a" * 1024),
        (b"a" * 1023 + "é".encode(), "a" * 1023),
        (b"a" * 1023 + b"\xff", None),
        (b"\xff\xfe", None),
        (b"cut \xc3", None),
    ],
)
def test_an_exit_message_is_the_first_kilobyte_of_utf_8(tmp_path: Path, data: bytes, message: str | None) -> None:
    found = facts(tmp_path, 0, kind="process")
    (tmp_path / "output" / "message").write_bytes(data)
    assert failure.failure_fields(found)["message"] == message
    assert failure.failure_fields(found._replace(spec={**found.spec, "kind": "train"}))["message"] == ""


def test_without_a_message_there_is_none(tmp_path: Path) -> None:
    assert failure.failure_fields(facts(tmp_path, 0, kind="process"))["message"] == ""


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kept_open", [False, True])
def test_a_pipe_in_the_place_of_words_says_nothing_and_is_not_waited_for(tmp_path: Path, *, kept_open: bool) -> None:
    found = facts(tmp_path, 3 << 8, kind="process")
    pipes = [tmp_path / "output" / name for name in ("failure", "message")]
    for pipe in pipes:
        os.mkfifo(pipe)
    held = [os.open(pipe, os.O_RDWR) for pipe in pipes] if kept_open else []
    for one in held:
        os.write(one, b"words")
    told = failure.failure_fields(found)
    for one in held:
        os.close(one)
    assert (told["failure"], told["reason"], told["message"]) == ("", "", "")
