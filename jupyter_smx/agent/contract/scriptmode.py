"""SageMaker's script-mode contract as pure functions: the environment of one job on one host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Mapping, cast

from jupyter_smx.agent.contract import (
    configfiles,
    distribution,
    platform_variables,
    processing,
    sdk3_driver,
    training_toolkit,
)
from jupyter_smx.agent.contract.script import is_sdk3_driven
from jupyter_smx.agent.paths import ML

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import CompleteSpec
    from jupyter_smx.agent.paths import HostInfo


def config_files(spec: CompleteSpec, host_info: HostInfo) -> Dict[str, str]:
    """Return the text of every config file by its path under ``/opt/ml``."""
    if spec["kind"] == "process":
        return processing.texts(spec, host_info)
    return {
        **configfiles.texts(spec, host_info),
        **(sdk3_driver.texts(spec, host_info) if is_sdk3_driven(spec) else {}),
    }


def variables(spec: CompleteSpec, host_info: HostInfo) -> Dict[str, str]:
    """Return every variable of the job: those of the request, overridden by ours."""
    found = dict(spec.get("environment") or {})
    found.update(platform_variables.variables(spec, host_info))
    if spec["kind"] == "train":
        found.update((sdk3_driver if is_sdk3_driven(spec) else training_toolkit).variables(spec, host_info))
        found.update(distribution.variables(spec, host_info))
    found.update(processing.variables(spec, host_info))
    if host_info.base != ML:
        found["SAGEMAKER_BASE_DIR"] = host_info.base
    return found


def complete(spec: Mapping[str, Any]) -> CompleteSpec:
    """Fill the fields that a controller may leave out.

    :raises ValueError: a field that cannot be used; the text names it.
    """
    if not isinstance(spec, dict) or not isinstance(spec.get("source"), str):
        raise ValueError("spec.source: the text of the cell is missing.")  # noqa: TRY004 - one kind for all fields
    kind = spec.get("kind", "train")
    if kind not in ("train", "process"):
        raise ValueError(f"spec.kind: {kind!r}; it must be train or process.")
    if spec.get("contract", "v2") not in ("v2", "v3"):
        raise ValueError(f"spec.contract: {spec['contract']!r}; it must be v2 or v3.")
    whole: Dict[str, Any] = {
        "name": "job",
        "filename": "<" + kind + ">",
        "hyperparameters": {},
        "environment": {},
        "channels": [],
        "outputs": [],
        "send": None,
        "receive": [],
        "contract": "v2",
        "distribution": "",
        "processes": 0,
        "warm_pool": False,
        "max_run": 0,
        "checkpoint": "",
        "checkpoint_local_path": "",
        "disable_output_compression": False,
        "keep_alive": 0,
        "imports": [],
        "gpus": [],
        "key": "",
        "source_dir": None,
        "entry_point": "",
        "arguments": [],
        "command": [],
        "image_workdir": False,
        "role": "",
        "image": "",
        "requirements": [],
        "script": "",
        "folder": "",
    }
    whole.update({name: value for name, value in spec.items() if value is not None})
    whole["kind"] = kind
    return cast("CompleteSpec", whole)
