"""A real controller over pretended hosts: thousands of finished jobs on record, hundreds that run, and news of them.

    python -m bench.crowd FINISHED EVENTS_PER_SECOND

It serves the data folder of the environment until it is told to end. Jobs that are handed in run until they are
stopped, or end soon when their id says so.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from jupyter_smx import controller_launch
from jupyter_smx.controller.db.store import Store
from jupyter_smx.controller.server import ControllerServer
from jupyter_smx.controller.singleton import DataFolderSocket
from jupyter_smx.engines.base import Capabilities
from jupyter_smx.model.name import job_name
from jupyter_smx.model.records.job import Job, Transition
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.policy.limits import Limits
from jupyter_smx.testing.fakes.fake_engine import FakeEngine
from jupyter_smx.testing.fakes.fake_world import FakeWorld

if TYPE_CHECKING:
    from jupyter_smx.model.records.event import Event
    from jupyter_smx.testing.fakes.fake_host import FakeHost, FakeRun

STEP = 20
"""Percent of a core between two figures: no two are the same, so each is found again on the page."""
AT_ONCE = 500
BRIEF = "b41ef"
"""A job whose id begins so runs a fifth of a second."""


class Crowd(FakeWorld):
    """A fake world by the real clock, whose jobs run until the end."""

    def clock(self) -> float:
        """Give seconds since the epoch."""
        return time.time()

    def count_start(self, job: str, host: FakeHost) -> None:
        """Let brief jobs end soon."""
        super().count_start(job, host)
        if job.startswith(BRIEF):
            asyncio.get_running_loop().call_later(0.2, partial(host.end_run, host.runs[job], exit_code=0))


class Pretence(FakeEngine):
    """A fake engine that is as large as one likes."""

    capabilities: ClassVar[Capabilities] = Capabilities(shared_folder=True)


def spec(name: str) -> JobSpec:
    """Give the wish of one job."""
    return JobSpec(kind="train", source="pass", base_name=name, engine="fake", python=sys.executable)


def an_id(number: int) -> str:
    """Give an id whose first digits differ from those of the others."""
    return f"{number * 2654435761 % 2**32:08x}{number:024x}"


def finished(count: int, now: float) -> list[Job]:
    """Make the records of jobs that ended one after another until now; one in ten failed."""
    jobs = []
    for number in range(count):
        at = now - 60.0 * (count - number)
        bad = number % 10 == 0
        state = SecondaryStatus.FAILED if bad else SecondaryStatus.COMPLETED
        job_id = an_id(number)
        jobs.append(
            Job(
                id=job_id,
                name=job_name("past", job_id),
                spec=spec("past"),
                state=state,
                created_at=at,
                started_at=at + 1,
                ended_at=at + 40,
                modified_at=at + 40,
                transitions=(Transition(status=state, start_time=at + 40),),
                failure_reason="AlgorithmError: ValueError: no (line 3)" if bad else "",
            )
        )
    return jobs


def fill(store: Store, jobs: list[Job]) -> None:
    """Write records as a controller of earlier days left them."""
    nothing: list[Event] = []
    for begin in range(0, len(jobs), AT_ONCE):
        store.write(jobs=jobs[begin : begin + AT_ONCE], events=nothing)


async def pulse(world: Crowd, per_second: float) -> None:
    """Say again and again of one job after the other what it uses."""
    shares = itertools.count(1)
    while True:
        for host, run in world.running_jobs():
            percent = STEP * next(shares)
            host.send_event(_sampled(run, percent))
            await asyncio.sleep(1 / per_second)
        await asyncio.sleep(1 / per_second)


def _sampled(run: FakeRun, percent: int) -> dict[str, object]:
    now = {"cpu_percent": float(percent), "memory_bytes": 10**9}
    return {"event": "sampled", "job": run.job, "lease": run.lease, "total": 0, "now": now}


async def serve(past: int, per_second: float) -> None:
    """Be the controller until a signal comes."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    controller_launch.ensure_folders()
    folder = controller_launch.data_dir()
    store = Store.open(folder / "smx.sqlite")
    fill(store, finished(past, time.time()))
    world = Crowd(folder)
    engine = Pretence(world, launch_seconds=0.0)
    service = ControllerServer(
        store,
        Limits(),
        lambda _name: engine,
        {"fake"},
        folder=controller_launch.locate_data(),
        user="bench",
        idle_exit=1e6,
    )
    news = asyncio.create_task(pulse(world, per_second))
    await service.run(DataFolderSocket(), stop)
    news.cancel()
    await world.close()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2])))
