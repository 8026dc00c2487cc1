"""Names of log streams: SageMaker's form, one for each host of each run, and none for what did not begin."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_smx.model.records.job import Attempt, Job, Transition
from jupyter_smx.model.records.log_stream import streams_of
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import SecondaryStatus

TWO = (InstanceGroup(name="data"), InstanceGroup(name="dnn", instance_count=2))
FIRST = Attempt(number=1, cluster="c", reason="InternalServerError", ended_at=150.0, started_at=100.9)
UNBEGUN = Attempt(number=1, cluster="c", reason="InternalServerError", ended_at=150.0)


def rows(*names: str) -> tuple[Transition, ...]:
    return tuple(Transition(status=SecondaryStatus(name), start_time=200.5 + at) for at, name in enumerate(names))


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({}, []),
        ({"transitions": rows("Pending", "Starting")}, []),
        ({"transitions": rows("Starting", "Training", "Completed")}, ["fit-1/algo-1-201"]),
        ({"transitions": rows("Starting", "Downloading", "Training")}, ["fit-1/algo-1-201"]),
        ({"started_at": 300.0}, ["fit-1/algo-1-300"]),
        ({"attempt": 2, "attempts": (FIRST,), "transitions": rows("Training", "Starting")}, ["fit-1/algo-1-100"]),
        (
            {"attempt": 2, "attempts": (FIRST,), "transitions": rows("Training", "Starting", "Training")},
            ["fit-1/algo-1-100", "fit-1/algo-1-202"],
        ),
        ({"attempt": 2, "attempts": (UNBEGUN,), "transitions": rows("Starting", "Training")}, ["fit-1/algo-1-201"]),
    ],
)
def test_each_run_of_each_host_has_a_stream_with_the_second_in_which_it_began(
    fields: dict[str, Any], names: list[str]
) -> None:
    spec = JobSpec(kind="train", source="")
    assert [stream.name for stream in streams_of(Job(id="a", name="fit-1", spec=spec, **fields))] == names


@pytest.mark.parametrize(
    ("kind", "group"), [("train", "/aws/sagemaker/TrainingJobs"), ("process", "/aws/sagemaker/ProcessingJobs")]
)
def test_streams_of_several_groups_say_theirs_beside_the_name(kind: Any, group: str) -> None:
    job = Job(id="a", name="fit-1", spec=JobSpec(kind=kind, source="", instance_groups=TWO), started_at=7.0)
    assert [(one.name, one.host, one.instance_group, one.group) for one in streams_of(job)] == [
        ("fit-1/algo-1-7", "algo-1", "data", group),
        ("fit-1/algo-2-7", "algo-2", "dnn", group),
        ("fit-1/algo-3-7", "algo-3", "dnn", group),
    ]
