"""Environments of conda on nodes: activated by lines of the configuration, or named by the path of their Python."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from worlds import conda_folder
from worlds.ssh import disk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slurm_controller import SlurmControllerWorld
    from world import Ran

pytestmark = pytest.mark.heavy("slurm")
NODE = {"words": "--nodelist=box-three"}
SOURCED = f"source ~/{conda_folder.ROOT}/etc/profile.d/conda.sh; conda activate torch"
SEEN = f"""
import alpha, json, os, sys
names = ("CONDA_PREFIX", {conda_folder.SITE_VARIABLE!r})
print(json.dumps([alpha.version, sys.prefix, *(os.environ.get(name) for name in names)]), flush=True)
"""


@pytest.fixture
def prefix(slurm_controller: SlurmControllerWorld) -> Iterator[str]:
    """Give the folder of the environment ``torch`` on a node, which alone has the package ``alpha``."""
    node = slurm_controller.slurm.node("box-three")
    yield conda_folder.install(node, "torch", {"alpha": 'version = "1.0"\n'})
    conda_folder.remove(node)


def submit(world: SlurmControllerWorld, python: str) -> Ran:
    return world.submit(SEEN, python=python, python_named=True, engine_options=NODE)


def seen(ran: Ran) -> list[str | None]:
    """Wait for a job, and give what its code printed."""
    job = ran.wait()
    assert job.state.value == "Completed", (job.failure_reason, ran.log())
    (line,) = [line for line in ran.log().splitlines() if line.startswith("[")]
    found: list[str | None] = json.loads(line)
    return found


def test_a_job_in_an_environment_of_conda_has_its_packages_and_variables(
    slurm_controller: SlurmControllerWorld, configure: Callable[[str], None], prefix: str
) -> None:
    configure(f"c.SlurmEngine.environments = {{'torch': {SOURCED!r}, 'init': 'conda activate torch'}}")
    node = slurm_controller.slurm.node("box-three")
    assert node.run(f"{disk.PYTHON} -c 'import alpha'", check=False).returncode, "its own Python lacks the package"
    assert seen(submit(slurm_controller, "torch")) == ["1.0", prefix, prefix, f"{prefix}/lib"]
    assert seen(submit(slurm_controller, f"remote:{prefix}/bin/python")) == ["1.0", prefix, prefix, None]
    conda_folder.initialize(node)  # without it, tests of the SSH engine have the refusal
    assert seen(submit(slurm_controller, "init")) == ["1.0", prefix, prefix, f"{prefix}/lib"]
