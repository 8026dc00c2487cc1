"""Two rules of SageMaker's profiler on a job's resource use, and the benefit of a data group. Pure.

The thresholds are those of the developer guide. It counts data points of half a second; here samples have any
distance, so patience and window are seconds, and each sample weighs as much as the time since the one before it.
Rules apply only to hosts whose GPUs were measured.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from jupyter_smx.model.results.reports import Advice
from jupyter_smx.model.text import format_duration, format_precise, format_usd
from jupyter_smx.policy.accounting import price
from jupyter_smx.policy.hosts.names import named_hosts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jupyter_smx.model.results.progress import StepPace
    from jupyter_smx.model.results.usage import HostUsage
    from jupyter_smx.model.spec.instance import Catalogue, InstanceGroup, InstanceType

POINT = 0.5
"""Seconds between two data points of SageMaker's profiler."""


class Rules(Struct, frozen=True):
    """Percents, and numbers of data points."""

    threshold: float = 50.0
    gpu_threshold: float = 10.0
    cpu_threshold: float = 90.0
    patience: int = 100
    threshold_p95: float = 70.0
    threshold_p5: float = 10.0
    window: int = 500
    low_patience: int = 1_000


DEFAULTS = Rules()


class Row(NamedTuple):
    """One sample: its time, the seconds that it stands for, and percentages of all vCPUs and of all GPUs."""

    at: float
    seconds: float
    cpu: float
    gpu: float


class PredictionInput(NamedTuple):
    """Facts of the job for a prediction: its groups, prices, and how fast it steps."""

    groups: tuple[InstanceGroup, ...]
    known: Catalogue
    pace: StepPace | None = None


def advise(hosts: Iterable[HostUsage], setting: PredictionInput, rules: Rules = DEFAULTS) -> tuple[Advice, ...]:
    """Return the findings of the rules on each host."""
    found: list[Advice] = []
    for host in hosts:
        rows = rows_of(host, _gpus_of(host, setting))
        said = [one for one in (_cpu_bottleneck(host, rows, rules), _low_gpu(host, rows, rules)) if one is not None]
        prediction, numbers = _prediction(host, rows, setting, rules) if said else ("", {})
        for number, one in enumerate(said):
            # What both rules are about would be gained once.
            first = number == 0
            found.append(
                Advice(
                    rule=one.rule,
                    host=one.host,
                    sentence=one.sentence,
                    prediction=prediction if first else "",
                    numbers=one.numbers | (numbers if first else {}),
                )
            )
    return tuple(found)


def _gpus_of(host: HostUsage, setting: PredictionInput) -> int:
    """Count the GPUs of a host; for a type without GPUs, those that the job used."""
    type_of = {one.name: one.instance_type for one in named_hosts(setting.groups)}
    kind = setting.known.get(type_of.get(host.host, ""))
    if kind is not None and kind.gpus:
        return min(kind.gpus, len(host.gpus))
    return sum(any(gpu.percent) or any(gpu.memory_bytes) for gpu in host.gpus)


def rows_of(host: HostUsage, count: int) -> list[Row]:
    """Take the samples in which CPU and GPUs are known; the machine may have more GPUs than the job's ``count``."""
    rows = []
    for number, (before, at) in enumerate(pairwise(host.at), 1):
        cpu = host.cpu_percent[number]
        gpus = [gpu.percent[number] for gpu in host.gpus]
        known = [percent for percent in gpus if percent is not None]
        if cpu is not None and known and host.cpus and count:
            # What others do on the rest of them is not counted: the percents are those of the job's own processes.
            rows.append(Row(at, at - before, cpu / host.cpus, min(100.0, sum(known) / min(count, len(known)))))
    return rows


def _rows_after_patience(rows: Sequence[Row], host: HostUsage, patience: int) -> list[Row]:
    begin = (host.at[0] if host.at else 0.0) + patience * POINT
    return [row for row in rows if row.at > begin]


def _share(part: Iterable[Row], whole: Iterable[Row]) -> float:
    return sum(row.seconds for row in part) / (sum(row.seconds for row in whole) or 1.0)


def _cpu_bottleneck(host: HostUsage, rows: Sequence[Row], rules: Rules) -> Advice | None:
    judged = _rows_after_patience(rows, host, rules.patience)
    starved = [row for row in judged if row.cpu > rules.cpu_threshold and row.gpu < rules.gpu_threshold]
    share = _share(starved, judged)
    if 100 * share <= rules.threshold:
        return None
    return Advice(
        rule="CPUBottleneck",
        host=host.host,
        sentence=(
            f"CPUBottleneck on {host.host}: the CPU was above {rules.cpu_threshold:g} % and the GPUs were below "
            f"{rules.gpu_threshold:g} % for {100 * share:.0f} % of the time, in {len(judged)} samples after the "
            f"first {format_duration(rules.patience * POINT)}. The threshold is {rules.threshold:g} %."
        ),
        numbers={"share": round(share, 4), "samples": float(len(judged))},
    )


