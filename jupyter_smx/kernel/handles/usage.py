"""``job.usage``: what a job uses of its hosts: latest values and peaks, with their histories."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jupyter_smx.model.text import format_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jupyter_smx.model.results.usage import HostUsage, JobUsage


class Sample(NamedTuple):
    """One moment of one host; None for unknown figures. A list of samples is valid input for ``pandas.DataFrame``.

    ``at`` is seconds since the epoch; percents count 100 for each core or GPU; rates are bytes per second.
    """

    at: float
    cpu_percent: float | None
    memory_bytes: int | None
    read_rate: float | None
    write_rate: float | None
    receive_rate: float | None
    send_rate: float | None
    disk_bytes: int | None
    gpu_percent: float | None
    gpu_memory_bytes: int | None


class Usage:
    """Resource use of a job when it was requested; ``cpu_percent`` and similar values are the newest of all hosts.

    Percents are SageMaker's: 100 for each core and each GPU that is fully used. None means unknown.
    """

    def __init__(self, found: JobUsage) -> None:
        self._job = found.job
        self._hosts = {host.host: host for host in found.hosts}
        self.peak = found.peak
        """The most that it used at once; None while it has no verdict."""
        self.notes = tuple(dict.fromkeys(note for host in found.hosts for note in host.notes))
        """Sentences about what the figures are, and what could not be measured."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of the hosts with samples."""
        return tuple(self._hosts)

    @property
    def cpu_percent(self) -> float | None:
        """Newest CPU utilisation; 100 is one core."""
        return _sum(_latest_value(host.cpu_percent) for host in self._hosts.values())

    @property
    def memory_bytes(self) -> int | None:
        """Newest memory of the job's processes; shared memory is counted once."""
        return _to_int(_sum(_latest_value(host.memory_bytes) for host in self._hosts.values()))

    @property
    def gpu_percent(self) -> float | None:
        """Newest utilisation of GPUs by the job's own processes; 100 is one GPU."""
        return _sum(_latest_value(gpu.percent) for host in self._hosts.values() for gpu in host.gpus)

    @property
    def gpu_memory_bytes(self) -> int | None:
        """Newest GPU memory of the job's own processes."""
        return _to_int(_sum(_latest_value(gpu.memory_bytes) for host in self._hosts.values() for gpu in host.gpus))

    def history(self, host: str = "") -> list[Sample]:
        """Return the samples of a host ("": the first), oldest first; for a long job thinned, but over its whole time.

        :raises KeyError: the job has no samples of that host.
        """
        if host and host not in self._hosts:
            raise KeyError(
                f"{self._job} has no samples of host {host!r}. Hosts with samples: {', '.join(self._hosts) or 'none'}."
            )
        found = self._hosts.get(host) or next(iter(self._hosts.values()), None)
        return [] if found is None else _samples(found)

    def __repr__(self) -> str:
        """Return a description with the newest figures."""
        words = (
            None if self.cpu_percent is None else f"CPU {self.cpu_percent:.0f} %",
            None if self.memory_bytes is None else f"memory {format_size(self.memory_bytes)}",
            None if self.gpu_percent is None else f"GPU {self.gpu_percent:.0f} %",
            None if self.gpu_memory_bytes is None else f"GPU memory {format_size(self.gpu_memory_bytes)}",
        )
        return f"<Usage of {self._job}: {', '.join(word for word in words if word) or 'no measurements'}>"


def _samples(host: HostUsage) -> list[Sample]:
    return [
        Sample(
            at=at,
            cpu_percent=host.cpu_percent[row],
            memory_bytes=host.memory_bytes[row],
            read_rate=host.read_rate[row],
            write_rate=host.write_rate[row],
            receive_rate=host.receive_rate[row],
            send_rate=host.send_rate[row],
            disk_bytes=host.disk_bytes[row],
            gpu_percent=_sum(gpu.percent[row] for gpu in host.gpus),
            gpu_memory_bytes=_to_int(_sum(gpu.memory_bytes[row] for gpu in host.gpus)),
        )
        for row, at in enumerate(host.at)
    ]


def _latest_value(column: Sequence[float | None]) -> float | None:
    return next((value for value in reversed(column) if value is not None), None)


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _to_int(value: float | None) -> int | None:
    return None if value is None else int(value)
