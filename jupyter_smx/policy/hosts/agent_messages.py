"""Validate the messages of agents, and read the hosts of a cluster from replies to ``hello``. Pure.

A job has the user of the agent on its host, so it can end the agent and send anything in its place. What does not
have the form of a record, a reply or an event is rejected, and what remains can be stored and read again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from msgspec import Meta, Struct, ValidationError, convert

from jupyter_smx.model.records.cluster import Host
from jupyter_smx.policy.hosts.names import named_hosts
from jupyter_smx.policy.hosts.provenance import limits_of, machine_of
from jupyter_smx.policy.preload import preload_costs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jupyter_smx.model.records.cluster import Cluster

_LARGEST = 2**53
"""Largest integer that JavaScript represents exactly."""
_LAST = 253_402_300_799.0
"""The end of the year 9999, beyond which there are no dates."""
_DEEPEST = 16

_Count: TypeAlias = Annotated[int, Meta(ge=0, le=_LARGEST)]
_Number: TypeAlias = Annotated[int, Meta(ge=-_LARGEST, le=_LARGEST)]
_Moment: TypeAlias = Annotated[float, Meta(ge=0, le=_LAST)]
_Moments: TypeAlias = dict[str, _Moment | None]


class MalformedMessageError(ValueError):
    """A message does not have the form that agents use; the text names the place."""


class _Artifact(Struct, frozen=True):
    """A file; the record of very many leaves out their paths, which follow from their names."""

    name: str
    size: _Count
    path: str = ""


class _Exception(Struct, frozen=True):
    type: str = ""
    message: str = ""
    traceback: str = ""
    line: _Number | None = None


class _MissingPreloads(Struct, frozen=True):
    """Preloads that a job did not find, and in sentences why."""

    modules: list[str] = []
    reasons: list[str] = []


class _Record(Struct, frozen=True):
    """The end of a job on one host; other fields are read leniently, without invalid values."""

    cause: str = "exit"
    exit_code: _Number | None = None
    signal: _Number | None = None
    failure: str | None = None
    reason: str | None = None
    message: str | None = None
    exception: _Exception | None = None
    at: _Moments = {}
    log: _Count = 0
    samples: _Count = 0
    artifacts: list[_Artifact] = []
    received: dict[str, _Count] = {}
    errors: list[str] = []
    left_behind: list[str] = []
    modules: list[str] = []
    packages: dict[str, str] = {}
    notes: list[str] = []
    missing_preloads: _MissingPreloads = _MissingPreloads()


class _Preload(Struct, frozen=True):
    loaded: list[str] = []
    failed: dict[str, str] = {}


class _Isolation(Struct, frozen=True):
    mode: str = ""
    reason: str = ""


class _JobFacts(Struct, frozen=True):
    """State of one job at an agent."""

    phase: str = ""
    lease: _Count = 0
    log: _Count = 0
    samples: _Count = 0
    at: _Moments = {}


class _HelloReply(Struct, frozen=True):
    isolation: _Isolation = _Isolation()
    preload: _Preload = _Preload()
    python: str = ""
    version: str = ""
    deadline: _Moment | None = None
    closed: bool = False
    """The host takes no more jobs; it keeps the results of earlier ones."""
    jobs: dict[str, _JobFacts] = {}


class _Event(_Preload, frozen=True):
    """Any event; each has some of these."""

    event: str = ""
    job: str = ""
    lease: _Count = 0
    at: _Moments = {}
    total: _Count = 0
    reason: str = ""
    missing_preloads: _MissingPreloads = _MissingPreloads()


class _EndedEvent(_Event, frozen=True):
    """The end of a job; a record too long for a frame stays where it was written, and these are its bytes."""

    kept: _Count = 0


class _NoticeEvent(_Event, frozen=True):
    """Event: the machine of a host is taken away, in so many seconds."""

    seconds: _Moment = 0.0


class _ExitedEvent(_Event, frozen=True):
    """Event: the code has ended; the only event with a single moment."""

    at: _Moment | None = None  # type: ignore[assignment]  # what only this event says in another form


_KINDS: dict[str, type[Struct]] = {"exited": _ExitedEvent, "notice": _NoticeEvent, "ended": _EndedEvent}


def parse_record(said: object) -> dict[str, Any]:
    """Return the record of an end; for invalid input, that of a failed host with the reason."""
    try:
        found = _validate(said, _Record)
    except MalformedMessageError as error:
        return unreadable_record(str(error))
    if isinstance(said, dict) and "artifacts" in said:
        # These are names of files, which are what they are.
        found["artifacts"] = said["artifacts"]
    return found


def unreadable_record(why: str) -> dict[str, Any]:
    """Return the record of a failed host, if the record of the job's end is unreadable."""
    return {"cause": "host", "failure": f"The host's end record cannot be read: {why}."}


