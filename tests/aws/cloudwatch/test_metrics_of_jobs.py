"""Metrics of CloudWatch: statistics by period of what jobs printed and of what their hosts used."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from aws.recorded_jobs import BEGIN, CALLER, RecordedJobs
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from jupyter_smx.aws.cloudwatch.service import make_service
from jupyter_smx.aws.cloudwatch.statistics import MetricPoint, by_period, statistic
from jupyter_smx.aws.service import AwsError
from jupyter_smx.model.results.progress import MetricSeries
from jupyter_smx.model.results.usage import GpuUsage, HostUsage

if TYPE_CHECKING:
    from pathlib import Path

NAMESPACE = "/aws/sagemaker/TrainingJobs"
MINUTE = BEGIN // 60 * 60
"""The minute in which the job begins; it begins in its 20th second."""


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(MINUTE + seconds, timezone.utc)


def series(name: str, *points: tuple[float, float | None], host: str = "algo-1") -> MetricSeries:
    at, values = tuple(MINUTE + at for at, _ in points), tuple(value for _, value in points)
    return MetricSeries(
        name=name, host=host, steps=tuple(None for _ in points), at=at, values=values, count=len(points)
    )


@pytest.fixture
def jobs(tmp_path: Path) -> RecordedJobs:
    made = RecordedJobs(tmp_path)
    job = made.add("job", hosts=2)
    made.add("prep", kind="process")
    made.series[job.id, 1] = (
        series("loss", (21, 4.0), (30, 2.0), (59, None), (61, 1.0)),
        series("loss", (30, 3.0), host="algo-2"),
        series("accuracy", (61, 0.5)),
    )
    made.used[job.id, 1] = (
        HostUsage(
            host="algo-1",
            at=(MINUTE + 30.0, MINUTE + 61.0),
            cpu_percent=(50.0, None),
            memory_bytes=(25, 50),
            memory_total_bytes=100,
            gpus=(GpuUsage(id="0", name="A", percent=(10.0, 20.0)), GpuUsage(id="1", name="A", percent=(None, 30.0))),
        ),
    )
    return made


async def call(jobs: RecordedJobs, operation: str, **members: Any) -> dict[str, Any]:
    found: dict[str, Any] = await make_service(jobs).operations[operation](members, CALLER)
    return found


async def statistics(jobs: RecordedJobs, **members: Any) -> list[dict[str, Any]]:
    defaults: dict[str, Any] = {
        "Namespace": NAMESPACE,
        "MetricName": "loss",
        "Dimensions": [{"Name": "TrainingJobName", "Value": "job"}],
        "StartTime": moment(20),
        "EndTime": moment(600),
        "Period": 60,
        "Statistics": ["Average"],
    }
    answer = await call(jobs, "GetMetricStatistics", **defaults | members)
    rows: list[dict[str, Any]] = answer["Datapoints"]
    return rows


async def test_the_sdk_gets_a_mean_for_each_minute(jobs: RecordedJobs) -> None:
    assert await statistics(jobs) == [
        {"Timestamp": moment(0), "Average": 3.0, "Unit": "None"},
        {"Timestamp": moment(60), "Average": 1.0, "Unit": "None"},
    ]


async def test_all_statistics_are_of_the_values_of_all_hosts(jobs: RecordedJobs) -> None:
    names = ["SampleCount", "Sum", "Minimum", "Maximum"]
    first, _ = await statistics(jobs, Statistics=names)
    assert [first[name] for name in names] == [3.0, 9.0, 2.0, 4.0]
    (whole,) = await statistics(jobs, Statistics=None, ExtendedStatistics=["p50", "p100"], Period=3600)
    assert whole["ExtendedStatistics"] == {"p50": 2.5, "p100": 4.0}


async def test_a_period_counts_that_has_the_start_or_begins_before_the_end(jobs: RecordedJobs) -> None:
    assert len(await statistics(jobs, StartTime=moment(59), EndTime=moment(60))) == 1
    assert len(await statistics(jobs, StartTime=moment(60), EndTime=moment(61))) == 1
    assert await statistics(jobs, StartTime=moment(120)) == []
    assert [row["Average"] for row in await statistics(jobs, Period=10)] == [4.0, 2.5, 1.0]


async def test_a_value_that_was_read_after_the_end_counts_at_the_end(jobs: RecordedJobs) -> None:
    (identifier,) = [job.id for job in jobs.jobs.values() if job.name == "job"]
    jobs.jobs[identifier] = replace(jobs.jobs[identifier], ended_at=MINUTE + 59.5)
    (row,) = await statistics(jobs, EndTime=moment(59.5))
    assert row["Average"] == 2.5


async def test_the_values_of_all_runs_count(jobs: RecordedJobs) -> None:
    jobs.retry("job")
    (identifier,) = [job.id for job in jobs.jobs.values() if job.name == "job"]
    jobs.series[identifier, 2] = (series("loss", (130, 7.0)),)
    assert [row["Average"] for row in await statistics(jobs)] == [3.0, 1.0, 7.0]


@pytest.mark.parametrize(
    ("name", "values"),
    [("CPUUtilization", [50.0]), ("MemoryUtilization", [25.0, 50.0]), ("GPUUtilization", [10.0, 50.0]), ("loss", [])],
)
async def test_a_host_has_its_usage_in_percent(jobs: RecordedJobs, name: str, values: list[float]) -> None:
    rows = await statistics(jobs, MetricName=name, Dimensions=[{"Name": "Host", "Value": "job/algo-1"}])
    assert [(row["Average"], row["Unit"]) for row in rows] == [(value, "Percent") for value in values]


@pytest.mark.parametrize(
    "members",
    [
        {"Dimensions": [{"Name": "TrainingJobName", "Value": "jo"}]},
        {"Dimensions": [{"Name": "TrainingJobName", "Value": "prep"}]},
        {"Dimensions": [{"Name": "Host", "Value": "job/algo-2"}]},
        {"Dimensions": []},
        {"Namespace": "AWS/EC2"},
        {"MetricName": "los"},
        {"Unit": "Bytes"},
    ],
)
async def test_what_has_no_values_is_empty_and_no_error(jobs: RecordedJobs, members: dict[str, Any]) -> None:
    assert await statistics(jobs, **members) == []


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"Period": 61}, "InvalidParameterValue"),
        ({"Period": 0}, "InvalidParameterValue"),
        ({"EndTime": moment(20)}, "InvalidParameterValue"),
        ({"Statistics": ["Mean"]}, "InvalidParameterValue"),
        ({"Statistics": None}, "MissingParameter"),
        ({"Statistics": None, "ExtendedStatistics": ["p101"]}, "InvalidParameterValue"),
    ],
)
async def test_members_that_make_no_sense_are_refused(jobs: RecordedJobs, members: dict[str, Any], code: str) -> None:
    with pytest.raises(AwsError) as caught:
        await statistics(jobs, **members)
    assert caught.value.code == code


class TestListMetrics:
    async def names(self, jobs: RecordedJobs, **members: Any) -> list[tuple[str, str]]:
        found = []
        while True:
            answer = await call(jobs, "ListMetrics", **members)
            found += [(row["MetricName"], row["Dimensions"][0]["Value"]) for row in answer["Metrics"]]
            if "NextToken" not in answer:
                return found
            members["NextToken"] = answer["NextToken"]

    async def test_a_job_has_what_it_printed(self, jobs: RecordedJobs) -> None:
        of_job = [{"Name": "TrainingJobName", "Value": "job"}]
        assert await self.names(jobs, Namespace=NAMESPACE, Dimensions=of_job) == [("accuracy", "job"), ("loss", "job")]
        assert await self.names(jobs, Dimensions=of_job, MetricName="loss") == [("loss", "job")]

    async def test_a_host_has_what_was_measured(self, jobs: RecordedJobs) -> None:
        found = await self.names(jobs, Namespace=NAMESPACE, Dimensions=[{"Name": "Host", "Value": "job/algo-1"}])
        assert [name for name, _ in found] == ["CPUUtilization", "GPUUtilization", "MemoryUtilization"]

    async def test_without_a_job_those_of_all_training_jobs_come_in_pages(self, jobs: RecordedJobs) -> None:
        for number in range(25):
            job = jobs.add(f"many-{number:02d}")
            jobs.series[job.id, 1] = (series("loss", (30, 1.0)),)
        found = await self.names(jobs, Namespace=NAMESPACE, MetricName="loss")
        assert found == [("loss", name) for name in ["job", *(f"many-{number:02d}" for number in range(25))]]

    @pytest.mark.parametrize(
        "members",
        [
            {"Namespace": "AWS/EC2"},
            {"Dimensions": [{"Name": "TrainingJobName", "Value": "none"}]},
            {"Dimensions": [{"Name": "A", "Value": "b"}]},
            {"Dimensions": [{"Name": "Host", "Value": "job/algo-1"}, {"Name": "TrainingJobName", "Value": "job"}]},
        ],
    )
    async def test_what_does_not_exist_is_not_listed(self, jobs: RecordedJobs, members: dict[str, Any]) -> None:
        assert await self.names(jobs, **members) == []


class TestGetMetricData:
    def query(self, identifier: str = "a", **members: Any) -> dict[str, Any]:
        metric = {
            "Namespace": NAMESPACE,
            "MetricName": "loss",
            "Dimensions": [{"Name": "TrainingJobName", "Value": "job"}],
        }
        return {"Id": identifier, "MetricStat": {"Metric": metric, "Period": 60, "Stat": "Average"}} | members

    async def data(self, jobs: RecordedJobs, *queries: dict[str, Any], **members: Any) -> list[dict[str, Any]]:
        times = {"StartTime": moment(0), "EndTime": moment(0) + timedelta(hours=1)}
        answer = await call(jobs, "GetMetricData", MetricDataQueries=list(queries), **times | members)
        rows: list[dict[str, Any]] = answer["MetricDataResults"]
        return rows

    async def test_the_newest_value_comes_first_by_default(self, jobs: RecordedJobs) -> None:
        (row,) = await self.data(jobs, self.query())
        assert (row["Id"], row["Label"], row["StatusCode"]) == ("a", "loss", "Complete")
        assert (row["Timestamps"], row["Values"]) == ([moment(60), moment(0)], [1.0, 3.0])
        (row,) = await self.data(jobs, self.query(Label="L"), ScanBy="TimestampAscending")
        assert (row["Label"], row["Values"]) == ("L", [3.0, 1.0])

    async def test_each_query_has_a_result_unless_it_gives_none(self, jobs: RecordedJobs) -> None:
        rows = await self.data(jobs, self.query("a"), self.query("b", ReturnData=False), self.query("c"))
        assert [row["Id"] for row in rows] == ["a", "c"]

    async def test_what_is_not_computed_here_is_refused(self, jobs: RecordedJobs) -> None:
        for queries, members in (
            ([{"Id": "a", "Expression": "SUM(METRICS())"}], {}),
            ([self.query("a"), self.query("a")], {}),
            ([self.query("a")], {"ScanBy": "x"}),
        ):
            with pytest.raises(AwsError) as caught:
                await self.data(jobs, *queries, **members)
            assert caught.value.code == "ValidationError"


@given(st.lists(st.tuples(st.floats(0, 1000), st.integers(-9, 9))), st.sampled_from([1, 10, 60, 300]))
def test_each_value_counts_in_exactly_one_period(points: list[tuple[float, int]], seconds: int) -> None:
    found = by_period([MetricPoint(at, float(value)) for at, value in points], 0, 2000, seconds)
    assert sorted(value for period in found for value in period.values) == sorted(float(value) for _, value in points)
    assert [period.begin for period in found] == sorted({math.floor(at / seconds) * seconds for at, _ in points})
    median = statistic("p50")
    assert median is not None
    assert all(min(period.values) <= median(period.values) <= max(period.values) for period in found)
