"""One change of a job or a pool, with a sequence number, for the bus, the browser and ``changes?since=``."""

from __future__ import annotations

from msgspec import Struct

from jupyter_smx.model.records.job import JobSummary
from jupyter_smx.model.spec.image import Image


class PoolSummary(Struct, frozen=True, kw_only=True):
    """A pool in lists and events. ``expires_at`` is seconds since the epoch, None while in use.

    ``idle_since`` is when its last job left it, None while in use. ``price_per_hour`` is of all its hosts, in US
    dollars, None when a price is not known.
    """

    id: str
    name: str
    engine: str
    instances: str
    state: str
    created_at: float
    expires_at: float | None = None
    job: str = ""
    last_job: str = ""
    jobs_served: int = 0
    saved_seconds: float = 0.0
    idle_seconds: float = 0.0
    idle_cost: float | None = None
    idle_since: float | None = None
    price_per_hour: float | None = None
    isolation: str = ""
    preloaded: tuple[str, ...] = ()
    reason: str = ""
    image: Image | None = None
    """Image of its hosts; None if they have none."""
    machines: tuple[str, ...] = ()
    """Names of the other machines that its hosts are on, as far as its engine names them."""
    unreachable: str = ""
    """Why its hosts cannot be reached now, and what to do; "" while they can."""
    disk_wait: str = ""
    """Disk that it waits for because it cannot be written now; "" while it can. Events never have it."""
    allocation_ends_at: float | None = None
    """When the platform of its engine ends its hosts, seconds since the epoch; None if it does not end them."""
    nodes: int = 0
    """Hosts whose idle time counts as node hours, as in the fair share of a scheduler; 0 if it has a price."""


class Event(Struct, frozen=True, kw_only=True):
    """One change; exactly one of ``job``, ``pool`` and ``deleted`` is set. ``seq`` grows by one over the store's life.

    ``deleted`` is the id of a job whose record, log and files were deleted.
    """

    seq: int
    at: float
    job: JobSummary | None = None
    pool: PoolSummary | None = None
    deleted: str = ""


class Changes(Struct, frozen=True, kw_only=True):
    """Answer to ``changes?since=``: the events after it, the newest number, and whether older ones were dropped."""

    events: tuple[Event, ...]
    seq: int
    reset: bool = False
