"""Write what was seen: a table for the terminal, and the page of the documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.gpu_check.verdicts import PARTS

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOG_CHARACTERS = 2_500
"""Of each log; the end of the whole output must be seen where only its last 12,000 characters are."""


def verdict_lines(document: Mapping[str, Any]) -> list[str]:
    """Give a line for each check, and one for each thing that speaks against it."""
    lines = []
    for check in document["checks"]:
        lines.append(f"{check['verdict']:8}{check['name']:20}{check['seconds']:6.1f} s  {check['title']}")
        lines += [f"          {reason}" for reason in check["reasons"]]
    return lines


def log_lines(document: Mapping[str, Any]) -> list[str]:
    """Give the ends of the logs that explain what failed."""
    lines = []
    for name, text in document["logs"].items():
        lines += [f"--- {name}", *text[-_LOG_CHARACTERS:].splitlines()]
    return lines


_HEAD = (
    "`make gpu-check` runs jobs on a real GPU. This page is made from its figures: "
    "`python -m bench.gpu_check --page FILE`.\n"
)


def page(document: Mapping[str, Any]) -> str:
    """Write ``docs/gpu.md`` from the figures of a run."""
    machine = document["machine"]
    checks = {check["name"]: check for check in document["checks"]}
    parts = [
        "# On a GPU\n",
        _HEAD,
        _table(("", ""), [(name, machine.get(key, "")) for name, key in _MACHINE] + _run_rows(document)),
        "## Verdicts\n",
        _table(("check", "verdict", "seconds"), [_verdict_row(check) for check in document["checks"]]),
    ]
    for name, write in _SECTIONS:
        check = checks.get(name)
        if check is not None and check["figures"]:
            parts.append(write(check["figures"]))
    return "\n".join(parts)


_MACHINE = (
    ("card", "card"),
    ("driver", "driver"),
    ("memory of the card (MiB)", "memory_mib"),
    ("CUDA of PyTorch", "cuda"),
    ("PyTorch", "torch"),
    ("Python", "python"),
    ("kernel", "kernel"),
    ("CPU", "cpu"),
    ("cores", "cores"),
)


def _run_rows(document: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    return [("date", document["date"]), ("commit", f"`{document['commit'] or 'not known'}`")]


def _verdict_row(check: Mapping[str, Any]) -> tuple[Any, ...]:
    said = check["verdict"] + "".join(f"; {reason}" for reason in check["reasons"])
    return check["title"], said, f"{check['seconds']:.0f}"


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(str(cell).replace('|', ' ') for cell in row)} |\n" for row in lines)


def _preload_section(figures: Mapping[str, Any]) -> str:
    rows = [(name, *(figures[f"{name}_{word}"] for word in ("start", "preloaded", "available"))) for name in _BOTH]
    errors = [f"{figures[f'{name}_error']:.1e}" for name in _BOTH]
    rows = [(*row, error) for row, error in zip(rows, errors, strict=True)]
    head = ("job", "start", "torch imported before", "CUDA available", "relative error of a product of matrices")
    notes = " ".join(figures["warm_notes"])
    return (
        "## CUDA after preloading\n\nThe idle host imports torch and uses no CUDA. The next job is a fork of that "
        f"process and makes its own context.\n\n{_table(head, rows)}"
        + (f"\n`why` of the warm job: {notes}\n" if notes else "")
    )


_BOTH = ("cold", "warm")


def _kernel_section(figures: Mapping[str, Any]) -> str:
    medians, counts = figures["median_seconds"], figures["counts"]
    rows = [(name, *(f"{medians[kind][name] * 1000:.0f}" for kind in medians)) for name, _, _ in PARTS]
    head = ("milliseconds, median", *(f"{kind} ({counts[kind]})" for kind in medians))
    return (
        "## Time to the first kernel\n\nThe time begins when the script submits the job, or starts plain Python. "
        f"It ends when a first small kernel has ended.\n\n{_table(head, rows)}"
    )


def _usage_section(figures: Mapping[str, Any]) -> str:
    head = ("load", "GPU %, `job.usage`", "GPU %, `nvidia-smi`", "MiB, `job.usage`", "MiB, `nvidia-smi`", "read of")
    words = ("percent", "smi_percent", "mib", "smi_mib", "smi_is_of")
    rows = [(name, *(row[word] for word in words)) for name, row in figures["loads"].items()]
    return (
        "## Usage\n\nThe job works for a share of each tenth of a second. Percents are means over its seconds, "
        f"memory is the most that was read.\n\n{_table(head, rows)}"
    )


def _sequence_section(figures: Mapping[str, Any]) -> str:
    rows = [(moment, figures[f"{moment}_mib"]) for moment in ("before", "during", "between", "after")]
    return (
        f"## Two jobs one after another\n\nEach job holds {figures['asked_mib']} MiB. The second start is "
        f"{figures['second_start']}. After the first job its memory was free within "
        f"{figures['between_free_after_seconds']} s, which one call of `nvidia-smi` takes at least.\n\n"
        f"{_table(('moment', 'MiB in use, nvidia-smi'), rows)}"
    )


def _assignment_section(figures: Mapping[str, Any]) -> str:
    rows = [
        (name, kind, figures[key]["cards"], figures[key]["variables"]["CUDA_VISIBLE_DEVICES"] or "not set")
        for name, kind, key in (
            ("first", figures["type"], "first"),
            ("second, submitted at the same time", figures["type"], "second"),
            ("third", "local", "local"),
        )
    ]
    wait = figures["second"]["began"] - figures["first"]["ended"]
    waited = f" The second job began {wait:.2f} s after the first one's end.\n" if wait > 0 else "\n"
    head = ("job", "instance type", "GPUs that it sees", "`CUDA_VISIBLE_DEVICES`")
    return f"## Assignment\n\nThe machine has {figures['machine_cards']} GPU.{waited}\n{_table(head, rows)}"


def _library_section(figures: Mapping[str, Any]) -> str:
    rows = [(n, figures[n].get("preloaded"), figures[n].get("device"), figures[n]["failure"] or "none") for n in _BOTH]
    head = ("job", "library imported before", "device", "failure")
    return (
        "## A library whose import asks for CUDA\n\nAfter `torch.cuda.is_available()` in a process, its forks cannot "
        f"use CUDA. Such a library must not be imported ahead.\n\n{_table(head, rows)}"
    )


_SECTIONS = (
    ("cuda_after_preload", _preload_section),
    ("first_kernel", _kernel_section),
    ("usage", _usage_section),
    ("sequence", _sequence_section),
    ("assignment", _assignment_section),
    ("library", _library_section),
)
