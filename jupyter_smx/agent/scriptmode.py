"""SageMaker's contract with a script: the config files and variables of one job on one host, as pure functions."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, NamedTuple, Tuple

ML = "/opt/ml"
ARCHIVES = (("model", "model.tar.gz"), (os.path.join("output", "data"), "output.tar.gz"))
"""Folders below ``/opt/ml`` that come home as one file each, and its name."""
_LOG_LEVEL = 20
# Names that sagemaker-training keeps for itself; user hyperparameters never have them.
_PRIVATE = ("_tuning_objective_metric", "default_user_module_name")


class Place(NamedTuple):
    """The host that a job runs on: its names, its share, and where its ``/opt/ml`` really is."""

    host: str
    hosts: List[str]
    groups: List[Dict[str, Any]]
    group: str
    instance_type: str
    cpus: int
    gpus: int
    base: str = ML
    interface: str = "eth0"

    def path(self, *names: str) -> str:
        """Give a path under ``/opt/ml`` of this host."""
        return os.path.join(self.base, *names)

    def real(self, path: str) -> str:
        """Give where a folder below ``/opt/ml`` really is; the user wrote it absolute, or relative to ``/opt/ml``.

        :raises ValueError: it is no folder below ``/opt/ml``; the text names it.
        """
        inside = os.path.relpath(os.path.join(ML, path), ML)
        if inside in (os.curdir, os.pardir) or inside.startswith(os.pardir + os.sep):
            raise ValueError(f"spec.outputs: {path!r} is no folder below {ML}.")
        return os.path.join(self.base, inside)


def compact(value: Any) -> str:
    """Write JSON as sagemaker-training does: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def decode(text: str) -> Any:
    """Read one hyperparameter: JSON where it is JSON, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def split(hyperparameters: Dict[str, str]) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """Read all hyperparameters: the user's own, and those that begin with ``sagemaker_``."""
    own, framework = {}, {}
    for name, text in hyperparameters.items():
        if name.startswith("sagemaker_"):
            framework[name] = decode(text)
        elif name not in _PRIVATE:
            own[name] = decode(text)
    return own, framework


