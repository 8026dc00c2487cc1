"""Judge what was seen: each function gives the sentences that speak against it; none means that all is well."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MATRIX_ERROR = 1e-3
"""Relative difference that a product on the GPU may have from the CPU's."""
PERCENT_TOLERANCE = 15.0
"""Points by which two means of utilisation may differ."""
LEAST_PERCENT = 10.0
"""Percent below which a card has no load that could be compared."""
MEMORY_TOLERANCE_MIB, MEMORY_TOLERANCE = 256.0, 0.05
"""MiB, or a share, whichever is more."""
LEFT_MIB = 64.0
"""MiB that may be more in use after a job than before it."""
PARTS = (
    ("submit → code begins", "submitted", "began"),
    ("import torch", "began", "imported"),
    ("CUDA context", "imported", "context"),
    ("first kernel", "context", "kernel"),
    ("submit → first kernel's end", "submitted", "kernel"),
)
"""Parts of the time to the first kernel: what each is called, and the moments that it lies between."""


def judge_preload(cold: Mapping[str, Any], warm: Mapping[str, Any]) -> list[str]:
    """Judge a job in a fork of a process that has imported torch; ``start`` and what each job printed."""
    found = [] if warm["start"] == "warm" else [f"The second job is not warm but {warm['start']}."]
    if not warm.get("preloaded"):
        found.append("torch was not imported before the second job began.")
    for name, job in (("cold", cold), ("warm", warm)):
        if not job.get("available"):
            found.append(f"torch.cuda.is_available() is false in the {name} job.")
        if not job.get("error", 1.0) < MATRIX_ERROR:
            found.append(f"The product of matrices is wrong in the {name} job: relative error {job.get('error')}.")
    return found


def kernel_times(moments: Mapping[str, float]) -> dict[str, float]:
    """Give the seconds of each part, by its name."""
    return {name: moments[end] - moments[start] for name, start, end in PARTS}


def median_times(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Give the median of each part over several jobs."""
    return {name: round(statistics.median(row[name] for row in rows), 4) for name, _, _ in PARTS}


def judge_times(cold: Mapping[str, float], warm: Mapping[str, float], starts: Sequence[str]) -> list[str]:
    """Judge the medians: every job that should be warm is, and a warm one is no slower than a cold one."""
    total = PARTS[-1][0]
    found = [f"{starts.count('cold')} of {len(starts)} jobs are cold that should be warm."] if "cold" in starts else []
    if warm[total] >= cold[total]:
        found.append(f"A warm job takes {warm[total]:.2f} s to its first kernel, a cold one {cold[total]:.2f} s.")
    return found


def mean(values: Iterable[float | None]) -> float | None:
    """Give the mean of what is known, None if nothing is."""
    known = [value for value in values if value is not None]
    return round(statistics.mean(known), 1) if known else None


def judge_usage(row: Mapping[str, float | None]) -> list[str]:
    """Judge one load: means of percent, and MiB, of ours (``percent``, ``mib``) beside ``nvidia-smi``'s."""
    found = []
    ours, theirs = row["percent"], row["smi_percent"]
    if ours is None or theirs is None:
        found.append(f"Utilisation is not known: ours {ours}, nvidia-smi's {theirs}.")
    elif theirs < LEAST_PERCENT:
        found.append(f"nvidia-smi shows no load: {theirs} %.")
    elif abs(ours - theirs) > PERCENT_TOLERANCE:
        found.append(
            f"Utilisation differs by more than {PERCENT_TOLERANCE:.0f} points: ours {ours} %, theirs {theirs} %."
        )
    ours, theirs = row["mib"], row["smi_mib"]
    if ours is None or theirs is None:
        found.append(f"Memory is not known: ours {ours}, nvidia-smi's {theirs}.")
    elif abs(ours - theirs) > max(MEMORY_TOLERANCE_MIB, MEMORY_TOLERANCE * theirs):
        found.append(f"Memory differs too much: ours {ours} MiB, nvidia-smi's {theirs} MiB.")
    return found


def judge_sequence(seen: Mapping[str, Any]) -> list[str]:
    """Judge two jobs one after another; MiB in use at each moment, and processes that hold the GPU after a job."""
    found = [] if seen["second_start"] == "warm" else [f"The second job is not warm but {seen['second_start']}."]
    if seen["during_mib"] - seen["before_mib"] < seen["asked_mib"]:
        found.append(f"A job holds {seen['asked_mib']} MiB, and nvidia-smi shows less: {seen['during_mib']} MiB.")
    for moment in ("between", "after"):
        more = seen[f"{moment}_mib"] - seen["before_mib"]
        if more > LEFT_MIB:
            found.append(f"{more:.0f} MiB more are in use {moment} the jobs than before them.")
        if seen[f"{moment}_processes"]:
            found.append(f"Processes hold the GPU {moment} the jobs: {seen[f'{moment}_processes']}.")
    return found


def judge_assignment(seen: Mapping[str, Any]) -> list[str]:
    """Judge which GPUs jobs see: of a type with one GPU one each, and of a type without any what the machine shows."""
    found = []
    first, second = seen["first"], seen["second"]
    for name, job in (("first", first), ("second", second)):
        if job["cards"] != 1 or not job["variables"]["CUDA_VISIBLE_DEVICES"]:
            shown = job["variables"]["CUDA_VISIBLE_DEVICES"]
            found.append(f"The {name} job of a type with one GPU sees {job['cards']}, CUDA_VISIBLE_DEVICES={shown}.")
    shared = first["variables"]["CUDA_VISIBLE_DEVICES"] == second["variables"]["CUDA_VISIBLE_DEVICES"]
    overlap = min(first["ended"], second["ended"]) - max(first["began"], second["began"])
    if shared and overlap > 0:
        found.append(f"Two jobs had one GPU at the same time, for {overlap:.1f} s.")
    if not shared and seen["machine_cards"] == 1:
        found.append("Two jobs have different GPUs on a machine with one.")
    local = seen["local"]
    if (
        local["cards"] != seen["machine_cards"]
        or local["variables"]["CUDA_VISIBLE_DEVICES"] != seen["machine_variable"]
    ):
        found.append(
            f"A job of the type local sees {local['cards']} GPUs, CUDA_VISIBLE_DEVICES="
            f"{local['variables']['CUDA_VISIBLE_DEVICES']}; the machine shows {seen['machine_cards']}, "
            f"{seen['machine_variable']}."
        )
    return found


def judge_library(cold: Mapping[str, Any], warm: Mapping[str, Any]) -> list[str]:
    """Judge a library whose import asks for CUDA: a warm job gives what a cold one gives."""
    found = [
        f"The {name} job fails: {job['failure']}" for name, job in (("cold", cold), ("warm", warm)) if job["failure"]
    ]
    if cold.get("device") != warm.get("device"):
        found.append(f"The cold job computes on {cold.get('device')}, the warm one on {warm.get('device')}.")
    return found
