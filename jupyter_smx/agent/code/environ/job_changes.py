"""Read from the spec of a job what it changes of the environment that preloaded packages found. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, List, Mapping, NamedTuple

from jupyter_smx.agent.code.environ import changes as environ_changes
from jupyter_smx.agent.contract import distribution, scriptmode
from jupyter_smx.agent.contract.hyperparameters import HyperparameterError
from jupyter_smx.agent.system.processes.environment import THREAD_VARIABLES

if TYPE_CHECKING:
    from jupyter_smx.agent.code.environ.changes import VariableChange
    from jupyter_smx.agent.frames import CompleteSpec
    from jupyter_smx.agent.paths import HostInfo


class JobChanges(NamedTuple):
    """What a job changes: variables that differ, and the names of those that are read when a process begins."""

    variables: List[VariableChange]
    at_start: List[str]


NO_CHANGES = JobChanges([], [])


def of_every_job(host_info: HostInfo, threads: int) -> Dict[str, str]:
    """Give the variables that each training job of a host finds with the same value."""
    first, second = (
        scriptmode.variables(
            scriptmode.complete({"source": "", "name": name, "hyperparameters": {name: name}}), host_info
        )
        for name in ("a", "b")
    )
    same = {name: value for name, value in first.items() if second.get(name) == value}
    return {**same, **dict.fromkeys(THREAD_VARIABLES, str(threads))}


def changes_of(spec: CompleteSpec, host_info: HostInfo, before: Mapping[str, str]) -> JobChanges:
    """Read what a job changes; ``before`` is what its preloads found. A job whose code is another program needs none.

    Nothing is said of a distribution that cannot be read, since such a job is refused.
    """
    entry_point = spec["entry_point"]
    if entry_point and not entry_point.endswith(".py"):
        return NO_CHANGES
    try:
        found = distribution.launcher_distribution(spec, host_info)
    except HyperparameterError:
        return NO_CHANGES
    if found is not None and found.runner == "mpi":
        return NO_CHANGES
    ranks = found is not None and found.runner == "torchrun"
    changes = environ_changes.changes_of(spec["environment"], spec["source"], before, ranks=ranks)
    at_start = environ_changes.read_at_start(spec["environment"], before)
    return JobChanges(environ_changes.differing(changes, before), at_start)
