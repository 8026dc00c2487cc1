"""A node with GPUs: what Slurm grants a step is what a job sees and counts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from worlds.slurm.cluster_files import SlurmSite
from worlds.slurm.slurm_fixture import start_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurm_controller import SlurmControllerWorld
    from world import Ran
    from worlds.machines_controller import Gate
    from worlds.slurm.slurm_world import SlurmWorld

pytestmark = pytest.mark.heavy("slurm")
NODE = {"words": "--nodelist=box-three"}
NAMES = ("SM_NUM_GPUS", "CUDA_VISIBLE_DEVICES", "SLURM_GPUS_ON_NODE", "SLURM_STEP_GPUS")
SEEN = f"""
import json, os
print(json.dumps([os.environ.get(name) for name in {NAMES}]), flush=True)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmWorld]:
    """Give a cluster one of whose nodes has two GPUs."""
    with start_cluster(tmp_path_factory, SlurmSite(gpus=True)) as world:
        yield world


def submit(world: SlurmControllerWorld, gate: Gate | None = None, **options: str) -> Ran:
    return world.submit(SEEN, gate=gate, engine_options={**NODE, **options})


def seen(ran: Ran) -> list[str | None]:
    """Wait for a job, and give its values of ``NAMES``."""
    job = ran.wait()
    text = ran.world.client.log(ran.id, "algo-1", 0).data.decode()
    assert job.state.value == "Completed", (job.failure_reason, text)
    (line,) = [line for line in text.splitlines() if line.startswith("[")]
    found: list[str | None] = json.loads(line)
    return found


def test_a_job_sees_and_counts_the_gpus_that_slurm_granted(slurm_controller: SlurmControllerWorld) -> None:
    gate = slurm_controller.gate()
    first = submit(slurm_controller, gate, gres="gpu:a100:1")
    first.until_it_began()
    assert seen(submit(slurm_controller, gres="gpu:1")) == ["1", "1", "1", "1"], "the other one of two"
    gate.touch()
    assert seen(first) == ["1", "0", "1", "0"]
    assert seen(submit(slurm_controller, gres="gpu:2")) == ["2", "0,1", "2", "0,1"]
    # The job has both then, its step has what was requested.
    assert seen(submit(slurm_controller, gres="gpu:1", exclusive="true")) == ["1", "0", "1", "0"]
    assert seen(submit(slurm_controller)) == ["0", None, None, None]
