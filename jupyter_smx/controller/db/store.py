"""Store jobs, clusters and events in one SQLite file: all SQL, on one connection except for the log.

Every write is one transaction that first checks if this controller still owns the file. It runs inline on the event
loop: a commit takes a tenth of a millisecond, the way through a thread three times as much.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import msgspec

from jupyter_smx.aws_endpoint.environment import hide_secret, is_on
from jupyter_smx.controller.clock import ClockOffset
from jupyter_smx.controller.db import tables
from jupyter_smx.controller.db.array_store import ArrayStore
from jupyter_smx.controller.db.connection import (
    connect,
    connect_for_checkpoint,
    decode_readable,
    unreadable_error,
    unwritable_error,
)
from jupyter_smx.controller.db.reserve import Reserve
from jupyter_smx.controller.errors import FencedError, StaleError
from jupyter_smx.model.errors import ResourceInUseError, ResourceNotFoundError, suggest_names
from jupyter_smx.model.records.cluster import Cluster
from jupyter_smx.model.records.event import Event
from jupyter_smx.model.records.job import Job, JobSummary
from jupyter_smx.model.records.summary import base_name_of, summary_of
from jupyter_smx.policy.scheduling.eta import RUNS, CompletedRun, run_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from jupyter_smx.controller.db.tables import Statement
    from jupyter_smx.model.spec.array import Array
    from jupyter_smx.model.status import Status

_Params = ParamSpec("_Params")
_Result = TypeVar("_Result")
_NUMBERS = 1 << 31
"""As many has SQLite for a version of the user's."""
_LOOKUP_RULE = "Use the name or id of a job, or the start of one."

_encode = msgspec.json.Encoder().encode
_decode_whole_job = msgspec.json.Decoder(Job).decode
_USAGE_MARK = b'"usage_job":"'
"""Part of the record of a cluster whose figures are still to be read: the field is null otherwise."""
_decode_cluster = msgspec.json.Decoder(Cluster).decode
_decode_summary = msgspec.json.Decoder(JobSummary).decode
_decode_event = msgspec.json.Decoder(Event).decode


def _decode_job(record: bytes) -> Job:
    """Decode the record of a job; earlier versions wrote the secret key of the front into it, which no reader gets."""
    job = _decode_whole_job(record)
    if not is_on(job.spec.environment):
        return job
    spec = msgspec.structs.replace(job.spec, environment=hide_secret(job.spec.environment))
    return msgspec.structs.replace(job, spec=spec)


def _wrap_read_errors(
    method: Callable[Concatenate[Store, _Params], _Result],
) -> Callable[Concatenate[Store, _Params], _Result]:
    """Decorate a method to raise RecordsError for unreadable data: a damaged page, a record of another version."""

    @wraps(method)
    def inner(self: Store, /, *args: _Params.args, **kwargs: _Params.kwargs) -> _Result:
        try:
            return method(self, *args, **kwargs)
        except (sqlite3.Error, msgspec.DecodeError) as error:
            raise unreadable_error(self.path, error) from error

    return inner


