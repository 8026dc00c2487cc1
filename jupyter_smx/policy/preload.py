"""Which imports of a finished job an idle host should have ready for the next one, and what that saves."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from msgspec import ValidationError, convert

from jupyter_smx.model import duration
from jupyter_smx.model.records.cluster import PreloadCost

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from jupyter_smx.model.records.cluster import Host

EXCLUDED_PACKAGES = {
    "comet_ml": "it changes the libraries that are imported after it, and only in programs that want it to",
    "cudf": "its import makes a CUDA context, which no forked process can use",
    "cugraph": "its import makes a CUDA context, which no forked process can use",
    "cuml": "its import makes a CUDA context, which no forked process can use",
    "ddtrace": "it changes the libraries that are imported after it and starts threads",
    "horovod": "it loads MPI, and what a forked MPI process does is not defined",
    "jax": "its runtime is full of threads and warns of every fork, and it reads its settings while it is imported",
    "jnius": "its import starts a Java machine, whose threads no forked process has",
    "juliacall": "its import starts Julia in this process, whose threads no forked process has",
    "keras": "it chooses its backend from the environment while it is imported, before a job's is known",
    "mpi4py": "its import initialises MPI, and what a forked MPI process does is not defined",
    "pycuda": "its import can make a CUDA context, which no forked process can use",
    "rmm": "its import makes a CUDA context, which no forked process can use",
    "rpy2": "its import can start R in this process, whose state must not be shared",
    "torch_xla": "its import starts the threads of its runtime, which no forked process has",
}
"""Packages that are not preloaded unless the administrator's list says otherwise, and why not."""

_ADMIN_REASON = "the administrator does not want it preloaded (preload_never)"
_MIN_SAVED_SECONDS = 0.05
"""Seconds; less is not noticed by anybody."""


def preload_candidates(
    asked: Iterable[str], imported: Iterable[str], host: Host, never: Collection[str] = ()
) -> tuple[str, ...]:
    """Choose from what the code imports at its top (dotted) and what it had imported at its end.

    ``imported`` are top-level packages that were installed; modules of the user's own files are not among them and
    are never learnt, since they may be others when the next job comes. What is there, what could not be preloaded
    before, what is never to be, and the standard library, which costs next to nothing, are not worth it. A package of
    which a part is asked for comes with that part.
    """
    known = {*host.preloaded, *host.preload_failures}
    roots = {_root(name) for name in known}
    unwanted = {_root(name) for name in host.preload_failures} | sys.stdlib_module_names | set(never)
    installed = [name for name in imported if name not in unwanted]
    parts = [name for name in asked if name not in known and _root(name) in installed]
    covered = roots | {_root(name) for name in parts}
    return tuple(dict.fromkeys([*parts, *(name for name in installed if name not in covered)]))


def preload_allowed(imports: Iterable[str], never: Collection[str]) -> tuple[str, ...]:
    """Choose what new hosts import for the job that they are launched for."""
    return tuple(name for name in imports if _root(name) not in never)


def saved_seconds(imports: Iterable[str], host: Host) -> float:
    """Give the seconds that the imports of a job would have taken, as the host's own imports of the same took."""
    wanted = {_root(name) for name in imports}
    ready = {name for name in host.preloaded if _root(name) in wanted}
    ready |= {other for name in ready if name in host.preload_costs for other in host.preload_costs[name].needs}
    return sum(host.preload_costs[name].seconds for name in ready if name in host.preload_costs)


def preload_notes(imports: Iterable[str], host: Host | None, never: Collection[str]) -> tuple[str, ...]:
    """Say which imports of a job are there already and what that saves, which are not, and why not."""
    wanted = sorted({name for name in imports if _root(name) not in sys.stdlib_module_names})
    there = host.preloaded if host else ()
    # A package comes with any of its parts.
    ready = [name for name in wanted if any(f"{one}.".startswith(f"{name}.") for one in there)]
    notes = []
    if host is not None and ready:
        seconds = saved_seconds(ready, host)
        saved = f" (saved about {duration.format_duration(seconds)})" if seconds >= _MIN_SAVED_SECONDS else ""
        notes.append(f"Already imported: {', '.join(ready)}{saved}.")
    failures = host.preload_failures if host else {}
    notes += [f"Not preloaded: {name}, {why.removesuffix('.')}." for name, why in failures.items() if name in wanted]
    notes += [
        f"Not preloaded: {name}, {EXCLUDED_PACKAGES.get(_root(name), _ADMIN_REASON)}."
        for name in wanted
        if _root(name) in never and name not in (*ready, *failures)
    ]
    return tuple(notes)


def preload_costs(said: Mapping[str, Any]) -> dict[str, PreloadCost]:
    """Read what an agent says of its preloads; an older agent says nothing of costs."""
    try:
        return convert(said.get("costs", {}), dict[str, PreloadCost])
    except ValidationError:
        return {}


def _root(name: str) -> str:
    return name.partition(".")[0]
