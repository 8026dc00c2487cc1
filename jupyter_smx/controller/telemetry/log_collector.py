"""Collect the logs and samples of running jobs piece by piece, from the end of the controller's copy on."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, closing
from functools import partial
from typing import TYPE_CHECKING

from jupyter_smx.agent.errors import is_temporary
from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.agent.system.resources.log_limit import MAX_STEP
from jupyter_smx.agent.wire import MAX_BODY
from jupyter_smx.controller.telemetry.log_copy import LogCopy
from jupyter_smx.controller.telemetry.log_disk import LogDisk, write_piece
from jupyter_smx.controller.telemetry.log_times import times_path
from jupyter_smx.controller.transfer.host_spool import empty_copied, free_copied, raise_if_temporary, spool_location
from jupyter_smx.controller.transfer.job_folder import JobFolder, StagingError
from jupyter_smx.controller.transfer.read_ahead import read_ahead
from jupyter_smx.engines import untrusted_files
from jupyter_smx.model.errors import SmxError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from jupyter_smx.controller.agents.connections import Agents
    from jupyter_smx.controller.agents.stream import AgentStream
    from jupyter_smx.controller.transfer.host_spool import HostSpool
    from jupyter_smx.controller.transfer.read_ahead import ReadPiece
    from jupyter_smx.model.records.job import Job

_log = logging.getLogger(__name__)

GATHER = 0.01
"""Seconds between the news of a growth and the request for it: a short job has ended by then, and its log is read
once, with the rest."""
RETRY_DELAY = 1.0
"""Seconds until a disk that refused is tried again."""
PIECE = MAX_BODY
"""Bytes of one request; a window of them is in memory at once for each job and host."""
INLINE_READ_LIMIT = 16_384
"""Bytes that are read at once where they lie in our own data folder, on the disk of the records: a thread that does it
takes several times as long, and most jobs are short and leave no more."""

LARGE_LOG = 1 << 20
"""Minimum bytes of a log whose collected part is freed in the host's folder at once, not with the whole folder."""

LogKey = tuple[str, int, str]
"""A log: job, attempt and host."""


def _remote(_job: Job, _host: str) -> Path | None:
    return None


