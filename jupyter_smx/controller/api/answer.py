"""The answer of an action of the API: a body or a file, with status and headers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from jupyter_smx.controller.api.facade import ControllerFacade
    from jupyter_smx.model.records.job import Job

_BYTES = {"Content-Type": "application/octet-stream"}
_encode = msgspec.json.Encoder().encode


class Answer(msgspec.Struct, frozen=True):
    """An HTTP answer: ``body``, or the content of ``file`` where there is one."""

    body: bytes = b""
    status: int | None = None
    """None means the status of the route."""
    headers: dict[str, str] = {}
    file: Path | None = None
    skips_gaps: bool = False
    """True if holes in the file are left out, instead of sent as zeros."""


def json_answer(content: object, status: int | None = None) -> Answer:
    """Answer with JSON."""
    return Answer(_encode(content), status)


def bytes_answer(content: bytes, headers: dict[str, str] | None = None) -> Answer:
    """Answer with bytes."""
    return Answer(content, headers=_BYTES | (headers or {}))


def file_answer(path: Path, *, skips_gaps: bool = False) -> Answer:
    """Answer with the content of a file, which is sent in pieces."""
    return Answer(headers=_BYTES, file=path, skips_gaps=skips_gaps)


def job_answer(facade: ControllerFacade, job: Job, status: int | None = None) -> Answer:
    """Answer with a job: its record and what is derived from it now."""
    summary = facade.summary(job)
    derived = {name: getattr(summary, name) for name in ("status", "secondary_status", "queue_position", "cost")}
    derived |= {"summary": summary, "bill": facade.bill(job)}
    # One object of two halves: a record with its source is large, and is written once.
    return Answer(_encode(job)[:-1] + b"," + _encode(derived)[1:], status)
