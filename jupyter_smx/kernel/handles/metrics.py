"""``job.metrics``: the latest values of a job's metrics by name, with their histories."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from jupyter_smx.model.errors import suggest_names
from jupyter_smx.model.text import format_number

if TYPE_CHECKING:
    from jupyter_smx.model.results.progress import JobMetrics, MetricSeries


class Point(NamedTuple):
    """One value: the epoch, round or step that it belongs to (None: not counted), and when (seconds since the epoch).

    A list of points is what ``pandas.DataFrame`` takes.
    """

    step: float | None
    value: float
    at: float


class Metrics(Mapping[str, float]):
    """The metrics of a job as they were when it was asked: ``job.metrics["loss"]`` is the newest value.

    With several hosts a name means the leader's value, of the first host that helps no other one, or that of the first
    host which has it.
    """

    def __init__(self, found: JobMetrics) -> None:
        self._job = found.job
        self._series: dict[str, dict[str, MetricSeries]] = {}
        for series in found.series:
            self._series.setdefault(series.name, {})[series.host] = series
        self.notes = found.notes
        """Sentences about what could not be read, and why."""

    def history(self, name: str, host: str = "") -> list[Point]:
        """Return the values of a metric, oldest first; a thousand of them at most.

        :raises KeyError: there is no metric of that name, or none on that host.
        """
        series = self._find_series(name, host)
        columns = zip(series.steps, series.values, series.at, strict=True)
        return [Point(step, _number(value), at) for step, value, at in columns]

    def hosts(self, name: str) -> dict[str, float]:
        """Return the newest value of a metric on each host that has it.

        :raises KeyError: there is no metric of that name.
        """
        self._find_series(name, "")
        return {host: _number(series.values[-1]) for host, series in self._series[name].items()}

    def __getitem__(self, name: str) -> float:
        """Return the newest value of a metric.

        :raises KeyError: there is no metric of that name.
        """
        return _number(self._find_series(name, "").values[-1])

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._series)

    def __len__(self) -> int:
        """Count the names."""
        return len(self._series)

    def __repr__(self) -> str:
        """Return a description with the newest values."""
        values = ", ".join(f"{name}={format_number(value)}" for name, value in self.items())
        return f"<Metrics of {self._job}: {values or 'none'}>"

    def _find_series(self, name: str, host: str) -> MetricSeries:
        hosts = self._series.get(name)
        if hosts is None:
            hint = suggest_names(str(name), self._series) or f"It has {', '.join(self._series) or 'none'}."
            raise KeyError(f"{self._job} has no metric {name!r}. {hint}")
        if not host:
            return next(iter(hosts.values()))
        if host not in hosts:
            raise KeyError(f"{self._job} has no {name} of host {host!r}. Hosts with it: {', '.join(hosts)}.")
        return hosts[host]


def _number(value: float | None) -> float:
    return math.nan if value is None else value
