"""The runtime state of live jobs on their hosts, from the frames of the agents; never stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jupyter_smx.controller.errors import is_disk_outage, is_outage_over
from jupyter_smx.model import redaction
from jupyter_smx.model.records.job import HostEnd, RemoteException
from jupyter_smx.policy.hosts.names import drainable_hosts, mark_drained_helpers, named_hosts
from jupyter_smx.policy.lifecycle.next_step import JobObservation

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from jupyter_smx.aws_endpoint.endpoint_file import Endpoint
    from jupyter_smx.model.errors import SmxError
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.spec.instance import InstanceGroup
    from jupyter_smx.model.status import DesiredState
    from jupyter_smx.policy.admission.host_visibility import LocalSource

OUTAGE_GAP = 300.0
"""Seconds without a failure after which the next one begins another outage; a try and the pause before it are shorter.
"""
MAX_BACKOFF = 30.0
"""Seconds until a job is reconciled again after an unexpected error."""


@dataclass
class JobRuntime:
    """In-memory facts about one live job: which hosts have it, which have ended it, and how; never stored."""

    hosts: tuple[str, ...] = ()
    groups: tuple[InstanceGroup, ...] = ()
    input_listings: tuple[LocalSource, ...] = ()
    """Its sources on the controller's machine, as they were when its hosts were brought them."""
    provided_paths: dict[str, Mapping[str, str]] | None = None
    """Paths on each host of provided files, by path here; None until all hosts without the job have them."""
    endpoint: Endpoint | None = None
    """Address and key of the front for its clients of AWS, as they were before its run; None if there is no front."""
    is_endpoint_read: bool = False
    endpoint_task: asyncio.Task[None] | None = None
    """Reads that address and key; None if this is not under way."""
    provide_task: asyncio.Task[None] | None = None
    """Brings its files to its hosts; None if this is not under way."""
    dispatched_hosts: set[str] = field(default_factory=set)
    unreached_hosts: set[str] = field(default_factory=set)
    """Hosts to which the job surely was never sent, so that its code cannot have begun there."""
    stop_sent: bool = False
    exited_hosts: set[str] = field(default_factory=set)
    """Hosts whose process has ended; their outputs may still be packed."""
    drained_hosts: set[str] = field(default_factory=set)
    """Helper hosts that received a stop because their group is done."""
    records: dict[str, dict[str, Any]] = field(default_factory=dict)
    fetching_hosts: set[str] = field(default_factory=set)
    """Hosts whose records are read where they lie."""
    exit_reasons: dict[str, str] = field(default_factory=dict)
    """How hosts without a record ended, in the engine's words."""
    is_reading_spool: bool = False
    """True while the spool of its lost hosts is being read."""
    hosts_closed: bool = False
    """True if one of its hosts takes no more jobs, and only stores results."""
    is_release_pending: bool = False
    """True if its hosts were abandoned, and their end is not confirmed."""
    is_spool_given_up: bool = False
    """True if reading the spool of its lost hosts was given up."""
    hosts_lost: bool = False
    code_started: bool = False
    is_finalizing: bool = False
    goal_at_exit: DesiredState | None = None
    """The goal of the job when its code had ended; later requests do not change the result.

    None until then, and if no controller was connected: then the records of the hosts decide."""
    uploading_since: float | None = None
    """When the controller first began to bring its outputs home, in seconds since the epoch."""
    last_remark: str = ""
    """Message of the job before its hosts became unreachable."""
    refusals: int = 0
    """Launches that failed."""
    waits_for_room: int = 0
    """Number of refusals by its engine for lack of room."""
    no_launch_before: float = 0.0
    """When that engine is asked again."""
    error_count: int = 0
    """Number of unexpected errors while it was reconciled."""
    not_before: float = 0.0
    outage_since: float | None = None
    """Since when a file system fails for it, None while none does."""
    last_outage: float = 0.0
    """When that failed last."""
    first_line_moments: dict[str, float] | None = None
    """Times that came with the first line, until they are recorded."""
    moments: dict[str, float] = field(default_factory=dict)
    """Times before the first line that the controller observed, in seconds since the epoch."""

    def loss_reason(self) -> str:
        """Return a sentence on how its hosts were lost, in the engine's words about the first one; "" without any."""
        found = next(((host, reason) for host, reason in self.exit_reasons.items() if reason), None)
        return f"Host {found[0]}: {found[1]}" if found else ""

    def host_ends(self) -> tuple[HostEnd, ...]:
        """Return the records of all hosts that have one; a lost host without one ended by our fault."""
        found = [
            host_end(host, self.records.get(host), self.exit_reasons.get(host, ""), exited=host in self.exited_hosts)
            for host in self.hosts
            if self.hosts_lost or host in self.records
        ]
        return mark_drained_helpers(self.groups, found)

    def record_error(self, now: float) -> int:
        """Count an unexpected error, and pause the job, each time for longer."""
        self.error_count += 1
        self.not_before = now + min(MAX_BACKOFF, 2.0 ** (self.error_count - 1))
        return self.error_count

    def can_wait_for_disk(self, error: SmxError, now: float) -> bool:
        """Return True to retry after a failure; a file system that does not answer is retried only for a while."""
        if not is_disk_outage(error):
            self.outage_since = None
            return True
        if self.outage_since is None or now - self.last_outage > OUTAGE_GAP:
            self.outage_since = now
        self.last_outage = now
        return not is_outage_over(self.outage_since, now)

    def has_ended(self) -> bool:
        """Return True if the code has ended on every host; False if there are no hosts."""
        return bool(self.hosts) and self.exited_hosts.union(self.records).issuperset(self.hosts)

    def mark_placed(self) -> None:
        """Record that the job was placed on its hosts just now, and sent to none."""
        self.unreached_hosts = set(self.hosts)

    def record_exit(self, host: str, goal: DesiredState) -> None:
        """Record that the code has ended on a host; ``goal`` is the current goal of the job."""
        self.exited_hosts.add(host)
        if self.has_ended():
            self.goal_at_exit = self.goal_at_exit or goal

    def mark_missing_hosts_failed(self) -> None:
        """Count hosts that live and have no record as failed by our fault: the job ended before they were given it."""
        # Do not keep any of the job's hosts: a request to a silent host may still be on its way.
        for host in self.hosts:
            if not (self.hosts_lost or host in self.records):
                self.records[host] = {"cause": "host", "failure": f"The job was stopped before it reached {host}."}

    def hosts_to_drain(self) -> tuple[str, ...]:
        """Return the helper hosts to stop, because the group that they helped is done."""
        due = drainable_hosts(self.groups, self.exited_hosts.union(self.records))
        return tuple(host for host in due if host not in self.drained_hosts)

    def observation(self, *, connected: bool, prepared: bool = True, sees_here: bool = True) -> JobObservation:
        """Return the facts for policy; ``sees_here``: the hosts can read files of this machine."""
        ends = mark_drained_helpers(self.groups, [host_end(host, record) for host, record in self.records.items()])
        given = self.dispatched_hosts.union(self.records)
        return JobObservation(
            hosts=len(self.hosts),
            connected=connected,
            dispatched_hosts=len(given),
            dispatched=bool(self.hosts) and given.issuperset(self.hosts),
            stop_sent=self.stop_sent,
            ended=len(self.records),
            hosts_to_drain=len(self.hosts_to_drain()),
            failed=any(not end.is_successful() for end in ends),
            hosts_lost=self.hosts_lost,
            code_started=self.code_started,
            prepared=prepared,
            files_provided=sees_here or self._has_provided_files(),
        )

    def _has_provided_files(self) -> bool:
        """Return True if each host has the job, or the files that it needs for it."""
        return self.provided_paths is not None and self.dispatched_hosts.union(self.provided_paths).issuperset(
            self.hosts
        )


