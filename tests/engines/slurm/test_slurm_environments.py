"""Interpreters of jobs on nodes: an environment by name, and packages that are installed where no home is shared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from worlds.ssh import disk

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurm_controller import SlurmControllerWorld

pytestmark = pytest.mark.heavy("slurm")


def test_a_named_environment_runs_its_lines_before_the_interpreter(
    slurm_controller: SlurmControllerWorld, configure: Callable[[str], None]
) -> None:
    lines = f"export SITE=physics PATH={disk.PATH}"
    configure(f"c.SlurmEngine.environments = {{'site': {lines!r}}}")
    job = slurm_controller.run(
        "import os\nprint(os.environ['SITE'], os.environ['SLURM_JOB_ID'])", python="site", python_named=True
    )
    assert "physics " in job.log()


def test_a_job_does_not_inherit_the_variables_of_the_controller(
    slurm_controller: SlurmControllerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    monkeypatch.setenv("SBATCH_WAIT", "1")
    monkeypatch.setenv("OWN_SECRET", "of the controller")
    job = slurm_controller.run("import os\nprint(sorted(os.environ), os.environ['SLURM_JOB_ID'])")
    assert "OWN_SECRET" not in job.log()
    assert "4711" not in job.log()
