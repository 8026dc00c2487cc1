"""Lists of jobs: filters, order, pages and their tokens; the filters of Search; which answers are held."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from calls import SDK_2, WAITER
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from jupyter_smx.aws.sagemaker.hold import FirstDescribes, hold_seconds
from jupyter_smx.aws.sagemaker.lists.job_lists import JobLists
from jupyter_smx.aws.sagemaker.lists.listing import JobRow, list_page, page_of, row_of
from jupyter_smx.aws.sagemaker.lists.search_expression import field_values, matches
from jupyter_smx.aws.sagemaker.settings import SageMakerSettings
from jupyter_smx.aws.service import AwsError, Caller
from jupyter_smx.kernel.sagemaker.describe import LocalContext, description
from jupyter_smx.model.records.job import Job, JobSummary
from jupyter_smx.model.records.summary import summary_of
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import DesiredState, SecondaryStatus
from jupyter_smx.policy.lifecycle.transitions import advance, set_terminal_goal

START = 1_700_000_000.0


def a_row(number: int, **members: Any) -> JobRow:
    at = START + number
    fields = {"id": f"{number:032x}", "name": f"job-{number}", "status": "Completed", "created_at": at}
    return JobRow(**{**fields, "modified_at": at + 5, **members})


def all_pages(rows: list[JobRow], request: dict[str, Any]) -> list[JobRow]:
    found, token = [], ""
    for _ in range(len(rows) + 1):
        page = list_page(rows, {**request, **({"NextToken": token} if token else {})})
        found += page.rows
        token = page.token
        if not token:
            return found
    raise AssertionError(f"The list does not end: {found}")


JOBS = st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.sampled_from(["Completed", "Failed"]))


@given(
    st.lists(JOBS, max_size=30),
    st.integers(1, 7),
    st.sampled_from(["Name", "CreationTime", "Status"]),
    st.sampled_from(["Ascending", "Descending"]),
)
def test_pages_have_each_row_once_and_in_order(
    made: list[tuple[str, int, str]], size: int, sort: str, order: str
) -> None:
    rows = [
        a_row(at, name=name, created_at=START + at, status=status, id=f"{number:032x}")
        for number, (name, at, status) in enumerate(made)
    ]
    found = all_pages(rows, {"MaxResults": size, "SortBy": sort, "SortOrder": order})
    assert sorted(row.id for row in found) == [row.id for row in rows]
    field = {"Name": "name", "CreationTime": "created_at", "Status": "status"}[sort]
    values = [getattr(row, field) for row in found]
    assert values == sorted(values, reverse=order == "Descending")


def test_ten_rows_are_a_page_and_a_job_that_is_created_meanwhile_moves_none() -> None:
    rows = [a_row(number) for number in range(15)]
    first = list_page(rows, {})
    assert [row.name for row in first.rows] == [f"job-{number}" for number in range(14, 4, -1)]
    second = list_page([*rows, a_row(99)], {"NextToken": first.token})
    assert [row.name for row in second.rows] == [f"job-{number}" for number in range(4, -1, -1)]
    assert second.token == ""


@pytest.mark.parametrize("token", ["nonsense", "bnVsbA==", "§"])
def test_a_token_of_another_list_is_refused(token: str) -> None:
    with pytest.raises(AwsError, match="nextToken"):
        list_page([], {"NextToken": token})
    other = list_page([a_row(1), a_row(2)], {"MaxResults": 1}).token
    with pytest.raises(AwsError, match="nextToken"):
        list_page([], {"NextToken": other, "SortBy": "Name"})


def test_filters_are_combined() -> None:
    rows = [a_row(1), a_row(2, status="Failed"), a_row(3, warm_pool="Available"), a_row(13)]
    moment = datetime.fromtimestamp(START, timezone.utc)
    for request, numbers in (
        ({"NameContains": "JOB-1"}, [13, 1]),
        ({"StatusEquals": "Failed"}, [2]),
        ({"WarmPoolStatusEquals": "Available"}, [3]),
        ({"CreationTimeAfter": moment + timedelta(seconds=1), "NameContains": "3"}, [13, 3]),
        ({"CreationTimeBefore": moment + timedelta(seconds=2)}, [1]),
        ({"LastModifiedTimeAfter": moment + timedelta(seconds=7)}, [13, 3]),
        ({"LastModifiedTimeBefore": moment + timedelta(seconds=7)}, [1]),
        ({"TrainingPlanArnEquals": "arn:aws:sagemaker:us-east-1:000000000000:training-plan/a"}, []),
    ):
        assert [row.name for row in list_page(rows, request).rows] == [f"job-{number}" for number in numbers], request


def test_the_order_of_search_is_that_of_the_last_change() -> None:
    rows = [a_row(1, modified_at=START + 9), a_row(2, modified_at=START + 3)]
    for descending, numbers in ((True, [1, 2]), (False, [2, 1])):
        found = page_of(rows, "LastModifiedTime", {}, descending=descending).rows
        assert [row.name for row in found] == [f"job-{number}" for number in numbers]


def test_a_list_has_the_last_change_that_describe_has() -> None:
    """A request to stop changes a job that has no hosts yet before its steps show it."""
    spec = JobSpec(kind="train", source="", base_name="x")
    waiting = Job(id="a" * 32, name="x", spec=spec, created_at=START, modified_at=START)
    running = advance(replace(waiting, started_at=START + 1), SecondaryStatus.TRAINING, START + 7)
    stopping = set_terminal_goal(waiting, DesiredState.STOP, START + 9)
    unchanged = replace(waiting, modified_at=0.0)
    for job, seconds in ((waiting, 0), (running, 7), (stopping, 9), (unchanged, 0)):
        row = row_of(summary_of(job))
        assert row.modified_at == START + seconds
        described = description(job, LocalContext("eu-west-1", Path("/jobs")))["LastModifiedTime"]
        newer = {"LastModifiedTimeAfter": described - timedelta(seconds=1)}
        assert list_page([row], newer).rows == (row,)
        assert list_page([row], {"LastModifiedTimeAfter": described}).rows == ()


def test_the_summary_of_an_earlier_version_has_the_time_of_its_last_step() -> None:
    spec = JobSpec(kind="train", source="", base_name="x")
    ended = Job(id="a" * 32, name="x", spec=spec, created_at=START, started_at=START + 1, ended_at=START + 5)
    for job, seconds in (
        (ended, 5),
        (replace(ended, ended_at=None), 1),
        (replace(ended, ended_at=None, started_at=None), 0),
    ):
        fields = msgspec.to_builtins(summary_of(job))
        del fields["modified_at"]
        assert row_of(msgspec.convert(fields, JobSummary)).modified_at == START + seconds


def a_filter(name: str, value: str, operator: str = "Equals") -> dict[str, str]:
    return {"Name": name, "Operator": operator, "Value": value}


def test_search_finds_jobs_by_name_status_and_time() -> None:
    values = field_values(a_row(1))
    name, status = a_filter("TrainingJobName", "job-1"), a_filter("TrainingJobStatus", "Failed")
    assert matches({"Filters": [name]}, values)
    assert not matches({"Filters": [name, status]}, values)
    assert matches({"Filters": [name, status], "Operator": "Or"}, values)
    assert matches({"SubExpressions": [{"Filters": [status]}, {"Filters": [name]}], "Operator": "Or"}, values)
    assert matches({"Filters": [a_filter("TrainingJobName", "a, job-1", "In")]}, values)
    assert matches({"Filters": [a_filter("CreationTime", "2023-11-14T22:13:20Z", "GreaterThan")]}, values)
    assert not matches({"Filters": [a_filter("CreationTime", "2023-11-14T22:13:20Z", "LessThan")]}, values)
    with pytest.raises(AwsError, match="'soon' is not a time"):
        matches({"Filters": [a_filter("CreationTime", "soon")]}, values)


async def test_a_search_that_is_not_answered_here_is_refused_with_the_way_back_to_aws() -> None:
    filters = ("Metrics.loss", "ModelArtifacts.S3ModelArtifacts", "Tags.team", "HyperParameters.depth")
    for wrong in (*({"Filters": [a_filter(name, "1")]} for name in filters), {"NestedFilters": [{}]}):
        with pytest.raises(AwsError, match=r"name, status and times only\. .*jupyter smx aws env --off"):
            matches(wrong, field_values(a_row(1)))
    nothing = cast("Any", None)
    with pytest.raises(AwsError, match=r"only training jobs are found here\. .*jupyter smx aws env --off"):
        await JobLists(nothing, nothing, nothing).search({"Resource": "Endpoint"}, a_caller(""))


def a_caller(user_agent: str, attempt: int = 1) -> Caller:
    return Caller("SMX", "us-east-1", user_agent, "one", attempt)


def test_a_waiter_is_held_and_an_sdk_once_after_the_create() -> None:
    settings = SageMakerSettings(data_folder=Path("/data"), hold=8.0)
    first = FirstDescribes()
    first.add("a")
    assert hold_seconds(a_caller(WAITER), "a", first, settings) == 45.0
    assert hold_seconds(a_caller("Boto3/1.44.8 m/Z,b"), "a", first, settings) == 0.0
    assert [hold_seconds(a_caller(SDK_2), "a", first, settings) for _ in range(2)] == [8.0, 0.0]
    assert hold_seconds(a_caller(SDK_2), "b", first, settings) == 0.0
    first.add("c")
    agent = "Boto3/1.44 m/D Airflow/3.3.2 AmPP/9.39.0 Caller/SageMakerTrainingOperator"
    assert hold_seconds(a_caller(agent), "c", first, settings) == 8.0


def test_a_call_that_a_client_repeats_is_not_held() -> None:
    settings = SageMakerSettings(data_folder=Path("/data"), hold=8.0)
    first = FirstDescribes()
    first.add("a")
    for agent in (WAITER, SDK_2):
        assert hold_seconds(a_caller(agent, attempt=2), "a", first, settings) == 0.0


def test_a_waiter_of_a_boto3_that_does_not_say_so_is_held_once() -> None:
    settings = SageMakerSettings(data_folder=Path("/data"), hold=8.0)
    first = FirstDescribes()
    first.add("a")
    first.add("b")
    old = "Boto3/1.34.162 md/Botocore#1.34.162 ua/2.0 os/linux#6 md/arch#x86_64 lang/python#3.11"
    assert [hold_seconds(a_caller(old), "a", first, settings) for _ in range(2)] == [8.0, 0.0]
    assert hold_seconds(a_caller(old.replace("1.34.162", "1.38.0")), "b", first, settings) == 0.0