class JobRuntimes:
    """The runtimes of live jobs, by the id of the job."""

    def __init__(self) -> None:
        self._runtimes: dict[str, JobRuntime] = {}

    def find(self, job_id: str) -> JobRuntime | None:
        """Return the runtime of a job, None if it has none."""
        return self._runtimes.get(job_id)

    def get(self, job: Job) -> JobRuntime:
        """Return the runtime of a job, created if missing; once the job is on a cluster, with its hosts."""
        runtime = self._runtimes.setdefault(job.id, JobRuntime())
        if job.cluster and not runtime.hosts:
            runtime.hosts = tuple(host.name for host in named_hosts(job.spec.instance_groups))
            runtime.groups = job.spec.instance_groups
        return runtime

    def drop(self, job_id: str) -> None:
        """Remove the runtime of a job, and cancel what brings files to its hosts and reads the key for its run."""
        runtime = self._runtimes.pop(job_id, None)
        for task in (runtime.provide_task, runtime.endpoint_task) if runtime is not None else ():
            if task is not None:
                task.cancel()


def _text(said: str) -> str:
    """Return text that can be stored and shown: file names that are no UTF-8 contain surrogates."""
    return redaction.redact_text(said.encode("utf-8", "backslashreplace").decode())


def host_end(host: str, record: dict[str, Any] | None, exit_reason: str = "", *, exited: bool = False) -> HostEnd:
    """Parse an agent's end record; for None, return the end of a lost host, with the engine's reason, if any.

    ``exited`` is True if the code had ended there before.
    """
    if record is None:
        how = f": {exit_reason}" if exit_reason else "."
        if exited:
            lost = f"The code ended on {host}, but the record of its end was lost with the host{how}"
            return HostEnd(host=host, cause="host", failure=lost)
        return HostEnd(host=host, cause="host", failure=f"Host {host} was lost while the job ran{how}")
    said, message = record.get("exception"), record.get("message", "")
    return HostEnd(
        host=host,
        cause=record.get("cause", "exit"),
        exit_code=record.get("exit_code"),
        signal=record.get("signal"),
        failure=_text(record.get("failure") or ""),
        reason=_text(record.get("reason") or ""),
        message=None if message is None else _text(message),
        exception=RemoteException(
            type=_text(said.get("type", "")),
            message=_text(said.get("message", "")),
            traceback=_text(said.get("traceback", "")),
            line=said.get("line"),
        )
        if said
        else None,
        left_behind=tuple(map(_text, record.get("left_behind", ()))),
        errors=tuple(map(_text, record.get("errors", ()))),
        exited_at=record.get("at", {}).get("exited"),
        end_reason=exit_reason,
    )
