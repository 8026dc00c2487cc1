"""The script of a job: its file, its folder, where it starts, and its arguments."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, List

from jupyter_smx.agent.contract import hyperparameters
from jupyter_smx.agent.paths import input_folder

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import CompleteSpec
    from jupyter_smx.agent.paths import HostInfo


ROOT = "/"
"""Where a ScriptProcessor starts its script: SageMaker's images set no other working folder."""
ARCHIVE = "sourcedir.tar.gz"
"""Name that SageMaker's SDK gives the packed folder of code."""


def is_sdk3_driven(spec: CompleteSpec) -> bool:
    """Return True if the drivers of SageMaker's Python SDK 3 run the script; else the toolkit in its images does."""
    return bool(spec["kind"] == "train" and spec["contract"] == "v3")


def is_only_command(spec: CompleteSpec) -> bool:
    """Return True if a command is all that runs, without a script."""
    return bool(spec["command"]) and not spec["entry_point"]


def is_framework_processor(spec: CompleteSpec) -> bool:
    """Return True if SageMaker's FrameworkProcessor would start the job, because it has a folder of code."""
    return bool(spec["kind"] == "process" and spec["source_dir"]) and not spec["distribution"]


def code_folder(spec: CompleteSpec, host_info: HostInfo) -> str:
    """Return the folder of the script and of what lies beside it; a cell alone is always where SageMaker puts it."""
    if spec["kind"] == "process" and (spec["source_dir"] or spec["entry_point"]):
        return host_info.path("processing", "input", "code")
    if is_sdk3_driven(spec):
        return host_info.path("input", "data", "code")
    return host_info.path("code")


def code_target_folder(spec: CompleteSpec, host_info: HostInfo, ml: str) -> str:
    """Return the path by which the folder of the code is filled; ``ml`` is the host's own of ``/opt/ml``.

    By that path it can be filled by a rename. If an input is mounted over it, such as one at
    ``/opt/ml/processing/input``, only the job's own path leads into that input.
    """
    folder = code_folder(spec, host_info)
    holding = [input_folder(host_info, spec["kind"], one) for one in spec["channels"]]
    covered = any(folder.startswith(one + os.sep) for one in holding)
    return folder if covered else code_folder(spec, host_info._replace(base=ml))


def working_folder(spec: CompleteSpec, host_info: HostInfo) -> str:
    """Return the folder that the script starts in.

    SageMaker's FrameworkProcessor changes to its code, the ScriptProcessor stays in the working folder of the image.
    The program of an image starts there as well, and other code with ``--workdir image``.
    """
    if spec.get("image_workdir"):
        return host_info.image_workdir or ROOT
    if starts_in_root(spec, host_info):
        return ROOT
    return code_folder(spec, host_info) if spec["source_dir"] or is_sdk3_driven(spec) else host_info.path("code")


def starts_in_root(spec: CompleteSpec, host_info: HostInfo) -> bool:
    """Return True if a script starts in ``/``: as a ScriptProcessor starts it, on a host whose jobs have their own."""
    is_script = spec["kind"] == "process" and not spec["source_dir"] and not spec["distribution"]
    return is_script and host_info.own_root


def script_name(spec: CompleteSpec) -> str:
    """Return the path of the script within its folder: the entry point, or the name of the cell's file."""
    return spec["entry_point"] or spec["script"] or ("process.py" if spec["kind"] == "process" else "train.py")


def free_script_name(folder: str, name: str) -> str:
    """Find a name for the cell as a script that no file of the user's has."""
    stem, number = name[: -len(".py")], 1
    while os.path.exists(os.path.join(folder, name)):
        name = f"{stem}_cell{number if number > 1 else ''}.py"
        number += 1
    return name


def search_path(spec: CompleteSpec, host_info: HostInfo) -> List[str]:
    """Return the folders in which imports look first: the script's own, as for any script, then that of all code."""
    folder = code_folder(spec, host_info)
    beside = os.path.dirname(os.path.join(folder, script_name(spec)))
    return list(dict.fromkeys([beside, folder]))


def argv(spec: CompleteSpec, host_info: HostInfo) -> List[str]:
    """Return ``sys.argv`` of the script; a processing job gets its arguments as they are."""
    name, given = script_name(spec), spec.get("hyperparameters") or {}
    if spec.get("image_workdir"):
        name = os.path.join(code_folder(spec, host_info), name)  # it does not start beside its script
    if is_sdk3_driven(spec):
        return [name, *hyperparameters.sdk3_arguments(given)]
    if starts_in_root(spec, host_info) or (
        spec["kind"] == "process" and spec["entry_point"] and not spec["source_dir"]
    ):
        name = os.path.join(code_folder(spec, host_info), name)  # how the ScriptProcessor starts it
    return [name, *hyperparameters.arguments(hyperparameters.split(given)[0]), *spec["arguments"]]


def script_module(name: str) -> str:
    """Return the module name that sagemaker-training uses for a script: its name without ``.py``."""
    stem, ending = os.path.splitext(name)
    return stem if ending == ".py" else name
