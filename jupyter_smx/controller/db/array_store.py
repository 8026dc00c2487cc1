"""Store arrays beside the records of their tasks: a row for each array, and a row for each task."""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from jupyter_smx.controller.db import tables
from jupyter_smx.controller.db.connection import decode_readable, unreadable_error
from jupyter_smx.controller.db.tables import Statement
from jupyter_smx.model.errors import ResourceInUseError, ResourceNotFoundError, suggest_names
from jupyter_smx.model.records.job import JobSummary
from jupyter_smx.model.spec.array import Array, ArrayCounts, task_status
from jupyter_smx.model.status import SecondaryStatus

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from jupyter_smx.model.status import Status

_encode = msgspec.json.Encoder().encode
_decode_array = msgspec.json.Decoder(Array).decode
_decode_summary = msgspec.json.Decoder(JobSummary).decode

# A blob with JSON is an error for some versions of SQLite, and so is a text that is not valid.
_LAST_END = Statement(
    "SELECT max(CASE WHEN json_valid(CAST(jobs.summary AS TEXT))"
    " THEN json_extract(CAST(jobs.summary AS TEXT), '$.ended_at') END)"
    " FROM jobs JOIN tasks ON tasks.job = jobs.id WHERE tasks.array = :ref"
)
_ADD_ARRAY = Statement(
    "INSERT INTO arrays (id, name, base_name, created_at, record) VALUES (:id, :name, :base_name, :created_at, :record)"
)
_ADD_TASK = Statement("INSERT INTO tasks (job, array) VALUES (:job, :array)")
_BY_ID = Statement("SELECT record FROM arrays WHERE id = :ref")
_BY_NAME = Statement("SELECT record FROM arrays WHERE name = :ref")
_BY_BASE_NAME = Statement("SELECT record FROM arrays WHERE base_name = :ref ORDER BY created_at DESC, id DESC LIMIT 1")
_BY_PREFIX = Statement(
    "SELECT record FROM arrays WHERE id BETWEEN :ref AND :ref_end OR name BETWEEN :ref AND :ref_end"
    " ORDER BY created_at DESC, id DESC LIMIT 5"
)
_NEWEST = Statement("SELECT record FROM arrays ORDER BY created_at DESC, id DESC LIMIT :count")
_COUNTS = Statement(
    "SELECT jobs.state, count(*) FROM jobs JOIN tasks ON tasks.job = jobs.id WHERE tasks.array = :ref"
    " GROUP BY jobs.state"
)
_TASKS = Statement(
    "SELECT jobs.summary FROM jobs JOIN tasks ON tasks.job = jobs.id WHERE tasks.array = :ref ORDER BY tasks.job"
)
_SINGLE_JOBS = Statement(
    "SELECT summary FROM jobs WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.job = jobs.id)"
    " ORDER BY created_at DESC, id DESC LIMIT :count"
)
_FIRST_OF_STATUS = Statement(
    "SELECT jobs.summary FROM jobs JOIN tasks ON tasks.job = jobs.id"
    " WHERE tasks.array = :ref AND jobs.status = :status ORDER BY tasks.job LIMIT 1"
)


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
            _ADD_ARRAY.run(self._raw, **row, record=_encode(array))
        except sqlite3.IntegrityError as error:
            raise ResourceInUseError(
                f"name: another array has the name {array.name!r}.", field="name", value=array.name
            ) from error
        for job in jobs:
            _ADD_TASK.run(self._raw, job=job, array=array.id)

    def array(self, array_id: str) -> Array | None:
        """Return the array with exactly this id."""
        return next(iter(self._read(_BY_ID, ref=array_id)), None)

    def find(self, ref: str) -> Array:
        """Find an array by id, name, base name (the newest), or the beginning of an id or name.

        :raises ResourceNotFoundError: none or several.
        """
        for exact in (_BY_ID, _BY_NAME, _BY_BASE_NAME):
            for found in self._read(exact, ref=ref):
                return found
        near = self._read(_BY_PREFIX, **tables.prefix(ref)) if ref else []
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
        return self._read(_NEWEST, count=limit)

    def counts(self, array_id: str) -> ArrayCounts:
        """Count where the tasks of an array are."""
        found: Counter[str] = Counter()
        for state, count in self._rows(_COUNTS, ref=array_id):
            found[task_status(SecondaryStatus(state))] += count
        return ArrayCounts(**found)

    def tasks(self, array_id: str) -> list[JobSummary]:
        """Return the tasks of an array in their order, as of the last write of each, without deleted ones."""
        return decode_readable(_decode_summary, self._rows(_TASKS, ref=array_id))

    def last_end(self, array_id: str) -> float | None:
        """Return when the last task of an array ended; None if no task has ended."""
        [(end,)] = self._rows(_LAST_END, ref=array_id)
        return end if isinstance(end, (int, float)) else None

    def single_jobs(self, limit: int) -> list[JobSummary]:
        """Return the newest jobs that are no tasks."""
        return decode_readable(_decode_summary, self._rows(_SINGLE_JOBS, count=limit))

    def first_with_status(self, array_id: str, status: Status) -> JobSummary | None:
        """Return the first task of an array that has a status."""
        rows = self._rows(_FIRST_OF_STATUS, ref=array_id, status=status.value)
        return next(iter(decode_readable(_decode_summary, rows)), None)

    def _read(self, statement: Statement, **values: object) -> list[Array]:
        return decode_readable(_decode_array, self._rows(statement, **values))

    def _rows(self, statement: Statement, **values: object) -> list[Any]:
        try:
            rows: list[Any] = statement.run(self._raw, **values).fetchall()
        except sqlite3.Error as error:
            raise unreadable_error(self._path, error) from error
        return rows
