"""One running controller: connect its parts, serve requests, clean up, and close in order."""

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
from jupyter_smx.aws_endpoint.endpoint_file import endpoint_path, read_endpoint
from jupyter_smx.controller.agents.connections import Agents
from jupyter_smx.controller.agents.front import FrontFolder
from jupyter_smx.controller.api.base import HandlerServices
from jupyter_smx.controller.api.facade import ControllerFacade
from jupyter_smx.controller.api.handlers import make_server
from jupyter_smx.controller.environments.build_process import Installer
from jupyter_smx.controller.environments.cache import EnvironmentCache
from jupyter_smx.controller.errors import FencedError
from jupyter_smx.controller.file_watch import FileWatch, Loss
from jupyter_smx.controller.retention import DEFAULT_RETENTION, Retention
from jupyter_smx.controller.scheduling.engine_capabilities import slots_of
from jupyter_smx.controller.scheduling.finalize import JobFinalizer
from jupyter_smx.controller.scheduling.job_key import SECRET_FILE, JobKeys
from jupyter_smx.controller.scheduling.job_reconciler import JobReconciler
from jupyter_smx.controller.scheduling.notebook_folder import find_cure
from jupyter_smx.controller.state.change_signal import ChangeSignal, KeyedSignals
from jupyter_smx.controller.state.live_state import LiveState
from jupyter_smx.controller.telemetry.log_collector import LogCollector
from jupyter_smx.controller.telemetry.progress_tracker import ProgressTracker
from jupyter_smx.controller.telemetry.usage_recorder import UsageRecorder
from jupyter_smx.controller.transfer.stage_out import OutputStager
from jupyter_smx.controller_launch import aws_socket_dir
from jupyter_smx.model.errors import SmxError
from jupyter_smx.model.package_version import installed_version
from jupyter_smx.policy.limits import log_limit_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from jupyter_smx.controller.db.store import Store
    from jupyter_smx.controller.retention import RetentionPolicy
    from jupyter_smx.controller.singleton import ListenSocket
    from jupyter_smx.data_folder.location import DataFolder
    from jupyter_smx.engines.base import Engine
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.policy.limits import Limits

_log = logging.getLogger(__name__)

TICK = 1.0
"""Seconds between two passes over everything; events are handled at once, a pass finds what no event reports."""
IDLE_CONNECTION = 5.0
"""Seconds until an unused connection is closed: while one is open, the controller does not count as idle."""
CONNECT_TIMEOUT = 0.5
"""Seconds in which idle hosts of an earlier controller must answer to be warm for the very first job."""
LAST_RELEASES = 5.0
"""Seconds that hosts which are being released may take when the controller is asked to end."""
LATE_CONNECTION_DELAY = 0.05
"""Seconds in which a client that found the socket just before it was hidden can still connect."""
_JOB_FILES_DELAY = 0.05
"""Seconds between a verdict and the files that repeat the record. A controller that ends meanwhile writes none."""


