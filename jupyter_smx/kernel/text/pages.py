"""Pages of ``%smx``: tables and lists as text and as HTML, with all external text escaped."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING, Any

from jupyter_smx.kernel.text.formats import (
    format_expected_duration,
    format_metrics,
    format_progress,
    format_queue_position,
)
from jupyter_smx.kernel.text.tables import Column, Page, table_page
from jupyter_smx.model.records.lost_variables import COMPLETED_BUT
from jupyter_smx.model.spec.array import format_counts
from jupyter_smx.model.status import DISK_WAIT
from jupyter_smx.model.text import format_count, format_duration, format_engine, format_list, format_moment, format_size

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_smx.kernel.client.client import Plan
    from jupyter_smx.model.records.event import PoolSummary
    from jupyter_smx.model.records.job import JobSummary
    from jupyter_smx.model.results.reports import JobAdvice, PlannedFiles
    from jupyter_smx.model.spec.array import ArraySummary
    from jupyter_smx.model.spec.instance import InstanceType, TypesListing

_HALF_A_CENT = 0.005
_HALF_A_HUNDREDTH = 0.005
_HOUR = 3_600.0
_NAMED = ("engines", "machines")
"""Facts of a doctor that are grouped by names."""

_JOB_COLUMNS = (
    Column("JOB", "name"),
    "STATUS",
    "START",
    "INSTANCES",
    Column("TIME", "number"),
    Column("END TIME", "number"),
    Column("COST", "number"),
    "DETAILS",
)
_POOL_COLUMNS = (Column("POOL", "name"), "STATUS", Column("EXPIRES IN", "number"), "INSTANCES", "ENGINE")
_POOL_USE_COLUMNS = (
    Column("JOBS", "number"),
    Column("SAVED", "number"),
    Column("IDLE", "number"),
    Column("JOB", "name"),
)

_NO_ADVICE = (
    "No recommendations for {job}. CPUBottleneck and LowGPUUtilization evaluate hosts with measured GPUs, after "
    "50 s and 500 s."
)


def text_page(text: str) -> Page:
    """Return a page of lines of text."""
    return text, f"<pre>{escape(text)}</pre>"


def jobs_page(jobs: Iterable[JobSummary], now: float, arrays: Iterable[ArraySummary] = ()) -> Page:
    """List jobs and arrays, newest first; the last column has what happened, or how far a job is."""
    dated = [(job.created_at, _job_row(job, now)) for job in jobs]
    dated += [(array.created_at, _array_row(array, now)) for array in arrays]
    if not dated:
        return text_page("No jobs yet.")
    rows = [row for _, row in sorted(dated, key=lambda each: -each[0])]
    return table_page(_JOB_COLUMNS, rows)


def _array_row(array: ArraySummary, now: float) -> tuple[str, ...]:
    is_over = not array.counts.remaining_count()
    # An older controller does not say when an array ended.
    end = array.ended_at if is_over else now
    took = "" if end is None else format_duration(max(0.0, end - array.created_at))
    ended = format_moment(end, now) if is_over and end is not None else ""
    said = ", ".join(part for part in (array.title, format_counts(array)) if part)
    return (array.name, array.counts.status().value, "", array.instances, took, ended, "", said)


def _job_row(job: JobSummary, now: float) -> tuple[str, ...]:
    return (
        job.name,
        job.status.value if job.ended_at else job.secondary_status.value,
        _format_start(job),
        job.instances,
        f"{format_duration(max(0.0, (job.ended_at or now) - job.created_at))} {format_expected_duration(job)}".strip(),
        "" if job.ended_at is None else format_moment(job.ended_at, now),
        format_dollars(job.cost),
        _outcome(job, now),
    )


def pools_page(pools: Iterable[PoolSummary], now: float) -> Page:
    """List live pools: name, state, how long it is kept, what it did, and which image, where any is made of one."""
    pools = list(pools)
    if not pools:
        return text_page("No warm pools. To keep one after a job, add --keep-alive 10m.")
    of_images = any(pool.image for pool in pools)
    columns = (*_POOL_COLUMNS, *(("IMAGE",) if of_images else ()), *_POOL_USE_COLUMNS)
    rows = [
        (
            pool.name,
            _format_pool_state(pool, now),
            _format_time_left(pool, now),
            pool.instances,
            format_engine(pool.engine, pool.machines),
            *((pool.image.display_name() if pool.image else "",) if of_images else ()),
            str(pool.jobs_served),
            format_duration(pool.saved_seconds) if pool.saved_seconds else "",
            _format_idle(pool),
            pool.job or pool.last_job,
        )
        for pool in pools
    ]
    return table_page(columns, rows)


def _format_time_left(pool: PoolSummary, now: float) -> str:
    """Format how long an idle pool stays: its keep-alive, or its allocation if that ends before."""
    if pool.expires_at is None:
        return ""
    end = pool.expires_at if pool.allocation_ends_at is None else min(pool.expires_at, pool.allocation_ends_at)
    return format_duration(max(0, round(end - now)))


def _format_pool_state(pool: PoolSummary, now: float) -> str:
    notes = (
        "unreachable" if pool.unreachable else "",
        "waits for the disk" if pool.disk_wait else "",
        _format_allocation(pool, now),
    )
    return ", ".join(filter(None, (pool.state, *notes)))


def _format_allocation(pool: PoolSummary, now: float) -> str:
    """Format when the platform ends the hosts of a pool, as ``allocation ends in 25 min``; "" if it does not."""
    if pool.allocation_ends_at is None:
        return ""
    return f"allocation ends in {format_duration(max(0, round(pool.allocation_ends_at - now)))}"


def _format_idle(pool: PoolSummary) -> str:
    """Format what its idle time has cost: dollars, or node hours of an allocation without a price."""
    return format_node_hours(pool.nodes * pool.idle_seconds / _HOUR) if pool.nodes else format_dollars(pool.idle_cost)


def format_node_hours(hours: float) -> str:
    """Write node hours in a list; less than a hundredth of one is shown as ``< 0.01``."""
    return "< 0.01 node hours" if 0 < hours < _HALF_A_HUNDREDTH else f"{hours:.2f} node hours"


def format_keep_alive(pool: PoolSummary, now: float) -> str:
    """Format how long a pool is kept or, while it is released, its state."""
    if pool.expires_at is None:
        return f"{pool.name}: {pool.state}."
    return f"{pool.name} expires in {format_duration(max(0, round(pool.expires_at - now)))}."


def format_dollars(dollars: float | None) -> str:
    """Write dollars in a list; less than a cent is not called free, and what is not known is empty."""
    if dollars is None:
        return ""
    return "< $0.01" if 0 < dollars < _HALF_A_CENT else f"${dollars:.2f}"


def plan_page(plan: Plan) -> Page:
    """Format what would happen, why, and the request to the engine."""
    lines = [plan.sentence, *(plan.why.notes if plan.why else ())]
    lines += _sent_lines(plan)
    if plan.engine_request:
        lines.append(json.dumps(plan.engine_request, indent=2, default=str))
    lines.append("Nothing was started.")
    return text_page("\n".join(lines))


def _sent_lines(plan: Plan) -> list[str]:
    """Format the files for hosts of another machine, by the machines that the engine names."""
    if not plan.sent:
        return []
    asked = plan.engine_request if isinstance(plan.engine_request, dict) else {}
    machines = asked.get("machines") or ["the hosts"]
    where = machines[0] if len(machines) == 1 else f"one or more of {format_list(machines)}"
    return [f"Sent to {where}, unless it is there already:", *map(_format_sent, plan.sent)]


def _format_sent(sent: PlannedFiles) -> str:
    if sent.kind == "requirements":
        return f"  {sent.kind} {sent.name}: installed there"
    files = "" if sent.kind == "variables" else f"{format_count(sent.files, 'file')}, "
    size = f"{files}{format_size(sent.size)}"
    # Files of code from several folders have no name.
    what = f"{sent.kind} {sent.name}".rstrip()
    return f"  {what}: {f'at least {size}' if sent.is_partial else size}"


def facts_page(facts: dict[str, Any]) -> Page:
    """List facts by name, those of a group under their group."""
    return text_page("\n".join(_fact_lines(facts, "")))


def _fact_lines(facts: dict[str, Any], indent: str, *, of_names: bool = False) -> list[str]:
    """Format facts; with ``of_names`` the keys are names of engines or machines, else words."""
    lines = []
    for name, value in facts.items():
        label = name if of_names else _label(name)
        if isinstance(value, dict) and value:
            lines += [f"{indent}{label}:", *_fact_lines(value, indent + "  ", of_names=name in _NAMED)]
        elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
            lines.append(f"{indent}{label}:")
            for item in value:
                lines.append(f"{indent}  {_format_value(item)}")
        else:
            lines.append(f"{indent}{label}" if value == "" else f"{indent}{label}: {_format_value(value)}")
    return lines


def _label(name: str) -> str:
    return name.replace("_", " ")


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{_label(key)} {_format_value(item)}" for key, item in value.items()) or "none"
    if isinstance(value, (list, tuple)):
        return ", ".join(_format_value(item) for item in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value in (None, "") else str(value)


def _format_start(job: JobSummary) -> str:
    if job.first_line_seconds is None:
        return "" if job.start == "none" else job.start
    return f"{job.start} {format_duration(job.first_line_seconds)}".strip()


def _outcome(job: JobSummary, now: float) -> str:
    parts = [format_progress(job), format_metrics(job)]
    if job.failure_type:
        parts.insert(0, _failure(job))
    elif job.queue_position:
        parts.insert(0, format_queue_position(job, now))
    elif job.message.startswith((DISK_WAIT, COMPLETED_BUT)) or _has_message(job, any(parts)):
        parts.insert(0, job.message)
    return _cut(" · ".join(part for part in parts if part))


def _cut(text: str) -> str:
    """Cut a text at its end to what a row takes; a job chose its length."""
    return text if len(text) <= _LONGEST_OUTCOME else f"{text[: _LONGEST_OUTCOME - 1]}…"


def _has_message(job: JobSummary, has_figures: bool) -> bool:
    return job.status.value != "Completed" and (bool(job.ended_at) or not has_figures)


def _failure(job: JobSummary) -> str:
    """Return the title of a failure, its line, and as much of its cause and cure as fits into a row."""
    line = "" if job.failure_line is None else f", line {job.failure_line}"
    title = f"{job.failure_type}{line}"
    cause = job.message.removeprefix(_USER_ERROR)
    if job.status.value != "Failed" or cause == job.message:
        return title
    cause = cause.removeprefix("OutOfMemory: ").removeprefix(f"{job.failure_type}: ")
    return _cut(f"{title}: {cause}" if cause else title)


def types_page(found: TypesListing) -> Page:
    """List instance types: vCPUs, memory, GPUs, dollars per hour, and the sources of these; then those of engines."""
    text, html = table_page(_TYPE_COLUMNS, [_type_row(kind) for kind in found.instance_types])
    where = text_page(f"From {found.file}." if found.file else "From the catalog of jupyter-smx.")
    pages = [(f"{text}\n{where[0]}", html + where[1])]
    for engine, kinds in found.engines.items():
        text, html = table_page(_TYPE_COLUMNS, [_type_row(kind) for kind in kinds])
        where = text_page(f"From the engine {engine}, for its jobs only.")
        pages.append((f"{text}\n{where[0]}", html + where[1]))
    return "\n\n".join(text for text, _ in pages), "".join(html for _, html in pages)


_USER_ERROR = "AlgorithmError: "
_LONGEST_OUTCOME = 240
"""Characters of what happened in a row."""
_TYPE_COLUMNS = (
    Column("TYPE", "name"),
    Column("VCPUS", "number"),
    Column("MEMORY", "number"),
    Column("GPUS", "number"),
    Column("PER HOUR", "number"),
    "PRICE SOURCE",
    "HARDWARE SOURCE",
)


def _type_row(kind: InstanceType) -> tuple[str, ...]:
    return (
        kind.name,
        str(kind.vcpus),
        f"{kind.memory_gib:g} GiB" if kind.memory_gib else "share",
        str(kind.gpus),
        "unknown" if kind.price_per_hour is None else f"${kind.price_per_hour:.4f}",
        kind.source,
        kind.hardware_source,
    )


def advice_sentences(found: JobAdvice) -> list[str]:
    """Return a sentence for each rule, with its prediction if there is one."""
    return [f"{one.sentence} {one.prediction}".strip() for one in found.advice]


def advice_page(found: JobAdvice) -> Page:
    """Format the findings of the rules, or that there are none."""
    return text_page("\n".join(advice_sentences(found)) or _NO_ADVICE.format(job=found.job))