def _low_gpu(host: HostUsage, rows: Sequence[Row], rules: Rules) -> Advice | None:
    judged = _rows_after_patience(rows, host, rules.low_patience)
    recent = [row for row in judged if row.at > judged[-1].at - rules.window * POINT]
    if not recent:
        return None
    p95, p5 = (_quantile(recent, part) for part in (0.95, 0.05))
    if p95 < rules.threshold_p95:
        what = f"utilization was below {p95:.0f} % for 95 % of the time; the threshold is {rules.threshold_p95:g} %"
    elif p5 < rules.threshold_p5:
        what = (
            f"utilization varied between {p5:.0f} % and {p95:.0f} % (5th and 95th percentile); the threshold of "
            f"the 5th percentile is {rules.threshold_p5:g} %"
        )
    else:
        return None
    over = recent[-1].at - recent[0].at + recent[0].seconds
    return Advice(
        rule="LowGPUUtilization",
        host=host.host,
        sentence=f"LowGPUUtilization on {host.host}: in the last {format_duration(over)}, GPU {what}.",
        numbers={"p95": round(p95, 2), "p5": round(p5, 2)},
    )


def _quantile(rows: Sequence[Row], part: float) -> float:
    ordered = sorted(rows, key=lambda row: row.gpu)
    left = part * sum(row.seconds for row in ordered)
    for row in ordered:
        left -= row.seconds
        if left <= 0:
            return row.gpu
    return ordered[-1].gpu


class Gain(NamedTuple):
    """Benefit of a data group: the share of the time that is lost now, and the vCPUs that it needs."""

    waits: float
    more_vcpus: float


def gain(waits: float, vcpus: float) -> Gain | None:
    """Return what GPUs need to be fed without pauses, if they now wait a share of the time on ``vcpus`` full CPUs.

    A step that is shorter by the share needs its input sooner by as much, so the CPUs in all grow by ``1 / (1 - w)``.
    """
    if not 0 < waits < 1:
        return None
    return Gain(waits=waits, more_vcpus=vcpus * waits / (1 - waits))


def data_group(more_vcpus: float, known: Catalogue) -> tuple[InstanceType, int] | None:
    """Choose a type without GPUs for so many more vCPUs: the fewest hosts, then the cheapest; None without a price."""
    best: tuple[int, float, str] | None = None
    for kind in known.values():
        if kind.gpus or not kind.price_per_hour:
            continue
        count = math.ceil(more_vcpus / kind.vcpus - 1e-9)
        row = (count, count * kind.price_per_hour, kind.name)
        best = row if best is None or row < best else best
    return None if best is None else (known[best[2]], best[0])


def _prediction(
    host: HostUsage, rows: Sequence[Row], setting: PredictionInput, rules: Rules
) -> tuple[str, dict[str, float]]:
    judged = _rows_after_patience(rows, host, rules.patience)
    full = [row for row in judged if row.cpu > rules.cpu_threshold]
    if 100 * _share(full, judged) <= rules.threshold:
        return "", {}  # the GPUs wait for something else than the CPU
    waits = sum(row.seconds * (1 - min(row.gpu, 100.0) / 100) for row in full) / sum(row.seconds for row in judged)
    found = gain(waits, host.cpus or 0)
    if found is None:
        return "", {}
    numbers = {"waits": round(waits, 4), "more_vcpus": round(found.more_vcpus, 1)}
    words = (
        f"Input-bound: for {100 * waits:.0f} % of the time the GPUs were idle while the CPU was busy. A data "
        f"group with {math.ceil(found.more_vcpus - 1e-9)} more vCPUs could reduce the step time to "
        f"{100 * (1 - waits):.0f} % at best{_format_step_gain(found, setting, numbers)}. This "
        "assumes that the GPUs wait for input only, that preparing it takes the same CPU time on other hosts, and "
        "that the network bandwidth is sufficient."
    )
    return words, numbers


def _format_step_gain(found: Gain, setting: PredictionInput, numbers: dict[str, float]) -> str:
    """Format the benefit in seconds and dollars of a step, as far as pace and prices are known."""
    pace, chosen = setting.pace, data_group(found.more_vcpus, setting.known)
    if pace is None:
        return ""
    faster = pace.seconds * (1 - found.waits)
    numbers |= {"step_seconds": pace.seconds, "step_seconds_fed": faster}
    words = f", from {format_precise(pace.seconds)} to {format_precise(faster)}"
    now = price.cost_per_step(setting.groups, pace.seconds, setting.known)
    rate = price.rate(setting.groups, setting.known)
    if chosen is None or not now or rate is None:
        return words
    kind, count = chosen
    fed = (rate + count * (kind.price_per_hour or 0.0)) * faster / price.HOUR
    numbers |= {"cost_per_step": now, "cost_per_step_fed": fed}
    change = f"{abs(100 * (1 - fed / now)):.0f} % {'less' if fed < now else 'more'}"
    return f"{words}, and with {kind.name} × {count} from {format_usd(now)} to {format_usd(fed)} per step, {change}"