def parse_hello(said: object) -> dict[str, Any]:
    """Return a valid reply to ``hello``.

    :raises MalformedMessageError: it is invalid.
    """
    return _validate(said, _HelloReply)


def parse_event(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return a valid event; :func:`parse_record` checks the record in it.

    :raises MalformedMessageError: it is invalid.
    """
    name = said.get("event")
    kind = _KINDS.get(name, _Event) if isinstance(name, str) else _Event
    return {
        **_validate({name: what for name, what in said.items() if name != "record"}, kind),
        **_parse_nested_record(said),
    }


def parse_count(said: object) -> int:
    """Return a number of bytes, 0 for invalid input."""
    return said if isinstance(said, int) and 0 <= said <= _LARGEST else 0


def parse_moment(said: object) -> float | None:
    """Return seconds since the epoch, None for invalid input."""
    return float(said) if isinstance(said, (int, float)) and 0 <= said <= _LAST else None


def printable_text(said: object) -> str:
    """Return text that can be stored: surrogates become Python's escapes."""
    return str(said).encode("utf-8", "backslashreplace").decode()


def _parse_nested_record(said: Mapping[str, Any]) -> dict[str, Any]:
    return {"record": parse_record(said["record"])} if "record" in said else {}


def _validate(said: object, kind: type[Struct]) -> dict[str, Any]:
    plain = _sanitize(said, _DEEPEST) if isinstance(said, dict) else {}
    try:
        convert(plain if isinstance(said, dict) else said, kind)
    except ValidationError as error:
        raise MalformedMessageError(str(error)) from error
    return plain


def _sanitize(said: Any, deepest: int) -> Any:
    """Return a value that every JSON parser can read; values that are too large, too deep or no number become None."""
    if isinstance(said, str):
        return printable_text(said)
    if isinstance(said, (int, float)):
        return said if _is_representable(said) else None
    if isinstance(said, (dict, list)) and not deepest:
        return None
    if isinstance(said, dict):
        return {printable_text(name): _sanitize(what, deepest - 1) for name, what in said.items()}
    if isinstance(said, list):
        return [_sanitize(what, deepest - 1) for what in said]
    return said


def _is_representable(number: float) -> bool:
    return abs(number) <= _LARGEST if isinstance(number, int) else math.isfinite(number)


def hosts_of(cluster: Cluster, greetings: Mapping[str, Mapping[str, Any]]) -> tuple[Host, ...]:
    """Return the hosts in the job's order; an older agent reports fewer facts."""
    rows = []
    given_up = {one.host: one.given_up for one in cluster.handle.hosts} if cluster.handle else {}
    for host in named_hosts(cluster.key.instance_groups):
        said = greetings[host.name]
        isolation, preload = said.get("isolation", {}), said.get("preload", {})
        rows.append(
            Host(
                name=host.name,
                group=host.group,
                instance_type=host.instance_type,
                isolation=isolation.get("mode", ""),
                isolation_reason=isolation.get("reason", ""),
                given_up=given_up.get(host.name, ()),
                limits=limits_of(said),
                python_version=str(said.get("python", "")),
                agent_version=str(said.get("version", "")),
                preloaded=tuple(preload.get("loaded", ())),
                preload_failures=dict(preload.get("failed", {})),
                preload_costs=preload_costs(preload),
                machine=machine_of(said),
            )
        )
    return tuple(rows)


def has_no_place(job_id: str, greetings: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return True if a host is closed and lacks the job of its cluster ("" for none): no job can run there any more."""
    return any(said.get("closed") and job_id not in said.get("jobs", {}) for said in greetings.values())


def isolation_notes(hosts: Iterable[Host]) -> tuple[str, ...]:
    """Return the missing isolation of hosts, each part once, as notes for the job that runs there."""
    hosts = tuple(hosts)
    whose: dict[str, list[str]] = {}
    for host in hosts:
        for sentence in host.given_up:
            whose.setdefault(sentence, []).append(host.name)
    return tuple(
        f"Limitation: {sentence}" if len(names) == len(hosts) else f"Limitation on {', '.join(names)}: {sentence}"
        for sentence, names in whose.items()
    )
