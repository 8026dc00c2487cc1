"""Resource use of a job in SageMaker's convention: a fully used core, or GPU, is 100 %."""

from __future__ import annotations

from msgspec import Struct

from jupyter_smx.model.text import format_duration, format_size


class Usage(Struct, frozen=True, kw_only=True):
    """Figures of all hosts of a job together, of one moment or the highest of each host; None is not known, never 0.

    ``memory_bytes`` counts what processes share once. The GPU figures are those of the job's own processes.
    """

    cpu_percent: float | None = None
    memory_bytes: int | None = None
    gpu_percent: float | None = None
    gpu_memory_bytes: int | None = None
    cpu_seconds: float | None = None
    """CPU seconds so far, over all cores; set with the verdict."""


class GpuUsage(Struct, frozen=True, kw_only=True):
    """One GPU, in columns as long as the host's; ``percent`` and ``memory_bytes`` are of the job's own processes."""

    id: str
    name: str
    memory_total_bytes: int | None = None
    percent: tuple[float | None, ...] = ()
    memory_bytes: tuple[int | None, ...] = ()


class HostUsage(Struct, frozen=True, kw_only=True):
    """The history of one host, oldest first, in columns of equal length; None where a figure is not known.

    ``at`` is seconds since the epoch. ``cpu_percent`` and the rates (bytes in a second) are means since the moment
    before, ``memory_bytes`` and GPU memory the most since then. Disk and network are the whole host's.
    """

    host: str
    at: tuple[float, ...] = ()
    cpu_percent: tuple[float | None, ...] = ()
    memory_bytes: tuple[int | None, ...] = ()
    read_rate: tuple[float | None, ...] = ()
    write_rate: tuple[float | None, ...] = ()
    receive_rate: tuple[float | None, ...] = ()
    send_rate: tuple[float | None, ...] = ()
    disk_bytes: tuple[int | None, ...] = ()
    gpus: tuple[GpuUsage, ...] = ()
    cpus: int | None = None
    """Cores that the job may use."""
    memory_total_bytes: int | None = None
    disk_total_bytes: int | None = None
    notes: tuple[str, ...] = ()


class JobUsage(Struct, frozen=True, kw_only=True):
    """Resource usage of one run of a job over time, by host; ``peak`` is set with the verdict.

    It is the ``attempt``-th run of ``attempts`` so far.
    """

    job: str
    hosts: tuple[HostUsage, ...] = ()
    peak: Usage | None = None
    attempt: int = 1
    attempts: int = 1
    is_final: bool = False
    """Nothing more will come of this run."""


class PlatformUsage(Struct, frozen=True, kw_only=True):
    """What a platform accounted for the hosts of a cluster that has ended; None where it measured nothing.

    ``name`` is the platform's own, as ``Slurm job 4711``, and ``state`` its word, "" if the controller ended the hosts.
    ``cpu_seconds`` are of all hosts, ``peak_memory_bytes`` is the largest resident set of one process or step, as the
    platform counts it.
    """

    name: str
    state: str
    nodes: int = 0
    elapsed_seconds: float | None = None
    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None

    def plus(self, other: PlatformUsage) -> PlatformUsage:
        """Add the figures of the next allocation of the same hosts."""
        return PlatformUsage(
            name=f"{self.name} and {other.name}",
            state=self.state if self.state == other.state else " and ".join(filter(None, (self.state, other.state))),
            nodes=max(self.nodes, other.nodes),
            elapsed_seconds=_sum(self.elapsed_seconds, other.elapsed_seconds),
            cpu_seconds=_sum(self.cpu_seconds, other.cpu_seconds),
            peak_memory_bytes=max(self.peak_memory_bytes or 0, other.peak_memory_bytes or 0) or None,
        )

    def figures(self) -> str:
        """Format the figures, as ``1 h 2 min on 2 nodes, 34 min of CPU time, at most 1.2 GiB of memory``."""
        where = f" on {self.nodes} nodes" if self.nodes > 1 else ""
        parts = (
            "" if self.elapsed_seconds is None else f"{format_duration(self.elapsed_seconds)}{where}",
            "" if self.cpu_seconds is None else f"{format_duration(self.cpu_seconds)} of CPU time",
            f"at most {format_size(self.peak_memory_bytes)} of memory" if self.peak_memory_bytes else "",
        )
        return ", ".join(filter(None, parts))

    def sentence(self) -> str:
        """Format all of it, as ``Slurm job 4711: COMPLETED, 10 min, 4 min of CPU time``."""
        words = ", ".join(filter(None, (self.state, self.figures())))
        return f"{self.name}: {words}" if words else self.name


def _sum(first: float | None, second: float | None) -> float | None:
    known = [each for each in (first, second) if each is not None]
    return sum(known) if known else None
