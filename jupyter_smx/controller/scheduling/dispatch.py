"""Send jobs to their hosts: first the files that the hosts need and do not see, then the job itself."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from jupyter_smx.aws_endpoint.environment import is_on, renew_variables
from jupyter_smx.controller.errors import FencedError, UnexpectedError, log_and_continue, wrap_unexpected
from jupyter_smx.controller.scheduling import engine_capabilities
from jupyter_smx.controller.scheduling.run_request import run_spec
from jupyter_smx.controller.scheduling.task_set import TaskSet
from jupyter_smx.controller.transfer import input_listing
from jupyter_smx.controller.transfer.file_sender import FileSender
from jupyter_smx.model.errors import SmxError, UnavailableError, ValidationError
from jupyter_smx.policy.admission import host_visibility
from jupyter_smx.policy.hosts.names import has_channel, named_hosts
from jupyter_smx.policy.lifecycle import keep_alive, transitions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jupyter_smx.aws_endpoint.endpoint_file import Endpoint
    from jupyter_smx.controller.agents.connections import Agents
    from jupyter_smx.controller.scheduling.job_events import JobEventHandler
    from jupyter_smx.controller.state.job_runtime import JobRuntime, JobRuntimes
    from jupyter_smx.controller.state.live_state import LiveState
    from jupyter_smx.engines.base import Engine
    from jupyter_smx.model.records.cluster import Handle
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.policy.hosts.names import NamedHost

_log = logging.getLogger(__name__)

RETRY_DELAY = 1.0
"""Seconds until a host that could not be reached is brought the same once more."""
_LISTING_THREADS = 2
"""Threads that look at what a job's sources are; each may wait for a slow disk."""
_KEY_THREADS = 1
"""Threads that read the key of the front, which is one file: it has its own, so that no listing delays a job."""


