"""Tables and all statements, built once, because to compile a statement takes longer than to run it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    bindparam,
    delete,
    func,
    literal_column,
    not_,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects.sqlite import Insert, dialect, insert

from jupyter_smx.model.records.cluster import ClusterState
from jupyter_smx.model.status import SecondaryStatus, Status, is_final, status_of

if TYPE_CHECKING:
    import sqlite3

    from sqlalchemy import ClauseElement

REVISIONS = ("0001", "0002", "0003", "0004")
"""Revisions of the tables, oldest first; the last one is that of this code."""

metadata = MetaData()

meta = Table(
    "meta",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("epoch", Integer, nullable=False),
    # By what clock the records are written; see clock.ClockOffset.
    Column("boot", String),
    Column("apart", Float),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", String, primary_key=True),
    Column("name", String, nullable=False, unique=True),
    Column("base_name", String, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("status", String, nullable=False),
    Column("state", String, nullable=False),
    Column("cluster", String, nullable=False),
    Column("lease", Integer, nullable=False),
    # The blobs stand last, so that a look at the columns before them reads no overflow page.
    Column("summary", LargeBinary, nullable=False),
    Column("record", LargeBinary, nullable=False),
    Index("jobs_newest", "created_at", "id"),
    Index("jobs_status_newest", "status", "created_at", "id"),
    Index("jobs_base_name", "base_name", "created_at"),
)

clusters = Table(
    "clusters",
    metadata,
    Column("id", String, primary_key=True),
    Column("state", String, nullable=False),
    Column("lease", Integer, nullable=False),
    Column("record", LargeBinary, nullable=False),
    Index("clusters_state", "state"),
)

events = Table(
    "events",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("at", Float, nullable=False),
    Column("body", LargeBinary, nullable=False),
    # A number is never given twice, not even when the newest event was dropped.
    sqlite_autoincrement=True,
)

runs = Table(
    "runs",
    metadata,
    Column("job", String, primary_key=True),
    Column("code", String, nullable=False),
    Column("wish", String, nullable=False),
    Column("instances", String, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("ended_at", Float, nullable=False),
    Index("runs_of_code", "code", "instances", "ended_at"),
)
"""Durations of completed jobs, by the hash of their code; separate from the records, so that no blob is read."""

_LIVE = sorted({status_of(step).value for step in SecondaryStatus if not is_final(step)})
_IS_LIVE = or_(*(jobs.c.status == live for live in _LIVE))
_LAST_CHARACTER = "\U0010ffff"
_DIALECT = dialect(paramstyle="named")


class Statement:
    """A statement, compiled once to SQL: compiling it at each use would take longer than the statement."""

    def __init__(self, element: ClauseElement) -> None:
        compiled = element.compile(dialect=_DIALECT)
        self._text = str(compiled)
        self._constants = {name: value for name, value in compiled.params.items() if value is not None}

    def run(self, on: sqlite3.Connection, **values: object) -> sqlite3.Cursor:
        """Run it on a connection, with a value for each of its parameters.

        :raises sqlite3.Error: an error of the driver.
        """
        return on.execute(self._text, self._constants | values)


def _upsert_job() -> Insert:
    row = insert(jobs).values({column.name: bindparam(column.name) for column in jobs.columns})
    # To write a column that never changes would write the pages of its index, too.
    changed = {name: row.excluded[name] for name in ("status", "state", "cluster", "lease", "summary", "record")}
    is_news = or_(_IS_LIVE, jobs.c.state == row.excluded.state)
    return row.on_conflict_do_update(index_elements=["id"], set_=changed, where=is_news)


def _upsert_cluster() -> Insert:
    row = insert(clusters).values({column.name: bindparam(column.name) for column in clusters.columns})
    changed = {name: row.excluded[name] for name in ("state", "lease", "record")}
    ended = ClusterState.TERMINATED.value
    is_news = (row.excluded.lease >= clusters.c.lease) & or_(clusters.c.state != ended, row.excluded.state == ended)
    return row.on_conflict_do_update(index_elements=["id"], set_=changed, where=is_news)


def starts_with(column: Column[Any]) -> Any:
    """Select the rows whose column begins with what ``prefix`` binds; an index answers it."""
    return column.between(bindparam("ref"), bindparam("ref_end"))


READ_EPOCH = Statement(select(meta.c.epoch))
BUMP_EPOCH = Statement(update(meta).values(epoch=meta.c.epoch + 1))
READ_CLOCK = Statement(select(meta.c.boot, meta.c.apart))
KEEP_CLOCK = Statement(update(meta).values(boot=bindparam("boot"), apart=bindparam("apart")))
UPSERT_JOB = Statement(_upsert_job())
UPSERT_CLUSTER = Statement(_upsert_cluster())
ADD_EVENT = Statement(insert(events).values(at=bindparam("at"), body=bindparam("body")))
DELETE_JOB = Statement(delete(jobs).where(jobs.c.id == bindparam("ref"), not_(_IS_LIVE)))
ADD_RUN = Statement(
    insert(runs).values({column.name: bindparam(column.name) for column in runs.columns}).on_conflict_do_nothing()
)
DELETE_RUN = Statement(delete(runs).where(runs.c.job == bindparam("ref")))
NEWEST_RUNS = Statement(
    select(runs.c.wish, runs.c.seconds)
    .where(runs.c.code == bindparam("code"), runs.c.instances == bindparam("instances"))
    .order_by(runs.c.ended_at.desc())
    .limit(bindparam("count"))
)
PRUNE_EVENTS = Statement(delete(events).where(events.c.seq <= bindparam("upto")))

# In the order of insertion: a row keeps its number, even if the clock was changed in between.
LIVE_JOBS = Statement(select(jobs.c.record).where(_IS_LIVE).order_by(literal_column("rowid")))
LIVE_CLUSTERS = Statement(
    select(clusters.c.record).where(clusters.c.state != ClusterState.TERMINATED.value).order_by(clusters.c.id)
)
CLUSTERS_WITHOUT_USAGE = Statement(
    select(clusters.c.record)
    .where(clusters.c.state == ClusterState.TERMINATED.value, func.instr(clusters.c.record, bindparam("mark")) > 0)
    .order_by(literal_column("rowid").desc())
    .limit(100)
)
JOB = Statement(select(jobs.c.record).where(jobs.c.id == bindparam("ref")))
JOB_EXISTS = Statement(select(jobs.c.id).where(jobs.c.id == bindparam("ref")))
CLUSTER = Statement(select(clusters.c.record).where(clusters.c.id == bindparam("ref")))
JOB_BY_NAME = Statement(select(jobs.c.record).where(jobs.c.name == bindparam("ref")))
NEWEST_OF_BASE_NAME = Statement(
    select(jobs.c.record)
    .where(jobs.c.base_name == bindparam("ref"))
    .order_by(jobs.c.created_at.desc(), jobs.c.id.desc())
    .limit(1)
)
PREVIOUS_RUN = Statement(
    select(jobs.c.id)
    .where(
        jobs.c.base_name == bindparam("base_name"),
        tuple_(jobs.c.created_at, jobs.c.id) < tuple_(bindparam("created_at"), bindparam("ref")),
    )
    .order_by(jobs.c.created_at.desc(), jobs.c.id.desc())
    .limit(1)
)
JOBS_BY_PREFIX = Statement(
    select(jobs.c.name, jobs.c.record)
    .where(or_(starts_with(jobs.c.id), starts_with(jobs.c.name)))
    .order_by(jobs.c.created_at.desc(), jobs.c.id.desc())
    .limit(5)
)
NEWEST_NAMES = Statement(select(jobs.c.name, jobs.c.base_name).order_by(jobs.c.created_at.desc()).limit(500))

EVENTS_SINCE = Statement(
    select(events.c.seq, events.c.body)
    .where(events.c.seq > bindparam("since"))
    .order_by(events.c.seq)
    .limit(bindparam("count"))
)
OLDEST_EVENT = Statement(select(func.min(events.c.seq)))


def prefix(ref: str) -> dict[str, str]:
    """Return the bounds of all strings that start with ``ref``, for a search by an index."""
    return {"ref": ref, "ref_end": ref + _LAST_CHARACTER}


@functools.cache
def page(status: Status | None, *, after_start: bool) -> Statement:
    """Return the query for one page of summaries of jobs, newest first.

    ``after_start`` is True for all pages but the first.
    """
    query = select(jobs.c.summary).order_by(jobs.c.created_at.desc(), jobs.c.id.desc()).limit(bindparam("count"))
    if after_start:
        mark = select(jobs.c.created_at, jobs.c.id).where(jobs.c.id == bindparam("before")).subquery()
        query = query.where(tuple_(jobs.c.created_at, jobs.c.id) < select(mark).scalar_subquery())
    if status is not None:
        query = query.where(jobs.c.status == status.value)
    return Statement(query)
