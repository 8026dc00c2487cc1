"""Events for the browser on Jupyter's event bus: hints with a number, never a source, a path or a secret."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_smx.model.records.event import Event

SCHEMA_ID = "https://events.jupyter.org/jupyter_smx/change/v1"
SCHEMA_PATH = Path(__file__).parent / "events" / "change.v1.yaml"


DELETED = "Deleted"
"""Status in events for a job whose record was deleted."""


class BusEvent(Struct, frozen=True, kw_only=True):
    """One event on the bus; ``at`` is seconds since the epoch."""

    seq: int
    at: float
    kind: Literal["job", "pool", "reset"]
    id: str = ""
    name: str = ""
    status: str = ""


def to_bus_events(events: Iterable[Event]) -> list[BusEvent]:
    """Return one event for each job and each pool among ``events``: the newest, in the order of their numbers.

    The bus validates each event for each subscriber, and each subscriber reads all changes anyway.
    """
    newest: dict[tuple[str, str], BusEvent] = {}
    for event in sorted(events, key=lambda event: event.seq):
        notice = _to_bus_event(event)
        if notice is not None:
            newest[notice.kind, notice.id] = notice
    return sorted(newest.values(), key=lambda notice: notice.seq)


def reset_event(seq: int, at: float) -> BusEvent:
    """Return the event that makes pages list everything again."""
    return BusEvent(seq=seq, at=at, kind="reset")


def _to_bus_event(event: Event) -> BusEvent | None:
    if event.job is not None:
        job = event.job
        return BusEvent(seq=event.seq, at=event.at, kind="job", id=job.id, name=job.name, status=job.status.value)
    if event.pool is not None:
        pool = event.pool
        return BusEvent(seq=event.seq, at=event.at, kind="pool", id=pool.id, name=pool.name, status=pool.state)
    if event.deleted:
        return BusEvent(seq=event.seq, at=event.at, kind="job", id=event.deleted, status=DELETED)
    return None