class ControllerServer:
    """A controller that can be served."""

    _stop: asyncio.Event | None = None
    """Set from the moment on in which the controller ends, for whatever reason; None before it serves."""

    def __init__(
        self,
        store: Store,
        limits: Limits,
        engine_of: Callable[[str], Engine],
        engines: Mapping[str, Callable[[], Sequence[str]]],
        *,
        folder: DataFolder,
        user: str,
        idle_exit: float,
        retention: RetentionPolicy = DEFAULT_RETENTION,
    ) -> None:
        self.store = store
        self._data_dir = data_dir = folder.records
        self._idle_exit = idle_exit
        self._log_signals = KeyedSignals()
        self.live_state = LiveState(store, limits, time.time, ChangeSignal(), engine_of=engine_of)
        self._retention = Retention(self.live_state, data_dir, retention, time.time, engine_of)
        front = FrontFolder(aws_socket_dir(data_dir))
        self._agents = Agents(self._on_agent_event, self._on_stream_closed, clock=time.time, front=front)
        self._progress_tracker = ProgressTracker(
            folder.jobs, self.live_state, partial(_is_bounded, engine_of), self._on_fenced, partial(slots_of, engine_of)
        )
        self._log_collector = self._new_log_collector(folder, log_limit_bytes(limits), engine_of)
        self._output_stager = OutputStager(folder.jobs)
        self._usage_recorder = UsageRecorder(
            folder.jobs, self._agents, self._progress_tracker.on_sample, is_network=bool(folder.network_type)
        )
        finalizer = self._new_finalizer(engine_of)
        self.reconciler = JobReconciler(
            self.live_state,
            self._agents,
            self._log_collector,
            finalizer,
            engine_of,
            environments=_environments(folder, limits),
            new_id=_new_cluster_id,
            user=user,
        )
        self.reconciler.events.on_sample = self._usage_recorder.on_sample
        self._connect_keys(folder)
        facade = ControllerFacade(self.live_state, self._agents, self.reconciler, engine_of, engines)
        self._about = {
            "version": installed_version(""),
            "protocol": PROTOCOL,
            "pid": os.getpid(),
            "epoch": store.epoch,
            "data_dir": os.fspath(data_dir),
        }
        self.server = make_server(self._handler_services(facade), min(IDLE_CONNECTION, idle_exit))

    def _connect_keys(self, folder: DataFolder) -> None:
        """Let the dispatcher read the keys that hosts of jobs need, and that no record has."""
        dispatcher = self.reconciler.dispatcher
        dispatcher.key_of = JobKeys(folder.records / SECRET_FILE).key_of
        dispatcher.read_endpoint = partial(read_endpoint, endpoint_path(folder.chosen))

    def _new_log_collector(self, folder: DataFolder, limit: int, engine_of: Callable[[str], Engine]) -> LogCollector:
        collector = LogCollector(
            folder.jobs,
            self._agents,
            self._on_log_growth,
            limit=limit,
            spool_of=partial(_spool_of, engine_of),
            is_network=bool(folder.network_type),
        )
        collector.clock = time.time
        return collector

    def _new_finalizer(self, engine_of: Callable[[str], Engine]) -> JobFinalizer:
        finalizer = JobFinalizer(
            self.live_state,
            self._agents,
            self._log_collector,
            self._output_stager,
            engine_of,
            read_metrics=self._progress_tracker.read_final_metrics,
            find_cure=find_cure,
        )
        finalizer.on_outcome = self._schedule_job_files
        self._jobs_without_files: list[Job] = []
        finalizer.collect_samples = self._usage_recorder.collect
        return finalizer

    def _handler_services(self, facade: ControllerFacade) -> HandlerServices:
        return HandlerServices(
            facade=facade,
            output_stager=self._output_stager,
            log_signals=self._log_signals,
            about=self._describe,
            on_fenced=self.reconciler.on_fenced,
            is_ending=self._is_ending,
            uid=os.getuid(),
            metrics=self._progress_tracker.metrics,
            usage=self._usage_recorder.usage,
        )

    async def run(self, listen_socket: ListenSocket, stop: asyncio.Event) -> None:
        """Serve until ``stop`` is set, another controller takes over, or the controller is idle for long enough."""
        self._stop = stop
        # First: what is deleted from here on is a loss, also before the first pass.
        self._file_watch = FileWatch(self._data_dir)
        self.server.add_socket(listen_socket.socket)
        await self._first_reconcile()
        listen_socket.publish()
        _log.info("controller started: pid=%d epoch=%d socket=%s", os.getpid(), self.store.epoch, listen_socket.path)
        self._retention.begin()
        loop_task = asyncio.create_task(self._reconcile_loop(listen_socket), name="reconcile loop")
        # What is loaded now stays, and hardly any of it is garbage: the collector need never look at it.
        gc.freeze()
        gc.enable()
        ends = [
            loop_task,
            asyncio.create_task(stop.wait(), name="stop"),
            asyncio.create_task(self.reconciler.fenced_event.wait(), name="fenced"),
        ]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if loop_task.done():
                loop_task.result()
        finally:
            stop.set()
            for task in ends:
                task.cancel()
            await self._close(listen_socket)

    async def _first_reconcile(self) -> None:
        """Find jobs and hosts again before the first request, so that the first job after a restart finds its pool."""
        try:
            await self.reconciler.start()
            await self.reconciler.cluster_reconciler.wait_connected(CONNECT_TIMEOUT)
        except FencedError:
            self.reconciler.on_fenced()
        except SmxError as error:
            _log.warning("initial reconcile pass failed: %s", error)
        except Exception:  # noqa: BLE001 - as for every later pass: one bad record must not stop the controller
            _log.exception("initial reconcile pass failed")

    def _is_ending(self) -> bool:
        return self._stop is not None and self._stop.is_set()

    async def _close(self, listen_socket: ListenSocket) -> None:
        listen_socket.unpublish()
        self.server.stop()
        listen_socket.close()
        await self.reconciler.cluster_reconciler.drain_releases(LAST_RELEASES)
        self.reconciler.close()
        await self.reconciler.preparation.settle()
        await self._log_collector.close()
        await self._retention.close()
        await self._usage_recorder.close()
        await self._progress_tracker.close()
        await self._agents.close_all()
        await self.server.close_all_connections()
        self.store.close()
        _log.info("controller exits: pid=%d; jobs and hosts continue", os.getpid())

    async def _reconcile_loop(self, listen_socket: ListenSocket) -> None:
        monotonic = self.live_state.monotonic
        idle_since = monotonic()
        while True:
            try:
                # First: a controller that was replaced while the machine slept must do nothing more.
                self.store.check_owner()
                self.reconciler.tick()
                self._progress_tracker.tick()
                self._retention.tick()
            except FencedError:
                self.reconciler.on_fenced()
                return
            except SmxError as error:
                # For example a full disk: the decision is made again when there is space.
                _log.warning("reconcile pass failed: %s", error)
            except Exception:  # noqa: BLE001 - the border of the loop: one bad record must not end all others' jobs
                _log.exception("reconcile pass failed")
            if await self._leaves_after_loss(listen_socket):
                return
            idle_since = idle_since if self._is_idle() else monotonic()
            if monotonic() - idle_since >= self._idle_exit and await self._confirm_idle(listen_socket):
                return
            await asyncio.sleep(min(TICK, max(self._idle_exit / 4, 0.01)))

    async def _leaves_after_loss(self, listen_socket: ListenSocket) -> bool:
        """Check if the files of this controller still exist, and act if not; True: the controller has to exit.

        The agents of a deleted data folder end first, since no other controller has them in its records.
        """
        loss = self._file_watch.find_loss(is_published=listen_socket.is_published())
        if loss is None:
            return False
        if loss is Loss.SOCKET:
            self._restore_socket(listen_socket)
            return False
        _log.warning("data folder %s: %s; the controller exits", self._data_dir, loss.value)
        if loss is Loss.DATA:
            await self._agents.end_all(LAST_RELEASES)
        return True

    def _restore_socket(self, listen_socket: ListenSocket) -> None:
        try:
            self.server.replace_socket(listen_socket.rebind(), listen_socket.socket)
            listen_socket.publish()
        except OSError as error:
            _log.warning("socket %s was deleted and cannot be made again: %s", listen_socket.path, error)
        else:
            _log.warning("socket %s was deleted and is there again", listen_socket.path)

    def _is_idle(self) -> bool:
        return not (self.live_state.jobs or self.live_state.clusters or self.server.connections)

    async def _confirm_idle(self, listen_socket: ListenSocket) -> bool:
        listen_socket.unpublish()
        await asyncio.sleep(LATE_CONNECTION_DELAY)
        if self._is_idle():
            _log.info("controller was idle for %g s", self._idle_exit)
            return True
        listen_socket.publish()
        return False

    def _schedule_job_files(self, job: Job) -> None:
        # The records have it all but the folder of code, which a rerun needs; else the files are for people, and a
        # client that waits for the job is answered first.
        if job.spec.source_dir:
            self._start_writing_job_files([job])
            return
        self._jobs_without_files.append(job)
        if len(self._jobs_without_files) == 1:
            asyncio.get_running_loop().call_later(_JOB_FILES_DELAY, self._write_delayed_job_files)

    def _write_delayed_job_files(self) -> None:
        jobs, self._jobs_without_files = self._jobs_without_files, []
        self._start_writing_job_files(jobs)

    def _start_writing_job_files(self, jobs: Sequence[Job]) -> None:
        try:
            present = [job for job in jobs if self.store.has_job(job.id)]
        except SmxError:
            return  # the records are unavailable: files are needed only for recorded jobs
        if present:
            asyncio.get_running_loop().run_in_executor(None, self._write_job_files, present)

    def _write_job_files(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            try:
                self._output_stager.write_job_files(job)
            except (SmxError, OSError) as error:  # noqa: PERF203 - each job has a folder of its own
                _log.warning("job=%s writing the provenance file failed: %s", job.name, error)

    def _on_fenced(self) -> None:
        self.reconciler.on_fenced()

    def _on_log_growth(self, job_id: str) -> None:
        self._log_signals.notify_all(job_id)
        self._progress_tracker.on_growth(job_id)

    def _describe(self) -> dict[str, Any]:
        return self._about | {"seq": self.store.last_seq()}

    def _on_agent_event(self, cluster: str, host: str, header: Mapping[str, Any]) -> None:
        self.reconciler.events.on_agent_event(cluster, host, header)

    def _on_stream_closed(self, cluster: str, host: str, reason: str) -> None:
        del host, reason
        self.reconciler.on_stream_closed(cluster)


def _environments(folder: DataFolder, limits: Limits) -> EnvironmentCache:
    return EnvironmentCache(
        folder.records / "environments",
        Installer(limits.installer),
        limit=limits.environment_limit,
        max_unused=limits.environments_kept,
        clock=time.time if folder.has_local_records else None,
    )


def _spool_of(engine_of: Callable[[str], Engine], job: Job, host: str) -> Path | None:
    """Return the folder of a job on a host, if it is on this machine."""
    try:
        folder = engine_of(job.spec.engine).spool_path(job.cluster, host)
    except SmxError:
        return None
    return None if folder is None else folder / job.id


def _is_bounded(engine_of: Callable[[str], Engine], engine: str) -> bool:
    try:
        return engine_of(engine).capabilities.bounded_by_machine
    except SmxError:
        return False  # the engine cannot be created now, so the answer is unknown


def _new_cluster_id() -> str:
    return secrets.token_hex(6)
