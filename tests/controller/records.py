"""Records for tests: valid ones of everything, each field replaceable."""

from __future__ import annotations

from typing import Any

from jupyter_smx.model.name import job_name
from jupyter_smx.model.records.cluster import Cluster, ReuseKey
from jupyter_smx.model.records.event import Event
from jupyter_smx.model.records.job import Job, Transition
from jupyter_smx.model.records.summary import summary_of
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import SecondaryStatus


def an_id(number: int) -> str:
    """Give an id whose first digits already differ from those of other small numbers."""
    return f"{number * 2654435761 % 2**32:08x}{number:08x}"


def a_spec(**fields: Any) -> JobSpec:
    return JobSpec(**{"kind": "train", "source": "print('hello')\n", "base_name": "train"} | fields)


def a_job(number: int = 1, *, spec: JobSpec | None = None, **fields: Any) -> Job:
    spec = spec or a_spec()
    made: dict[str, Any] = {"id": an_id(number), "name": job_name(spec.base_name or "train", an_id(number))}
    return Job(**made | {"spec": spec, "created_at": float(number)} | fields)


def a_cluster(number: int = 1, **fields: Any) -> Cluster:
    key = ReuseKey(engine="local", user="me", role="", instance_groups=(InstanceGroup(),), python="/usr/bin/python3")
    return Cluster(**{"id": an_id(1000 + number), "key": key} | fields)


def a_step(message: str) -> Transition:
    return Transition(status=SecondaryStatus.PENDING, start_time=1.0, status_message=message)


def finished(number: int = 1, **fields: Any) -> Job:
    return a_job(number, state=SecondaryStatus.COMPLETED, ended_at=2.0, spec=a_spec(engine="fake"), **fields)


def news(job: Job) -> Event:
    return Event(seq=0, at=job.created_at, job=summary_of(job))
