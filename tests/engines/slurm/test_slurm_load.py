"""A hundred clusters load the scheduler as one does: two questions a minute, whether they wait or run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from fake_slurm import FakeSlurm

from jupyter_smx.engines.base import Observation
from jupyter_smx.engines.remote.record_folder import RecordFolder
from jupyter_smx.engines.slurm.allocations import Allocations
from jupyter_smx.engines.slurm.client import SlurmClient
from jupyter_smx.engines.slurm.partition_store import PartitionStore
from jupyter_smx.engines.slurm.queue_watch import BURST, SPACING
from jupyter_smx.engines.slurm.record import AllocationRecord
from jupyter_smx.engines.slurm.submission import BatchJob, Group
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.records.cluster import Handle
from jupyter_smx.testing.simulation.simulated_time import SimulatedLoop

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from jupyter_smx.engines.slurm.parsers import PartitionRow

CLUSTERS = [f"c{number:03}" for number in range(100)]
INTERVAL = 30.0


def most_questions(seconds: float) -> float:
    """Compute how often Slurm is asked at most in some time: callers that wait already when it was often may be ten."""
    return BURST + seconds / SPACING + 10


class Clusters:
    """A hundred clusters of one owner, with time that passes only when the test lets it."""

    def __init__(self, folder: Path, loop: SimulatedLoop) -> None:
        self.slurm = FakeSlurm()
        self.loop = loop
        self.records = RecordFolder(AllocationRecord, folder, folder / "clusters")
        client = SlurmClient(self.slurm, 10.0)
        self.allocations = Allocations(
            client, PartitionStore(folder / "partitions.json"), lambda: "0a1b2c3d", loop.time, lambda: 1_000 + loop.now
        )

    async def wait(self, cluster: str) -> None:
        """Wait for the nodes of one."""
        (self.records.folder / cluster).mkdir(parents=True)
        name = self.allocations.name_of(cluster)
        self.records.write(cluster, AllocationRecord(name=name, components={"algo-1": 0}))
        group = Group(nodes=1, cpus=1, words=("--nodes=1",))

        def plan(_rows: Sequence[PartitionRow], _group: int | None) -> tuple[BatchJob, str]:
            return BatchJob(name=name, groups=(group,), seconds=600.0, notice=60.0, idle=60.0), "pilot"

        async for _ in self.allocations.wait_for_nodes(self.records, cluster, plan, INTERVAL):
            pass

    async def wait_for_all(self) -> None:
        """Wait for the nodes of all, which are submitted at the same moment."""
        await asyncio.gather(*(self.wait(cluster) for cluster in CLUSTERS))

    async def cancel(self, cluster: str) -> None:
        """Cancel the job of one, and wait for its end."""
        (job,) = await self.allocations.live_jobs(cluster, 1.0)
        await self.allocations.cancel(cluster, [job], 60.0)

    async def observe(self) -> list[Observation]:
        """Look at all, as the controller does every half a minute."""
        queue = await self.allocations.watch.look(INTERVAL / 6)
        handles = [Handle(engine="slurm", cluster=cluster) for cluster in CLUSTERS]
        return [self.allocations.observe(self.records.read(handle.cluster), handle, queue) for handle in handles]


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[Clusters]:
    loop = SimulatedLoop()
    yield Clusters(tmp_path, loop)
    loop.close()


def test_a_hundred_clusters_that_wait_and_are_looked_at_are_two_questions_a_minute(clusters: Clusters) -> None:
    clusters.slurm.starts = False

    waits = []
    for cluster in CLUSTERS:
        waits.append(clusters.loop.create_task(clusters.wait(cluster)))
        clusters.loop.pass_time(0.7)  # each at another moment
    clusters.loop.pass_time(120.0)  # the looks soon after a submission are over
    before = clusters.slurm.calls["squeue"]
    assert before <= most_questions(clusters.loop.now), "also while each of them was young"
    for _ in range(20):
        assert {*clusters.loop.run(clusters.observe())} == {Observation.UNKNOWN}
        clusters.loop.pass_time(INTERVAL)
    assert clusters.slurm.calls["squeue"] - before <= 2 * 10 + 1
    for wait in waits:
        wait.cancel()
    clusters.loop.run_until_complete(asyncio.gather(*waits, return_exceptions=True))
    assert clusters.slurm.calls["sbatch"] == len(CLUSTERS)


def test_a_hundred_clusters_that_end_one_after_the_other_share_their_questions(clusters: Clusters) -> None:
    slurm, loop = clusters.slurm, clusters.loop
    loop.run(clusters.wait_for_all())
    slurm.cancelled_state = "COMPLETING"
    ends = []
    for cluster in CLUSTERS:
        ends.append(loop.create_task(clusters.cancel(cluster)))
        loop.pass_time(0.05)
    loop.pass_time(20.0)
    for job in slurm.jobs:
        job.state = "CANCELLED"
    loop.pass_time(2 * SPACING)
    assert all(end.done() for end in ends)
    assert slurm.calls["squeue"] <= most_questions(loop.now)


def test_a_job_that_does_not_end_in_time_is_killed_and_named(clusters: Clusters) -> None:
    slurm, loop = clusters.slurm, clusters.loop
    loop.run(clusters.wait(CLUSTERS[0]))
    slurm.cancelled_state = "COMPLETING"
    with pytest.raises(UnavailableError, match="Slurm still ends the job 1") as told:
        loop.run(clusters.cancel(CLUSTERS[0]))
    assert told.value.transient
    assert slurm.calls["scancel"] == 2, "at once, and by force in the middle"


def test_clusters_start_soon_after_slurm_grants_them(clusters: Clusters) -> None:
    async def play() -> float:
        await clusters.wait_for_all()
        return clusters.loop.now

    assert clusters.loop.run(play()) < 1.0


def test_the_hosts_of_a_job_that_ended_share_one_answer(clusters: Clusters) -> None:
    (cluster,) = CLUSTERS[:1]
    clusters.loop.run(clusters.wait(cluster))
    record = clusters.records.read(cluster)
    assert record is not None

    async def look_from_hosts() -> list[str]:
        return await asyncio.gather(*(clusters.allocations.end_reason(record) for _ in range(8)))

    assert {*clusters.loop.run(look_from_hosts())} == {""}, "the job runs"
    assert clusters.slurm.calls["scontrol"] == 1
    clusters.slurm.jobs[0].state = "NODE_FAIL"
    reasons = {reason for _ in range(2) for reason in clusters.loop.run(look_from_hosts())}
    assert len(reasons) == 1
    assert "node" in "".join(reasons)
    assert clusters.slurm.calls["scontrol"] == 2


def test_an_answer_that_began_before_a_host_was_lost_does_not_count_for_that_host(clusters: Clusters) -> None:
    (cluster,) = CLUSTERS[:1]
    clusters.loop.run(clusters.wait(cluster))
    record = clusters.records.read(cluster)
    assert record is not None

    async def lose_the_second_host_later() -> list[str]:
        clusters.slurm.arrival = asyncio.Event()
        first = asyncio.ensure_future(clusters.allocations.end_reason(record))
        await clusters.loop.wait_idle()
        clusters.loop.now += 1.0
        clusters.slurm.jobs[0].state = "NODE_FAIL"
        second = asyncio.ensure_future(clusters.allocations.end_reason(record))
        await clusters.loop.wait_idle()
        clusters.slurm.arrival.set()
        return await asyncio.gather(first, second)

    first, second = clusters.loop.run(lose_the_second_host_later())
    assert first == "", "the job ran when the question began"
    assert "node" in second
    assert clusters.slurm.calls["scontrol"] == 2