class LogCollector:
    """One puller for each job, attempt and host.

    The cursor is the size of the file in the job's folder (``path_of``), so that a new controller continues there. Each
    new piece calls ``on_bytes(job id)``. ``name`` is the file's on the host.

    A file takes at most ``limit`` bytes on disk (0: no limit). ``spool_of`` returns the folder of a job on a host if it
    is on this machine: collected parts of a large file are freed there. ``is_network`` is True if the jobs' folder is
    on a network file system.
    """

    def __init__(
        self,
        jobs_folder: Path,
        agents: Agents,
        on_bytes: Callable[[str], None],
        *,
        name: str = host_layout.JOB_LOG,
        path_of: Callable[[JobFolder, str, int], Path] = JobFolder.log,
        limit: int = 0,
        spool_of: Callable[[Job, str], Path | None] = _remote,
        is_network: bool = False,
    ) -> None:
        self._disk = LogDisk(is_network=is_network)
        self.clock: Callable[[], float] | None = None
        """Gives the times of the index beside each file; without it there is no index."""
        self._sizes: dict[LogKey, int] = {}
        """Collected bytes of logs on a network file system, which is not read for each."""
        self._limit = limit
        self._spool_of = spool_of
        self._can_punch = True
        self._freed_sizes: dict[LogKey, int] = {}
        self._name = name
        self._path_of = path_of
        self._jobs_folder = jobs_folder
        self._agents = agents
        self._on_bytes = on_bytes
        self._target_sizes: dict[LogKey, int] = {}
        self._pull_tasks: dict[LogKey, asyncio.Task[None]] = {}
        self._growth_timers: dict[LogKey, asyncio.TimerHandle] = {}
        self._retry_timers: dict[LogKey, asyncio.TimerHandle] = {}

    def on_growth(self, job: Job, host: str, total: int) -> None:
        """Take note that the log is ``total`` bytes long there, and soon pull what is missing; errors are logged."""
        key = _key(job, host)
        self._target_sizes[key] = max(total, self._target_sizes.get(key, 0))
        if key not in self._pull_tasks and key not in self._growth_timers:
            loop = asyncio.get_running_loop()
            self._growth_timers[key] = loop.call_later(GATHER, self._pull_growth, job, host)

    def _pull_growth(self, job: Job, host: str) -> None:
        key = _key(job, host)
        self._growth_timers.pop(key, None)
        if key in self._pull_tasks or key not in self._target_sizes:
            return
        if self.size(job.id, host, job.attempt) < self._target_sizes[key]:
            self._start(job, host, lambda offset: self._ask(job, host, None, offset))
        else:
            del self._target_sizes[key]

    async def drain(
        self, job: Job, host: str, total: int, stream: AgentStream | None = None, spool: HostSpool | None = None
    ) -> None:
        """Wait until all ``total`` bytes are here, from the agent or from the host's spool (``spool``).

        Without a reported total it is the size of the file. If the host is gone and nothing can be read, the bytes that
        arrived before are the result, without an error.

        :raises UnavailableError: the agent or the engine does not answer now, or another task reads the spool instead.
        :raises StagingError: the disk here is full.
        """
        key = _key(job, host)
        if key in self._growth_timers:
            self._growth_timers.pop(key).cancel()
        if stream is None and spool is not None:
            total = max(total, await spool.size(self._name))
        self._target_sizes[key] = max(total, self._target_sizes.get(key, 0))
        if self._disk.is_network and key not in self._sizes:
            self._sizes[key] = await self._disk.call(partial(self._file_size, job.id, host, job.attempt))
        ways = self._ways(job, host, stream, spool)
        patient = spool is None or spool.path is None
        while self.size(job.id, host, job.attempt) < total:
            await self._await_running_pull(key, patient=patient)
            before = self.size(job.id, host, job.attempt)  # what was under way may have brought all of it
            if before < total and not await self._more(job, host, ways):
                _log.warning("job=%s host=%s log is incomplete: %d of %d bytes", job.name, host, before, total)
                break
        self._target_sizes.pop(key, None)
        self._freed_sizes.pop(key, None)
        here = self.size(job.id, host, job.attempt)
        self._sizes.pop(key, None)
        if here >= min(LARGE_LOG, self._limit or LARGE_LOG):
            await asyncio.to_thread(self._settle, job, host, here, None if spool is None else spool.path)

    def _settle(self, job: Job, host: str, size: int, remains: Path | None) -> None:
        """Keep a large log of an ended job within its limit, and only here.

        Another controller may have had another limit, or was killed in the middle.
        """
        path = self._path_of(JobFolder(self._jobs_folder, job.id), host, job.attempt)
        try:
            with closing(self._open(path)) as copy:
                copy.limit(size)
        except OSError as error:
            _log.warning("job=%s host=%s the log was not shortened: %s", job.name, host, error)
        if remains is not None:
            empty_copied(remains, self._name, size)

    def _open(self, path: Path) -> LogCopy:
        times = None if self.clock is None else times_path(path)
        return LogCopy(path, self._limit, can_punch=self._can_punch, times=times)

    def _ways(self, job: Job, host: str, stream: AgentStream | None, spool: HostSpool | None) -> list[ReadPiece]:
        """List the ways to a log, the best first; an engine is asked only where no agent can be."""
        ways: list[ReadPiece] = []
        if spool is not None and spool.path is not None:
            ways.append(partial(self._read, _key(job, host), spool.path))
        if stream is not None:
            ways.append(lambda offset: self._ask(job, host, stream, offset))
        elif spool is not None and spool.path is None:
            ways.append(partial(_read_by_engine, spool, self._name))
        return ways

    async def _more(self, job: Job, host: str, ways: Sequence[ReadPiece]) -> bool:
        """Return True if one of the sources, tried in turn, had more of the log."""
        before = self.size(job.id, host, job.attempt)
        for read in ways:
            await _await_pull(self._start(job, host, read))
            if self.size(job.id, host, job.attempt) > before:
                return True
        return False

    async def _await_running_pull(self, key: LogKey, *, patient: bool) -> None:
        # Two pullers of one log would write every byte twice.
        while (running := self._pull_tasks.get(key)) is not None:
            if not patient:
                running.cancel()
            await asyncio.wait({running})

    def size(self, job_id: str, host: str, attempt: int = 1) -> int:
        """Count the collected bytes, on a network file system those that this process has found or written."""
        if self._disk.is_network:
            return self._sizes.get((job_id, attempt, host), 0)
        return self._file_size(job_id, host, attempt)

    def _file_size(self, job_id: str, host: str, attempt: int) -> int:
        try:
            return self._path_of(JobFolder(self._jobs_folder, job_id), host, attempt).stat().st_size
        except OSError:
            return 0

    async def close(self) -> None:
        """Stop pulling; a new collector reads on from the same byte."""
        for timer in (*self._growth_timers.values(), *self._retry_timers.values()):
            timer.cancel()
        pullers = list(self._pull_tasks.values())
        for puller in pullers:
            puller.cancel()
        await asyncio.gather(*pullers, return_exceptions=True)
        self._disk.shut_down()

    def _start(self, job: Job, host: str, read: ReadPiece) -> asyncio.Task[None]:
        puller = asyncio.get_running_loop().create_task(
            self._pull(job, host, read), name=f"{self._name} {job.id} {host}"
        )
        self._pull_tasks[_key(job, host)] = puller
        puller.add_done_callback(lambda done: self._on_pull_done(job, host, done))
        return puller

    async def _ask(self, job: Job, host: str, stream: AgentStream | None, offset: int) -> bytes:
        stream = stream or self._agents.stream(job.cluster, host)
        asked = stream.read_file(job=job.id, lease=job.lease, name=self._name, offset=offset, limit=PIECE)
        return (await asked).body

    async def _read(self, key: LogKey, remains: Path, offset: int) -> bytes:
        missing = self._target_sizes.get(key, 0) - offset
        if missing <= INLINE_READ_LIMIT and remains.is_relative_to(self._jobs_folder.parent):
            return _read_chunk(remains, self._name, offset)
        return await asyncio.to_thread(_read_chunk, remains, self._name, offset)

    async def _pull(self, job: Job, host: str, read: ReadPiece) -> None:
        path = self._path_of(JobFolder(self._jobs_folder, job.id), host, job.attempt)
        try:
            copy = await self._disk.open(partial(self._open, path))
            try:
                while await self._pull_to_gap(job, host, copy, read):
                    pass
                if self._can_punch and not copy.can_punch:
                    self._can_punch = False
                    _log.warning("%s: this file system cannot leave out a part of a file; logs stay whole", path)
            finally:
                self._disk.close(copy)
        except OSError as error:
            raise _disk_error(path, error) from error

    def _limit_copy(self, key: LogKey, copy: LogCopy) -> None:
        copy.limit(self._total(key))
        self._note_size(key, copy)

    def _write(self, key: LogKey, copy: LogCopy, piece: bytes, now: int) -> tuple[int, bool]:
        written = write_piece(copy, piece, self._total(key), now)
        self._note_size(key, copy)
        return written

    def _now(self) -> int:
        return 0 if self.clock is None else int(self.clock() * 1000)

    def _note_size(self, key: LogKey, copy: LogCopy) -> None:
        if self._disk.is_network:
            self._sizes[key] = copy.size()

    async def _pull_to_gap(self, job: Job, host: str, copy: LogCopy, read: ReadPiece) -> bool:
        """Read up to the end, or to a gap; return True if more follows after the gap."""
        key = _key(job, host)
        await self._disk.call(partial(self._limit_copy, key, copy))
        ahead = read_ahead(read, copy.cursor, lambda: copy.stop(self._total(key)), piece=PIECE)
        async with aclosing(ahead) as pieces:
            async for piece in pieces:
                cursor, is_in_gap = await self._disk.call(partial(self._write, key, copy, piece, self._now()))
                self._on_bytes(job.id)
                self._free(job, host, cursor)
                if is_in_gap:
                    return True
        return False

    def _total(self, key: LogKey) -> int:
        return self._target_sizes.get(key, 0)

    def _free(self, job: Job, host: str, copied: int) -> None:
        """Free the collected part of a large log on a host of this machine, except its end, which the host may read."""
        begin, end = self._freed_sizes.get(_key(job, host), 0), copied - MAX_STEP
        if end - begin >= MAX_STEP:
            self._freed_sizes[_key(job, host)] = end
            remains = self._spool_of(job, host)
            if remains is not None:
                free_copied(remains, self._name, begin, end)

    def _on_pull_done(self, job: Job, host: str, done: asyncio.Task[None]) -> None:
        if self._pull_tasks.get(_key(job, host)) is done:
            del self._pull_tasks[_key(job, host)]
        error = None if done.cancelled() else done.exception()
        if isinstance(error, UnavailableError):
            # The end of the stream is handled elsewhere; the next reply to ``hello`` has the length of the log.
            _log.info("job=%s log collection paused: %s", job.name, error)
        elif isinstance(error, SmxError):
            self._retry_later(job, host, error)
        elif error is not None:
            _log.error("job=%s host=%s log collection failed", job.name, host, exc_info=error)
        else:
            self._retry_timers.pop(_key(job, host), None)

    def _retry_later(self, job: Job, host: str, error: SmxError) -> None:
        key = _key(job, host)
        if key not in self._retry_timers:
            _log.warning("job=%s log collection failed: %s", job.name, error)
        if error.transient and key in self._target_sizes:
            self._retry_timers[key] = asyncio.get_running_loop().call_later(RETRY_DELAY, self._resume, job, host)

    def _resume(self, job: Job, host: str) -> None:
        if _key(job, host) in self._target_sizes:
            self.on_growth(job, host, 0)
        else:
            self._retry_timers.pop(_key(job, host), None)


def _key(job: Job, host: str) -> LogKey:
    return job.id, job.attempt, host


async def _await_pull(puller: asyncio.Task[None]) -> None:
    """Wait for a puller; if it was cancelled, do not propagate the cancellation to the caller."""
    await asyncio.wait({puller})
    if puller.cancelled():
        raise UnavailableError("The log is read from the host's folder instead of its agent.", transient=True)
    puller.result()


async def _read_by_engine(spool: HostSpool, name: str, offset: int) -> bytes:
    return (await spool.read(name, offset))[0]


def _read_chunk(remains: Path, name: str, offset: int) -> bytes:
    try:
        with untrusted_files.open_file(*spool_location(remains, name)) as log:
            log.file.seek(offset)
            return log.file.read(PIECE)
    except OSError as error:
        raise_if_temporary(error)
        return b""  # as for a log that ends there: the rest is lost


def _disk_error(path: Path, error: OSError) -> StagingError:
    return StagingError(
        f"The log {path} cannot be written: {error.strerror}.",
        field="destination",
        value=path,
        cure="Free some space.",
        transient=is_temporary(error),
    )
