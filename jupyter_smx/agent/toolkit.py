"""The variables of a training job as sagemaker-training, the toolkit in SageMaker's images, sets them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List

from jupyter_smx.agent import configfiles
from jupyter_smx.agent.hyperparameters import arguments, split, variable
from jupyter_smx.agent.place import channel_folder
from jupyter_smx.agent.script import script_name

if TYPE_CHECKING:
    from jupyter_smx.agent.place import Place

_LOG_LEVEL = 20


def _groups(place: Place) -> Dict[str, Any]:
    return {group["instance_group_name"]: group for group in place.groups}


def _group_hosts(place: Place) -> List[str]:
    return list(_groups(place).get(place.group, {}).get("hosts") or place.hosts)


def _facts(spec: Dict[str, Any], place: Place) -> Dict[str, Any]:
    """Collect what SM_TRAINING_ENV holds; most variables are one entry of it."""
    own, framework = split(spec.get("hyperparameters") or {})
    hosts = sorted(place.hosts)
    channels = {channel["name"]: channel_folder(place, "train", channel["name"]) for channel in spec["channels"]}
    # Without a distribution strategy the group list is empty and the first host leads.
    return {
        "additional_framework_parameters": framework,
        "channel_input_dirs": channels,
        "current_host": place.host,
        "current_instance_group": place.group,
        "current_instance_group_hosts": _group_hosts(place),
        "current_instance_type": place.instance_type,
        "distribution_hosts": hosts,
        "distribution_instance_groups": [],
        "framework_module": None,
        "hosts": hosts,
        "hyperparameters": own,
        "input_config_dir": place.path("input", "config"),
        "input_data_config": configfiles.input_data_config(spec),
        "input_dir": place.path("input"),
        "instance_groups": list(_groups(place)),
        "instance_groups_dict": _groups(place),
        "is_hetero": len(place.groups) > 1,
        "is_master": place.host == hosts[0],
        "is_modelparallel_enabled": None,
        "is_smddpmprun_installed": False,
        "is_smddprun_installed": False,
        "job_name": spec.get("name", ""),
        "log_level": _LOG_LEVEL,
        "master_hostname": hosts[0],
        "model_dir": place.path("model"),
        "module_dir": place.path("code"),
        "module_name": script_name(spec)[: -len(".py")],
        "network_interface_name": place.interface,
        "num_cpus": place.cpus,
        "num_gpus": place.gpus,
        "num_neurons": 0,
        "output_data_dir": place.path("output", "data"),
        "output_dir": place.path("output"),
        "output_intermediate_dir": place.path("output", "intermediate"),
        "resource_config": configfiles.resource_config(place),
        "topology": None,
        "user_entry_point": script_name(spec),
    }


# Variables whose name is SM_ and the name of the fact in capitals.
_DIRECT = (
    "hosts",
    "current_host",
    "network_interface_name",
    "current_instance_type",
    "current_instance_group",
    "current_instance_group_hosts",
    "instance_groups",
    "instance_groups_dict",
    "distribution_instance_groups",
    "is_hetero",
    "num_cpus",
    "num_gpus",
    "num_neurons",
    "module_name",
    "module_dir",
    "model_dir",
    "input_dir",
    "input_config_dir",
    "output_dir",
    "output_data_dir",
    "output_intermediate_dir",
    "log_level",
    "framework_module",
    "resource_config",
    "input_data_config",
    "user_entry_point",
)


def variables(spec: Dict[str, Any], place: Place) -> Dict[str, str]:
    """Give every variable that the script of a training job sees, but those of the wish."""
    facts = _facts(spec, place)
    own = facts["hyperparameters"]
    found = {"SM_" + name.upper(): variable(facts[name]) for name in _DIRECT}
    found["SM_CHANNELS"] = variable(sorted(facts["channel_input_dirs"]))
    found["SM_HPS"] = variable(own)
    found["SM_USER_ARGS"] = variable(arguments(own))
    found["SM_FRAMEWORK_PARAMS"] = variable(facts["additional_framework_parameters"])
    found["SM_TRAINING_ENV"] = variable(facts)
    for name, value in own.items():
        found["SM_HP_" + name.upper()] = variable(value)
    for name, folder in facts["channel_input_dirs"].items():
        found["SM_CHANNEL_" + name.upper()] = folder
    found["CURRENT_HOST"] = place.host
    found["TRAINING_JOB_NAME"] = spec.get("name", "")
    found["TRAINING_JOB_ARN"] = ""
    if spec["source_dir"] or spec["entry_point"]:
        found["SAGEMAKER_PROGRAM"] = facts["user_entry_point"]
        found["SAGEMAKER_SUBMIT_DIRECTORY"] = facts["module_dir"]
    framework = facts["additional_framework_parameters"]
    found["SAGEMAKER_JOB_NAME"] = variable(framework.get("sagemaker_job_name", spec.get("name", "")))
    return found
