"""Tables of new records, and all statements but those of arrays, as SQL text.

Only a migration imports SQLAlchemy and Alembic: the two took a third of a controller's start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

REVISIONS = ("0001", "0002", "0003", "0004")
"""Revisions of the tables, oldest first; the last one is that of this code."""

SCHEMA = """
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
-- By what clock the records are written (boot, apart): see clock.ClockOffset.
CREATE TABLE meta (
    id INTEGER NOT NULL PRIMARY KEY,
    epoch INTEGER NOT NULL,
    boot VARCHAR,
    apart FLOAT
);
INSERT INTO meta (id, epoch) VALUES (1, 0);
-- The blobs stand last, so that a look at the columns before them reads no overflow page.
CREATE TABLE jobs (
    id VARCHAR NOT NULL PRIMARY KEY,
    name VARCHAR NOT NULL UNIQUE,
    base_name VARCHAR NOT NULL,
    created_at FLOAT NOT NULL,
    status VARCHAR NOT NULL,
    state VARCHAR NOT NULL,
    cluster VARCHAR NOT NULL,
    lease INTEGER NOT NULL,
    summary BLOB NOT NULL,
    record BLOB NOT NULL
);
CREATE INDEX jobs_newest ON jobs (created_at, id);
CREATE INDEX jobs_status_newest ON jobs (status, created_at, id);
CREATE INDEX jobs_base_name ON jobs (base_name, created_at);
CREATE TABLE clusters (
    id VARCHAR NOT NULL PRIMARY KEY,
    state VARCHAR NOT NULL,
    lease INTEGER NOT NULL,
    record BLOB NOT NULL
);
CREATE INDEX clusters_state ON clusters (state);
-- A number is never given twice, not even when the newest event was dropped.
CREATE TABLE events (
    seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    at FLOAT NOT NULL,
    body BLOB NOT NULL
);
-- Durations of completed jobs, by the hash of their code, separate from the records, so that no blob is read.
CREATE TABLE runs (
    job VARCHAR NOT NULL PRIMARY KEY,
    code VARCHAR NOT NULL,
    wish VARCHAR NOT NULL,
    instances VARCHAR NOT NULL,
    seconds FLOAT NOT NULL,
    ended_at FLOAT NOT NULL
);
CREATE INDEX runs_of_code ON runs (code, instances, ended_at);
CREATE TABLE arrays (
    id VARCHAR NOT NULL PRIMARY KEY,
    name VARCHAR NOT NULL UNIQUE,
    base_name VARCHAR NOT NULL,
    created_at FLOAT NOT NULL,
    record BLOB NOT NULL
);
CREATE INDEX arrays_newest ON arrays (created_at, id);
CREATE INDEX arrays_base_name ON arrays (base_name, created_at);
CREATE TABLE tasks (
    job VARCHAR NOT NULL PRIMARY KEY,
    array VARCHAR NOT NULL
);
CREATE INDEX tasks_of_array ON tasks (array, job)
"""
"""All tables of an empty file, as the migrations together make them, but without the version."""

_LAST_CHARACTER = "\U0010ffff"


class Statement:
    """A statement with named parameters."""

    def __init__(self, text: str) -> None:
        self.text = text

    def run(self, on: sqlite3.Connection, **values: object) -> sqlite3.Cursor:
        """Run it on a connection, with a value for each of its parameters; values without one are ignored.

        :raises sqlite3.Error: an error of the driver.
        """
        return on.execute(self.text, values)


WRITE_VERSION = Statement("INSERT INTO alembic_version (version_num) VALUES (:version)")
READ_EPOCH = Statement("SELECT epoch FROM meta")
BUMP_EPOCH = Statement("UPDATE meta SET epoch = epoch + 1")
READ_CLOCK = Statement("SELECT boot, apart FROM meta")
KEEP_CLOCK = Statement("UPDATE meta SET boot = :boot, apart = :apart")
# A job is live in two statuses: a test compares those of all statements here with model.status. To write a column that
# never changes would write the pages of its index, too.
UPSERT_JOB = Statement(
    "INSERT INTO jobs (id, name, base_name, created_at, status, state, cluster, lease, summary, record)"
    " VALUES (:id, :name, :base_name, :created_at, :status, :state, :cluster, :lease, :summary, :record)"
    " ON CONFLICT (id) DO UPDATE SET status = excluded.status, state = excluded.state, cluster = excluded.cluster,"
    " lease = excluded.lease, summary = excluded.summary, record = excluded.record"
    " WHERE jobs.status IN ('InProgress', 'Stopping') OR jobs.state = excluded.state"
)
UPSERT_CLUSTER = Statement(
    "INSERT INTO clusters (id, state, lease, record) VALUES (:id, :state, :lease, :record)"
    " ON CONFLICT (id) DO UPDATE SET state = excluded.state, lease = excluded.lease, record = excluded.record"
    " WHERE excluded.lease >= clusters.lease AND (clusters.state != 'Terminated' OR excluded.state = 'Terminated')"
)
ADD_EVENT = Statement("INSERT INTO events (at, body) VALUES (:at, :body)")
DELETE_JOB = Statement("DELETE FROM jobs WHERE id = :ref AND status NOT IN ('InProgress', 'Stopping')")
ADD_RUN = Statement(
    "INSERT INTO runs (job, code, wish, instances, seconds, ended_at)"
    " VALUES (:job, :code, :wish, :instances, :seconds, :ended_at) ON CONFLICT DO NOTHING"
)
DELETE_RUN = Statement("DELETE FROM runs WHERE job = :ref")
NEWEST_RUNS = Statement(
    "SELECT wish, seconds FROM runs WHERE code = :code AND instances = :instances ORDER BY ended_at DESC LIMIT :count"
)
PRUNE_EVENTS = Statement("DELETE FROM events WHERE seq <= :upto")

# In the order of insertion: a row keeps its number, even if the clock was changed in between.
LIVE_JOBS = Statement("SELECT record FROM jobs WHERE status IN ('InProgress', 'Stopping') ORDER BY rowid")
LIVE_CLUSTERS = Statement("SELECT record FROM clusters WHERE state != 'Terminated' ORDER BY id")
CLUSTERS_WITHOUT_USAGE = Statement(
    "SELECT record FROM clusters WHERE state = 'Terminated' AND instr(record, :mark) > 0 ORDER BY rowid DESC LIMIT 100"
)
JOB = Statement("SELECT record FROM jobs WHERE id = :ref")
JOB_EXISTS = Statement("SELECT id FROM jobs WHERE id = :ref")
CLUSTER = Statement("SELECT record FROM clusters WHERE id = :ref")
JOB_BY_NAME = Statement("SELECT record FROM jobs WHERE name = :ref")
NEWEST_OF_BASE_NAME = Statement(
    "SELECT record FROM jobs WHERE base_name = :ref ORDER BY created_at DESC, id DESC LIMIT 1"
)
PREVIOUS_RUN = Statement(
    "SELECT id FROM jobs WHERE base_name = :base_name AND (created_at, id) < (:created_at, :ref)"
    " ORDER BY created_at DESC, id DESC LIMIT 1"
)
JOBS_BY_PREFIX = Statement(
    "SELECT name, record FROM jobs WHERE id BETWEEN :ref AND :ref_end OR name BETWEEN :ref AND :ref_end"
    " ORDER BY created_at DESC, id DESC LIMIT 5"
)
NEWEST_NAMES = Statement("SELECT name, base_name FROM jobs ORDER BY created_at DESC LIMIT 500")

EVENTS_SINCE = Statement("SELECT seq, body FROM events WHERE seq > :since ORDER BY seq LIMIT :count")
OLDEST_EVENT = Statement("SELECT min(seq) FROM events")

FIRST_PAGE = Statement("SELECT summary FROM jobs ORDER BY created_at DESC, id DESC LIMIT :count")
"""Summaries of jobs, newest first."""
NEXT_PAGE = Statement(
    "SELECT summary FROM jobs WHERE (created_at, id) < (SELECT created_at, id FROM jobs WHERE id = :before)"
    " ORDER BY created_at DESC, id DESC LIMIT :count"
)
"""Those before the job ``before``."""
FIRST_PAGE_OF_STATUS = Statement(
    "SELECT summary FROM jobs WHERE status = :status ORDER BY created_at DESC, id DESC LIMIT :count"
)
NEXT_PAGE_OF_STATUS = Statement(
    "SELECT summary FROM jobs WHERE status = :status"
    " AND (created_at, id) < (SELECT created_at, id FROM jobs WHERE id = :before)"
    " ORDER BY created_at DESC, id DESC LIMIT :count"
)


def prefix(ref: str) -> dict[str, str]:
    """Return the bounds of all strings that start with ``ref``, for a search by an index."""
    return {"ref": ref, "ref_end": ref + _LAST_CHARACTER}
