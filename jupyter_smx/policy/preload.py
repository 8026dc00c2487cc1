"""Decide which imports of a finished job an idle host preloads for the next one, and what that saves."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from msgspec import ValidationError, convert
from msgspec.structs import replace

from jupyter_smx.model import redaction
from jupyter_smx.model.records.cluster import PreloadCost
from jupyter_smx.model.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from jupyter_smx.model.records.cluster import Host
    from jupyter_smx.model.results.reports import Why

EXCLUDED_PACKAGES = {
    "comet_ml": "it changes the libraries imported after it, which only some programs need",
    "cudf": "its import creates a CUDA context, which a forked process cannot use",
    "cugraph": "its import creates a CUDA context, which a forked process cannot use",
    "cuml": "its import creates a CUDA context, which a forked process cannot use",
    "ddtrace": "it changes the libraries imported after it, and starts threads",
    "horovod": "it loads MPI, and forking an MPI process is undefined behaviour",
    "jax": "its runtime starts many threads and warns on every fork, and its import reads the settings",
    "jnius": "its import starts a Java virtual machine, whose threads a forked process lacks",
    "juliacall": "its import starts Julia in this process, whose threads a forked process lacks",
    "keras": "its import chooses the backend from the environment, before a job sets it",
    "mpi4py": "its import initialises MPI, and forking an MPI process is undefined behaviour",
    "pycuda": "its import can create a CUDA context, which a forked process cannot use",
    "rmm": "its import creates a CUDA context, which a forked process cannot use",
    "rpy2": "its import can start R in this process, whose state must not be shared",
    "torch_xla": "its import starts runtime threads, which a forked process lacks",
}
"""Packages that are not preloaded unless the administrator lists them, and the reasons."""

PICKLER = "cloudpickle"
"""Its import takes 15 ms or more, several times as long as a warm start."""

_ADMIN_REASON = "the administrator excluded it (preload_never)"
_PRELOADED = "Already imported: "
MIN_SECONDS = 0.05
"""Seconds; users do not notice shorter times."""


def preload_candidates(
    asked: Iterable[str],
    imported: Iterable[str],
    host: Host,
    never: Collection[str] = (),
    *,
    has_values: bool = False,
) -> tuple[str, ...]:
    """Choose from the imports at the top of the code (dotted) and those that it had made at its end.

    With ``has_values``, if variables are sent or returned, add the package that reads and writes them.

    ``imported`` are top-level packages that were installed; modules of the user's own files are not among them, since
    they may differ in the next job. Left out are: loaded packages, those that failed before, forbidden ones, and the
    standard library, which costs next to nothing. A package is loaded together with a requested part of it.
    """
    known = {*host.preloaded, *host.preload_failures}
    roots = {_root(name) for name in known}
    unwanted = {_root(name) for name in host.preload_failures} | sys.stdlib_module_names | set(never)
    installed = [name for name in imported if name not in unwanted]
    parts = [name for name in asked if name not in known and _root(name) in installed]
    covered = roots | {_root(name) for name in parts}
    if has_values and PICKLER not in unwanted:
        installed.append(PICKLER)
    return tuple(dict.fromkeys([*parts, *(name for name in installed if name not in covered)]))


def preload_allowed(imports: Iterable[str], never: Collection[str]) -> tuple[str, ...]:
    """Choose what new hosts import for the job that they are launched for."""
    return tuple(name for name in imports if _root(name) not in never)


def import_seconds(imports: Iterable[str], host: Host) -> float:
    """Return the seconds that the imports of a job would have taken, by the host's own times for them."""
    wanted = {_root(name) for name in imports}
    ready = {name for name in host.preloaded if _root(name) in wanted}
    ready |= {other for name in ready if name in host.preload_costs for other in host.preload_costs[name].needs}
    return sum(host.preload_costs[name].seconds for name in ready if name in host.preload_costs)


def preload_notes(imports: Iterable[str], host: Host | None, never: Collection[str]) -> tuple[str, ...]:
    """Return which imports of a job are loaded already and how long they took, which are not, and why not."""
    wanted = sorted({name for name in imports if _root(name) not in sys.stdlib_module_names})
    there = host.preloaded if host else ()
    # A package is loaded together with any of its parts.
    ready = [name for name in wanted if any(f"{one}.".startswith(f"{name}.") for one in there)]
    notes = []
    if host is not None and ready:
        seconds = import_seconds(ready, host)
        took = f" (about {format_duration(seconds)} of imports)" if seconds >= MIN_SECONDS else ""
        notes.append(f"{_PRELOADED}{', '.join(ready)}{took}.")
    failures = host.preload_failures if host else {}
    notes += [f"Not preloaded: {name}, {why.removesuffix('.')}." for name, why in failures.items() if name in wanted]
    notes += [
        f"Not preloaded: {name}, {EXCLUDED_PACKAGES.get(_root(name), _ADMIN_REASON)}."
        for name in wanted
        if _root(name) in never and name not in (*ready, *failures)
    ]
    return tuple(notes)


def note_missing_preloads(
    why: Why, imports: Iterable[str], host: Host | None, said: Iterable[Mapping[str, Any]]
) -> Why:
    """Correct the reason of a start by the preloads that the job's hosts report as missing, and why.

    Each of ``said`` has ``modules`` and ``reasons``, as in agents' messages.
    """
    said = [one for one in said if one]
    absent = {str(name) for one in said for name in one.get("modules", ())}
    reasons = [redaction.redact_text(str(reason)) for one in said for reason in one.get("reasons", ())]
    if not absent and not reasons:
        return why
    notes: list[str] = []
    for note in why.notes:
        if not note.startswith(_PRELOADED) or host is None:
            notes.append(note)
        else:
            left = replace(host, preloaded=tuple(name for name in host.preloaded if name not in absent))
            notes += [one for one in preload_notes(imports, left, ()) if one.startswith(_PRELOADED)]
    return replace(why, notes=tuple(dict.fromkeys([*notes, *reasons])))


def preload_costs(said: Mapping[str, Any]) -> dict[str, PreloadCost]:
    """Parse an agent's report of its preloads; an older agent reports no costs."""
    try:
        return convert(said.get("costs", {}), dict[str, PreloadCost])
    except ValidationError:
        return {}


def _root(name: str) -> str:
    return name.partition(".")[0]
