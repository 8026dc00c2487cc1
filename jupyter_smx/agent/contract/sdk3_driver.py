"""Variables and files that the drivers of SageMaker's Python SDK 3 create for a training job."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Dict

from jupyter_smx.agent.contract import configfiles
from jupyter_smx.agent.contract.hyperparameters import decode, format_sdk3_value
from jupyter_smx.agent.contract.script import script_name
from jupyter_smx.agent.paths import channel_folder

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import CompleteSpec
    from jupyter_smx.agent.paths import HostInfo

_MASTER = "algo-1"
"""Name of the leader in SDK 3, which has a fixed port there; here a job may share its machine with another one."""


def _facts(spec: CompleteSpec, host_info: HostInfo) -> Dict[str, Any]:
    """Return the content of SM_TRAINING_ENV, in its order; most of it is also a variable of its own."""
    inputs = configfiles.input_data_config(spec)
    given = configfiles.hyperparameters(spec, host_info)
    return {
        "channel_input_dirs": {name: channel_folder(host_info, "train", name) for name in inputs},
        "current_host": host_info.host,
        "current_instance_type": host_info.instance_type,
        "hosts": sorted(host_info.hosts),
        "master_addr": host_info.address_of(_MASTER),
        "master_port": host_info.port,
        "hyperparameters": {name: decode(text) for name, text in given.items()},
        "input_data_config": inputs,
        "input_config_dir": host_info.path("input", "config"),
        "input_data_dir": host_info.path("input", "data"),
        "input_dir": host_info.path("input"),
        "job_name": spec.get("name", ""),
        "log_level": configfiles.LOG_LEVEL,
        "model_dir": host_info.path("model"),
        "network_interface_name": host_info.interface,
        "num_cpus": host_info.cpus,
        "num_gpus": host_info.gpus,
        "num_neurons": 0,
        "output_data_dir": host_info.path("output", "data"),
        "resource_config": configfiles.resource_config(host_info),
    }


_RENAMED_FACTS = ("channel_input_dirs", "hyperparameters", "job_name")
"""Facts that are no variable of that name."""


def _distributed_config(spec: CompleteSpec) -> Dict[str, Any]:
    """Return the content of ``distributed.json``: what the SDK's object for the launcher has."""
    if not spec["distribution"]:
        return {}
    other = "mpi_additional_options" if spec["distribution"] == "mpi" else "smp"
    return {"process_count_per_node": spec["processes"] or None, other: None}


def _values(spec: CompleteSpec, host_info: HostInfo) -> Dict[str, Any]:
    """Return the value of each variable by its name, before it is written as text."""
    facts = _facts(spec, host_info)
    channels, own = facts["channel_input_dirs"], facts["hyperparameters"]
    found = {"SM_" + name.upper(): value for name, value in facts.items() if name not in _RENAMED_FACTS}
    found["SM_OUTPUT_DIR"] = host_info.path("output")
    found["SM_OUTPUT_FAILURE"] = host_info.path("output", "failure")
    found["SM_SOURCE_DIR"] = channels["code"]
    found["SM_ENTRY_SCRIPT"] = script_name(spec)
    if spec["distribution"]:
        found["SM_DISTRIBUTED_DRIVER_DIR"] = host_info.path("input", "data", "sm_drivers", "distributed_drivers")
        found["SM_DISTRIBUTED_CONFIG"] = _distributed_config(spec)
    found.update({"SM_CHANNEL_" + name.upper(): folder for name, folder in channels.items()})
    found["SM_CHANNELS"] = list(channels)
    found.update({variable_name(name): value for name, value in own.items()})
    found["SM_HPS"] = own
    found["SM_HOST_COUNT"] = len(facts["hosts"])
    found["SM_CURRENT_HOST_RANK"] = facts["hosts"].index(host_info.host)
    found["SM_TRAINING_ENV"] = facts
    return found


def variable_name(hyperparameter: str) -> str:
    """Name the variable of a hyperparameter, in which a dash is no dash."""
    return "SM_HP_" + hyperparameter.replace("-", "_").upper()


def variables(spec: CompleteSpec, host_info: HostInfo) -> Dict[str, str]:
    """Return every variable that the drivers set."""
    return {name: format_sdk3_value(value) for name, value in _values(spec, host_info).items()}


def texts(spec: CompleteSpec, host_info: HostInfo) -> Dict[str, str]:
    """Return the text of the files that come with the drivers, by its path under ``/opt/ml``."""
    source = {"source_dir": host_info.path("input", "data", "code"), "entry_script": script_name(spec)}
    lines = [f"export {name}='{value}'\n" for name, value in variables(spec, host_info).items()]
    return {
        "input/sm_training.env": "".join(lines),
        "input/data/sm_drivers/sourcecode.json": json.dumps(source),
        "input/data/sm_drivers/distributed.json": json.dumps(_distributed_config(spec)),
    }
