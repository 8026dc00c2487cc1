"""Convert the changes of a job's state to the events that SageMaker sends to EventBridge.

They are valid input for a handler or a rule written for SageMaker: ``source`` is ``aws.sagemaker``. ``account`` is
``000000000000``, because there is no account of AWS. Times in ``detail`` are milliseconds since the epoch, of training
jobs as text and of processing jobs as numbers, as in the developer guide's examples.
"""

from __future__ import annotations

import uuid
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from jupyter_smx.kernel.client.autostart import retry_while_unavailable
from jupyter_smx.kernel.sagemaker.describe import description
from jupyter_smx.model.status import is_final, message_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_smx.kernel.client.client import Client
    from jupyter_smx.kernel.sagemaker.describe import LocalContext
    from jupyter_smx.model.records.job import Job, Transition

SOURCE = "aws.sagemaker"
_KIND_NAMES = {"train": "Training", "process": "Processing"}
_EVENT_NAMESPACE = uuid.UUID("6c2f1d5e-4f0a-5b7e-9a55-3d1f0c8e2b47")
"""Namespace of the events' ids."""
_POLL_SECONDS = 0.5
"""Seconds between two looks at a job that is followed."""


def events_of(job: Job, where: LocalContext) -> list[dict[str, Any]]:
    """Return an event for each step that the job took so far, in order. Pure: the same event has the same ``id``.

    The message of a step may change while it lasts; its own event has the default message of such a step instead, so
    that the event is the same at any time. The last message is in the events after it.
    """
    return [_event(job, number, where) for number in range(len(job.transitions))]


def follow_events(client: Client, job: Job, where: LocalContext) -> Iterator[dict[str, Any]]:
    """Yield the events so far, then each as it comes, until the job has its verdict. Blocks."""
    told = 0
    while True:
        yield from (_event(job, number, where) for number in range(told, len(job.transitions)))
        told = len(job.transitions)
        if is_final(job.state):
            return
        job = retry_while_unavailable(partial(client.wait, job.id, _POLL_SECONDS))


def _event(job: Job, number: int, where: LocalContext) -> dict[str, Any]:
    """Make the event of one transition: an envelope, and the job as it was then."""
    row = job.transitions[number]
    word = _KIND_NAMES[job.spec.kind]
    detail = _in_milliseconds(description(_job_at_transition(job, number), where), as_text=job.spec.kind == "train")
    arn = detail[f"{word}JobArn"]
    region, account = arn.split(":")[3:5]
    return {
        "version": "0",
        "id": str(uuid.uuid5(_EVENT_NAMESPACE, f"{job.id}/{number}/{row.status.value}")),
        "detail-type": f"SageMaker {word} Job State Change",
        "source": SOURCE,
        "account": account,
        "time": f"{datetime.fromtimestamp(int(row.start_time), timezone.utc):%Y-%m-%dT%H:%M:%SZ}",
        "region": region,
        "resources": [arn],
        "detail": detail | {"Tags": {}},
    }


def _job_at_transition(job: Job, number: int) -> Job:
    """Return the record as it was when a transition began, without later values."""
    rows = job.transitions[: number + 1]
    last = rows[-1]
    over = is_final(last.status)
    return replace(
        job,
        state=last.status,
        transitions=(*rows[:-1], last if over else _open_transition(last)),
        modified_at=last.start_time,
        started_at=job.started_at if job.started_at is not None and job.started_at <= last.start_time else None,
        ended_at=last.start_time if over else None,
        exit_message=job.exit_message if over else "",
        metrics=job.metrics if over else (),
        artifacts=job.artifacts if over else (),
        warm_pool=None,
    )


def _open_transition(row: Transition) -> Transition:
    """Return a step as it began, without its end and its later messages."""
    return replace(row, end_time=None, status_message=message_of(row.status))


def _in_milliseconds(value: Any, *, as_text: bool) -> Any:
    if isinstance(value, datetime):
        counted = round(value.timestamp() * 1000)
        return str(counted) if as_text else counted
    if isinstance(value, dict):
        return {name: _in_milliseconds(each, as_text=as_text) for name, each in value.items()}
    if isinstance(value, list):
        return [_in_milliseconds(each, as_text=as_text) for each in value]
    return value
