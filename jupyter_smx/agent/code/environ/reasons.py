"""Sentences for ``why``: which preloads a job does not find, and what it changes that they read. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterable, List, Mapping, Sequence

from jupyter_smx.agent.code.imports import top_level_package
from jupyter_smx.agent.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import MissingPreloadsView

_MOST_NAMES = 8


class MissingPreloads(NamedTuple):
    """Preloaded modules that a job cannot use, and messages with the reasons."""

    modules: List[str]
    reasons: List[str]

    def view(self) -> MissingPreloadsView:
        """Return the value as it is sent to the controller."""
        return {"modules": self.modules, "reasons": self.reasons}


def format_names(names: Iterable[str]) -> str:
    """Join names, of many the first ones."""
    names = list(names)
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def format_left_out(readers: Mapping[str, Sequence[str]], modules: Iterable[str]) -> List[str]:
    """Return which preloads a job does not use; ``readers`` are packages and the changed variables that they read."""
    said = [
        f"Not preloaded: {package}, its import reads {format_names(names)}, which this job changes."
        for package, names in sorted(readers.items())
    ]
    others = sorted({top_level_package(name) for name in modules}.difference(readers))
    if others:
        said.append(f"Not preloaded: {format_names(others)}, which need {format_names(sorted(readers))}.")
    return said


NEW_INTERPRETER = (
    "This job began in a new interpreter, without preloads. The host prepares a process for the next job of its kind."
)


def format_read_at_start(names: Sequence[str]) -> str:
    """Return the message that a job began in a new interpreter for variables that are read when a process begins."""
    verb = "is" if len(names) == 1 else "are"
    return (
        f"{format_names(names)} {verb} read when Python starts: this job began in a new interpreter, without preloads."
    )


def format_installs(command: str) -> str:
    """Return the message that a job began in a new interpreter since its code installs packages by a command."""
    return (
        f"This job's code installs packages ({command}): it began in a new interpreter, without preloads, with an "
        "environment of its own that is deleted with the job."
    )


def format_changed(names: Sequence[str]) -> str:
    """Return the message that a job imports its packages itself, since some of them are not what was preloaded."""
    verb = "has" if len(names) == 1 else "have"
    return f"Not preloaded: {format_names(names)} {verb} changed on disk since, so this job imported all packages anew."


def format_unseen(names: Sequence[str], packages: Sequence[str]) -> str:
    """Return which changed variables the compiled parts of preloaded packages may have read already."""
    return (
        f"{format_names(names)}: the compiled parts of {format_names(packages)} may have read "
        f"{'it' if len(names) == 1 else 'them'} before this job; if so, name the package in preload_never."
    )


def format_late(readers: Mapping[str, Sequence[str]]) -> List[str]:
    """Return which packages the code imported after changing variables they read, if its source does not show it."""
    return [
        f"{package} had been preloaded before this job's code changed {format_names(names)}, which its import reads: "
        "set it by --env, or name the package in preload_never."
        for package, names in sorted(readers.items())
    ]
