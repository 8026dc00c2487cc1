"""What is known of one live job on its hosts, gathered from the agents' frames; never stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jupyter_smx.model import redaction
from jupyter_smx.model.records.job import HostEnd, RemoteException
from jupyter_smx.policy.hosts.names import excused, to_drain
from jupyter_smx.policy.lifecycle.next_step import Progress

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from jupyter_smx.model.spec.instance import InstanceGroup
    from jupyter_smx.model.status import Goal
    from jupyter_smx.policy.admission.host_visibility import Here

LONGEST_PAUSE = 30.0
"""Seconds until a job is looked at again of which nobody foresaw what was raised."""


@dataclass
class Trail:
    """The steps of one job: which hosts have it, which have ended it, and how."""

    hosts: tuple[str, ...] = ()
    groups: tuple[InstanceGroup, ...] = ()
    here: tuple[Here, ...] = ()
    """Its sources on the controller's machine, as they were when its hosts were brought them."""
    places: dict[str, Mapping[str, str]] | None = None
    """Where each host finds what it was brought, by its path here; None until all hosts have it that lack the job."""
    bringing: asyncio.Task[None] | None = None
    dispatched: set[str] = field(default_factory=set)
    stop_sent: bool = False
    exited: set[str] = field(default_factory=set)
    """Hosts whose process has ended; their outputs may still be packed."""
    drained: set[str] = field(default_factory=set)
    """Hosts that were told that their part is over."""
    records: dict[str, dict[str, Any]] = field(default_factory=dict)
    fetching: set[str] = field(default_factory=set)
    """Hosts whose records are read where they lie."""
    obituaries: dict[str, str] = field(default_factory=dict)
    """How hosts ended that left no record, in the words of their engine."""
    reading: bool = False
    """What its lost hosts left is being read."""
    lost: bool = False
    ran: bool = False
    finishing: bool = False
    goal: Goal | None = None
    """What was wished of the job when its code had ended; what is wished later changes nothing of how it did.

    None until then, and where nobody listened: the records of the hosts say it."""
    said: str = ""
    """What was said of it before its hosts could not be reached."""
    refusals: int = 0
    broken_off: int = 0
    """How often nobody had foreseen what was raised while it was looked at."""
    not_before: float = 0.0
    begun: dict[str, float] | None = None
    """Moments that came with the first line, kept until they are written down."""
    moments: dict[str, float] = field(default_factory=dict)
    """Moments on the way to the first line that the controller saw, seconds since the epoch."""

    def ends(self) -> tuple[HostEnd, ...]:
        """Give the records of all hosts that have one; a lost host without one ended by our fault."""
        found = [
            host_end(host, self.records.get(host), self.obituaries.get(host, ""))
            for host in self.hosts
            if self.lost or host in self.records
        ]
        return excused(self.groups, found)

    def broke_off(self, now: float) -> int:
        """Count what nobody foresaw, and leave the job alone for a moment, each time for longer."""
        self.broken_off += 1
        self.not_before = now + min(LONGEST_PAUSE, 2.0 ** (self.broken_off - 1))
        return self.broken_off

    def has_ended(self) -> bool:
        """Say whether the code has ended on every host; where there are none, nothing has."""
        return bool(self.hosts) and self.exited.union(self.records).issuperset(self.hosts)

    def host_exited(self, host: str, goal: Goal) -> None:
        """Learn that the code has ended on a host; ``goal`` is what is wished of the job now."""
        self.exited.add(host)
        if self.has_ended():
            self.goal = self.goal or goal

    def count_out(self) -> None:
        """Count hosts that live and have no record as failed by our fault: the job ended before they were given it."""
        # So none of the job's hosts is kept: what was sent to one that did not answer may still be on its way.
        for host in self.hosts:
            if not (self.lost or host in self.records):
                self.records[host] = {"cause": "host", "failure": f"The job was stopped before {host} had it."}

    def to_drain(self) -> tuple[str, ...]:
        """Name the hosts that have to be told that the group which they helped is done."""
        due = to_drain(self.groups, self.exited.union(self.records))
        return tuple(host for host in due if host not in self.drained)

    def progress(self, *, connected: bool, prepared: bool = True, sees_here: bool = True) -> Progress:
        """Say what policy wants to know; ``sees_here``: the hosts need not be brought what lies here."""
        ends = excused(self.groups, [host_end(host, record) for host, record in self.records.items()])
        given = self.dispatched.union(self.records)
        return Progress(
            hosts=len(self.hosts),
            connected=connected,
            given=len(given),
            dispatched=bool(self.hosts) and given.issuperset(self.hosts),
            stop_sent=self.stop_sent,
            ended=len(self.records),
            drains=bool(self.to_drain()),
            failed=any(not end.ended_well() for end in ends),
            lost=self.lost,
            ran=self.ran,
            prepared=prepared,
            brought=sees_here or self._is_brought(),
        )

    def _is_brought(self) -> bool:
        """Say whether each host has the job, or what it needs for it."""
        return self.places is not None and self.dispatched.union(self.places).issuperset(self.hosts)


def _text(said: str) -> str:
    """Give text that can be written and shown: a name of a file that is no UTF-8 comes as half characters."""
    return redaction.shown(said.encode("utf-8", "backslashreplace").decode())


def host_end(host: str, record: dict[str, Any] | None, obituary: str = "") -> HostEnd:
    """Read an agent's end record; None gives the end of a host that was lost, and how, where its engine says so."""
    if record is None:
        how = f": {obituary}" if obituary else "."
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
    )