class Store:
    """The records of one data folder, owned by one controller at a time.

    ``epoch`` grows by one each time the records are opened; an owner that sees another number has been replaced.
    ``writes`` counts the transactions of this owner.
    """

    def __init__(self, path: Path, raw: sqlite3.Connection) -> None:
        self.path = path
        self._raw = raw
        self.arrays = ArrayStore(path, raw)
        self.reserve = Reserve(path.parent)
        self.epoch = 0
        self.writes = 0
        with self._transaction(durable=False):
            tables.BUMP_EPOCH.run(raw)
            self.epoch = self._stored_epoch()
        self._seq = self._stored_seq()

    @classmethod
    def open(cls, path: Path) -> Store:
        """Open the records at ``path`` and become their owner.

        :raises ValidationError: a network file system.
        :raises VersionMismatchError: a newer version of this package wrote them.
        :raises RecordsError: they cannot be written.
        """
        return cls(path, connect(path))

    def close(self) -> None:
        """Close the file; committed data stays. Idempotent."""
        self._raw.close()

    # Writing

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
        """Write all of it or nothing, and return the events with their numbers.

        With ``array``, the jobs are its tasks, and new. ``clock`` becomes the clock of the records. The summary of a
        job on pages is the one in its event here, or else made of its record. ``durable`` waits until the data is on
        the disk: for writes before a launch that outlives a power failure of this machine. Without it a crash of the
        controller still loses nothing.

        :raises FencedError: another controller opened the records since.
        :raises StaleError: a job's verdict would change, or a cluster has a higher lease than the one given.
        :raises ResourceInUseError: a new job has the name of another one.
        :raises RecordsError: the disk is full, or the file is unavailable.
        """
        told = {event.job.id: event.job for event in events if event.job is not None}
        with self._transaction(durable=durable):
            if array is not None:
                self.arrays.add(array, (job.id for job in jobs))
            if clock is not None:
                tables.KEEP_CLOCK.run(self._raw, boot=clock.boot, apart=clock.seconds)
            for job in jobs:
                self._write_job(job, told.get(job.id) or summary_of(job))
            for cluster in clusters:
                self._write_cluster(cluster)
            return tuple([self._write_event(event) for event in events])

    def delete_job(self, job_id: str, at: float) -> None:
        """Delete a finished job's record and add an event of the moment ``at``; ignore a running or unknown job."""
        with self._transaction(durable=False):
            if tables.DELETE_JOB.run(self._raw, ref=job_id).rowcount:
                tables.DELETE_RUN.run(self._raw, ref=job_id)
                self._write_event(Event(seq=0, at=at, deleted=job_id))

    def prune_events(self, keep: int) -> None:
        """Drop all events but the newest ``keep``."""
        with self._transaction(durable=False):
            tables.PRUNE_EVENTS.run(self._raw, upto=self._seq - keep)

    @_wrap_read_errors
    def check_owner(self) -> None:
        """Check that this controller still owns the records, before an action outside of them.

        :raises FencedError: another controller opened them since.
        """
        self._check_owner()

    def checkpoint(self) -> bool:
        """Move the write-ahead log into the database and restart it; return False if a part could not be moved now.

        It waits for the disk: call it in a thread. It has a connection of its own, beside which others read and write.

        :raises RecordsError: the disk refuses.
        """
        try:
            with closing(connect_for_checkpoint(self.path)) as raw:
                _busy, pages, moved = raw.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                # The first write after the log restarts waits for the disk: make it here, not for a job. SQLite writes
                # changed values only, so change this number, which no code reads.
                (number,) = raw.execute("PRAGMA user_version").fetchone()
                raw.execute(f"PRAGMA user_version = {(number + 1) % _NUMBERS}")
        except sqlite3.Error as error:
            raise unwritable_error(self.path, error) from error
        return bool(pages == moved)

    # Reading

    def log_size(self) -> int:
        """Count the bytes of the write-ahead log; 0 where there is none."""
        try:
            return self.path.with_name(f"{self.path.name}-wal").stat().st_size
        except OSError:
            return 0

    def last_seq(self) -> int:
        """Return the number of the newest event, 0 if there never was one."""
        return self._seq

    @_wrap_read_errors
    def clock_offset(self) -> ClockOffset | None:
        """Return the clock that the records are written by; None if it was never stored."""
        boot, seconds = tables.READ_CLOCK.run(self._raw).fetchone()
        return ClockOffset(boot, seconds) if boot else None

    @_wrap_read_errors
    def live_jobs(self) -> list[Job]:
        """Return the jobs without a verdict, oldest first."""
        return decode_readable(_decode_job, tables.LIVE_JOBS.run(self._raw))

    @_wrap_read_errors
    def live_clusters(self) -> list[Cluster]:
        """Return the clusters that may still occupy hosts."""
        return decode_readable(_decode_cluster, tables.LIVE_CLUSTERS.run(self._raw))

    @_wrap_read_errors
    def clusters_without_usage(self) -> list[Cluster]:
        """Return clusters that have ended and whose figures at their platform are still to be read, at most 100."""
        return decode_readable(_decode_cluster, tables.CLUSTERS_WITHOUT_USAGE.run(self._raw, mark=_USAGE_MARK))

    @_wrap_read_errors
    def job(self, job_id: str) -> Job | None:
        """Return the job with exactly this id."""
        record = self._one(tables.JOB, job_id)
        return None if record is None else _decode_job(record)

    @_wrap_read_errors
    def has_job(self, job_id: str) -> bool:
        """Return True if there is a record of a job, without reading it."""
        return self._one(tables.JOB_EXISTS, job_id) is not None

    @_wrap_read_errors
    def cluster(self, cluster_id: str) -> Cluster | None:
        """Return the cluster with exactly this id, also long after its end."""
        record = self._one(tables.CLUSTER, cluster_id)
        return None if record is None else _decode_cluster(record)

    @_wrap_read_errors
    def find_job(self, ref: str) -> Job:
        """Find a job by id, name, base name (the newest), or the beginning of an id or name.

        :raises ResourceNotFoundError: none or several.
        """
        for exact in (tables.JOB, tables.JOB_BY_NAME, tables.NEWEST_OF_BASE_NAME):
            record = self._one(exact, ref)
            if record is not None:
                return _decode_job(record)
        found = tables.JOBS_BY_PREFIX.run(self._raw, **tables.prefix(ref)).fetchall() if ref else []
        if len(found) == 1:
            return _decode_job(found[0][1])
        raise self._not_found(ref, [row[0] for row in found])

    @_wrap_read_errors
    def summaries(self, limit: int = 100, before: str = "", status: Status | None = None) -> list[JobSummary]:
        """Return one page of jobs, newest first, as of the last write; ``before`` is the previous page's last id.

        Does not read the source of jobs.
        """
        if status is None:
            question = tables.NEXT_PAGE if before else tables.FIRST_PAGE
        else:
            question = tables.NEXT_PAGE_OF_STATUS if before else tables.FIRST_PAGE_OF_STATUS
        rows = question.run(self._raw, count=limit, before=before, status=status and status.value)
        return decode_readable(_decode_summary, rows)

    @_wrap_read_errors
    def previous_run(self, job: Job) -> str | None:
        """Return the id of the newest earlier job with the base name of ``job``."""
        row = tables.PREVIOUS_RUN.run(
            self._raw, base_name=base_name_of(job), created_at=job.created_at, ref=job.id
        ).fetchone()
        return None if row is None else str(row[0])

    @_wrap_read_errors
    def runs(self, code: str, instances: str) -> list[CompletedRun]:
        """Return the newest completed runs of some code on some instances."""
        rows = tables.NEWEST_RUNS.run(self._raw, code=code, instances=instances, count=RUNS)
        return [CompletedRun(code=code, wish=wish, instances=instances, seconds=seconds) for wish, seconds in rows]

    @_wrap_read_errors
    def events_since(self, seq: int, limit: int = 1000) -> tuple[list[Event], int, bool]:
        """Return the events after ``seq``, the newest number, and whether some after ``seq`` were deleted.

        This is also true if ``seq`` is higher than any number that was ever assigned: these are different records then.
        """
        if seq > self._seq:
            return [], self._seq, True
        rows = tables.EVENTS_SINCE.run(self._raw, since=seq, count=limit)
        numbered = [(number, *decode_readable(_decode_event, [(body,)])) for number, body in rows]
        events = [msgspec.structs.replace(found[0], seq=number) for number, *found in numbered if found]
        oldest = tables.OLDEST_EVENT.run(self._raw).fetchone()[0]
        return events, self._seq, seq + 1 < (self._seq + 1 if oldest is None else oldest)

    # Inside

    @contextmanager
    def _transaction(self, *, durable: bool) -> Iterator[None]:
        if durable:
            self._raw.execute("PRAGMA synchronous=FULL")
        seq = self._seq if self.epoch else 0
        try:
            self._raw.execute("BEGIN IMMEDIATE")
            self._check_owner()
            yield
            self._raw.execute("COMMIT")
            self.writes += 1
        except BaseException as error:
            self._seq = seq
            if self._raw.in_transaction:
                self._raw.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise unwritable_error(self.path, error) from error
            raise
        finally:
            if durable:
                self._raw.execute("PRAGMA synchronous=NORMAL")

    def _check_owner(self) -> None:
        if self.epoch and self._stored_epoch() != self.epoch:
            raise FencedError("Another controller took over the records.", cure="This controller exits.")

    def _stored_epoch(self) -> int:
        return int(tables.READ_EPOCH.run(self._raw).fetchone()[0])

    def _stored_seq(self) -> int:
        row = self._raw.execute("SELECT seq FROM sqlite_sequence WHERE name = 'events'").fetchone()
        return int(row[0]) if row else 0

    def _write_job(self, job: Job, summary: JobSummary) -> None:
        row = {
            "id": job.id,
            "name": job.name,
            "base_name": base_name_of(job),
            "created_at": job.created_at,
            "status": job.status().value,
            "state": job.state.value,
            "cluster": job.cluster,
            "lease": job.lease,
            "summary": _encode(summary),
            "record": _encode(job),
        }
        try:
            written = tables.UPSERT_JOB.run(self._raw, **row).rowcount
        except sqlite3.IntegrityError as error:
            raise ResourceInUseError(
                f"name: another job has the name {job.name!r}.",
                field="name",
                value=job.name,
                rule="Job names are unique.",
                cure="Submit the job again with a new id.",
            ) from error
        if not written:
            raise StaleError(f"Job {job.name} has already ended; it cannot become {job.state.value}.")

        run = run_of(job)
        if run is not None:
            tables.ADD_RUN.run(self._raw, job=job.id, ended_at=job.ended_at or 0.0, **msgspec.structs.asdict(run))

    def _write_cluster(self, cluster: Cluster) -> None:
        row = {
            "id": cluster.id,
            "state": cluster.state.value,
            "lease": cluster.lease,
            "record": _encode(cluster),
        }
        if not tables.UPSERT_CLUSTER.run(self._raw, **row).rowcount:
            raise StaleError(f"Cluster {cluster.id} has ended, or its lease is higher than {cluster.lease}.")

    def _write_event(self, event: Event) -> Event:
        added = tables.ADD_EVENT.run(self._raw, at=event.at, body=_encode(event))
        self._seq = int(added.lastrowid or 0)
        return msgspec.structs.replace(event, seq=self._seq)

    def _one(self, question: Statement, ref: str) -> bytes | None:
        row = question.run(self._raw, ref=ref).fetchone()
        return None if row is None else row[0]

    def _not_found(self, ref: str, candidates: list[str]) -> ResourceNotFoundError:
        if candidates:
            names = ", ".join(candidates)
            return ResourceNotFoundError(
                f"{ref!r} could be {names}.",
                field="job",
                value=ref,
                rule=_LOOKUP_RULE,
                cure="Use a longer part of the name, or the id.",
            )
        known = {name for row in tables.NEWEST_NAMES.run(self._raw) for name in row}
        return ResourceNotFoundError(
            f"There is no job {ref!r}.",
            field="job",
            value=ref,
            rule=_LOOKUP_RULE,
            cure=suggest_names(ref, sorted(known)) or "`%smx jobs` lists them.",
        )
