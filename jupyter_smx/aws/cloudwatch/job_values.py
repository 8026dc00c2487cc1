"""The values of a metric of a job or of one of its hosts, from what the controller recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jupyter_smx.aws.cloudwatch.statistics import MetricPoint
from jupyter_smx.model.records.log_stream import LOG_GROUPS, run_begins

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping

    from jupyter_smx.aws.job_records import JobRecords
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.results.usage import HostUsage

JOB_DIMENSION = "TrainingJobName"
HOST_DIMENSION = "Host"
TRAINING = LOG_GROUPS["train"]
NAMESPACES = {namespace: kind for kind, namespace in LOG_GROUPS.items()}
"""Kinds of jobs by namespace, which is named like the group of their logs."""


UNITS = {JOB_DIMENSION: "None", HOST_DIMENSION: "Percent"}


class MetricName(NamedTuple):
    """A metric of SageMaker: its namespace, its name, and its one dimension."""

    namespace: str
    name: str
    dimension: str
    owner: str
    """A job, or a host as ``JOB/algo-1``."""


class JobValues:
    """Reads values of jobs. Those that were read after the end of a job count at its end."""

    def __init__(self, records: JobRecords) -> None:
        self._records = records

    async def points(self, metric: MetricName) -> list[MetricPoint]:
        """Return the values of a metric in no order; none where there is no such job or metric."""
        job = await self._find(metric)
        if job is None:
            return []
        if metric.dimension == JOB_DIMENSION:
            found = [point async for point in self._printed(job, metric.name)]
        else:
            found = [point async for point in self._used(job, metric)]
        end = job.ended_at
        return found if end is None else [MetricPoint(min(point.at, end), point.value) for point in found]

    async def names(self, namespace: str, dimension: str, owner: str) -> list[MetricName]:
        """List the metrics of a job, or of a host, by name."""
        job = await self._find(MetricName(namespace, "", dimension, owner))
        if job is None:
            return []
        names: set[str] = set()
        for attempt in _begun_runs(job):
            if dimension == JOB_DIMENSION:
                names |= {series.name for series in (await self._records.metrics(job.id, attempt)).series}
            else:
                names |= {
                    name for host in await self._hosts(job, attempt, owner) for name in USAGE if any(_use(host, name))
                }
        return [MetricName(namespace, name, dimension, owner) for name in sorted(names)]

    async def _find(self, metric: MetricName) -> Job | None:
        is_known = metric.dimension == HOST_DIMENSION or (metric.dimension, metric.namespace) == (
            JOB_DIMENSION,
            TRAINING,
        )
        if metric.namespace not in NAMESPACES or not is_known:
            return None
        name = metric.owner.partition("/")[0] if metric.dimension == HOST_DIMENSION else metric.owner
        job = await self._records.find(name) if name else None
        return job if job is not None and job.spec.kind == NAMESPACES[metric.namespace] else None

    async def _printed(self, job: Job, name: str) -> AsyncIterator[MetricPoint]:
        for attempt in _begun_runs(job):
            for series in (await self._records.metrics(job.id, attempt)).series:
                if series.name == name:
                    for at, value in zip(series.at, series.values, strict=True):
                        if value is not None:
                            yield MetricPoint(at, value)

    async def _used(self, job: Job, metric: MetricName) -> AsyncIterator[MetricPoint]:
        for attempt in _begun_runs(job):
            for host in await self._hosts(job, attempt, metric.owner):
                for point in _use(host, metric.name):
                    yield point

    async def _hosts(self, job: Job, attempt: int, owner: str) -> list[HostUsage]:
        usage = await self._records.usage(job.id, attempt)
        return [host for host in usage.hosts if f"{job.name}/{host.host}" == owner]


def _begun_runs(job: Job) -> list[int]:
    return sorted(run_begins(job))


def _use(host: HostUsage, name: str) -> Iterator[MetricPoint]:
    column = USAGE.get(name)
    for at, value in zip(host.at, column(host), strict=False) if column is not None else ():
        if value is not None:
            yield MetricPoint(at, value)


def _share(values: Iterable[float | None], total: int | None) -> list[float | None]:
    return [None if value is None or not total else 100 * value / total for value in values]


def _sum_of_gpus(columns: list[list[float | None]]) -> list[float | None]:
    """Add the percents of all GPUs, each of which counts as 100 as on SageMaker."""
    return [
        sum(value for value in row if value is not None) if any(value is not None for value in row) else None
        for row in zip(*columns, strict=False)
    ]


USAGE: Mapping[str, Callable[[HostUsage], list[float | None]]] = {
    "CPUUtilization": lambda host: list(host.cpu_percent),
    "MemoryUtilization": lambda host: _share(host.memory_bytes, host.memory_total_bytes),
    "DiskUtilization": lambda host: _share(host.disk_bytes, host.disk_total_bytes),
    "GPUUtilization": lambda host: _sum_of_gpus([list(gpu.percent) for gpu in host.gpus]),
    "GPUMemoryUtilization": lambda host: _sum_of_gpus(
        [_share(gpu.memory_bytes, gpu.memory_total_bytes) for gpu in host.gpus]
    ),
}
"""SageMaker's metrics of a host, in percent: of one core, of its memory and disk, and of one GPU."""
