"""Jobs whose code is not a Python script, as folders: what starts them by hand, and what SageMaker is asked for."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from exported_jobs import job, packed, run

from jupyter_smx.kernel.request import source_dir
from jupyter_smx.kernel.sagemaker.export import export

if TYPE_CHECKING:
    from pathlib import Path

ECHO = 'echo "$0 $*"\n'


def by_hand(folder: Path) -> str:
    """Give the line that the page has for a shell."""
    (line,) = [line for line in (folder / "README.md").read_text().splitlines() if line.startswith("cd code && ")]
    return line


@pytest.mark.processes
@pytest.mark.parametrize(
    ("wish", "line"),
    [
        ({"entry_point": "run.sh", "source": ECHO}, "./run.sh"),
        ({"entry_point": "run.sh", "source": ECHO, "contract": "v3"}, "./run.sh"),
        ({"entry_point": "run.sh", "source": ECHO, "kind": "process"}, "./run.sh"),
        ({"entry_point": "fit", "source": f"#!/bin/sh\n{ECHO}"}, "./fit"),
        ({"entry_point": "fit.py", "source": "import sys\nprint(*sys.argv)"}, "python fit.py"),
    ],
)
def test_the_line_for_a_shell_starts_what_the_job_started(tmp_path: Path, wish: dict[str, Any], line: str) -> None:
    made = export(job(hyperparameters={"lr": "a b"}, **wish), tmp_path / "out")
    assert by_hand(tmp_path / "out") == f"cd code && {line} --lr 'a b'"
    shell = by_hand(tmp_path / "out").replace("python ", f"{sys.executable} ")
    done = subprocess.run(["/bin/sh", "-c", shell], cwd=made.folder, capture_output=True, text=True, check=True)
    assert done.stdout == f"{line.removeprefix('python ')} --lr a b\n"


def test_a_program_of_a_folder_may_be_executed_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_SMX_DATA_DIR", str(tmp_path / "smx"))
    source = packed(tmp_path, bin__fit=ECHO)
    made = export(job(source=ECHO, source_dir=source, entry_point="bin/fit.py"), tmp_path / "python")
    assert not (tmp_path / "python" / "code" / "bin" / "fit.py").stat().st_mode & 0o111
    (tmp_path / "src" / "bin" / "fit.py").rename(tmp_path / "src" / "bin" / "fit.sh")
    source = source_dir.pack(str(tmp_path / "src"), tmp_path / "smx" / "payloads")
    made = export(job(source=ECHO, source_dir=source, entry_point="bin/fit.sh"), tmp_path / "shell")
    assert (tmp_path / "shell" / "code" / "bin" / "fit.sh").stat().st_mode & 0o111
    assert by_hand(tmp_path / "shell") == "cd code && ./bin/fit.sh"
    assert "code/bin/fit.sh" in made.files


def test_a_package_is_installed_and_run_as_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_SMX_DATA_DIR", str(tmp_path / "smx"))
    source = packed(tmp_path, setup="", fits__train="1\n")
    wish = {"source": "1\n", "source_dir": source, "entry_point": "fits/train.py"}
    export(job(**wish), tmp_path / "train")
    assert by_hand(tmp_path / "train") == "cd code && pip install . && python -m fits.train"
    export(job(**wish, kind="process"), tmp_path / "process")
    assert by_hand(tmp_path / "process") == "cd code && python fits/train.py"


@pytest.mark.parametrize(
    ("name", "source", "command", "is_refused"),
    [
        ("prepare.py", "pass", ["python3"], False),
        ("run.sh", ECHO, ["/bin/sh"], False),
        ("run.sh", f"#!/usr/bin/env bash\n{ECHO}", ["/usr/bin/env", "bash"], False),
        ("run.sh", f"#!/home/me/bin/bash\n{ECHO}", ["/bin/sh"], False),
        ("prepare", "#!/usr/bin/env python3\npass", ["/usr/bin/env", "python3"], False),
        ("prepare", "\x7fELF", ["/bin/sh"], True),
    ],
)
def test_a_processor_is_told_who_reads_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, source: str, command: list[str], *, is_refused: bool
) -> None:
    export(job(kind="process", entry_point=name, source=source), tmp_path / "out")
    assert run(tmp_path / "out", monkeypatch).of("ScriptProcessor")["command"] == command
    page = (tmp_path / "out" / "README.md").read_text()
    assert (f"`{name}` is a program, and SageMaker's processors start scripts by an interpreter" in page) is is_refused


def test_the_program_of_an_image_is_started_by_sagemaker_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone: dict[str, Any] = {"image_program": True, "arguments": ("--rows", "5")}
    made = export(job(kind="process", source="# of the image\n", **alone), tmp_path / "process")
    assert not [name for name in made.files if name.startswith("code/")]
    recorder = run(tmp_path / "process", monkeypatch)
    assert not {"entrypoint", "command"}.intersection(recorder.of("Processor"))
    assert recorder.of("Processor.run") == {"arguments": ["--rows", "5"]}
    made = export(job(source="train\n", command=("train",), **alone), tmp_path / "train")
    assert not [name for name in made.files if name.startswith("code/")]
    assert not {"source_dir", "entry_point", "dependencies"}.intersection(
        run(tmp_path / "train", monkeypatch).of("Estimator")
    )


@pytest.mark.parametrize(("kind", "words"), [("train", "train"), ("process", "--rows 5")])
def test_the_program_of_an_image_is_started_by_hand_with_docker(tmp_path: Path, kind: Any, words: str) -> None:
    export(job(kind=kind, image="a:1", image_program=True, arguments=("--rows", "5")), tmp_path / "out")
    page = (tmp_path / "out" / "README.md").read_text()
    assert f"```sh\ndocker run --rm -v ./ml:/opt/ml a:1 {words}\n```" in page
    assert "`code/`" not in page
