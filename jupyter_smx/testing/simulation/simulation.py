"""The real controller's core over a fake world in simulated time, controlled by a test.

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
from jupyter_smx.controller.api.array_facade import ArrayRequest
from jupyter_smx.controller.api.facade import ControllerFacade
from jupyter_smx.controller.db.connection import connect, unwritable_error
from jupyter_smx.controller.db.store import Store
from jupyter_smx.controller.environments.cache import EnvironmentCache
from jupyter_smx.controller.errors import FencedError, RecordsError
from jupyter_smx.controller.scheduling.finalize import JobFinalizer
from jupyter_smx.controller.scheduling.job_reconciler import JobReconciler
from jupyter_smx.controller.scheduling.notebook_folder import find_cure
from jupyter_smx.controller.state.change_signal import ChangeSignal
from jupyter_smx.controller.state.live_state import LiveState
from jupyter_smx.controller.telemetry.log_collector import LogCollector
from jupyter_smx.controller.transfer.stage_out import OutputStager
from jupyter_smx.model.spec.array import TaskOverrides
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.policy.limits import Limits
from jupyter_smx.testing.data_folder import provide_records
from jupyter_smx.testing.fakes.fake_engine import FakeEngine
from jupyter_smx.testing.fakes.fake_world import FakeWorld
from jupyter_smx.testing.simulation.simulated_time import SimulatedLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jupyter_smx.controller.clock import ClockOffset
    from jupyter_smx.model.records.cluster import Cluster, ClusterState
    from jupyter_smx.model.records.event import Event
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.results.reports import Why
    from jupyter_smx.model.spec.array import Array
    from jupyter_smx.testing.fakes.fake_engine import Fault
    from jupyter_smx.testing.fakes.fake_host import FakeHost

USER = "tester"
PYTHON = "/usr/bin/python3"
LIMITS = Limits(max_hosts=3, cpus=2, memory_gib=4.0, grace=10.0, interruption_grace=10.0, launch_limit=30.0)
TICK = 1.0


class ControllerKilled(BaseException):
    """Error of a killed process; no ``except`` for errors may catch it."""


class CrashingStore(Store):
    """Records whose controller is killed at a chosen write, just before or just after it is on the disk."""

    is_killed = False
    writes_left: int | None = None
    is_killed_before_write = False
    is_disk_full = False
    on_kill: Callable[[], None]

    def write(
        self,
        jobs: Sequence[Job] = (),
        clusters: Sequence[Cluster] = (),
        events: Sequence[Event] = (),
        *,
        array: Array | None = None,
        clock: ClockOffset | None = None,
        durable: bool = False,
    ) -> tuple[Event, ...]:
        """Write, unless it is killed at this write or was before."""
        del durable
        if self.writes_left is not None:
            self.writes_left -= 1
        dies_now = self.writes_left == 0
        if self.is_killed or (dies_now and self.is_killed_before_write):
            self.on_kill()
            raise ControllerKilled
        if self.is_disk_full:
            full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            raise unwritable_error(self.path, full) from full
        # No power fails here, and waiting for a disk takes longer than everything else.
        written = super().write(jobs, clusters, events, array=array, clock=clock, durable=False)
        if dies_now:
            self.on_kill()
            raise ControllerKilled
        return written


class Controller:
    """One process of a controller: all state that ends with it."""

    def __init__(self, world: FakeWorld, engine: FakeEngine, limits: Limits, ids: Callable[[], str]) -> None:
        self.world = world
        self.is_dead = False
        path = world.folder / "smx.sqlite"
        self.store = CrashingStore(path, connect(path))
        self.store.on_kill = self.kill

        def engine_of(_name: str) -> FakeEngine:
            return engine

        self.live_state = LiveState(
            self.store, limits, world.clock, ChangeSignal(), world.monotonic, world.boot_id, engine_of
        )
        self.agents = Agents(self._on_message, self._on_stream_closed, clock=world.clock)
        jobs_folder = world.folder / "jobs"
        pump = self.log_collector = LogCollector(jobs_folder, self.agents, lambda _job: None)
        stager = OutputStager(jobs_folder)
        finisher = JobFinalizer(self.live_state, self.agents, pump, stager, engine_of, find_cure=find_cure)
        limit, kept = limits.environment_limit, limits.environments_kept
        environments = EnvironmentCache(world.folder / "environments", world.builder, limit=limit, max_unused=kept)
        self.reconciler = JobReconciler(
            self.live_state, self.agents, pump, finisher, engine_of, environments=environments, new_id=ids, user=USER
        )
        self.reconciler.desired_state.draw = lambda: world.random_draw
        self.facade = ControllerFacade(self.live_state, self.agents, self.reconciler, engine_of, {engine.name: tuple})
        self._ticker: asyncio.Task[None] | None = None

    def _on_message(self, cluster: str, host: str, header: Mapping[str, Any]) -> None:
        if not self.is_dead:
            self.reconciler.events.on_agent_event(cluster, host, header)

    def _on_stream_closed(self, cluster: str, _host: str, _reason: str) -> None:
        if not self.is_dead:
            self.reconciler.on_stream_closed(cluster)

    async def start(self) -> None:
        """Carry on where the last one was, and look at everything each second."""
        await self.reconciler.start()
        self._ticker = asyncio.get_running_loop().create_task(self._tick(), name="ticker")

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            # As in the service: failed writes are repeated at the next pass.
            with contextlib.suppress(RecordsError):
                self.reconciler.tick()

    def kill(self) -> None:
        """End as by SIGKILL: nothing more is written, sent or launched."""
        self.is_dead = self.store.is_killed = True
        self.reconciler.close()
        if self._ticker is not None:
            self._ticker.cancel()
        self.world.close_connections()

    async def close(self) -> None:
        """Close what a dead process would have lost anyhow."""
        await asyncio.gather(self.log_collector.close(), self.agents.close_all(), return_exceptions=True)
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
        self.loop.set_exception_handler(self._on_loop_error)
        self.bugs: list[str] = []
        """Errors that no caller received: every entry is a bug."""
        self._log = _Errors(self.bugs)
        logging.getLogger("jupyter_smx").addHandler(self._log)
        asyncio.set_event_loop(self.loop)
        self.folder = Path(tempfile.mkdtemp(prefix="smx-simulation-"))
        provide_records(self.folder)
        self.world = FakeWorld(self.folder)
        self.engine = engine(self.world, launch_seconds=launch_seconds, has_remains=has_remains)
        self._ids = (f"{number * 2654435761 % 2**32:08x}{number:08x}" for number in itertools.count(1))
        self.controller = self._new_controller()
        self.run(self.controller.start())

    def __enter__(self) -> Simulation:  # noqa: PYI034 - Self is of Python 3.11
        """Return the simulation."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave nothing behind."""
        self.close()

    def close(self) -> None:
        """End the controller and the world."""
        self.controller.kill()
        self.loop.run(self.controller.close())
        self.loop.run(self.world.close())
        self._threads.shutdown()
        asyncio.set_event_loop(None)
        self.loop.close()
        logging.getLogger("jupyter_smx").removeHandler(self._log)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _on_loop_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, (ControllerKilled, FencedError)):
            trace = "".join(traceback.format_exception(error)) if error else ""
            self.bugs.append(f"{context['message']}\n{trace}")

    def run(self, coroutine: Any) -> Any:
        """Run a coroutine of the controller, and everything that follows from it at once."""
        result = None
        with contextlib.suppress(ControllerKilled):
            result = self.loop.run(coroutine)
        return result

    # What users do

    def spec(self, **fields: Any) -> JobSpec:
        """Make a job request; ``hosts`` is the number of instances."""
        groups = (InstanceGroup(instance_count=fields.pop("hosts", 1)),)
        base = {"kind": "train", "source": "pass", "base_name": "train", "engine": "fake", "python": PYTHON}
        return JobSpec(**{**base, "instance_groups": groups, **fields})

    def new_id(self) -> str:
        """Make the id of a job."""
        return next(self._ids)

    def submit(self, *, job_id: str = "", **fields: Any) -> str:
        """Submit a job request and return the job's id."""
        job_id = job_id or self.new_id()
        self.call(lambda: self._submit(job_id, self.spec(**fields)))
        return job_id

    async def _submit(self, job_id: str, spec: JobSpec) -> None:
        desk = self.controller.facade
        image = await desk.validator.cached_image(spec)
        desk.submit(job_id, spec, image, await desk.validator.resolve_interpreter(spec))

    def array_request(self, size: int, *, max_concurrent: int = 0, **fields: Any) -> ArrayRequest:
        """Make the request for an array whose tasks differ in the hyperparameter ``n``."""
        tasks = tuple(TaskOverrides(label=f"n={n}", hyperparameters={"n": str(n)}) for n in range(size))
        return ArrayRequest(spec=self.spec(**fields), tasks=tasks, title="sweep n", max_concurrent=max_concurrent)

    def submit_array(self, size: int, **fields: Any) -> str:
        """Submit an array and give its id."""
        array, wish = self.new_id(), self.array_request(size, **fields)
        self.call(lambda: self.controller.facade.arrays.submit(array, wish))
        return array

    def stop_array(self, array: str) -> None:
        """Request the stop of all tasks of an array."""
        desk = self.controller.facade.arrays
        self.call(lambda: desk.stop(desk.find(array)))

    def call(self, function: Callable[[], Any]) -> Any:
        """Call something inside the loop."""

        async def inside() -> Any:
            result = function()
            return await result if asyncio.iscoroutine(result) else result

        return self.run(inside())

    def stop(self, job_id: str, *, abandon: bool = False) -> None:
        """Request a job's stop; with ``abandon`` without waiting for unreachable hosts."""
        self.call(lambda: self.controller.facade.stop(job_id, abandon=abandon))

    def job(self, job_id: str) -> Job:
        """Return a job."""
        return self.controller.live_state.job(job_id)

    def start_reason(self, job_id: str) -> Why:
        """Return why a job starts as it does, or waits."""
        why = self.job(job_id).why
        if why is None:
            raise LookupError(job_id)
        return why

    def pool(self, cluster: str) -> Cluster:
        """Return a cluster, ended or not."""
        found = self.controller.store.cluster(cluster)
        if found is None:
            raise LookupError(cluster)
        return found

    def pools(self, state: ClusterState | None = None) -> list[Cluster]:
        """Return the live clusters."""
        found = self.controller.live_state.clusters.values()
        return [cluster for cluster in found if state is None or cluster.state is state]

    # What the world does

    def pass_time(self, seconds: float) -> None:
        """Advance the simulated time."""
        self.loop.pass_time(seconds)

    def end_job(self, job_id: str, **end: Any) -> None:
        """End the code of a job; ``exit_code`` is 0 unless it is passed."""
        self.call(lambda: self.world.end_job(job_id, **end))

    def run_to_end(self, **fields: Any) -> str:
        """Submit a job, let its hosts start, and let it end well."""
        job_id = self.submit(**fields)
        self.pass_time(self.engine.launch_seconds + 0.1)
        self.end_job(job_id)
        return job_id

    def hosts(self, job_id: str) -> list[FakeHost]:
        """Return the hosts of a job's cluster."""
        return self.world.cluster_hosts(self.job(job_id).cluster)

    def kill_host(self, host: FakeHost) -> None:
        """Cut the power of a host."""
        self.call(host.crash)

    def give_notice(self, host: FakeHost, grace: float) -> None:
        """Send a host the notice that its machine is taken away in ``grace`` seconds."""
        self.call(lambda: host.give_notice(grace))

    def break_streams(self, host: FakeHost) -> None:
        """Break the streams to a host; it lives on."""
        self.call(host.close_streams)

    def set_faults(self, *troubles: Fault) -> None:
        """Set the engine's faults from now on."""
        self.engine.faults = [*troubles]

    # What happens to the controller

    def kill_controller(self) -> None:
        """Kill the controller at this moment; no other takes over yet."""
        self.call(self.controller.kill)

    def kill_controller_at_write(self, count: int, *, before: bool) -> None:
        """Kill it at its ``count``-th write from now, before or after that is on the disk."""
        self.controller.store.is_killed_before_write = before
        self.controller.store.writes_left = count

    def fill_disk(self) -> None:
        """Make all writes of records fail, until :meth:`free_disk`."""
        self.controller.store.is_disk_full = True

    def free_disk(self) -> None:
        """Make writes of records succeed again."""
        self.controller.store.is_disk_full = False

    def set_clock(self, seconds: float) -> None:
        """Set the clock of the controller's machine forward or back, and give the controller one look at it."""
        self.world.set_clock(seconds)
        self.pass_time(TICK)

    def restart(self) -> None:
        """Bury the controller, which is killed if it lives, and start another one on its records."""
        if not self.controller.is_dead:
            self.kill_controller()
        self.loop.run(self.controller.close())
        self.controller = self._new_controller()
        self.run(self.controller.start())

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
