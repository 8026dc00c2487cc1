"""The example of a heterogeneous cluster, as it is: a trainer alone, and fed by a group that ends with it."""

from __future__ import annotations

import re
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pytorch import interpreter
from world import Ran

from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import JobSpec

if TYPE_CHECKING:
    from world import World

SCRIPT = Path(__file__).parents[3] / "examples" / "heterogeneous" / "train.py"
FED = (InstanceGroup(name="dnn"), InstanceGroup(name="data", until="dnn"))

pytestmark = [
    pytest.mark.heavy("torch"),
    pytest.mark.timeout(400),  # the first of them may have to install PyTorch
]


def trained(world: World, groups: tuple[InstanceGroup, ...]) -> Ran:
    wish = JobSpec(
        kind="train",
        source=SCRIPT.read_text(),
        base_name="example",
        python=interpreter(),
        python_version=f"{sys.version_info[0]}.{sys.version_info[1]}",
        entry_point=SCRIPT.name,
        filename=str(SCRIPT),
        hyperparameters={"steps": "20", "batch-size": "8"},
        instance_groups=groups,
    )
    ran = Ran(world, world.client.submit(secrets.token_hex(16), wish), "")
    job = ran.wait()
    assert job.state.value == "Completed", (job.failure_reason, log(ran, "algo-1"))
    return ran


def log(ran: Ran, host: str) -> str:
    return ran.world.client.log(ran.id, host, 0).data.decode()


@pytest.mark.parametrize("groups", [(InstanceGroup(),), FED], ids=["alone", "fed"])
def test_it_trains_and_says_what_a_step_took_and_no_feeder_outlives_it(
    shared: World, groups: tuple[InstanceGroup, ...]
) -> None:
    ran = trained(shared, groups)
    said = log(ran, "algo-1")
    losses = [float(loss) for loss in re.findall(r"^step=\d+ loss=(\S+)$", said, re.MULTILINE)]
    assert len(losses) == 2
    assert re.search(r"^step_ms=\d+\.\d+ mean_step_ms=\d+\.\d+ device=(cpu|cuda)$", said, re.MULTILINE)
    trainer, *feeders = [(end.cause, end.exit_code) for end in ran.wait().hosts]
    assert trainer == ("exit", 0)
    # The trainer sends a stop to its feeders and exits; either event may end a feeder first.
    assert set(feeders) <= {("exit", 0), ("drained", 0), ("drained", None)}
    assert len(feeders) == len(groups) - 1
    if feeders:
        assert "serving batches" in log(ran, "algo-2")
