"""Read from the spec of a job what it changes of the environment that preloaded packages found. Pure."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Dict, List, Mapping

from jupyter_smx.agent.code.environ import changes as environ_changes
from jupyter_smx.agent.code.environ import reasons as preload_reasons
from jupyter_smx.agent.code.installs import detection
from jupyter_smx.agent.contract import distribution, scriptmode
from jupyter_smx.agent.contract.hyperparameters import HyperparameterError
from jupyter_smx.agent.paths import ML
from jupyter_smx.agent.system.named_tuple import NamedTuple
from jupyter_smx.agent.system.processes.environment import THREAD_VARIABLES

if TYPE_CHECKING:
    from jupyter_smx.agent.code.environ.changes import VariableChange
    from jupyter_smx.agent.frames import CompleteSpec
    from jupyter_smx.agent.paths import HostInfo

_COMMAND_LINE = "command.sh"
"""Name of a file that would have the command of a job."""


class JobChanges(NamedTuple):
    """What a job changes: variables that differ, and the names of those that are read when a process begins.

    ``installs`` is the command by which its script installs packages; "" if it shows none.
    """

    variables: List[VariableChange]
    at_start: List[str]
    installs: str = ""

    @property
    def needs_interpreter(self) -> bool:
        """Return True if the job begins in a new interpreter, whatever is preloaded."""
        return bool(self.at_start or self.installs)

    def reasons(self) -> List[str]:
        """Return why the job starts in a new interpreter."""
        read = [preload_reasons.format_read_at_start(self.at_start)] if self.at_start else []
        return read + ([preload_reasons.format_installs(self.installs)] if self.installs else [])


NO_CHANGES = JobChanges([], [])


def of_every_job(host_info: HostInfo, threads: int) -> Dict[str, str]:
    """Return the variables that have the same value in each training job of a host."""
    first, second = (
        scriptmode.variables(
            scriptmode.complete({"source": "", "name": name, "hyperparameters": {name: name}}), host_info
        )
        for name in ("a", "b")
    )
    same = {name: value for name, value in first.items() if second.get(name) == value}
    return {**same, **dict.fromkeys(THREAD_VARIABLES, str(threads))}


def install_in_script(spec: CompleteSpec, host_info: HostInfo) -> str:
    """Return the command by which a job's script installs packages; "" if there is none, or no environment for it.

    A command without an entry point is a line of a shell, with its arguments.
    """
    name, text = spec["entry_point"], spec["source"]
    if spec["command"] and not name:
        name, text = _COMMAND_LINE, " ".join(map(shlex.quote, [*spec["command"], *spec["arguments"]]))
    command = detection.install_in(name, text)
    return command if command and shares_paths(spec, host_info) else ""


def shares_paths(spec: CompleteSpec, host_info: HostInfo) -> bool:
    """Return True if each process of a job finds a path below ``/opt/ml`` that its launcher names.

    Open MPI and Spark start processes on other hosts by the path that Python has on the first one.
    """
    if host_info.base == ML or len(host_info.hosts) < 2:  # noqa: PLR2004 - one host has its own paths
        return True
    try:
        found = distribution.launcher_distribution(spec, host_info)
    except HyperparameterError:
        return False
    return found is None or found.runner == "torchrun"


def changes_of(spec: CompleteSpec, host_info: HostInfo, before: Mapping[str, str]) -> JobChanges:
    """Read what a job changes; ``before`` is what its preloads found. A job whose code is another program needs none.

    Return no changes for a distribution that cannot be read, because such a job is refused.
    """
    entry_point = spec["entry_point"]
    if spec["command"] or (entry_point and not entry_point.endswith(".py")):
        return NO_CHANGES
    installs = install_in_script(spec, host_info)
    try:
        found = distribution.launcher_distribution(spec, host_info)
    except HyperparameterError:
        return NO_CHANGES
    if found is not None and found.runner == "mpi":
        return NO_CHANGES._replace(installs=installs)
    ranks = found is not None and found.runner == "torchrun"
    changes = environ_changes.changes_of(spec["environment"], spec["source"], before, ranks=ranks)
    at_start = environ_changes.read_at_start(spec["environment"], before)
    return JobChanges(environ_changes.differing(changes, before), at_start, installs)
