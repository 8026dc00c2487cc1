"""A stop of ``--distribution mpi`` with real Open MPI: the ranks of all hosts have the whole grace."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

import pytest
from pytorch import with_mpi4py

from jupyter_smx.model.spec.distribution import Distribution
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from world import Ran, World

pytestmark = [
    pytest.mark.heavy("mpi"),
    pytest.mark.skipif(
        shutil.which("mpirun") is None or shutil.which("orted") is None,
        reason="Open MPI is not installed: apt-get install openmpi-bin libopenmpi-dev",
    ),
]

SAVES = """
import os, signal, sys, time
from mpi4py import MPI
world = MPI.COMM_WORLD
def save(*_):
    with open(f"{folder}/{world.rank}-heard", "a") as file:
        file.write("SIGTERM ")
    time.sleep(seconds)
    with open(f"{folder}/{world.rank}-saved", "w") as file:
        file.write("all")
    print("rank", world.rank, "has saved", flush=True)
    sys.exit()
signal.signal(signal.SIGTERM, save)
world.barrier()
print("waits", flush=True)
while True:
    signal.pause()
"""


@pytest.fixture(scope="module")
def python() -> str:
    return with_mpi4py()


def log(ran: Ran) -> str:
    return ran.world.client.log(ran.id, "algo-1", 0).data.decode()


def test_each_rank_saves_what_it_has_before_a_stop_ends_it(patient: World, python: str) -> None:
    folder = patient.data / "saved"
    folder.mkdir()
    ran = patient.submit(
        f"folder, seconds = {str(folder)!r}, 2.5\n{SAVES}",
        python=python,
        python_version=f"{sys.version_info[0]}.{sys.version_info[1]}",
        instance_groups=(InstanceGroup(instance_count=2),),
        keep_alive=0,
        distribution=Distribution(runner="mpi", processes=2),
    )
    eventually_blocking(lambda: log(ran).count("waits") == 4, "all ranks wait", within=30.0)
    patient.client.stop(ran.id)
    assert ran.wait().state.value == "Stopped"
    files = {file.name: file.read_text() for file in folder.iterdir()}
    assert {name: text for name, text in files.items() if "saved" in name} == {
        f"{rank}-saved": "all" for rank in range(4)
    }
    assert {text for name, text in files.items() if "heard" in name} == {"SIGTERM "}, "once"
    assert log(ran).count("has saved") == 4, log(ran)
