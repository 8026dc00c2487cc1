"""The real controller's core over a fake world in simulated time, with a tester who stands beside it.

Real are the store, the books, the streams, the reconciler, the finisher and the desk; the engine, its hosts and the
clock are not. Every method leaves everything quiet: what could happen without time passing has happened.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import logging
import os
import shutil
import tempfile
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_smx.controller.agents.connections import Agents
from jupyter_smx.controller.api.array_facade import ArrayWish
from jupyter_smx.controller.api.facade import Desk
from jupyter_smx.controller.db.connection import connect, unwritable
from jupyter_smx.controller.db.store import Store
from jupyter_smx.controller.environments.cache import Environments
from jupyter_smx.controller.errors import FencedError, RecordsError
from jupyter_smx.controller.scheduling.finalize import Finisher
from jupyter_smx.controller.scheduling.job_reconciler import Reconciler
from jupyter_smx.controller.state.change_signal import Bell
from jupyter_smx.controller.state.live_state import Books
from jupyter_smx.controller.telemetry.log_collector import LogPump
from jupyter_smx.controller.transfer.stage_out import Staging
from jupyter_smx.model.spec.array import TaskWish
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.policy.limits import Limits
from jupyter_smx.testing.fakes.fake_engine import FakeEngine
from jupyter_smx.testing.fakes.fake_world import FakeWorld
from jupyter_smx.testing.simulation.simulated_time import SimulatedLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jupyter_smx.controller.clock import Apart
    from jupyter_smx.model.records.cluster import Cluster, ClusterState
    from jupyter_smx.model.records.event import Event
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.results.start_reason import Why
    from jupyter_smx.model.spec.array import Array
    from jupyter_smx.testing.fakes.fake_engine import Trouble
    from jupyter_smx.testing.fakes.fake_host import FakeHost

USER = "tester"
PYTHON = "/usr/bin/python3"
LIMITS = Limits(max_hosts=3, cpus=2, memory_gib=4.0, grace=10.0, interruption_grace=10.0, launch_limit=30.0)
TICK = 1.0


class ControllerDied(BaseException):
    """What a killed process does not get to do any more; no ``except`` for errors may catch it."""


class MortalStore(Store):
    """Records whose controller is killed at a chosen write, just before or just after it is on the disk."""

    killed = False
    writes_left: int | None = None
    dies_before = False
    disk_is_full = False
    on_death: Callable[[], None]

    def write(
        self,
        jobs: Sequence[Job] = (),
        clusters: Sequence[Cluster] = (),
        events: Sequence[Event] = (),
        *,
        array: Array | None = None,
        clock: Apart | None = None,
        durable: bool = False,
    ) -> tuple[Event, ...]:
        """Write, unless it is killed at this write or was before."""
        del durable
        if self.writes_left is not None:
            self.writes_left -= 1
        dies_now = self.writes_left == 0
        if self.killed or (dies_now and self.dies_before):
            self.on_death()
            raise ControllerDied
        if self.disk_is_full:
            raise unwritable(self.path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        # Nobody cuts the power here, and waiting for a disk takes longer than everything else.
        written = super().write(jobs, clusters, events, array=array, clock=clock, durable=False)
        if dies_now:
            self.on_death()
            raise ControllerDied
        return written


class Controller:
    """One life of a controller: everything that is gone when its process is."""

    def __init__(self, world: FakeWorld, engine: FakeEngine, limits: Limits, ids: Callable[[], str]) -> None:
        self.world = world
        self.dead = False
        path = world.folder / "smx.sqlite"
        self.store = MortalStore(path, connect(path))
        self.store.on_death = self.die
        self.books = Books(self.store, limits, world.clock, Bell(), world.steady, world.boot)
        self.agents = Agents(self._heard, self._closed)
        jobs_folder = world.folder / "jobs"
        pump = self.pump = LogPump(jobs_folder, self.agents, lambda _job: None)

        def engine_of(_name: str) -> FakeEngine:
            return engine

        finisher = Finisher(self.books, self.agents, pump, Staging(jobs_folder), engine_of)
        limit, kept = limits.environment_limit, limits.environments_kept
        environments = Environments(world.folder / "environments", world.builder, limit=limit, kept=kept)
        self.reconciler = Reconciler(
            self.books, self.agents, pump, finisher, engine_of, environments=environments, new_id=ids, user=USER
        )
        self.reconciler.goals.draw = lambda: world.chance
        self.desk = Desk(self.books, self.agents, self.reconciler, engine_of, (engine.name,))
        self._ticker: asyncio.Task[None] | None = None

    def _heard(self, cluster: str, host: str, header: Mapping[str, Any]) -> None:
        if not self.dead:
            self.reconciler.agent_said(cluster, host, header)

    def _closed(self, cluster: str, _host: str, _reason: str) -> None:
        if not self.dead:
            self.reconciler.stream_closed(cluster)

    async def begin(self) -> None:
        """Carry on where the last one was, and look at everything each second."""
        await self.reconciler.start()
        self._ticker = asyncio.get_running_loop().create_task(self._tick(), name="ticker")

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            # As the service does: what cannot be written down now is looked at again.
            with contextlib.suppress(RecordsError):
                self.reconciler.tick()

    def die(self) -> None:
        """End as by SIGKILL: nothing more is written, sent or launched."""
        self.dead = self.store.killed = True
        self.reconciler.close()
        if self._ticker is not None:
            self._ticker.cancel()
        self.world.cut_cables()

    async def bury(self) -> None:
        """Close what a dead process would have lost anyhow."""
        await asyncio.gather(self.pump.close(), self.agents.close_all(), return_exceptions=True)
        await self.reconciler.settle()
        self.store.close()


class Simulation:
    """A world, a controller, and what a test may do to them. ``with`` it, and nothing is left behind."""

    def __init__(
        self,
        *,
        limits: Limits = LIMITS,
        launch_seconds: float = 0.5,
        has_remains: bool = True,
        engine: type[FakeEngine] = FakeEngine,
    ) -> None:
        self.limits = limits
        self.loop = SimulatedLoop()
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="simulation")
        self.loop.set_default_executor(self._threads)
        self.loop.set_exception_handler(self._broken)
        self.bugs: list[str] = []
        """What went wrong without anybody being told: every entry is a bug."""
        self._log = _Errors(self.bugs)
        logging.getLogger("jupyter_smx").addHandler(self._log)
        asyncio.set_event_loop(self.loop)
        self.folder = Path(tempfile.mkdtemp(prefix="smx-simulation-"))
        _place_empty_records(self.folder)
        self.world = FakeWorld(self.folder)
        self.engine = engine(self.world, launch_seconds=launch_seconds, has_remains=has_remains)
        self._ids = (f"{number * 2654435761 % 2**32:08x}{number:08x}" for number in itertools.count(1))
        self.controller = self._new_controller()
        self.run(self.controller.begin())

    def __enter__(self) -> Simulation:  # noqa: PYI034 - Self is of Python 3.11
        """Give the simulation."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave nothing behind."""
        self.close()

    def close(self) -> None:
        """End the controller and the world."""
        self.controller.die()
        self.loop.run(self.controller.bury())
        self.loop.run(self.world.end())
        self._threads.shutdown()
        asyncio.set_event_loop(None)
        self.loop.close()
        logging.getLogger("jupyter_smx").removeHandler(self._log)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _broken(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, (ControllerDied, FencedError)):
            trace = "".join(traceback.format_exception(error)) if error else ""
            self.bugs.append(f"{context['message']}\n{trace}")

    def run(self, coroutine: Any) -> Any:
        """Let the controller do something, and everything that follows from it at once."""
        result = None
        with contextlib.suppress(ControllerDied):
            result = self.loop.run(coroutine)
        return result

    # What users do

    def spec(self, **fields: Any) -> JobSpec:
        """Make a wish; ``hosts`` is the number of instances."""
        groups = (InstanceGroup(instance_count=fields.pop("hosts", 1)),)
        base = {"kind": "train", "source": "pass", "base_name": "train", "engine": "fake", "python": PYTHON}
        return JobSpec(**{**base, "instance_groups": groups, **fields})

    def new_id(self) -> str:
        """Make the id of a job."""
        return next(self._ids)

    def submit(self, *, job_id: str = "", **fields: Any) -> str:
        """Submit a wish and give the job's id."""
        job_id = job_id or self.new_id()
        self.call(lambda: self._hand_in(job_id, self.spec(**fields)))
        return job_id

    async def _hand_in(self, job_id: str, spec: JobSpec) -> None:
        desk = self.controller.desk
        desk.submit(job_id, spec, await desk.intake.recall(spec))

    def array_wish(self, size: int, *, max_concurrent: int = 0, **fields: Any) -> ArrayWish:
        """Make the wish for an array whose tasks differ in the hyperparameter ``n``."""
        tasks = tuple(TaskWish(label=f"n={n}", hyperparameters={"n": str(n)}) for n in range(size))
        return ArrayWish(spec=self.spec(**fields), tasks=tasks, title="sweep n", max_concurrent=max_concurrent)

    def submit_array(self, size: int, **fields: Any) -> str:
        """Submit an array and give its id."""
        array, wish = self.new_id(), self.array_wish(size, **fields)
        self.call(lambda: self.controller.desk.arrays.submit(array, wish))
        return array

    def stop_array(self, array: str) -> None:
        """Ask all tasks of an array to stop."""
        desk = self.controller.desk.arrays
        self.call(lambda: desk.stop(desk.find(array)))

    def call(self, function: Callable[[], Any]) -> Any:
        """Call something inside the loop."""

        async def inside() -> Any:
            result = function()
            return await result if asyncio.iscoroutine(result) else result

        return self.run(inside())

    def stop(self, job_id: str) -> None:
        """Ask a job to stop."""
        self.call(lambda: self.controller.desk.stop(job_id))

    def job(self, job_id: str) -> Job:
        """Look a job up."""
        return self.controller.books.job(job_id)

    def why(self, job_id: str) -> Why:
        """Give why a job starts as it does, or waits."""
        why = self.job(job_id).why
        if why is None:
            raise LookupError(job_id)
        return why

    def pool(self, cluster: str) -> Cluster:
        """Look a cluster up, ended or not."""
        found = self.controller.store.cluster(cluster)
        if found is None:
            raise LookupError(cluster)
        return found

    def pools(self, state: ClusterState | None = None) -> list[Cluster]:
        """Give the live clusters."""
        found = self.controller.books.clusters.values()
        return [cluster for cluster in found if state is None or cluster.state is state]

    # What the world does

    def pass_time(self, seconds: float) -> None:
        """Let simulated seconds pass."""
        self.loop.pass_time(seconds)

    def end_job(self, job_id: str, **end: Any) -> None:
        """Let the code of a job end; ``exit_code`` is 0 unless told."""
        self.call(lambda: self.world.end_job(job_id, **end))

    def finish(self, **fields: Any) -> str:
        """Submit a job, let its hosts start, and let it end well."""
        job_id = self.submit(**fields)
        self.pass_time(self.engine.launch_seconds + 0.1)
        self.end_job(job_id)
        return job_id

    def hosts(self, job_id: str) -> list[FakeHost]:
        """Give the hosts of a job's cluster."""
        return self.world.of(self.job(job_id).cluster)

    def kill_host(self, host: FakeHost) -> None:
        """Let a host lose its power."""
        self.call(host.die)

    def break_streams(self, host: FakeHost) -> None:
        """Break the streams to a host; it lives on."""
        self.call(host.hang_up)

    def troubled_by(self, *troubles: Trouble) -> None:
        """Let the engine have these troubles from now on, and no others."""
        self.engine.troubles = [*troubles]

    # What happens to the controller

    def kill_controller(self) -> None:
        """Kill it at this moment; nobody takes over yet."""
        self.call(self.controller.die)

    def kill_controller_at_write(self, count: int, *, before: bool) -> None:
        """Kill it at its ``count``-th write from now, before or after that is on the disk."""
        self.controller.store.dies_before = before
        self.controller.store.writes_left = count

    def fill_disk(self) -> None:
        """Let no record be written any more, until :meth:`make_room`."""
        self.controller.store.disk_is_full = True

    def make_room(self) -> None:
        """Let records be written again."""
        self.controller.store.disk_is_full = False

    def set_clock(self, seconds: float) -> None:
        """Set the clock of the controller's machine forward or back, and give the controller one look at it."""
        self.world.set_clock(seconds)
        self.pass_time(TICK)

    def restart(self) -> None:
        """Bury the controller, which is killed if it lives, and start another one on its records."""
        if not self.controller.dead:
            self.kill_controller()
        self.loop.run(self.controller.bury())
        self.controller = self._new_controller()
        self.run(self.controller.begin())

    def _new_controller(self) -> Controller:
        async def make() -> Controller:
            return Controller(self.world, self.engine, self.limits, lambda: next(self._ids))

        return self.loop.run_until_complete(make())


class _Errors(logging.Handler):
    """Collects what is logged as an error."""

    def __init__(self, bugs: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._bugs = bugs

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        trace = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else ""
        self._bugs.append(f"{record.getMessage()}\n{trace}")


_empty_records: list[bytes] = []


def _place_empty_records(folder: Path) -> None:
    """Copy the records of a controller that never did anything: making them anew takes longer than a whole story."""
    path = folder / "smx.sqlite"
    if not _empty_records:
        store = Store.open(path)
        store.checkpoint()
        store.close()
        _empty_records.append(path.read_bytes())
    path.write_bytes(_empty_records[0])
