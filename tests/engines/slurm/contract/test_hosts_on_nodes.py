"""Hosts of one job on several nodes: the names, addresses and ports by which their processes meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from worlds.hosts_meet import REDUCE, SEEN, WORKERS, run_on_all

if TYPE_CHECKING:
    from slurm_harness import SlurmHarness

pytestmark = pytest.mark.heavy("slurm")


async def test_each_host_knows_the_others_by_the_addresses_of_their_nodes(harness: SlurmHarness) -> None:
    seen = await run_on_all(harness, 3, SEEN, hyperparameters=WORKERS)
    addresses = [harness.world.node(name).address for name in seen]
    for told in seen.values():
        assert told["names"] == dict(zip(("algo-1", "algo-2", "algo-3"), addresses, strict=True))
        assert (told["leader"], told["workers"], told["interface"]) == (addresses[0], addresses, "eth0")


async def test_ranks_on_two_nodes_meet_at_the_leader_and_reduce(harness: SlurmHarness) -> None:
    seen = await run_on_all(harness, 2, REDUCE)
    assert [*seen.values()] == [[[0, 1111.0], [1, 1111.0]], [[2, 1111.0], [3, 1111.0]]]
