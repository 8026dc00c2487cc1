"""The values of one metric over time, downsampled to a bounded number."""

from __future__ import annotations

from bisect import bisect_right

from msgspec import Struct

from jupyter_smx.model.results.progress import MetricSeries, MetricValue

MAX_POINTS = 1_000
"""Maximum number of points; more than twice the pixels of a chart are invisible."""


class Series(Struct):
    """Points in columns. At :data:`MAX_POINTS`, every second one is dropped; the newest is always included.

    ``count`` values came; those whose number divides by ``stride`` are stored, and ``newest`` is the last one.
    """

    steps: list[float | None] = []
    at: list[float] = []
    values: list[float | None] = []
    count: int = 0
    stride: int = 1
    newest: tuple[float | None, float, float | None] | None = None

    def add(self, step: float | None, at: float, value: float | None, *, redrawn: bool = False) -> None:
        """Add a value.

        A ``redrawn`` one, in a bar, is ignored if it repeats the last value, and replaces the last value at the same
        step.
        """
        if redrawn and self.newest is not None:
            if value == self.newest[2]:
                return
            if step is not None and step == self.newest[0]:
                self._replace_newest(at, value)
                return
        self.newest = (step, at, value)
        if self.count % self.stride == 0:
            self.steps.append(step)
            self.at.append(at)
            self.values.append(value)
        self.count += 1
        if len(self.values) >= MAX_POINTS:
            self._thin()

    def _replace_newest(self, at: float, value: float | None) -> None:
        self.newest = (self.newest[0] if self.newest else None, at, value)
        if (self.count - 1) % self.stride == 0:
            self.at[-1], self.values[-1] = at, value

    def _thin(self) -> None:
        self.stride *= 2
        for column in (self.steps, self.at, self.values):
            del column[1::2]

    def last_value(self, name: str, host: str) -> MetricValue | None:
        """Return the newest value as a record."""
        if self.newest is None:
            return None
        step, at, value = self.newest
        return MetricValue(name=name, value=value, at=at, step=step, host=host)

    def record(self, name: str, host: str, since: float = 0.0) -> MetricSeries:
        """Return the points after ``since`` (0: all) as a record, with the newest at the end."""
        begin = bisect_right(self.at, since) if since else 0
        points = list(zip(self.steps[begin:], self.at[begin:], self.values[begin:], strict=True))
        if self.newest is not None and (self.count - 1) % self.stride and (not since or self.newest[1] > since):
            points.append(self.newest)
        return MetricSeries(
            name=name,
            host=host,
            steps=tuple(step for step, _, _ in points),
            at=tuple(at for _, at, _ in points),
            values=tuple(value for _, _, value in points),
            count=self.count,
            stride=self.stride,
        )
