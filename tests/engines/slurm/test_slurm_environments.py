"""Interpreters of jobs on nodes: an environment by name, and packages that are installed where no home is shared."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from worlds.ssh import disk

from jupyter_smx.engines.remote.account import DEFAULT_FOLDER
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.testing.wheels import write_wheel

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurm_controller import SlurmControllerWorld

pytestmark = pytest.mark.heavy("slurm")
UV = Path(sys.executable).parent / "uv"
MODULE = """
module() { [ "$1 $2" = "load site/1" ] && export SITE=physics; }
"""


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
    monkeypatch.setenv("SQUEUE_PARTITION", "urgent")
    monkeypatch.setenv("OWN_SECRET", "of-the-controller")
    job = slurm_controller.run("import os\nprint(sorted(os.environ), os.environ['SLURM_JOB_ID'])")
    assert "OWN_SECRET" not in job.log()
    assert "4711" not in job.log()


@pytest.fixture
def lines(slurm_controller: SlurmControllerWorld, tmp_path: Path) -> tuple[str, ...]:
    """Give lines of requirements that find ``alpha``; each node has the uv of this machine."""
    write_wheel(tmp_path / "wheels", "alpha", "1.0")
    for node in slurm_controller.slurm.nodes:
        shutil.copy(UV, node.home / "uv")
        node.run("mkdir -p .local/bin && mv -f uv .local/bin")
    return "--no-index", f"--find-links {tmp_path / 'wheels'}"


@pytest.mark.skipif(not UV.exists(), reason="uv builds in a moment; pip takes 20 times as long")
def test_requirements_are_installed_on_each_node_where_no_home_is_shared(
    slurm_controller: SlurmControllerWorld, lines: tuple[str, ...]
) -> None:
    hosts = ("algo-1", "algo-2")
    job = slurm_controller.run(
        "import alpha, sys\nprint(alpha.version, sys.prefix)",
        requirements=(*lines, "alpha"),
        instance_groups=(InstanceGroup(instance_count=2),),
    )
    logs = [slurm_controller.client.log(job.id, host, 0).data.decode() for host in hosts]
    place = DEFAULT_FOLDER.replace("~", disk.HOME)
    assert all(f"1.0 {place}/environments/" in log for log in logs), logs
    folders = [node.home / DEFAULT_FOLDER.removeprefix("~/") / "environments" for node in slurm_controller.slurm.nodes]
    assert sum(folder.exists() for folder in folders) == 2


def test_modules_are_functions_of_the_login_shell_of_a_node(
    slurm_controller: SlurmControllerWorld, configure: Callable[[str], None]
) -> None:
    configure("c.SlurmEngine.environments = {'site': 'module load site/1'}")
    profiles = [node.root / "etc/profile" for node in slurm_controller.slurm.nodes]
    before = profiles[0].read_text()
    for profile in profiles:
        profile.write_text(before + MODULE)
    try:
        job = slurm_controller.run("print(os.environ['SITE'])", python="site", python_named=True)
    finally:
        for profile in profiles:
            profile.write_text(before)
    assert "physics\n" in job.log()
