"""The command with which SageMaker's images start the code of a job, as failure messages show it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, List

from jupyter_smx.agent.contract import distribution, entry_point, script, scriptmode
from jupyter_smx.agent.contract.hyperparameters import HyperparameterError

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import CompleteSpec
    from jupyter_smx.agent.paths import HostInfo


def command_prefix(spec: CompleteSpec, host_info: HostInfo) -> List[str]:
    """Return the command with which sagemaker-training starts such code."""
    how = entry_point.entry_kind(spec, script.code_folder(spec, host_info))
    if how == entry_point.COMMAND:
        return entry_point.shell_command(spec, host_info)
    name, *given = script.argv(spec, host_info)
    code = ["-m", script.script_module(name)] if how == entry_point.PACKAGE else [name]
    launcher = _launcher(spec, host_info)
    if launcher:
        return [*launcher, *code, *given]
    return [sys.executable, *([] if how == entry_point.PACKAGE else ["--"]), *code, *given]


def _launcher(spec: CompleteSpec, host_info: HostInfo) -> List[str]:
    """Return the arguments before the script if several processes run it."""
    try:
        found = distribution.launcher_distribution(spec, host_info)
    except HyperparameterError:
        return []  # it was killed before it could report that
    if found is None:
        return []
    variables = [*scriptmode.variables(spec, host_info), "PATH"]
    if found.driven:
        return distribution.sdk3_arguments(found, host_info, variables)
    if found.runner == "torchrun":
        return ["torchrun", *distribution.torchrun_arguments(found, host_info)]
    return ["mpirun", *distribution.mpirun_arguments(found, host_info, variables), sys.executable, "-m", "mpi4py"]
