"""``--python`` and ``--requirements`` on the kernel's side: which interpreter, which version, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle
import pytest

from jupyter_smx.kernel.request import interpreters
from jupyter_smx.kernel.request.interpreters import InterpreterChoice, choose_interpreter
from jupyter_smx.kernel.request.request import JobRequest, SubmissionContext
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.job_spec import JobSpec

if TYPE_CHECKING:
    from collections.abc import Callable

OWN = InterpreterChoice(python="/kernel/python", python_version="3.10")
HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"


def program(path: Path, prints: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {prints}\necho asked >> '{path}.asked'\n")
    path.chmod(0o755)
    return path


def refusal(call: Callable[[], Any], field: str = "python") -> str:
    with pytest.raises(ValidationError) as told:
        call()
    assert told.value.field == field
    return str(told.value)


def test_without_a_word_a_job_runs_the_kernels_own_python(tmp_path: Path) -> None:
    assert choose_interpreter("", "", OWN, tmp_path) == OWN


@pytest.mark.processes
def test_an_interpreter_and_its_folder_are_the_same_and_links_are_kept(tmp_path: Path) -> None:
    link = tmp_path / "venv" / "bin" / "python"
    link.parent.mkdir(parents=True)
    link.symlink_to(sys.executable)
    wanted = InterpreterChoice(python=str(link), python_version=HERE)
    assert choose_interpreter("venv", "", OWN, tmp_path) == wanted
    assert choose_interpreter("./venv/", "", OWN, tmp_path) == wanted
    assert choose_interpreter("venv/bin/../bin/python", "", OWN, tmp_path) == wanted
    assert choose_interpreter(str(link), "", OWN, Path("/")) == wanted


@pytest.mark.processes
def test_a_version_is_learnt_once_until_the_file_changes(tmp_path: Path) -> None:
    python = program(tmp_path / "python", "3 12")
    for _ in range(3):
        assert choose_interpreter("python", "", OWN, tmp_path).python_version == "3.12"
    assert (tmp_path / "python.asked").read_text() == "asked\n"
    program(python, "3 13")
    assert choose_interpreter("python", "", OWN, tmp_path).python_version == "3.13"


@pytest.mark.processes
def test_what_is_no_interpreter_is_refused_with_the_reason(tmp_path: Path) -> None:
    program(tmp_path / "old", "3 7")
    program(tmp_path / "odd", "hello")
    (tmp_path / "text").write_text("")
    (tmp_path / "folder").mkdir()
    (tmp_path / "python3.11").touch()
    for word, said in (
        ("old", "--python: 'old' is Python 3.7. A job runs 3.8 or newer."),
        ("odd", "--python: 'odd' is not a Python that can be started."),
        ("text", "--python: 'text' cannot be executed."),
        ("folder", "--python: 'folder' has no Python."),
        ("nowhere/python", "--python: 'nowhere/python' does not exist."),
        ("~nobody-here/python", "--python: '~nobody-here/python' does not exist."),
    ):
        assert refusal(lambda word=word: choose_interpreter(word, "", OWN, tmp_path)).startswith(said)
    assert "Did you mean python3.11?" in refusal(lambda: choose_interpreter("python3.12", "", OWN, tmp_path))


@pytest.mark.processes
def test_an_environment_of_conda_is_its_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = tmp_path / "conda" / "envs" / "torch"
    (prefix / "conda-meta").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CONDA_EXE", str(tmp_path / "conda" / "bin" / "conda"))
    assert "has no Python" in refusal(lambda: choose_interpreter("conda:torch", "", OWN, tmp_path))
    program(prefix / "bin" / "python", "3 9")
    assert choose_interpreter("conda:torch", "", OWN, tmp_path) == InterpreterChoice(
        python=str(prefix / "bin" / "python"), python_version="3.9"
    )
    assert "Did you mean torch?" in refusal(lambda: choose_interpreter("conda:toch", "", OWN, tmp_path))


def test_an_environment_of_requirements_alone(tmp_path: Path) -> None:
    (tmp_path / "numpy").mkdir()  # a folder of that name is no file of requirements
    alone = choose_interpreter("uv:numpy,pandas>=2,<3", "", OWN, tmp_path)
    assert (alone.requirements, alone.requirements_only) == (("numpy", "pandas>=2,<3"), True)
    assert (alone.python, alone.python_version) == (OWN.python, OWN.python_version)
    (tmp_path / "gpu.txt").write_text("torch\n")
    assert choose_interpreter("uv:gpu.txt", ["scipy"], OWN, tmp_path).requirements == ("torch", "scipy")
    assert "no packages were given" in refusal(lambda: choose_interpreter("uv:", "", OWN, tmp_path))
    assert "does not exist" in refusal(lambda: choose_interpreter("uv:cpu.txt", "", OWN, tmp_path), "requirements")
    assert refusal(lambda: choose_interpreter("uv:numpy,pandas=1", "", OWN, tmp_path), "requirements").startswith(
        "--python uv: 'pandas=1' is not a requirement."
    )


def test_requirements_come_from_a_file_or_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "r.txt").write_text("numpy\n")
    for required in ("r.txt", Path("r.txt"), tmp_path / "r.txt", ["numpy"], ("numpy",)):
        assert choose_interpreter("", required, OWN, tmp_path).requirements == ("numpy",)
    (tmp_path / "r.txt").write_text("# nothing\n")
    assert choose_interpreter("", "r.txt", OWN, tmp_path) == OWN


@pytest.mark.processes
def test_a_wish_carries_them(tmp_path: Path) -> None:
    (tmp_path / "r.txt").write_text("numpy\n")
    here = SubmissionContext(python=OWN.python, python_version=OWN.python_version, folder=tmp_path)
    spec = JobRequest(kind="train", python=sys.executable, requirements="r.txt").build_spec("pass", 0, here, 0.0)
    assert (spec.python, spec.python_version) == (sys.executable, HERE)
    assert (spec.requirements, spec.requirements_only) == (("numpy",), False)


def test_a_function_takes_what_carries_it_along_to_requirements_alone() -> None:
    alone = JobSpec(kind="train", source="", requirements=("numpy",), requirements_only=True)
    added = interpreters.add_cloudpickle(alone).requirements
    assert added == ("numpy", f"cloudpickle=={cloudpickle.__version__}")
    named = JobSpec(kind="train", source="", requirements=("cloudpickle>=3",), requirements_only=True)
    assert interpreters.add_cloudpickle(named) is named
    on_top = JobSpec(kind="train", source="", requirements=("numpy",))
    assert interpreters.add_cloudpickle(on_top) is on_top


def test_code_is_not_sent_to_another_version_and_both_are_named() -> None:
    code = ("the function scale", "the class Net in model")
    interpreters.check_send(JobSpec(kind="train", source="", python_version="3.11"), "3.11", code)
    other = JobSpec(kind="train", source="", python_version="3.9")
    interpreters.check_send(other, "3.11", ())
    said = refusal(lambda: interpreters.check_send(other, "3.11", code), "send")
    assert "this kernel runs Python 3.11 and the job would run 3.9, which cannot run the function scale." in said
    assert "send values only" in said
