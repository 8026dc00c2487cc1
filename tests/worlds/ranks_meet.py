"""Ranks of Open MPI that reduce a value over hosts on several machines, and what they have to say."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from world import Ran

REDUCE = """
import json, os, socket, sys
from mpi4py import MPI
world = MPI.COMM_WORLD
total = world.allreduce(10 ** world.rank)
facts = [world.rank, world.size, total, os.path.exists(os.environ["SM_MODEL_DIR"]), os.getcwd()]
if world.rank == 0:
    open(os.environ["SM_MODEL_DIR"] + "/weights", "w").write("all")
sys.stdout.write(json.dumps(["rank", socket.gethostname(), *facts]) + chr(10))  # at once, since mpirun marks pieces
"""
WAIT = "import signal\nfrom mpi4py import MPI\nMPI.COMM_WORLD.barrier()\nprint('waits', flush=True)\nsignal.pause()"
BOTH = ("algo-1", "algo-2")


def log(ran: Ran, host: str) -> str:
    """Give the log of one host."""
    return ran.world.client.log(ran.id, host, 0).data.decode()


def check_reduced(ran: Ran) -> None:
    """Check that two ranks on each of two hosts have reduced together."""
    job = ran.wait()
    logs = [log(ran, host) for host in BOTH]
    assert job.state.value == "Completed", (job.failure_reason, *logs)
    assert [(tag, *facts[1:]) for tag, facts in ranks(logs[0])] == [
        (host, rank, 4, 1111, True, "/opt/ml/code")
        for rank, host in enumerate(("algo-1", "algo-1", "algo-2", "algo-2"))
    ]
    assert {tag == facts[0] for tag, facts in ranks(logs[0])} == {True}, "each rank runs on its own host"


def ranks(text: str) -> list[tuple[str, list[Any]]]:
    """Give the host in the tag of each rank and its facts, in the ranks' order."""
    found = re.findall(r"^\[1,mpirank:(\d+),(algo-\d+)\]<stdout>:?(\[\"rank\".*\])$", text, re.MULTILINE)
    return [(host, json.loads(facts)[1:]) for _rank, host, facts in sorted(found, key=lambda one: int(one[0]))]
