"""The checks: what each runs, and the figures that it gives. None takes longer than its limit."""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.gpu_check import jobs, nvidia_smi, sources, verdicts

if TYPE_CHECKING:
    from collections.abc import Callable

GPU_TYPE = "ml.g4dn.2xlarge"
"""A type with one GPU, 8 vCPUs and 32 GiB; of a smaller machine it is the whole."""
FIRST_LIMIT, JOB_LIMIT, PRELOAD_LIMIT = 140.0, 40.0, 30.0
"""Seconds: of the first use of torch, which reads it from the disk; of a job; until a host has imported torch."""
PAUSE = 0.5
"""Seconds between two warm jobs."""
FREE_LIMIT = 6.0
"""Seconds within which the memory of a job that has ended must be free."""
MIB = 1 << 20


class Options(NamedTuple):
    """How much is measured: jobs, seconds of load, and MiB that a job holds."""

    cold: int = 3
    warm: int = 7
    seconds: float = 10.0
    mib: int = 4096


class Outcome(NamedTuple):
    """What speaks against a check (nothing: it is well), and its figures."""

    problems: list[str]
    figures: dict[str, Any]


class Check(NamedTuple):
    """A check, its time limit in seconds, and what it would do, for people."""

    name: str
    title: str
    limit: float
    run: Callable[[Options], Outcome]


def _moments(ran: jobs.Ran) -> dict[str, float]:
    return {**ran.seen, "submitted": ran.submitted}


def cuda_after_preload(_options: Options) -> Outcome:
    """Compute in a cold job, wait until the idle host has imported torch, and compute in a fork of that process."""
    jobs.release_all()
    cold = jobs.run(sources.FIRST_KERNEL, "gpu-cold", JOB_LIMIT)
    ready = jobs.preloaded("torch", PRELOAD_LIMIT)
    time.sleep(PAUSE)
    warm = jobs.run(sources.FIRST_KERNEL, "gpu-warm", JOB_LIMIT)
    figures = {
        "pool_preloaded_torch": ready,
        **{f"{name}_{word}": ran.seen[word] for name, ran in (("cold", cold), ("warm", warm)) for word in _SEEN},
        "cold_start": cold.start,
        "warm_start": warm.start,
        "warm_notes": warm.notes,
        "warm_why": warm.why,
    }
    seen = [{**ran.seen, "start": ran.start} for ran in (cold, warm)]
    return Outcome(verdicts.judge_preload(*seen), figures)


_SEEN = ("preloaded", "available", "error")


def first_kernel(options: Options) -> Outcome:
    """Take the time from submission to the end of the first CUDA kernel: plain Python, cold jobs, warm jobs."""
    plain = [jobs.plain(sources.FIRST_KERNEL, JOB_LIMIT) for _ in range(2)]
    cold = []
    for number in range(options.cold):
        jobs.release_all()
        cold.append(jobs.run(sources.FIRST_KERNEL, f"gpu-cold-{number}", JOB_LIMIT))
    ready = jobs.preloaded("torch", PRELOAD_LIMIT)
    warm = []
    for number in range(options.warm):
        time.sleep(PAUSE)
        warm.append(jobs.run(sources.FIRST_KERNEL, f"gpu-warm-{number}", JOB_LIMIT))
    rows = {
        "plain Python": [verdicts.kernel_times(row) for row in plain],
        "cold job": [verdicts.kernel_times(_moments(ran)) for ran in cold],
        "warm job": [verdicts.kernel_times(_moments(ran)) for ran in warm],
    }
    medians = {name: verdicts.median_times(each) for name, each in rows.items()}
    starts = [ran.start for ran in warm]
    figures = {
        "counts": {name: len(each) for name, each in rows.items()},
        "median_seconds": medians,
        "all_seconds": {name: [round(row[verdicts.PARTS[-1][0]], 4) for row in each] for name, each in rows.items()},
        "warm_preloaded": [ran.seen["preloaded"] for ran in warm],
        "pool_preloaded_torch": ready,
        "warm_starts": starts,
        "warm_timings": warm[-1].timings,
    }
    return Outcome(verdicts.judge_times(medians["cold job"], medians["warm job"], starts), figures)


def usage(options: Options) -> Outcome:
    """Load the GPU wholly and for 40 % of the time, and compare ``job.usage`` with ``nvidia-smi``."""
    loads = {f"{share:.0%} of the time": _one_load(share, options) for share in (1.0, 0.4)}
    problems = [f"{name}: {one}" for name, row in loads.items() for one in verdicts.judge_usage(row)]
    return Outcome(problems, {"loads": loads})


def _one_load(share: float, options: Options) -> dict[str, Any]:
    before = nvidia_smi.read()
    source = sources.with_values(sources.LOAD, share=share, period=0.1, seconds=options.seconds, mib=options.mib)
    submitted = time.time()
    job = jobs.submit(source, "gpu-load")
    seen = jobs.wait_for_word(job, "began", JOB_LIMIT)
    cards: list[nvidia_smi.Card] = []
    time.sleep(1.0)  # the driver's figure is of the second before
    end = seen["began"] + options.seconds
    while time.time() < end - 0.5:
        cards.append(nvidia_smi.read())
        time.sleep(0.2)
    ran = jobs.finish(job, submitted, JOB_LIMIT)
    found = job.usage
    # On a busy machine the last sample may come when the load is over.
    ours = [row for row in found.history() if cards[0].at <= row.at <= min(cards[-1].at + 0.5, end)]
    memory = [row.gpu_memory_bytes for row in ours if row.gpu_memory_bytes is not None]
    whole = any("whole GPUs" in note for note in found.notes)
    of_process = [card.used_by.get(seen["pid"]) for card in cards]
    known = [used for used in of_process if used is not None]
    of_card = [card.used for card in cards if card.used is not None]
    return {
        "percent": verdicts.mean(row.gpu_percent for row in ours),
        "smi_percent": verdicts.mean(card.percent for card in cards),
        "mib": round(max(memory) / MIB, 1) if memory else None,
        "smi_mib": max(known) if known and not whole else max(of_card, default=None),
        "smi_is_of": "process" if known and not whole else "card",
        "smi_card_mib": max(of_card, default=None),
        "smi_card_mib_before": before.used,
        "samples": len(ours),
        "smi_samples": len(cards),
        "our_percents": [row.gpu_percent for row in ours],
        "smi_percents": [card.percent for card in cards],
        "peak": str(found.peak),
        "notes": list(found.notes),
        "start": ran.start,
    }


