"""Parse the logs of one attempt of a job piece by piece, and store the metrics in the job's folder.

The only state is one file for each attempt: points, cursors and half-read lines together, replaced as a whole. So
a controller that was killed reads on from the byte that its points go up to, and counts nothing twice.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from jupyter_smx.controller.telemetry import log_file
from jupyter_smx.controller.transfer.job_folder import StagingError, atomic_write
from jupyter_smx.model.results.progress import JobMetrics, MetricValue, Progress, StepPace
from jupyter_smx.model.text import format_size
from jupyter_smx.policy.hosts.names import leaders_of, named_hosts
from jupyter_smx.policy.log_parsers.reader import Reader, ReaderState, announced_totals
from jupyter_smx.policy.log_parsers.step_rate import pace_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_smx.controller.transfer.job_folder import JobFolder
    from jupyter_smx.model.records.job import Job

PIECE = 65_536
"""Bytes of one host's log in one turn."""
MAX_BACKLOG = 4 * 2**20
"""Bytes that may wait to be read; a log that grows faster is read in samples."""
SAMPLE = 2**20
"""Bytes at the end of a log that are read when more wait."""
SHORT_LOG = 4_096
"""Bytes that are read without a thread, and again by each request where nothing was measured in them: most jobs are
short, and a thread and a file take longer than to read so much."""
SAVE_EVERY = 2.0
"""Seconds between saves; a new controller reads again what came after the last one."""


class SavedLogMetrics(Struct, frozen=True):
    """Content of the file. Another version, or another attempt of the job, is computed from the logs again."""

    attempt: int
    hosts: dict[str, ReaderState]
    version: int = 1


class LogMetrics(Struct, frozen=True):
    """Results after a turn: progress of the leader, newest value of each metric, and whether more bytes wait.

    The leader is the first host that helps no other one.
    ``notes`` are sentences about unreadable parts; they are complete at the end.
    """

    progress: Progress | None = None
    latest: tuple[MetricValue, ...] = ()
    pace: StepPace | None = None
    more: bool = False
    notes: tuple[str, ...] = ()


