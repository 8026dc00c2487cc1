"""What is remembered of samples that lie on hosts: until they are here, or their host and its job are gone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from jupyter_smx.controller.telemetry.usage_recorder import UsageRecorder
from jupyter_smx.model.status import Status

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.testing.fakes.fake_host import FakeHost
    from jupyter_smx.testing.simulation.simulation import Simulation


def books_of(sim: Simulation) -> UsageRecorder:
    """Let the usage of jobs be written down, as the service does."""
    books = UsageRecorder(sim.folder / "jobs", sim.controller.agents, lambda *_news: None)
    sim.controller.reconciler.events.on_sample = books.on_sample
    sim.controller.reconciler._finalizer.collect_samples = books.collect
    return books


def sampled(sim: Simulation, host: FakeHost, job: str) -> None:
    lease = sim.job(job).lease
    news = {"event": "sampled", "job": job, "lease": lease, "total": 100, "now": {}}
    sim.call(lambda: host.send_event(news))


def test_nothing_is_remembered_of_hosts_that_were_lost_without_a_record(sim: Simulation) -> None:
    usage = books_of(sim)
    job = sim.submit(hosts=2, retries=1)
    for status in (Status.IN_PROGRESS, Status.FAILED):
        sim.pass_time(1.0)
        for host in sim.hosts(job):
            sampled(sim, host, job)
        assert len(usage._remote_sizes) == 2
        for host in sim.hosts(job):
            sim.kill_host(host)
        sim.pass_time(0.3)
        assert sim.job(job).status() is status
        assert usage._remote_sizes == {}


def test_what_jobs_used_is_brought_from_all_hosts_at_once(sim: Simulation) -> None:
    """One host after the other would take a round trip each."""
    asked: list[str] = []
    all_asked = asyncio.Event()

    async def collect(_job: Job, host: str, *_where: object) -> None:
        asked.append(host)
        if len(asked) == 3:
            all_asked.set()
        await all_asked.wait()

    sim.controller.reconciler._finalizer.collect_samples = collect
    job = sim.run_to_end(hosts=3)
    sim.pass_time(1.0)
    assert sorted(asked) == ["algo-1", "algo-2", "algo-3"]
    assert sim.job(job).status() is Status.COMPLETED
