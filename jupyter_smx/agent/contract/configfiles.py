"""Configuration files of a training job on one host."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Dict

from jupyter_smx.agent.contract import platform_variables
from jupyter_smx.agent.contract.script import is_only_command, is_sdk3_driven, script_name
from jupyter_smx.agent.paths import checkpoint_folder

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import CompleteSpec
    from jupyter_smx.agent.paths import HostInfo

LOG_LEVEL = 20
DRIVER_CHANNELS = ("code", "sm_drivers")
"""Channels that SageMaker's SDK 3 adds: the folder of code, and that of its own drivers."""


def resource_config(host_info: HostInfo) -> Dict[str, Any]:
    """Return the content of ``resourceconfig.json`` of a training job."""
    return {
        "current_host": host_info.host,
        "current_instance_type": host_info.instance_type,
        "current_group_name": host_info.group,
        "hosts": sorted(host_info.hosts),
        "instance_groups": host_info.groups,
        "network_interface_name": host_info.interface,
        "topology": None,
    }


def _channel(mode: str, distribution: str, content_type: str) -> Dict[str, str]:
    found = {"TrainingInputMode": mode, "S3DistributionType": distribution, "RecordWrapperType": "None"}
    return {**found, "ContentType": content_type} if content_type else found


def input_data_config(spec: CompleteSpec) -> Dict[str, Any]:
    """Return the content of ``inputdataconfig.json``."""
    found = {
        channel["name"]: _channel(
            channel.get("mode") or "File",
            channel.get("distribution") or "FullyReplicated",
            channel.get("content_type") or "",
        )
        for channel in spec.get("channels") or []
    }
    if is_sdk3_driven(spec):
        found.update({name: _channel("File", "FullyReplicated", "") for name in DRIVER_CHANNELS})
    return found


def hyperparameters(spec: CompleteSpec, host_info: HostInfo) -> Dict[str, str]:
    """Return the content of ``hyperparameters.json``: the job's own, and what SageMaker's SDK 2 adds for a script.

    A command gets its own only, as a container with an entry point does: drivers of SDK 3 pass each one to the script.
    """
    if is_sdk3_driven(spec) or is_only_command(spec):
        return dict(spec.get("hyperparameters") or {})
    return toolkit_hyperparameters(spec, host_info)


def toolkit_hyperparameters(spec: CompleteSpec, host_info: HostInfo) -> Dict[str, str]:
    """Return the hyperparameters with those that SageMaker's SDK 2 adds for the toolkit."""
    given = spec.get("hyperparameters") or {}
    added = {
        "sagemaker_submit_directory": host_info.path("code"),
        "sagemaker_program": script_name(spec),
        "sagemaker_container_log_level": LOG_LEVEL,
        "sagemaker_job_name": spec.get("name", ""),
        "sagemaker_region": platform_variables.job_region(spec, host_info),
    }
    return {**{name: json.dumps(value) for name, value in added.items()}, **given}


def _checkpoint_config(spec: CompleteSpec) -> Dict[str, str]:
    if not spec.get("checkpoint"):
        return {}
    return {"input/config/checkpointconfig.json": json.dumps({"LocalPath": checkpoint_folder(spec)})}


def texts(spec: CompleteSpec, host_info: HostInfo) -> Dict[str, str]:
    """Return the text of every config file by its path under ``/opt/ml``."""
    return {
        "input/config/resourceconfig.json": json.dumps(resource_config(host_info)),
        "input/config/inputdataconfig.json": json.dumps(input_data_config(spec)),
        "input/config/hyperparameters.json": json.dumps(hyperparameters(spec, host_info)),
        **_checkpoint_config(spec),
    }
