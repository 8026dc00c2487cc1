"""Environments of conda by name. conda is not installed here: its answers are the ones that its issues record."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.kernel.request import conda
from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from pathlib import Path


class Machine:
    """A home, an installation, and what its program answers."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self.root = self.environment(folder / "miniconda3")
        (self.root / "condabin").mkdir()
        self.environ = {"CONDA_EXE": str(self.root / "bin" / "conda")}
        self.answer = "{}"
        self.asked: list[list[str]] = []

    def environment(self, prefix: Path) -> Path:
        (prefix / "conda-meta").mkdir(parents=True)
        return prefix

    def list_in_home(self, *prefixes: Path) -> None:
        (self.home / ".conda").mkdir()
        (self.home / ".conda" / "environments.txt").write_text("".join(f"{prefix}\n" for prefix in prefixes))

    def run(self, command: list[str]) -> str:
        self.asked.append(command)
        return self.answer

    def find(self, name: str) -> Path:
        return conda.prefix_of(name, self.environ, self.home, self.run)

    def refusal(self, name: str) -> str:
        with pytest.raises(ValidationError) as told:
            self.find(name)
        assert told.value.field == "python"
        return str(told.value)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_an_environment_of_the_installation_is_found_without_starting_conda(machine: Machine) -> None:
    torch = machine.environment(machine.root / "envs" / "torch")
    assert machine.find("torch") == torch
    assert machine.find("base") == machine.root
    assert machine.asked == []


def test_an_environment_elsewhere_is_found_in_the_list_in_the_home(machine: Machine, tmp_path: Path) -> None:
    mine = machine.environment(tmp_path / "data" / "envs" / "mine")
    machine.list_in_home(machine.root, mine, tmp_path / "deleted" / "envs" / "gone")
    machine.environ.clear()
    assert machine.find("mine") == mine
    assert machine.find("base") == machine.root
    assert "gone" not in machine.refusal("gon")


def test_from_within_an_environment_the_others_of_its_installation_are_known(machine: Machine) -> None:
    one, other = (machine.environment(machine.root / "envs" / name) for name in ("one", "other"))
    machine.environ = {"CONDA_PREFIX": str(one)}
    assert machine.find("other") == other


def test_what_only_conda_knows_is_asked_of_conda(machine: Machine, tmp_path: Path) -> None:
    # The form of all versions before 25.11, as in conda/conda#6797.
    far = machine.environment(tmp_path / "shared" / "envs" / "far")
    machine.answer = json.dumps({"envs": [str(machine.root), str(far)]}, indent=2)
    assert machine.find("far") == far
    assert machine.asked == [[str(machine.root / "bin" / "conda"), "env", "list", "--json"]]


def test_names_that_conda_says_are_believed(machine: Machine, tmp_path: Path) -> None:
    # The form with details, as proposed in conda/conda#15330 and merged into `env list` by #15353.
    far = machine.environment(tmp_path / "anywhere")
    details = {
        "name": "far",
        "created": "2025-10-01",
        "active": False,
        "base": False,
        "frozen": False,
        "writable": True,
    }
    machine.answer = json.dumps({"envs": [str(machine.root), str(far)], "envs_details": {str(far): details}})
    assert machine.find("far") == far


@pytest.mark.parametrize("answer", ["", "# conda environments:\n#\nbase  *  /opt/conda\n", "{}", '{"envs": []}'])
def test_an_answer_that_says_nothing_is_no_environment(machine: Machine, answer: str) -> None:
    # conda 23.7.1 ignored --json (conda/conda#12935).
    machine.answer = answer
    assert "conda has no environment 'far'" in machine.refusal("far")


def test_an_unknown_name_gets_the_nearest_ones(machine: Machine) -> None:
    for name in ("pytorch", "tensorflow"):
        machine.environment(machine.root / "envs" / name)
    said = machine.refusal("pytorhc")
    assert "It has base, pytorch, tensorflow." in said
    assert "Did you mean pytorch?" in said


def test_without_conda_the_sentence_says_so(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.environ.clear()
    monkeypatch.setenv("PATH", "")
    assert "No environment of conda was found on this machine." in machine.refusal("torch")
    assert machine.asked == []


def test_two_environments_of_one_name_are_named_by_their_folders(machine: Machine, tmp_path: Path) -> None:
    # As in conda-archive/conda-env#147.
    one, other = machine.environment(machine.root / "envs" / "n"), machine.environment(tmp_path / "x" / "envs" / "n")
    machine.list_in_home(one, other)
    said = machine.refusal("n")
    assert str(one) in said
    assert str(other) in said
    assert "--python PATH" in said


def test_an_environment_that_is_listed_by_a_link_too_is_one(machine: Machine, tmp_path: Path) -> None:
    torch = machine.environment(machine.root / "envs" / "torch")
    (tmp_path / "link").symlink_to(machine.root)
    machine.list_in_home(machine.root, tmp_path / "link" / "envs" / "torch")
    assert machine.find("torch").samefile(torch)
