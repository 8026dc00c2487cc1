"""Store arrays beside the records of their tasks: a row for each array, and a row for each task."""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import (
    Column,
    Float,
    Index,
    LargeBinary,
    String,
    Table,
    bindparam,
    case,
    cast,
    exists,
    func,
    insert,
    or_,
    select,
)

from jupyter_smx.controller.db import tables
from jupyter_smx.controller.db.connection import decode_readable, unreadable_error
from jupyter_smx.model.errors import ResourceInUseError, ResourceNotFoundError, suggest_names
from jupyter_smx.model.records.job import JobSummary
from jupyter_smx.model.spec.array import Array, ArrayCounts, task_status
from jupyter_smx.model.status import SecondaryStatus

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from jupyter_smx.controller.db.tables import Statement
    from jupyter_smx.model.status import Status

_encode = msgspec.json.Encoder().encode
_decode_array = msgspec.json.Decoder(Array).decode
_decode_summary = msgspec.json.Decoder(JobSummary).decode


arrays = Table(
    "arrays",
    tables.metadata,
    Column("id", String, primary_key=True),
    Column("name", String, nullable=False, unique=True),
    Column("base_name", String, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("record", LargeBinary, nullable=False),
    Index("arrays_newest", "created_at", "id"),
    Index("arrays_base_name", "base_name", "created_at"),
)

tasks = Table(
    "tasks",
    tables.metadata,
    Column("job", String, primary_key=True),
    Column("array", String, nullable=False),
    Index("tasks_of_array", "array", "job"),
)

_newest = (arrays.c.created_at.desc(), arrays.c.id.desc())
_of_array = select(tables.jobs.c.summary).join(tasks, tasks.c.job == tables.jobs.c.id)
# A blob with JSON is an error for some versions of SQLite, and so is a text that is not valid.
_summary_text = cast(tables.jobs.c.summary, String)
_end = case((func.json_valid(_summary_text) == 1, func.json_extract(_summary_text, "$.ended_at")))


def _statements() -> dict[str, Statement]:
    ref: Any = bindparam("ref")
    whole = tables.Statement
    return {
        "add_array": whole(insert(arrays).values({column.name: bindparam(column.name) for column in arrays.columns})),
        "add_task": whole(insert(tasks).values(job=bindparam("job"), array=bindparam("array"))),
        "by_id": whole(select(arrays.c.record).where(arrays.c.id == ref)),
        "by_name": whole(select(arrays.c.record).where(arrays.c.name == ref)),
        "by_base_name": whole(select(arrays.c.record).where(arrays.c.base_name == ref).order_by(*_newest).limit(1)),
        "by_prefix": whole(
            select(arrays.c.record)
            .where(or_(tables.starts_with(arrays.c.id), tables.starts_with(arrays.c.name)))
            .order_by(*_newest)
            .limit(5)
        ),
        "newest": whole(select(arrays.c.record).order_by(*_newest).limit(bindparam("count"))),
        "counts": whole(
            select(tables.jobs.c.state, func.count())
            .join(tasks, tasks.c.job == tables.jobs.c.id)
            .where(tasks.c.array == ref)
            .group_by(tables.jobs.c.state)
        ),
        "last_end": whole(
            select(func.max(_end)).join(tasks, tasks.c.job == tables.jobs.c.id).where(tasks.c.array == ref)
        ),
        "tasks": whole(_of_array.where(tasks.c.array == ref).order_by(tasks.c.job)),
        "singles": whole(
            select(tables.jobs.c.summary)
            .where(~exists().where(tasks.c.job == tables.jobs.c.id))
            .order_by(tables.jobs.c.created_at.desc(), tables.jobs.c.id.desc())
            .limit(bindparam("count"))
        ),
        "of_status": whole(
            _of_array.where(tasks.c.array == ref, tables.jobs.c.status == bindparam("status"))
            .order_by(tasks.c.job)
            .limit(1)
        ),
    }


_STATEMENTS = _statements()


class ArrayStore:
    """Reads and writes arrays on the store's connection; writing methods are called inside the store's transaction."""

    def __init__(self, path: Path, raw: sqlite3.Connection) -> None:
        self._path = path
        self._raw = raw

    def add(self, array: Array, jobs: Iterable[str]) -> None:
        """Write a new array and whose the jobs are.

        :raises ResourceInUseError: another array has its name.
        """
        row = {"id": array.id, "name": array.name, "base_name": array.base_name, "created_at": array.created_at}
        try:
            _STATEMENTS["add_array"].run(self._raw, **row, record=_encode(array))
        except sqlite3.IntegrityError as error:
            raise ResourceInUseError(
                f"name: another array has the name {array.name!r}.", field="name", value=array.name
            ) from error
        for job in jobs:
            _STATEMENTS["add_task"].run(self._raw, job=job, array=array.id)

    def array(self, array_id: str) -> Array | None:
        """Return the array with exactly this id."""
        return next(iter(self._read("by_id", ref=array_id)), None)

    def find(self, ref: str) -> Array:
        """Find an array by id, name, base name (the newest), or the beginning of an id or name.

        :raises ResourceNotFoundError: none or several.
        """
        for exact in ("by_id", "by_name", "by_base_name"):
            for found in self._read(exact, ref=ref):
                return found
        near = self._read("by_prefix", **tables.prefix(ref)) if ref else []
        if len(near) == 1:
            return near[0]
        names = [array.name for array in near or self.newest(500)]
        raise ResourceNotFoundError(
            f"{ref!r} could be {', '.join(names)}." if near else f"There is no array {ref!r}.",
            field="array",
            value=ref,
            cure="Use a longer part of the name, or the id." if near else suggest_names(ref, names),
        )

    def newest(self, limit: int) -> list[Array]:
        """Return the newest arrays."""
        return self._read("newest", count=limit)

    def counts(self, array_id: str) -> ArrayCounts:
        """Count where the tasks of an array are."""
        found: Counter[str] = Counter()
        for state, count in self._rows("counts", ref=array_id):
            found[task_status(SecondaryStatus(state))] += count
        return ArrayCounts(**found)

    def tasks(self, array_id: str) -> list[JobSummary]:
        """Return the tasks of an array in their order, as of the last write of each, without deleted ones."""
        return decode_readable(_decode_summary, self._rows("tasks", ref=array_id))

    def last_end(self, array_id: str) -> float | None:
        """Return when the last task of an array ended; None if no task has ended."""
        [(end,)] = self._rows("last_end", ref=array_id)
        return end if isinstance(end, (int, float)) else None

    def single_jobs(self, limit: int) -> list[JobSummary]:
        """Return the newest jobs that are no tasks."""
        return decode_readable(_decode_summary, self._rows("singles", count=limit))

    def first_with_status(self, array_id: str, status: Status) -> JobSummary | None:
        """Return the first task of an array that has a status."""
        rows = self._rows("of_status", ref=array_id, status=status.value)
        return next(iter(decode_readable(_decode_summary, rows)), None)

    def _read(self, statement: str, **values: object) -> list[Array]:
        return decode_readable(_decode_array, self._rows(statement, **values))

    def _rows(self, statement: str, **values: object) -> list[Any]:
        try:
            rows: list[Any] = _STATEMENTS[statement].run(self._raw, **values).fetchall()
        except sqlite3.Error as error:
            raise unreadable_error(self._path, error) from error
        return rows
