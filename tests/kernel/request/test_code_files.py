"""Files and folders beside the script: what is packed, and what is said of those that cannot be."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import jupyter_smx as smx
from jupyter_smx.kernel.api import session
from jupyter_smx.kernel.request import source_dir
from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from IPython.core.interactiveshell import InteractiveShell
    from scripted_controller import ScriptedController


@pytest.fixture(autouse=True)
def without_waiting(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 - it removes the variable
    """Let cells come back at once, as with a front end."""
    monkeypatch.setenv("SMX_WAIT", "0")


@pytest.fixture
def here(controller: ScriptedController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:  # noqa: ARG001 - it must be there first
    """Give a project with a script, code beside it and code elsewhere, and a session outside a notebook."""
    top = tmp_path / "project"
    for name in ("src/train.py", "src/lib/old.py", "shared/lib/new.py", "shared/lib/sub/a.txt", "shared/words.txt"):
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n")
    (top / "shared" / "requirements.txt").write_text("einops\n")
    (top / "alone.py").write_text("import lib.new, words, numpy\n")
    monkeypatch.chdir(top)
    session.close_session()
    session.open_session(None)
    yield top
    session.close_session()


def packed(spec: Any) -> dict[str, str]:
    with tarfile.open(spec.source_dir.path) as archive:
        files = [(member.name, archive.extractfile(member)) for member in archive]
        return {name: file.read().decode() for name, file in files if file is not None}


def test_dependencies_lie_beside_the_files_of_the_folder_and_take_their_place(
    controller: ScriptedController, here: Path
) -> None:
    job = smx.train(entry_point="train.py", source_dir="src", dependencies=["shared/lib", Path("shared/words.txt")])
    spec = controller.jobs[job.id].spec
    assert list(packed(spec)) == ["lib/new.py", "lib/old.py", "lib/sub/a.txt", "train.py", "words.txt"]
    assert (spec.source_dir.folder, spec.source_dir.files, spec.source_dir.is_whole) == (str(here / "src"), 5, True)
    assert spec.source_dir.dependencies == ("lib", "words.txt")
    (here / "shared" / "train.py").write_text("# another\n")
    job = smx.train(entry_point="train.py", source_dir="src", dependencies=["shared/train.py"])
    assert packed(controller.jobs[job.id].spec)["train.py"] == "# another\n"


@pytest.mark.usefixtures("here")
def test_dependencies_without_a_folder_travel_with_the_script(controller: ScriptedController) -> None:
    job = smx.train(entry_point="alone.py", dependencies=["shared/lib"])
    spec = controller.jobs[job.id].spec
    assert list(packed(spec)) == ["alone.py", "lib/new.py", "lib/sub/a.txt"]
    assert (spec.entry_point, spec.source_dir.folder) == ("alone.py", ""), "they are in several folders"
    assert not spec.source_dir.is_whole
    assert spec.imports == ("words", "numpy"), "what comes with the job is not preloaded"


def test_dependencies_of_a_cell_and_of_a_function(
    controller: ScriptedController, here: Path, shell: InteractiveShell
) -> None:
    assert shell.run_cell("%%train --dependency shared/lib --dependency shared/words.txt\nimport lib.new").success
    (record,) = controller.jobs.values()
    assert list(packed(record.spec)) == ["lib/new.py", "lib/sub/a.txt", "words.txt"]
    assert record.spec.source_dir.folder == str(here / "shared"), "tracebacks name the files in it"
    assert not record.spec.source_dir.is_whole

    smx.remote(dependencies=["shared/lib"])(print).submit()
    *_, record = controller.jobs.values()
    assert list(packed(record.spec)) == ["lib/new.py", "lib/sub/a.txt"]


@pytest.mark.usefixtures("here")
def test_requirements_among_the_dependencies_are_installed(controller: ScriptedController) -> None:
    job = smx.train(entry_point="alone.py", dependencies=["shared/requirements.txt"])
    assert controller.jobs[job.id].spec.requirements == ("einops",)
    job = smx.train(entry_point="alone.py", dependencies=["shared/requirements.txt"], requirements="none")
    assert controller.jobs[job.id].spec.requirements == ()


@pytest.mark.usefixtures("here")
def test_requirements_that_are_packed_are_those_that_are_installed(controller: ScriptedController) -> None:
    Path("src/requirements.txt").write_text("numpy\n")
    job = smx.train(entry_point="train.py", source_dir="src", dependencies=["shared/requirements.txt"])
    spec = controller.jobs[job.id].spec
    assert (packed(spec)["requirements.txt"], spec.requirements) == ("einops\n", ("einops",))


def test_dependencies_with_equal_files_make_an_equal_archive(tmp_path: Path) -> None:
    found = []
    for name in ("a", "b"):
        folder = tmp_path / name
        (folder / "lib").mkdir(parents=True)
        (folder / "lib" / "x.py").write_text("1")
        (folder / "y.py").write_text("2")
        words = [str(folder / "y.py"), str(folder / "lib")]
        dependencies = words if name == "a" else words[::-1]
        found.append(source_dir.pack("", tmp_path / "smx" / "payloads", dependencies=dependencies))
    assert found[0].sha256 == found[1].sha256


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("dependencies", "said"),
    [
        (["shared/lb"], r"dependencies.*shared/lb.* does not exist\. .*Did you mean lib\?"),
        (["s3://bucket/lib"], r"s3://bucket/lib'? is not on this machine\."),
        (["shared/lib", "src/lib"], r"have the same name\. .*Rename one\."),
    ],
)
def test_dependencies_that_cannot_be_packed_are_refused(
    controller: ScriptedController, dependencies: list[str], said: str
) -> None:
    with pytest.raises(ValidationError, match=said) as refusal:
        smx.train(entry_point="alone.py", dependencies=dependencies)
    assert refusal.value.field == "dependencies"
    assert controller.jobs == {}
