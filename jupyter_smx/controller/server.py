"""One running controller: everything wired together, served, kept clean, and closed in order."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import secrets
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from jupyter_smx.agent.wire import PROTOCOL
from jupyter_smx.controller.agents.connections import Agents
from jupyter_smx.controller.api.base import Surroundings
from jupyter_smx.controller.api.facade import Desk
from jupyter_smx.controller.api.handlers import make_server
from jupyter_smx.controller.environments.build_process import Installer
from jupyter_smx.controller.environments.cache import Environments
from jupyter_smx.controller.errors import FencedError
from jupyter_smx.controller.housekeeping import Housekeeping
from jupyter_smx.controller.retention import KEEPING
from jupyter_smx.controller.scheduling.finalize import Finisher
from jupyter_smx.controller.scheduling.job_reconciler import Reconciler
from jupyter_smx.controller.state.change_signal import Bell, Bells
from jupyter_smx.controller.state.live_state import Books
from jupyter_smx.controller.telemetry.log_collector import LogPump
from jupyter_smx.controller.telemetry.progress_tracker import Meter
from jupyter_smx.controller.telemetry.usage_recorder import UsageBooks
from jupyter_smx.controller.transfer.stage_out import Staging
from jupyter_smx.model.errors import SmxError
from jupyter_smx.package_version import installed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from jupyter_smx.controller.db.store import Store
    from jupyter_smx.controller.retention import Keeping
    from jupyter_smx.controller.singleton import Door
    from jupyter_smx.engines.base import Engine
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.policy.limits import Limits

_log = logging.getLogger(__name__)

TICK = 1.0
"""Seconds between two looks at everything; news is acted upon at once, this finds what no news tells."""
IDLE_CONNECTION = 5.0
"""Seconds; longer ones would count as guests."""
MEETING = 0.5
"""Seconds in which idle hosts of an earlier controller must answer to be warm for the very first job."""
LAST_RELEASES = 5.0
"""Seconds that hosts which are being released may take when the controller is told to end."""
LAST_GUESTS = 0.05
"""Seconds in which somebody who found the socket just before it was hidden can still come in."""


class Service:
    """A controller that can be served."""

    def __init__(
        self,
        store: Store,
        limits: Limits,
        engine_of: Callable[[str], Engine],
        engines: Collection[str],
        *,
        data_dir: Path,
        user: str,
        idle_exit: float,
        keeping: Keeping = KEEPING,
    ) -> None:
        self.store = store
        self._data_dir = data_dir
        self._idle_exit = idle_exit
        self._log_bells = Bells()
        self.books = Books(store, limits, time.time, Bell())
        self._housekeeping = Housekeeping(self.books, data_dir, keeping, time.time, engine_of)
        self._agents = Agents(self._event, self._stream_closed)
        jobs_folder = data_dir / "jobs"
        self._meter = Meter(jobs_folder, self.books, partial(_is_bounded, engine_of), self._lost_to_another)
        self._pump = LogPump(jobs_folder, self._agents, self._more_log)
        self._staging = Staging(jobs_folder)
        finisher = Finisher(self.books, self._agents, self._pump, self._staging, engine_of, measure=self._meter.finish)
        finisher.on_verdict = self._keep_papers
        self._usage = UsageBooks(jobs_folder, self._agents, self._meter.sampled)
        finisher.keep_samples = self._usage.bring_home
        self.reconciler = Reconciler(
            self.books,
            self._agents,
            self._pump,
            finisher,
            engine_of,
            environments=_environments(data_dir / "environments", limits),
            new_id=_new_cluster_id,
            user=user,
        )
        self.reconciler.on_sampled = self._usage.heard
        desk = Desk(self.books, self._agents, self.reconciler, engine_of, engines)
        self._about = {
            "version": installed(""),
            "protocol": PROTOCOL,
            "pid": os.getpid(),
            "epoch": store.epoch,
            "data_dir": os.fspath(data_dir),
        }
        self.server = make_server(self._surroundings(desk), min(IDLE_CONNECTION, idle_exit))

    def _surroundings(self, desk: Desk) -> Surroundings:
        return Surroundings(
            desk=desk,
            staging=self._staging,
            log_bells=self._log_bells,
            about=self._describe,
            fenced=self.reconciler.fenced,
            uid=os.getuid(),
            metrics=self._meter.metrics,
            usage=self._usage.usage,
        )

    async def run(self, door: Door, stop: asyncio.Event) -> None:
        """Serve until ``stop``, until another controller took over, or until nobody needs it any more."""
        self.server.add_socket(door.socket)
        await self._look_around()
        door.open()
        _log.info("Controller %d (epoch %d) serves %s", os.getpid(), self.store.epoch, door.path)
        self._housekeeping.begin()
        watch = asyncio.create_task(self._keep_watch(door), name="watch")
        # What is loaded now stays; the collector need not look at it again and again.
        gc.collect()
        gc.freeze()
        ends = [
            watch,
            asyncio.create_task(stop.wait(), name="stop"),
            asyncio.create_task(self.reconciler.ended.wait(), name="fenced"),
        ]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if watch.done():
                watch.result()
        finally:
            for task in ends:
                task.cancel()
            await self._close(door)

    async def _look_around(self) -> None:
        """Find jobs and hosts again before anybody asks, so that the first job after a restart finds its warm pool."""
        try:
            await self.reconciler.start()
            await self.reconciler.fleet.meet(MEETING)
        except FencedError:
            self.reconciler.fenced()
        except SmxError as error:
            _log.warning("A first look at everything failed: %s", error)
        except Exception:  # noqa: BLE001 - as for every later look: one bad record must not keep the controller away
            _log.exception("A first look at everything failed")

    async def _close(self, door: Door) -> None:
        door.hide()
        self.server.stop()
        door.close()
        await self.reconciler.fleet.let_go(LAST_RELEASES)
        self.reconciler.close()
        await self.reconciler.preparation.settle()
        await self._pump.close()
        await self._housekeeping.close()
        await self._usage.close()
        await self._meter.close()
        await self._agents.close_all()
        await self.server.close_all_connections()
        self.store.close()
        _log.info("Controller %d ends; jobs and hosts live on.", os.getpid())

    async def _keep_watch(self, door: Door) -> None:
        steady = self.books.steady
        idle_since = steady()
        while True:
            try:
                # Before anything is done: whoever was replaced while he slept does nothing any more.
                self.store.check_owner()
                self.reconciler.tick()
                self._meter.tick()
                self._housekeeping.look()
            except FencedError:
                self.reconciler.fenced()
                return
            except SmxError as error:
                # A full disk, say: what was decided is decided again when there is room.
                _log.warning("A look at everything failed: %s", error)
            except Exception:  # noqa: BLE001 - the border of the loop: one bad record must not end all others' jobs
                _log.exception("A look at everything failed")
            if not self._data_dir.exists():
                _log.warning("The data folder %s is gone, and with it everything to look after.", self._data_dir)
                return
            idle_since = idle_since if self._is_idle() else steady()
            if steady() - idle_since >= self._idle_exit and await self._left_alone(door):
                return
            await asyncio.sleep(min(TICK, max(self._idle_exit / 4, 0.01)))

    def _is_idle(self) -> bool:
        return not (self.books.jobs or self.books.clusters or self.server.connections)

    async def _left_alone(self, door: Door) -> bool:
        door.hide()
        await asyncio.sleep(LAST_GUESTS)
        if self._is_idle():
            _log.info("Nobody needed the controller for %g s.", self._idle_exit)
            return True
        door.open()
        return False

    def _keep_papers(self, job: Job) -> None:
        # The records have it all; the files are for people, and no job waits for the folders that they lie in.
        asyncio.get_running_loop().run_in_executor(None, self._write_papers, job)

    def _write_papers(self, job: Job) -> None:
        try:
            self._staging.keep_papers(job)
        except SmxError as error:
            _log.warning("What %s ran, and with what, is in the records only: %s", job.name, error)

    def _lost_to_another(self) -> None:
        self.reconciler.fenced()

    def _more_log(self, job_id: str) -> None:
        self._log_bells.ring(job_id)
        self._meter.grew(job_id)

    def _describe(self) -> dict[str, Any]:
        return self._about | {"seq": self.store.last_seq()}

    def _event(self, cluster: str, host: str, header: Mapping[str, Any]) -> None:
        self.reconciler.agent_said(cluster, host, header)

    def _stream_closed(self, cluster: str, host: str, reason: str) -> None:
        del host, reason
        self.reconciler.stream_closed(cluster)


def _environments(folder: Path, limits: Limits) -> Environments:
    installer = Installer(limits.installer)
    return Environments(folder, installer, limit=limits.environment_limit, kept=limits.environments_kept)


def _is_bounded(engine_of: Callable[[str], Engine], engine: str) -> bool:
    try:
        return engine_of(engine).capabilities.bounded_by_machine
    except SmxError:
        return False  # an engine that cannot be had now: nothing can be said of it


def _new_cluster_id() -> str:
    return secrets.token_hex(6)
