"""Rules of sagemaker-training, the toolkit in SageMaker's images: job variables, intermediate outputs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, List

from jupyter_smx.agent.contract import configfiles
from jupyter_smx.agent.contract.hyperparameters import HyperparameterError, arguments, format_variable, split
from jupyter_smx.agent.contract.script import is_sdk3_driven, script_module
from jupyter_smx.agent.paths import channel_folder

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import CompleteSpec
    from jupyter_smx.agent.paths import HostInfo

INTERMEDIATE_FOLDER = os.path.join("output", "intermediate")
# Parameters for the toolkit itself; SM_FRAMEWORK_PARAMS has every other one that begins with sagemaker_.
_TOOLKIT_HYPERPARAMETERS = (
    "sagemaker_program",
    "sagemaker_submit_directory",
    "sagemaker_enable_cloudwatch_metrics",
    "sagemaker_region",
    "sagemaker_container_log_level",
    "sagemaker_job_name",
    "sagemaker_s3_output",
)
# Any of them runs the script in several processes, on the hosts of the groups that are named with it.
_STRATEGIES = (
    "sagemaker_mpi_enabled",
    "sagemaker_parameter_server_enabled",
    "sagemaker_distributed_dataparallel_enabled",
    "sagemaker_pytorch_ddp_enabled",
    "sagemaker_pytorch_xla_multi_worker_enabled",
    "sagemaker_multi_worker_mirrored_strategy_enabled",
    "sagemaker_torch_distributed_enabled",
)


def _groups(host_info: HostInfo) -> Dict[str, Any]:
    return {group["instance_group_name"]: group for group in host_info.groups}


def distribution_groups(framework: Dict[str, Any], host_info: HostInfo) -> List[str]:
    """Return the groups that a strategy runs on: those that were chosen, else the one of this host.

    :raises HyperparameterError: the choice is no list of names.
    """
    default = [host_info.group] if any(framework.get(name) for name in _STRATEGIES) else []
    groups = framework.get("sagemaker_distribution_instance_groups", default)
    if not isinstance(groups, list) or not all(isinstance(name, str) for name in groups):
        raise HyperparameterError(
            f"hyperparameters: sagemaker_distribution_instance_groups is {groups!r}; it must be a list of instance "
            f'group names, e.g. ["{host_info.group}"].'
        )
    return list(groups)


def leading_hosts(groups: List[str], host_info: HostInfo) -> List[str]:
    """Return the hosts that a strategy runs on, in the unsorted order of their groups' own lists."""
    return [host for group in host_info.groups if group["instance_group_name"] in groups for host in group["hosts"]]


def master(groups: List[str], host_info: HostInfo) -> str:
    """Return the host that leads: the first of a strategy's hosts, else the first of all."""
    return (leading_hosts(groups, host_info) or sorted(host_info.hosts))[0]


def _facts(spec: CompleteSpec, host_info: HostInfo, own: Dict[str, Any], framework: Dict[str, Any]) -> Dict[str, Any]:
    """Collect what SM_TRAINING_ENV holds; most variables are one entry of it."""
    rest = {name: value for name, value in framework.items() if name not in _TOOLKIT_HYPERPARAMETERS}
    chosen = distribution_groups(rest, host_info)
    first = master(chosen, host_info)
    resources = configfiles.resource_config(host_info)
    inputs = configfiles.input_data_config(spec)
    return {
        "additional_framework_parameters": rest,
        "channel_input_dirs": {name: channel_folder(host_info, "train", name) for name in inputs},
        "current_host": host_info.host,
        "current_instance_group": host_info.group,
        "current_instance_group_hosts": list(_groups(host_info).get(host_info.group, {}).get("hosts", [])),
        "current_instance_type": host_info.instance_type,
        "distribution_hosts": leading_hosts(chosen, host_info),
        "distribution_instance_groups": chosen,
        "framework_module": spec["environment"].get("SAGEMAKER_TRAINING_MODULE"),
        "hosts": sorted(host_info.hosts),
        "hyperparameters": own,
        "input_config_dir": host_info.path("input", "config"),
        "input_data_config": inputs,
        "input_dir": host_info.path("input"),
        "instance_groups": list(_groups(host_info)),
        "instance_groups_dict": _groups(host_info),
        "is_hetero": len(host_info.groups) > 1,
        "is_master": host_info.host == first,
        "is_modelparallel_enabled": None,
        "is_smddpmprun_installed": False,
        "is_smddprun_installed": False,
        "job_name": spec.get("name", ""),
        "log_level": framework["sagemaker_container_log_level"],
        "master_hostname": first,
        "model_dir": host_info.path("model"),
        "module_dir": str(framework["sagemaker_submit_directory"]),
        "module_name": script_module(str(framework["sagemaker_program"])),
        "network_interface_name": host_info.interface,
        "num_cpus": host_info.cpus,
        "num_gpus": host_info.gpus,
        "num_neurons": 0,
        "output_data_dir": host_info.path("output", "data"),
        "output_dir": host_info.path("output"),
        "output_intermediate_dir": host_info.path("output", "intermediate"),
        "resource_config": resources,
        "topology": resources["topology"],
        "user_entry_point": framework["sagemaker_program"],
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


def variables(spec: CompleteSpec, host_info: HostInfo) -> Dict[str, str]:
    """Return every variable that the toolkit sets, in its order: of equal names the later one counts."""
    own, framework = split(configfiles.toolkit_hyperparameters(spec, host_info))
    facts = _facts(spec, host_info, own, framework)
    found = {"SM_" + name.upper(): format_variable(facts[name]) for name in _DIRECT}
    found["SM_CHANNELS"] = format_variable(sorted(facts["channel_input_dirs"]))
    found["SM_HPS"] = format_variable(own)
    found["SM_USER_ARGS"] = format_variable(arguments(own))
    found["SM_FRAMEWORK_PARAMS"] = format_variable(facts["additional_framework_parameters"])
    found["SM_TRAINING_ENV"] = format_variable(facts)
    if facts["topology"]:
        found["SM_TOPOLOGY"] = format_variable(facts["topology"])
    for name, folder in facts["channel_input_dirs"].items():
        found["SM_CHANNEL_" + name.upper()] = folder
    for name, value in own.items():
        found["SM_HP_" + name.upper()] = format_variable(value)
    found["CURRENT_HOST"] = host_info.host
    found["SAGEMAKER_JOB_NAME"] = format_variable(framework["sagemaker_job_name"])
    found["SAGEMAKER_REGION"] = format_variable(framework["sagemaker_region"] or "")
    return found


def intermediate_destination(spec: CompleteSpec) -> str:
    """Return the job's own folder or URL for the files of ``/opt/ml/output/intermediate``, "" if they are not uploaded.

    The toolkit leaves an existing folder to the platform, so here the agent uploads the files.
    """
    if spec["kind"] != "train" or is_sdk3_driven(spec):
        return ""
    _own, framework = split(spec["hyperparameters"])
    place = framework.get("sagemaker_s3_output")
    if not isinstance(place, str) or not place or place.startswith("file:"):
        return ""
    return "/".join([place.rstrip("/"), spec["name"], *INTERMEDIATE_FOLDER.split(os.sep)])
