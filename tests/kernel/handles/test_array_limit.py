"""How many tasks of an array may run at a time: one rule at every door, looked at before anything is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import jupyter_smx as smx
from jupyter_smx.cli.conventions import USAGE_ERROR
from jupyter_smx.cli.main import main
from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from IPython.core.interactiveshell import InteractiveShell
    from scripted_controller import ScriptedController

RULE = r"is not a number of tasks\. It is a whole number from 1"


@pytest.fixture
def doors(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> tuple[Callable[[Any], object], ...]:
    """Give the doors of a notebook, each as a function of the limit."""
    monkeypatch.setenv("SMX_WAIT", "0")
    shell.user_ns["big"] = 1
    hp, send = {"n": [1, 2]}, {"big": 1}
    return (
        lambda limit: smx.map(abs, [1, 2], max_concurrent=limit),
        lambda limit: smx.train("pass", send=send, hyperparameters=hp, sweep=True, max_concurrent=limit),
        lambda limit: shell.run_cell_magic(
            "train", f"--send big --hp n=[1,2] --sweep --max-concurrent={limit}", "pass"
        ),
    )


@pytest.mark.parametrize("limit", [0, -1, "many", "9" * 5_000])
def test_a_limit_that_is_none_is_refused_and_nothing_is_packed(
    doors: tuple[Callable[[Any], object], ...], controller: ScriptedController, data_folder: Path, limit: Any
) -> None:
    for door in doors:
        with pytest.raises(ValidationError, match=RULE):
            door(limit)
    assert controller.jobs == {}
    assert [*(data_folder / "payloads").glob("*")] == []


@pytest.mark.usefixtures("data_folder")
def test_a_terminal_refuses_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grid.py").write_text("pass\n")
    assert main(["run", "grid.py", "--hp", "n=[1]", "--sweep", "--max-concurrent", "0"]) == USAGE_ERROR
    assert "'0' is not a number of tasks. It is a whole number from 1." in capsys.readouterr().err


def test_a_limit_is_handed_on_at_every_door(
    doors: tuple[Callable[[Any], object], ...], controller: ScriptedController
) -> None:
    for door in doors:
        door(3)
    assert [array.max_concurrent for array in controller.arrays.values()] == [3, 3, 3]


@pytest.mark.usefixtures("shell")
def test_one_job_has_no_limit_and_nothing_is_packed_for_it(controller: ScriptedController, data_folder: Path) -> None:
    with pytest.raises(ValidationError, match="max_concurrent= is given without sweep=True"):
        smx.train("pass", send={"big": 1}, max_concurrent=2)
    assert controller.jobs == {}
    assert [*(data_folder / "payloads").glob("*")] == []