class Dispatcher:
    """Transfers to the hosts of jobs; none of them is stored, a new controller repeats them."""

    def __init__(
        self,
        live_state: LiveState,
        agents: Agents,
        engine_of: Callable[[str], Engine],
        runtimes: JobRuntimes,
        events: JobEventHandler,
    ) -> None:
        self._live_state = live_state
        self._agents = agents
        self._engine_of = engine_of
        self._runtimes = runtimes
        self._events = events
        self._tasks = TaskSet()
        self._file_sender = FileSender()
        self._last: dict[str, asyncio.Task[None]] = {}
        """Last task of each cluster that has not finished."""
        self.key_of: Callable[[str, str, int], str] = lambda _job, _cluster, _lease: ""
        """Key of a job and its lease, by which its hosts on several machines recognize each other."""
        self.read_endpoint: Callable[[], Endpoint | None] = lambda: None
        """Reads the address and the key of the front for clients of AWS from its data folder. Blocks."""
        self._listing_pool = ThreadPoolExecutor(_LISTING_THREADS, thread_name_prefix="list-inputs")
        self._key_pool = ThreadPoolExecutor(_KEY_THREADS, thread_name_prefix="read-key")

    def has_full_visibility(self, job: Job) -> bool:
        """Return True if the hosts of a job see all files that it needs, so that none has to be sent."""
        # Called by each reconcile: a job whose engine is not installed any more can be stopped, too.
        return engine_capabilities.capabilities_of(
            self._engine_of, job.spec.engine
        ).same_paths or not host_visibility.has_local_files(job.spec)

    def provide_files(self, job: Job, runtime: JobRuntime) -> None:
        """Begin to put what a job needs within reach of its hosts, unless that is under way."""
        if runtime.provide_task is not None:
            return
        # What was begun for a job that needs nothing any more ends at once; two would be in each other's way on a host.
        before = self._last.get(job.cluster)
        task = self._tasks.start(self._provide_files(job, runtime, before), f"provide files {job.id}")
        runtime.provide_task = self._last[job.cluster] = task
        task.add_done_callback(partial(self._on_task_done, job.cluster))

    def _on_task_done(self, cluster: str, task: asyncio.Task[None]) -> None:
        if self._last.get(cluster) is task:
            del self._last[cluster]

    async def _provide_files(self, job: Job, runtime: JobRuntime, before: asyncio.Task[None] | None) -> None:
        try:
            if before is not None:
                await asyncio.wait({before})
            if self._runtimes.find(job.id) is runtime:
                with wrap_unexpected(_log, "Copying files to the hosts"):
                    await self._provide_to_hosts(job, runtime)
        except FencedError:
            self._events.on_fenced()
            raise
        except SmxError as error:
            _log.warning("job=%s providing files failed: %s", job.name, error)
            if self._runtimes.find(job.id) is not runtime:
                return
            if error.transient:
                runtime.not_before = self._live_state.monotonic() + RETRY_DELAY
                self._remark_delayed(job)
                return
            end = self._events.on_host_failed if isinstance(error, UnexpectedError) else self._events.on_host_refused
            for host in runtime.hosts:
                end(job, host, str(error))
        finally:
            runtime.provide_task = None
        if runtime.provided_paths is not None and self._runtimes.find(job.id) is runtime:
            self._events.on_files_provided(job.id)

    def _remark_delayed(self, job: Job) -> None:
        now = self._live_state.jobs[job.id]
        # Lists show it, so it names no path.
        told = transitions.remark(now, "Its files cannot be copied to its hosts now; the controller will try again.")
        with log_and_continue(_log, "job={} delay was not recorded", job.name):
            if told is not now:
                self._live_state.save(jobs=[told])

    async def _provide_to_hosts(self, job: Job, runtime: JobRuntime) -> None:
        spec, handle = job.spec, self._live_state.clusters[job.cluster].handle
        if handle is None:
            return
        here: tuple[host_visibility.LocalSource, ...] = ()
        if any(map(host_visibility.is_local_path, spec.channels)):
            # A pattern may match many files on a slow disk: list them in a pool of their own, apart from other threads.
            here = await asyncio.get_running_loop().run_in_executor(self._listing_pool, input_listing.list_inputs, spec)
        # On a host that has the job already no file may change: an earlier controller provided them.
        hosts = [host for host in named_hosts(spec.instance_groups) if host.name not in runtime.dispatched_hosts]
        found = await asyncio.gather(
            *(self._provide_to_host(job, handle, host, here) for host in hosts), return_exceptions=True
        )
        trouble = next((each for each in found if isinstance(each, BaseException)), None)
        if trouble is not None:
            raise trouble
        runtime.input_listings = here
        runtime.provided_paths = {
            host.name: places
            for host, places in zip(hosts, found, strict=True)
            if not isinstance(places, BaseException)
        }

    async def _provide_to_host(
        self, job: Job, handle: Handle, host: NamedHost, here: Sequence[host_visibility.LocalSource]
    ) -> Mapping[str, str]:
        engine = self._engine_of(job.spec.engine)
        its = {channel.name for channel in job.spec.channels if has_channel(host, channel)}
        needed = host_visibility.paths_to_provide(job.spec, (one for one in here if one.channel in its))
        folders = engine.capabilities.shared_folders
        shared = {path: path for path in needed if host_visibility.is_below(path, folders)}
        sources = [path for path in needed if path not in shared]
        places = await engine.provide_files(handle, host.name, sources)
        if places is None:
            stream = self._agents.stream(job.cluster, host.name)
            places = await self._file_sender.send(stream, sources, job.spec.payload_digests())
        return {**places, **shared}

    def dispatch(self, job: Job, runtime: JobRuntime) -> None:
        """Send a job to those of its hosts that do not have it; first read the key for its clients of AWS, if any."""
        if is_on(job.spec.environment) and not runtime.is_endpoint_read:
            self._begin_reading_endpoint(job, runtime)
            return
        hosts = named_hosts(job.spec.instance_groups)
        # A host that is done waits for the others, also without a controller; at the end all get new deadlines.
        seconds = keep_alive.keep_alive_after(job.wanted_keep_alive(), self._live_state.clusters.get(job.cluster))
        linger = job.spec.max_run if len(hosts) > 1 else 0
        grace = self._live_state.limits.grace
        own_gpus = self._engine_of(job.spec.engine).capabilities.own_gpus
        key = self.key_of(job.id, job.cluster, job.lease) if len(hosts) > 1 else ""
        runtime.moments.setdefault("sent", self._live_state.clock())
        for host in hosts:
            # A host that refused the job, or is done with it, would only repeat its reply.
            if host.name in runtime.dispatched_hosts or host.name in runtime.records:
                continue
            stream = self._agents.stream(job.cluster, host.name)
            gpus = () if own_gpus else self._live_state.clusters[job.cluster].gpus.get(host.name, ())
            spec = run_spec(job, host, grace, seconds, linger=linger, gpus=gpus)
            spec["key"] = key
            # Without a front they fail at its former address: a job for this machine does not go to AWS.
            if runtime.endpoint is not None:
                spec["environment"] = renew_variables(spec["environment"], runtime.endpoint)
            if runtime.provided_paths is not None:
                spec = host_visibility.translate_paths(spec, runtime.input_listings, runtime.provided_paths[host.name])
            runtime.unreached_hosts.discard(host.name)
            answer = stream.run(job=job.id, lease=job.lease, spec=spec)
            runtime.dispatched_hosts.add(host.name)
            runtime.outage_since = None  # its launch waited for the disk, and that is over
            answer.add_done_callback(partial(self._on_run_reply, job, runtime, host.name))

    def _begin_reading_endpoint(self, job: Job, runtime: JobRuntime) -> None:
        """Begin to read the present address and key of the front, unless that is under way."""
        if runtime.endpoint_task is None:
            runtime.endpoint_task = self._tasks.start(self._read_endpoint(job, runtime), f"read endpoint {job.id}")

    async def _read_endpoint(self, job: Job, runtime: JobRuntime) -> None:
        try:
            runtime.endpoint = await asyncio.get_running_loop().run_in_executor(self._key_pool, self.read_endpoint)
        except UnavailableError as error:
            _log.warning("job=%s its clients of AWS get no key: %s", job.name, error)
        finally:
            runtime.endpoint_task = None
        runtime.is_endpoint_read = True
        if self._runtimes.find(job.id) is runtime:
            self._events.on_files_provided(job.id)

    def _on_run_reply(self, job: Job, runtime: JobRuntime, host: str, answer: asyncio.Future[Any]) -> None:
        if answer.cancelled() or answer.exception() is None:
            return
        # A closed stream is no statement about the job: the next greeting shows whether the agent has it.
        _log.warning("job=%s host=%s dispatch failed: %s", job.name, host, answer.exception())
        if self._runtimes.find(job.id) is not runtime:
            return
        runtime.dispatched_hosts.discard(host)
        if isinstance(answer.exception(), ValidationError):
            self._events.on_host_refused(job, host, str(answer.exception()))

    async def settle(self) -> None:
        """Wait until no task is running; for tests and an orderly end."""
        await self._tasks.settle()

    def close(self) -> None:
        """Cancel the transfers; the next controller repeats them."""
        self._tasks.cancel()
        self._listing_pool.shutdown(wait=False, cancel_futures=True)
        self._key_pool.shutdown(wait=False, cancel_futures=True)
