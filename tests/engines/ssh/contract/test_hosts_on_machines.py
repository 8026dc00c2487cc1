"""Hosts of one job on several machines: the names, addresses and ports by which their processes meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from worlds.hosts_meet import REDUCE, SEEN, WORKERS, run_on_all

if TYPE_CHECKING:
    from ssh_harness import SshHarness


async def test_each_host_knows_the_others_by_the_addresses_of_their_machines(harness: SshHarness) -> None:
    seen = await run_on_all(harness, 3, SEEN, hyperparameters=WORKERS)
    addresses = [harness.world[machine].address for machine in seen]
    for machine, told in seen.items():
        assert told == {
            "host_name": told["host_name"],
            "names": dict(zip(("algo-1", "algo-2", "algo-3"), addresses, strict=True)),
            "leader": addresses[0],
            "workers": addresses,
            "interface": "eth0",
        }, machine


async def test_ranks_on_two_machines_meet_at_the_leader_and_reduce(harness: SshHarness) -> None:
    seen = await run_on_all(harness, 2, REDUCE)
    assert [*seen.values()] == [[[0, 1111.0], [1, 1111.0]], [[2, 1111.0], [3, 1111.0]]]