class LogMetricsReader:
    """Reads the logs of one job. All methods run in the thread of the owner's choice, one call at a time."""

    def __init__(self, folder: JobFolder, job: Job, clock: Callable[[], float]) -> None:
        self.attempt = job.attempt
        self._job = job
        self._folder = folder
        self._clock = clock
        self._hosts = tuple(host.name for host in named_hosts(job.spec.instance_groups))
        leaders = leaders_of(job.spec.instance_groups)
        self._leaders_first = sorted(self._hosts, key=lambda host: host in leaders)
        self._readers: dict[str, Reader] = {}
        self._dirty = False
        self._saved_at = 0.0

    def is_empty(self) -> bool:
        """Return True if no host has printed anything, so that there is nothing to read."""
        return not any(self._size(host) for host in self._hosts)

    def is_short(self) -> bool:
        """Return True if reading the rest of all logs takes next to no time: it is short, without a user's regexes."""
        left = sum(self._size(host) - self._reader(host).state.cursor for host in self._hosts)
        return left <= SHORT_LOG and not self._job.spec.metrics

    def read_next(self) -> LogMetrics:
        """Read one piece of each host's log, from where the last turn ended."""
        more = False
        for host in self._hosts:
            more |= self._read(host, MAX_BACKLOG)
        self._save_if_due()
        return self._log_metrics(more=more)

    def read_remaining(self) -> LogMetrics:
        """Read what is left, at most the last :data:`SAMPLE` bytes of each log; save what was measured."""
        for host in self._hosts:
            while self._read(host, SAMPLE):
                pass
            self._reader(host).close(self._clock())
        if self._has_measured():
            self.save()
        return replace(self._log_metrics(more=False), notes=self.notes())

    def read_after_run(self) -> None:
        """Read lines that were not read during the run; they count as written at the last change of the logs."""
        written = max(self._modified_at(host) for host in self._hosts)
        self._clock = lambda: written
        self.read_remaining()

    def job_metrics(self, since: float = 0.0) -> JobMetrics:
        """Return all results; only points after ``since`` (seconds since the epoch).

        The leader's series come first: a single value for the job is the first one's.
        """
        series = [
            found.record(name, host, since)
            for host in self._leaders_first
            for name, found in self._reader(host).state.series.items()
            if found.newest is not None
        ]
        return JobMetrics(
            job=self._job.name,
            progress=self._log_metrics(more=False).progress,
            series=tuple(series),
            notes=self.notes(),
            attempt=self.attempt,
        )

    def notes(self) -> tuple[str, ...]:
        """Return notes about unreadable parts, and about regexes that are not used."""
        said: list[str] = []
        for host in self._hosts:
            state = self._reader(host).state
            said += state.off.values()
            if state.skipped:
                said.append(
                    f"The log of {host} grew faster than metrics could be read: {format_size(state.skipped)} were "
                    "skipped."
                )
        return tuple(dict.fromkeys(said))

    def save(self) -> None:
        """Write the file when something is new; a disk that refuses is asked again the next time."""
        if not self._dirty or not self._folder.path.exists():
            return  # no new bytes, or the job was deleted
        saved = SavedLogMetrics(
            attempt=self.attempt, hosts={host: reader.state for host, reader in self._readers.items()}
        )
        try:
            with atomic_write(self._folder.metrics(self.attempt)) as part:
                part.write_bytes(msgspec.msgpack.encode(saved))
        except StagingError:
            return
        self._dirty = False
        self._saved_at = time.monotonic()

    def _has_measured(self) -> bool:
        """Return False if a new reader finds the same in the logs, as quickly as in the file: nothing."""
        states = [self._reader(host).state for host in self._hosts]
        found = any(state.series or state.skipped or state.off for state in states)
        is_long = sum(state.cursor for state in states) > SHORT_LOG
        return found or is_long or self._log_metrics(more=False).progress is not None

    def _save_if_due(self) -> None:
        if self._dirty and time.monotonic() - self._saved_at >= SAVE_EVERY:
            self.save()

    def _read(self, host: str, behind: int) -> bool:
        """Read a piece; False when nothing more is there now."""
        path = self._folder.log(host, self.attempt)
        reader = self._reader(host)
        try:
            with path.open("rb", buffering=0) as log:
                size = log.seek(0, 2)
                if size < reader.state.cursor:
                    # Another log stands there under the same name: the old cursor and what it counted belong to none.
                    reader = self._readers[host] = self._new_reader(ReaderState())
                if size - reader.state.cursor > behind:
                    reader.skip(size - reader.state.cursor - min(SAMPLE, behind))
                piece = log_file.piece_after(log.fileno(), reader.state.cursor, PIECE)
        except OSError:
            return False
        if piece.begin > reader.state.cursor:
            reader.skip(piece.begin - reader.state.cursor)
        if piece.data:
            reader.feed(piece.data, self._clock())
            self._dirty = True
        return reader.state.cursor < size

    def _size(self, host: str) -> int:
        try:
            return self._folder.log(host, self.attempt).stat().st_size
        except OSError:
            return 0

    def _modified_at(self, host: str) -> float:
        try:
            return self._folder.log(host, self.attempt).stat().st_mtime
        except OSError:
            return 0.0

    def _reader(self, host: str) -> Reader:
        if not self._readers:
            saved = read_saved(self._folder.metrics(self.attempt))
            states = saved.hosts if saved is not None and saved.attempt == self.attempt else {}
            self._readers = {name: self._new_reader(states.get(name)) for name in self._hosts}
        return self._readers[host]

    def _new_reader(self, state: ReaderState | None) -> Reader:
        spec = self._job.spec
        return Reader(spec.metrics, announced_totals(spec.hyperparameters), time.thread_time, state)

    def _log_metrics(self, *, more: bool) -> LogMetrics:
        latest: dict[str, MetricValue] = {}
        for host in self._leaders_first:
            for name, series in self._reader(host).state.series.items():
                value = series.last_value(name, host)
                # The leader's value is the job's; other hosts' values count only for metrics that it does not print.
                if value is not None and name not in latest:
                    latest[name] = value
        leader = self._reader(self._leaders_first[0])
        progress, pace = leader.progress(self._clock()), pace_of(leader.state.pace)
        return LogMetrics(progress=progress, latest=tuple(latest.values()), pace=pace, more=more)


def read_saved(path: Path) -> SavedLogMetrics | None:
    """Read the file; None when there is none, or none that this version wrote whole."""
    try:
        saved = msgspec.msgpack.decode(path.read_bytes(), type=SavedLogMetrics)
    except (OSError, msgspec.DecodeError):
        return None
    return saved if saved.version == 1 else None
