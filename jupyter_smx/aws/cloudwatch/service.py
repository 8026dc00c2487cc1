"""The operations of CloudWatch that read metrics."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from jupyter_smx.aws.cloudwatch.job_values import JOB_DIMENSION, TRAINING, UNITS, JobValues, MetricName
from jupyter_smx.aws.cloudwatch.statistics import by_period, is_period, statistic
from jupyter_smx.aws.job_records import JobNames
from jupyter_smx.aws.service import AwsError, Service

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_smx.aws.cloudwatch.statistics import Period
    from jupyter_smx.aws.job_records import JobRecords
    from jupyter_smx.aws.service import Caller

MAX_QUERIES = 500
MAX_JOBS = 10
"""Jobs whose metrics are on one page; a job has 40 at most."""
_SCAN_ORDERS = ("TimestampDescending", "TimestampAscending")


def make_service(records: JobRecords) -> Service:
    """Make the service ``cloudwatch`` from the records of jobs."""
    operations = MetricOperations(records)
    return Service(
        "cloudwatch",
        {
            "GetMetricStatistics": operations.get_statistics,
            "GetMetricData": operations.get_data,
            "ListMetrics": operations.list_metrics,
        },
    )


def invalid_value(message: str) -> AwsError:
    """Return the error of a member that cannot be used."""
    return AwsError("InvalidParameterValue", message)


class MetricOperations:
    """Operations by their members; each returns the members of its answer."""

    def __init__(self, records: JobRecords) -> None:
        self._values = JobValues(records)
        self._names = JobNames(records)

    async def get_statistics(self, members: dict[str, Any], _caller: Caller) -> dict[str, Any]:
        """Return statistics of one metric by period, oldest first."""
        names = [*(members.get("Statistics") or ()), *(members.get("ExtendedStatistics") or ())]
        if not names:
            raise AwsError(
                "MissingParameter",
                "At least one of the parameters Statistics and ExtendedStatistics must be specified.",
            )
        for name in names:
            _check_statistic(name)
        periods = await self._periods(members, members, members["Period"])
        return {"Label": members["MetricName"], "Datapoints": [_datapoint(members, period) for period in periods]}

    async def _periods(self, metric: Mapping[str, Any], times: Mapping[str, Any], seconds: int) -> list[Period]:
        begin, end = times["StartTime"], times["EndTime"]
        if begin >= end:
            raise invalid_value("The parameter StartTime must be less than the parameter EndTime.")
        if not is_period(seconds):
            raise invalid_value(
                f"The parameter Period must be 1, 5, 10, 20, 30 or a multiple of 60 seconds, not {seconds}."
            )
        dimensions = {each["Name"]: each["Value"] for each in metric.get("Dimensions") or ()}
        if len(dimensions) != 1:
            return []  # as for a metric that has no values
        ((dimension, owner),) = dimensions.items()
        if metric.get("Unit") not in (None, UNITS.get(dimension)):
            return []
        points = await self._values.points(MetricName(metric["Namespace"], metric["MetricName"], dimension, owner))
        return by_period(points, begin.timestamp(), end.timestamp(), seconds)

    async def get_data(self, members: dict[str, Any], _caller: Caller) -> dict[str, Any]:
        """Return one statistic of each of several metrics, the newest first by default."""
        queries = members["MetricDataQueries"]
        if len(queries) > MAX_QUERIES or len({query["Id"] for query in queries}) != len(queries):
            raise _validation_error(f"MetricDataQueries may have {MAX_QUERIES} queries, each with an Id of its own.")
        order = members.get("ScanBy") or _SCAN_ORDERS[0]
        if order not in _SCAN_ORDERS:
            raise _validation_error(f"ScanBy must be one of {', '.join(_SCAN_ORDERS)}, not {order}.")
        results = [
            await self._result(query, members, order) for query in queries if query.get("ReturnData") is not False
        ]
        return {"MetricDataResults": results, "Messages": []}

    async def _result(self, query: Mapping[str, Any], members: Mapping[str, Any], order: str) -> dict[str, Any]:
        selected = query.get("MetricStat")
        if query.get("Expression") is not None or selected is None:
            raise _validation_error(
                f"The query {query['Id']} must have a MetricStat: expressions are not computed here. "
                "Compute them from the values of their metrics."
            )
        metric, compute = dict(selected["Metric"]), _check_statistic(selected["Stat"])
        for name in ("Namespace", "MetricName"):
            if not metric.get(name):
                raise _validation_error(f"The query {query['Id']} must have a {name}.")
        periods = await self._periods(metric | {"Unit": selected.get("Unit")}, members, selected["Period"])
        if order == _SCAN_ORDERS[0]:
            periods.reverse()
        return {
            "Id": query["Id"],
            "Label": query.get("Label") or metric["MetricName"],
            "Timestamps": [_moment(period) for period in periods],
            "Values": [float(compute(period.values)) for period in periods],
            "StatusCode": "Complete",
        }

    async def list_metrics(self, members: dict[str, Any], _caller: Caller) -> dict[str, Any]:
        """List metrics by namespace, name and dimension; without a dimension, those that training jobs printed."""
        filters = {each["Name"]: each.get("Value") for each in members.get("Dimensions") or ()}
        namespace = members.get("Namespace")
        selected = next(iter(filters.items()), (JOB_DIMENSION, None)) if len(filters) <= 1 else None
        rows: Sequence[MetricName] = ()
        token = None
        if selected is not None and selected[1] is not None:
            names = await self._values.names(namespace or TRAINING, *selected)
            rows = [row for row in names if members.get("MetricName") in (None, row.name)]
        elif selected is not None and selected[0] == JOB_DIMENSION and namespace in (None, TRAINING):
            rows, token = await self._printed_by_jobs(members)
        return {"Metrics": [_metric_row(row) for row in rows]} | ({"NextToken": token} if token else {})

    async def _printed_by_jobs(self, members: Mapping[str, Any]) -> tuple[list[MetricName], str | None]:
        """List the printed metrics of the jobs after that of the token, and the token of the next page."""
        after = members.get("NextToken") or ""
        jobs = [job for job in await self._names.update() if job.kind == "train" and f"{job.name}/" > f"{after}/"]
        page = jobs[:MAX_JOBS]
        names = [row for job in page for row in await self._values.names(TRAINING, JOB_DIMENSION, job.name)]
        rows = [row for row in names if members.get("MetricName") in (None, row.name)]
        return rows, page[-1].name if len(jobs) > len(page) else None


def _validation_error(message: str) -> AwsError:
    return AwsError("ValidationError", message)


def _check_statistic(name: str) -> Any:
    compute = statistic(name)
    if compute is None:
        raise invalid_value(
            f"The statistic {name} is not computed here. Use SampleCount, Average, Sum, Minimum, Maximum or a "
            "percentile, as p90."
        )
    return compute


def _moment(period: Period) -> datetime:
    return datetime.fromtimestamp(period.begin, timezone.utc)


def _datapoint(members: Mapping[str, Any], period: Period) -> dict[str, Any]:
    found: dict[str, Any] = {"Timestamp": _moment(period), "Unit": UNITS[members["Dimensions"][0]["Name"]]}
    for name in members.get("Statistics") or ():
        found[name] = float(_check_statistic(name)(period.values))
    extended = members.get("ExtendedStatistics") or ()
    if extended:
        found["ExtendedStatistics"] = {name: float(_check_statistic(name)(period.values)) for name in extended}
    return found


def _metric_row(metric: MetricName) -> dict[str, Any]:
    return {
        "Namespace": metric.namespace,
        "MetricName": metric.name,
        "Dimensions": [{"Name": metric.dimension, "Value": metric.owner}],
    }
