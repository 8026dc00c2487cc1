"""What a Lambda handler is given: one event for each step of a job, in EventBridge's envelope."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json
from msgspec.structs import replace
from walked_jobs import DONE, HERE, RUN, rich, walked, wish

from jupyter_smx.kernel.sagemaker.events import events_of, follow_events
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.policy.lifecycle.transitions import remark, remark_of, start_next_attempt

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell
    from scripted_controller import ScriptedController

    from jupyter_smx.model.records.job import Job

ENVELOPE = {"version", "id", "detail-type", "source", "account", "time", "region", "resources", "detail"}
OF_TRAINING = {
    "TrainingJobName", "TrainingJobArn", "TrainingJobStatus", "SecondaryStatus", "HyperParameters",
    "AlgorithmSpecification", "RoleArn", "InputDataConfig", "OutputDataConfig", "ResourceConfig", "StoppingCondition",
    "CreationTime", "TrainingStartTime", "TrainingEndTime", "LastModifiedTime", "SecondaryStatusTransitions", "Tags",
}  # fmt: skip
"""What the developer guide's example has, but ``VpcConfig``, which no job here has."""


def times(value: Any, name: str = "") -> list[Any]:
    if isinstance(value, dict):
        return [found for key, each in value.items() for found in times(each, key)]
    if isinstance(value, list):
        return [found for each in value for found in times(each)]
    return [value] if name.endswith(("Time", "Timestamp")) else []


def test_a_training_job_gives_the_guides_event_at_each_step() -> None:
    found = events_of(rich("train"), HERE)
    assert [event["detail"]["SecondaryStatus"] for event in found] == [
        "Pending", "Starting", "Downloading", "Training", "Uploading", "Completed",
    ]  # fmt: skip
    last = found[-1]
    assert set(last) == ENVELOPE
    assert last["version"] == "0"
    assert (last["source"], last["detail-type"]) == ("aws.sagemaker", "SageMaker Training Job State Change")
    assert (last["account"], last["region"], last["time"]) == ("000000000000", "us-west-2", "2001-09-09T01:46:45Z")
    assert last["resources"] == [last["detail"]["TrainingJobArn"]]
    assert set(last["detail"]) >= OF_TRAINING
    assert last["detail"]["TrainingEndTime"] == "1000000005000"
    assert last["detail"]["Tags"] == {}
    assert b"hunter2" not in json.encode(found)


def test_times_of_training_are_texts_and_those_of_processing_numbers() -> None:
    # As the two examples of the developer guide have them.
    of_training = times([event["detail"] for event in events_of(rich("train"), HERE)])
    of_processing = times([event["detail"] for event in events_of(rich("process"), HERE)])
    assert all(isinstance(time, str) and time.isdigit() and len(time) == 13 for time in of_training)
    assert all(type(time) is int and 1e12 <= time < 1e12 + 1e5 for time in of_processing)
    assert len(of_training) > len(of_processing) > 0


def test_an_event_knows_nothing_of_what_came_later() -> None:
    job = replace(walked(wish(), *RUN, SecondaryStatus.FAILED), failure_reason="AlgorithmError: x")
    *before, last = events_of(job, HERE)
    assert last["detail"]["FailureReason"] == "AlgorithmError: x"
    assert last["detail"]["TrainingEndTime"] == "1000000004000"
    for number, event in enumerate(before, 1):
        detail = event["detail"]
        assert not {"FailureReason", "TrainingEndTime", "FinalMetricDataList", "WarmPoolStatus"} & set(detail)
        assert detail["TrainingJobStatus"] == "InProgress"
        assert len(detail["SecondaryStatusTransitions"]) == number
        assert "EndTime" not in detail["SecondaryStatusTransitions"][-1]
        assert detail["LastModifiedTime"] == detail["SecondaryStatusTransitions"][-1]["StartTime"]
    assert ["TrainingStartTime" in event["detail"] for event in before] == [False, False, True, True]


STEPS = st.lists(st.sampled_from(SecondaryStatus), max_size=8)


@given(st.sampled_from(["train", "process"]), STEPS)
def test_the_same_event_is_the_same_whenever_it_is_asked_for(kind: str, steps: list[SecondaryStatus]) -> None:
    seen: dict[int, dict[str, Any]] = {}
    job = wish(kind)
    for number, step in enumerate([None, *steps]):
        job = job if step is None else walked(replace(job, created_at=1e9 + number), step)
        job = replace(job, created_at=1e9)
        for place, event in enumerate(events_of(job, HERE)):
            assert seen.setdefault(place, event) == event
    assert len({event["id"] for event in seen.values()}) == len(seen) == len(job.transitions)
    assert all(str(uuid.UUID(event["id"])) == event["id"] for event in seen.values())


def test_what_is_said_of_a_step_later_changes_no_event() -> None:
    job = walked(wish(), SecondaryStatus.STARTING)
    said = remark(job, "Its files cannot be copied to its hosts now; the controller will try again.")
    assert said != job
    assert events_of(said, HERE) == events_of(job, HERE)
    after = events_of(walked(said, SecondaryStatus.DOWNLOADING), HERE)
    rows = after[-1]["detail"]["SecondaryStatusTransitions"]
    assert rows[1]["StatusMessage"] == remark_of(said), "what was said last is in the events after it"


def test_events_of_other_jobs_and_of_another_attempt_are_others() -> None:
    job = walked(wish(), *RUN)
    again = start_next_attempt(job, "InternalServerError: x", (), 1e9 + 9)
    found = [event["id"] for event in events_of(again, HERE)]
    assert found[:-1] == [event["id"] for event in events_of(job, HERE)]
    other = [event["id"] for event in events_of(replace(again, id="b" * 12), HERE)]
    assert len({*found, *other}) == 2 * len(found)


class Told:
    """A controller that tells of a job what a test says, one record for each look."""

    def __init__(self, *records: Job) -> None:
        self.records = list(records)

    def wait(self, _ref: str, _seconds: float) -> Job:
        return self.records.pop(0)


def test_a_job_is_followed_to_its_end_and_nothing_is_told_twice() -> None:
    job = walked(wish(), *DONE)
    begun, over = walked(wish(), *DONE[:1]), job
    told: Any = Told(begun, begun, over)
    assert list(follow_events(told, wish(), HERE)) == events_of(job, HERE)
    assert told.records == []
    assert list(follow_events(told, over, HERE)) == events_of(job, HERE), "nobody is asked about a job that is over"


@pytest.mark.usefixtures("front_end")
def test_the_line_writes_one_object_for_each_event(
    shell: InteractiveShell, controller: ScriptedController, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shell.run_cell("%%train --as job\npass").success
    (job,) = controller.jobs.values()
    controller.change(job.id, state=SecondaryStatus.TRAINING, transitions=walked(wish(), *RUN).transitions)
    capsys.readouterr()
    assert shell.run_cell("%smx events").success
    begun = capsys.readouterr().out.splitlines()
    controller.end(job.id, transitions=walked(wish(), *DONE).transitions)
    assert shell.run_cell("%smx events -f job").success
    whole = capsys.readouterr().out.splitlines()
    assert whole[: len(begun) - 1] == begun[:-1]
    assert (len(begun), len(whole)) == (4, 6)
    assert [json.decode(line) for line in whole] == shell.user_ns["job"].events()