def sequence(options: Options) -> Outcome:
    """Run two jobs one after another on one card, and read what is in use before, between and after them."""
    before, held_before = nvidia_smi.read(), set(nvidia_smi.holders())
    figures: dict[str, Any] = {"asked_mib": options.mib, "before_mib": before.used or 0.0}
    source = sources.with_values(sources.HOLD, seconds=2.5, mib=options.mib)
    for name, moment in (("first", "between"), ("second", "after")):
        submitted = time.time()
        job = jobs.submit(source, f"gpu-{name}")
        jobs.wait_for_word(job, "began", JOB_LIMIT)
        during = nvidia_smi.read()
        ran = jobs.finish(job, submitted, JOB_LIMIT)
        card, took = _wait_until_free(figures["before_mib"])
        left = {pid: word for pid, word in nvidia_smi.holders().items() if pid not in held_before}
        left.update({pid: "computes" for pid in card.used_by if pid not in before.used_by})
        figures |= {
            f"{name}_start": ran.start,
            "during_mib": during.used or 0.0,
            f"{moment}_mib": card.used or 0.0,
            f"{moment}_free_after_seconds": round(took, 2),
            f"{moment}_processes": {str(pid): word for pid, word in left.items()},
            f"{name}_pid_lives": os.path.exists(f"/proc/{ran.seen['pid']}"),  # noqa: PTH110 - no path but a process
        }
    return Outcome(verdicts.judge_sequence(figures), figures)


def _wait_until_free(before: float) -> tuple[nvidia_smi.Card, float]:
    began = time.monotonic()
    while True:
        card, took = nvidia_smi.read(), time.monotonic() - began
        if (card.used or 0.0) - before <= verdicts.LEFT_MIB or took > FREE_LIMIT:
            return card, took
        time.sleep(0.1)


def assignment(_options: Options) -> Outcome:
    """Hand in two jobs at once for a type with one GPU, then one for ``local``; see which GPUs each is shown."""
    source = sources.with_values(sources.HOLD, seconds=3, mib=64)
    submitted = time.time()
    both = [jobs.submit(source, f"gpu-{name}", instance_type=GPU_TYPE) for name in ("one", "two")]
    ran = [jobs.finish(job, submitted, JOB_LIMIT) for job in both]
    local = jobs.run(source, "gpu-local", JOB_LIMIT)
    plain = jobs.plain(sources.FIRST_KERNEL, JOB_LIMIT)
    figures = {
        "type": GPU_TYPE,
        "first": ran[0].seen,
        "second": ran[1].seen,
        "local": local.seen,
        "machine_cards": plain["cards"],
        "machine_variable": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "second_why": ran[1].why,
        "gpus_on_record": _gpus_on_record(both[0]),
    }
    return Outcome(verdicts.judge_assignment(figures), figures)


def _gpus_on_record(job: Any) -> list[str]:
    found = job.provenance
    return [name for host in found.hosts for name in host.machine.gpus] if found else []


def library(_options: Options) -> Outcome:
    """Run a job cold and warm whose library asks for CUDA in its import, as many do."""
    jobs.release_all()
    cold = jobs.run(sources.USE_LIBRARY, "gpu-library-cold", JOB_LIMIT, may_fail=True)
    ready = jobs.preloaded("torch", PRELOAD_LIMIT)
    time.sleep(2.0)  # the library's own import may come after torch's
    warm = jobs.run(sources.USE_LIBRARY, "gpu-library-warm", JOB_LIMIT, may_fail=True)
    rows = [{**ran.seen, "failure": ran.failure} for ran in (cold, warm)]
    figures = {
        "pool_preloaded_torch": ready,
        "cold": rows[0],
        "warm": rows[1],
        "warm_notes": warm.notes,
        "warm_start": warm.start,
        "warm_log": warm.log if warm.failure else "",
    }
    return Outcome(verdicts.judge_library(*rows), figures)


CHECKS = (
    Check("cuda_after_preload", "CUDA in a fork of a process that has imported torch", 100.0, cuda_after_preload),
    Check("first_kernel", "time from submission to the end of the first kernel", 120.0, first_kernel),
    Check("usage", "job.usage beside nvidia-smi", 60.0, usage),
    Check("sequence", "two jobs one after another on one card", 45.0, sequence),
    Check("assignment", "which GPUs a job sees", 45.0, assignment),
    Check("library", "a library whose import asks for CUDA", 60.0, library),
)


def card_facts() -> dict[str, Any]:
    """Give what ``nvidia-smi`` says of the card."""
    facts = asdict(nvidia_smi.read())
    return {"card": facts["name"], "driver": facts["driver"], "memory_mib": facts["total"], "uuid": facts["uuid"]}
