"""Two controllers of one account on a cluster: jobs of each are its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from slurm_controller import SlurmControllerWorld
from world import VARIABLE, kill
from worlds.machines_controller import second_controller

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.heavy("slurm")
ENGINE = "slurm"


@pytest.fixture
def other(
    slurm_controller: SlurmControllerWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SlurmControllerWorld]:
    """Give a controller with the same configuration and another data folder; both run."""
    slurm_controller.controller()
    variables = {VARIABLE: os.fspath(tmp_path / "other")}
    cluster = slurm_controller.slurm
    with second_controller(monkeypatch, variables, lambda: SlurmControllerWorld(tmp_path, cluster)) as world:
        yield world


def test_two_controllers_of_one_account_neither_see_nor_cancel_each_other_s_jobs(
    slurm_controller: SlurmControllerWorld, other: SlurmControllerWorld
) -> None:
    gate = slurm_controller.gate()
    held = slurm_controller.submit(gate=gate)
    held.until_it_says("begun")
    other.run(keep_alive=600)
    assert (len(slurm_controller.submissions()), len(other.submissions())) == (1, 1)
    assert other.sweep(ENGINE) == slurm_controller.sweep(ENGINE) == []
    kill(slurm_controller.controller())
    assert other.sweep(ENGINE) == [], "although the owner of the job is away"
    slurm_controller.controller()
    gate.touch()
    assert (held.wait().state.value, held.runs()) == ("Completed", 1)
    assert other.run(keep_alive=600).why().startswith("Warm")
