"""Groups and streams of CloudWatch Logs as the clients of SageMaker ask for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from aws.recorded_jobs import BEGIN, CALLER, RecordedJobs

from jupyter_smx.aws.logs.service import make_service
from jupyter_smx.aws.service import AwsError

if TYPE_CHECKING:
    from pathlib import Path

GROUP = "/aws/sagemaker/TrainingJobs"


@pytest.fixture
def jobs(tmp_path: Path) -> RecordedJobs:
    made = RecordedJobs(tmp_path)
    made.add("job", hosts=3)
    made.add("job-2")
    made.add("prep", kind="process")
    made.add("silent")
    for host in ("algo-1", "algo-2", "algo-3"):
        made.write("job", b"x\n", 10, host=host)
    made.write("job", b"y\n", 90, host="algo-2")
    made.write("job-2", b"x\n", 20)
    made.write("prep", b"x\n", 30)
    return made


async def describe(jobs: RecordedJobs, **members: Any) -> dict[str, Any]:
    found: dict[str, Any] = await make_service(jobs).operations["DescribeLogStreams"](
        {"logGroupName": GROUP} | members, CALLER
    )
    return found


def names(answer: dict[str, Any]) -> list[str]:
    return [row["logStreamName"] for row in answer["logStreams"]]


JOB = [f"job/algo-{number}-{BEGIN}" for number in (1, 2, 3)]
OTHER = f"job-2/algo-1-{BEGIN + 100}"


async def test_a_job_has_a_stream_for_each_host(jobs: RecordedJobs) -> None:
    found = await describe(jobs, logStreamNamePrefix="job/", orderBy="LogStreamName", limit=3)
    assert names(found) == JOB
    assert "nextToken" not in found
    assert found["logStreams"][1] == {
        "logStreamName": JOB[1],
        "creationTime": BEGIN * 1000,
        "firstEventTimestamp": BEGIN * 1000 + 10,
        "lastEventTimestamp": BEGIN * 1000 + 90,
        "lastIngestionTime": BEGIN * 1000 + 90,
        "storedBytes": 4,
        "arn": f"arn:aws:logs:eu-west-1:000000000000:log-group:{GROUP}:log-stream:{JOB[1]}",
    }


async def test_a_prefix_without_a_slash_also_selects_longer_names(jobs: RecordedJobs) -> None:
    assert names(await describe(jobs, logStreamNamePrefix="job")) == [OTHER, *JOB]
    assert names(await describe(jobs, logStreamNamePrefix="job-")) == [OTHER]
    assert names(await describe(jobs, logStreamNamePrefix="job/algo-2")) == [JOB[1]]
    assert names(await describe(jobs, logStreamNamePrefix="nothing/")) == []


async def test_a_job_that_printed_nothing_has_no_stream_yet(jobs: RecordedJobs) -> None:
    assert names(await describe(jobs, logStreamNamePrefix="silent/")) == []
    jobs.write("silent", b"x", 50)
    assert len(names(await describe(jobs, logStreamNamePrefix="silent/"))) == 1


async def test_a_job_that_runs_again_keeps_its_streams(jobs: RecordedJobs) -> None:
    jobs.retry("job")
    jobs.write("job", b"z\n", 500)
    found = await describe(jobs, logStreamNamePrefix="job/", limit=3)
    assert (names(found), found["logStreams"][0]["lastEventTimestamp"]) == (JOB, BEGIN * 1000 + 500)


@pytest.mark.parametrize("order", ["LogStreamName", "LastEventTime"])
@pytest.mark.parametrize("descending", [False, True])
async def test_pages_give_each_stream_once(jobs: RecordedJobs, order: str, descending: bool) -> None:
    found: list[str] = []
    members: dict[str, Any] = {"orderBy": order, "descending": descending, "limit": 2}
    page = await describe(jobs, **members)
    found += names(page)
    while "nextToken" in page:
        page = await describe(jobs, **members, nextToken=page["nextToken"])
        found += names(page)
    by_name = [OTHER, *JOB] if order == "LogStreamName" else [*JOB, OTHER]
    assert found == (by_name[::-1] if descending else by_name)


async def test_the_loop_of_the_sdk_ends_for_a_job_with_more_hosts_than_a_page_has_rows(jobs: RecordedJobs) -> None:
    jobs.add("wide", hosts=60)
    for number in range(1, 61):
        jobs.write("wide", b"x\n", 10, host=f"algo-{number}")
    page = await describe(jobs, logStreamNamePrefix="wide/", limit=50)
    assert (len(names(page)), "nextToken" in page) == (60, False)


async def test_jobs_that_are_listed_are_not_read_again(jobs: RecordedJobs) -> None:
    service = make_service(jobs)
    for number in range(400):
        jobs.add(f"many-{number}")
    for _ in "ab":
        jobs.requests.clear()
        await service.operations["DescribeLogStreams"]({"logGroupName": GROUP, "logStreamNamePrefix": "job"}, CALLER)
    assert jobs.requests.count("summaries") == 1


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"limit": 51}, "InvalidParameterException"),
        ({"orderBy": "Size"}, "InvalidParameterException"),
        ({"orderBy": "LastEventTime", "logStreamNamePrefix": "job"}, "InvalidParameterException"),
        ({"nextToken": "gone/x"}, "InvalidParameterException"),
        ({"logGroupName": "/aws/lambda/x"}, "ResourceNotFoundException"),
    ],
)
async def test_members_that_make_no_sense_are_refused(jobs: RecordedJobs, members: dict[str, Any], code: str) -> None:
    with pytest.raises(AwsError) as caught:
        await describe(jobs, **members)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("members", "groups"),
    [
        ({}, ["/aws/sagemaker/ProcessingJobs", GROUP]),
        ({"logGroupNamePrefix": "/aws/sagemaker/T"}, [GROUP]),
        ({"logGroupNamePattern": "training"}, [GROUP]),
        ({"logGroupNamePrefix": "/aws/lambda"}, []),
        ({"limit": 1}, ["/aws/sagemaker/ProcessingJobs"]),
        ({"nextToken": "/aws/sagemaker/ProcessingJobs"}, [GROUP]),
    ],
)
async def test_groups_are_those_of_both_kinds_of_jobs(
    jobs: RecordedJobs, members: dict[str, Any], groups: list[str]
) -> None:
    found = await make_service(jobs).operations["DescribeLogGroups"](members, CALLER)
    assert [row["logGroupName"] for row in found["logGroups"]] == groups
    assert ("nextToken" in found) is ("limit" in members)