def _word(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        return ",".join(f"{key}={value[key]}" for key in sorted(value))
    return str(value)


def arguments(own: Dict[str, Any]) -> List[str]:
    """Give the words that follow the script's name: sorted, always a name and a value."""
    words = []
    for name in sorted(own):
        words += [("-" if len(name) == 1 else "--") + name, _word(own[name])]
    return words


def variable(value: Any) -> str:
    """Write the value of one variable: text as it is, nothing for None, else JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else compact(value)


def channel_folder(place: Place, kind: str, name: str) -> str:
    """Give the folder in which an input is presented."""
    return place.path("processing", "input", name) if kind == "process" else place.path("input", "data", name)


def resource_config(place: Place) -> Dict[str, Any]:
    """Give the content of ``resourceconfig.json`` of a training job."""
    return {
        "current_host": place.host,
        "current_instance_type": place.instance_type,
        "current_group_name": place.group,
        "hosts": sorted(place.hosts),
        "instance_groups": place.groups,
        "network_interface_name": place.interface,
    }


def input_data_config(spec: Dict[str, Any]) -> Dict[str, Any]:
    """Give the content of ``inputdataconfig.json``."""
    return {
        channel["name"]: {
            "TrainingInputMode": channel.get("mode") or "File",
            "S3DistributionType": channel.get("distribution") or "FullyReplicated",
            "RecordWrapperType": "None",
        }
        for channel in spec.get("channels") or []
    }


def _processing_config(spec: Dict[str, Any], place: Place) -> Dict[str, Any]:
    inputs = [
        {
            "InputName": channel["name"],
            "S3Input": {
                "LocalPath": channel_folder(place, "process", channel["name"]),
                "S3Uri": channel.get("source", ""),
                "S3DataDistributionType": channel.get("distribution") or "FullyReplicated",
                "S3DataType": "S3Prefix",
                "S3InputMode": channel.get("mode") or "File",
                "S3CompressionType": "None",
                "S3DownloadMode": "StartOfJob",
            },
        }
        for channel in spec.get("channels") or []
    ]
    outputs = [
        {
            "OutputName": output["name"],
            "S3Output": {"LocalPath": place.real(output["path"]), "S3Uri": "", "S3UploadMode": "EndOfJob"},
        }
        for output in spec.get("outputs") or []
    ]
    return {
        "ProcessingJobArn": "",
        "ProcessingJobName": spec.get("name", ""),
        "AppSpecification": {
            "ImageUri": "",
            "ContainerEntrypoint": ["python3", argv(spec, place)[0]],
            "ContainerArguments": argv(spec, place)[1:] or None,
        },
        "Environment": spec.get("environment") or {},
        "ProcessingInputs": inputs,
        "ProcessingOutputConfig": {"Outputs": outputs, "KmsKeyId": None},
        "ProcessingResources": {
            "ClusterConfig": {"InstanceCount": len(place.hosts), "InstanceType": place.instance_type}
        },
        "RoleArn": spec.get("role", ""),
        "StoppingCondition": {"MaxRuntimeInSeconds": int(spec.get("max_run") or 0)},
    }


def config_files(spec: Dict[str, Any], place: Place) -> Dict[str, str]:
    """Give the text of every config file by its path under ``/opt/ml``."""
    if spec["kind"] == "process":
        hosts = {"current_host": place.host, "hosts": sorted(place.hosts)}
        return {
            "config/resourceconfig.json": json.dumps(hosts),
            "config/processingjobconfig.json": json.dumps(_processing_config(spec, place)),
        }
    return {
        "input/config/resourceconfig.json": json.dumps(resource_config(place)),
        "input/config/inputdataconfig.json": json.dumps(input_data_config(spec)),
        "input/config/hyperparameters.json": json.dumps(spec.get("hyperparameters") or {}),
    }


def _groups(place: Place) -> Dict[str, Any]:
    return {group["instance_group_name"]: group for group in place.groups}


def _group_hosts(place: Place) -> List[str]:
    return list(_groups(place).get(place.group, {}).get("hosts") or place.hosts)


def code_folder(spec: Dict[str, Any], place: Place) -> str:
    """Give the folder of the script and of what lies beside it; a cell alone is always in ``/opt/ml/code``."""
    if spec["kind"] == "process" and (spec["source_dir"] or spec["entry_point"]):
        return place.path("processing", "input", "code")
    return place.path("code")


def working_folder(spec: Dict[str, Any], place: Place) -> str:
    """Give the folder that the script starts in.

    SageMaker's FrameworkProcessor changes to its code, the ScriptProcessor stays in the working folder of the image.
    """
    return code_folder(spec, place) if spec["source_dir"] else place.path("code")


def script_name(spec: Dict[str, Any]) -> str:
    """Give the path of the script within its folder: the entry point, or the name that the cell has as a script."""
    return spec["entry_point"] or spec["script"] or ("process.py" if spec["kind"] == "process" else "train.py")


def search_path(spec: Dict[str, Any], place: Place) -> List[str]:
    """Give the folders in which imports look first: the script's own, as for any script, then that of all code."""
    folder = code_folder(spec, place)
    beside = os.path.dirname(os.path.join(folder, script_name(spec)))
    return list(dict.fromkeys([beside, folder]))


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
        "input_data_config": input_data_config(spec),
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
        "resource_config": resource_config(place),
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


def _training_variables(spec: Dict[str, Any], place: Place) -> Dict[str, str]:
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


def _name(text: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in text).upper()


def variables(spec: Dict[str, Any], place: Place) -> Dict[str, str]:
    """Give every variable of the job: the wish's own first, ours win."""
    found = dict(spec.get("environment") or {})
    if spec["kind"] == "process":
        for channel in spec.get("channels") or []:
            found["SMX_INPUT_" + _name(channel["name"])] = channel_folder(place, "process", channel["name"])
        for output in spec.get("outputs") or []:
            found["SMX_OUTPUT_" + _name(output["name"])] = place.real(output["path"])
    else:
        found.update(_training_variables(spec, place))
        for output in spec.get("outputs") or []:
            found["SMX_OUTPUT_" + _name(output["name"])] = place.real(output["path"])
    if place.base != ML:
        found["SAGEMAKER_BASE_DIR"] = place.base
    found["SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY"] = place.path("sagemaker", "warmpoolcache")
    return found


def argv(spec: Dict[str, Any], place: Place) -> List[str]:
    """Give ``sys.argv`` of the script; a processing job's hyperparameters are what SageMaker calls its arguments."""
    name = script_name(spec)
    if spec["kind"] == "process" and spec["entry_point"] and not spec["source_dir"]:
        name = os.path.join(code_folder(spec, place), name)  # how the ScriptProcessor starts it
    return [name, *arguments(split(spec.get("hyperparameters") or {})[0])]


def outputs(spec: Dict[str, Any], place: Place) -> List[Tuple[str, str]]:
    """Give name and real folder of each output that comes home as files; a training job's are archives.

    :raises ValueError: a folder is none below ``/opt/ml``; the text names it.
    """
    found = [(output["name"], place.real(output["path"])) for output in spec.get("outputs") or []]
    archived = {place.path(folder) for folder, _archive in ARCHIVES} if spec["kind"] == "train" else set()
    return [(name, folder) for name, folder in found if folder not in archived]


def complete(spec: Dict[str, Any]) -> Dict[str, Any]:
    """Fill the fields that a controller may leave out.

    :raises ValueError: a field that cannot be used; the text names it.
    """
    if not isinstance(spec, dict) or not isinstance(spec.get("source"), str):
        raise ValueError("spec.source: the text of the cell is missing.")  # noqa: TRY004 - one kind for all fields
    kind = spec.get("kind", "train")
    if kind not in ("train", "process"):
        raise ValueError(f"spec.kind: {kind!r}; it is train or process.")
    whole: Dict[str, Any] = {
        "name": "job",
        "filename": "<" + kind + ">",
        "hyperparameters": {},
        "environment": {},
        "channels": [],
        "outputs": [],
        "send": None,
        "receive": [],
        "max_run": 0,
        "keep_alive": 0,
        "imports": [],
        "gpus": [],
        "source_dir": None,
        "entry_point": "",
        "script": "",
        "folder": "",
    }
    whole.update({name: value for name, value in spec.items() if value is not None})
    whole["kind"] = kind
    return whole
