"""The contract of a processing job: its configuration files and its variables."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any, Dict, List, Mapping

from jupyter_smx.agent.contract import platform_variables, script
from jupyter_smx.agent.paths import AWS_VARIABLES, input_folder

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import CompleteSpec
    from jupyter_smx.agent.paths import HostInfo


_RUNPROC = """\
#!/bin/bash
# How a FrameworkProcessor starts its script. This job was started without it, in the same folder by the same words.
cd {folder} || exit
tar -xzf {archive} || exit
if [ -f requirements.txt ]; then pip install -r requirements.txt || exit; fi
{start} "$@"
"""
_VOLUME = 30
"""Gigabytes that SageMaker's SDK asks for; nothing here depends on it."""


def _input(name: str, folder: str, source: str, channel: Mapping[str, Any]) -> Dict[str, Any]:
    return {
        "InputName": name,
        "S3Input": {
            "LocalPath": folder,
            "S3Uri": source,
            "S3DataDistributionType": channel.get("distribution") or "FullyReplicated",
            "S3DataType": channel.get("data_type") or "S3Prefix",
            "S3InputMode": channel.get("mode") or "File",
            "S3CompressionType": "None",
            "S3DownloadMode": "StartOfJob",
        },
    }


def _starter(host_info: HostInfo) -> str:
    return host_info.path("processing", "input", "entrypoint", "runproc.sh")


def _entrypoint(spec: CompleteSpec, host_info: HostInfo) -> List[str]:
    if script.is_framework_processor(spec):
        return ["/bin/bash", _starter(host_info)]
    if spec["command"] and not spec["entry_point"]:
        return list(spec["command"])
    name = script.argv(spec, host_info)[0]
    if spec["command"]:
        return [*spec["command"], name]
    return ["python3", name] if name.endswith(".py") else [name]


def _inputs(spec: CompleteSpec, host_info: HostInfo) -> List[Dict[str, Any]]:
    """Name the channels, and the code, which is an input like any other."""
    found = [
        _input(one["name"], input_folder(host_info, "process", one), one.get("source", ""), one)
        for one in spec["channels"]
    ]
    if spec["source_dir"] or spec["entry_point"]:
        found.append(_input("code", script.code_folder(spec, host_info), spec["folder"], {}))
    if script.is_framework_processor(spec):
        found.append(_input("entrypoint", host_info.path("processing", "input", "entrypoint"), "", {}))
    return found


def _requested_variables(environment: Mapping[str, str]) -> Dict[str, str]:
    """Return the variables of the request, without those that the front for clients of AWS added, as its key."""
    added = {AWS_VARIABLES, *environment.get(AWS_VARIABLES, "").split(",")}
    return {name: value for name, value in environment.items() if name not in added}


def _job_config(spec: CompleteSpec, host_info: HostInfo) -> Dict[str, Any]:
    outputs = [
        {
            "OutputName": output["name"],
            "S3Output": {
                "LocalPath": host_info.real_path(output["path"]),
                "S3Uri": output.get("destination", ""),
                "S3UploadMode": output.get("mode") or "EndOfJob",
            },
        }
        for output in spec["outputs"]
    ]
    words = spec["arguments"] if spec["command"] and not spec["entry_point"] else script.argv(spec, host_info)[1:]
    cluster = {"InstanceCount": len(host_info.hosts), "InstanceType": host_info.instance_type}
    return {
        "ProcessingJobArn": platform_variables.job_arn(spec, host_info),
        "ProcessingJobName": spec["name"],
        "AppSpecification": {
            "ImageUri": spec["image"],
            "ContainerEntrypoint": _entrypoint(spec, host_info),
            "ContainerArguments": words or None,
        },
        "Environment": _requested_variables(spec["environment"]),
        "ProcessingInputs": _inputs(spec, host_info),
        "ProcessingOutputConfig": {"Outputs": outputs, "KmsKeyId": None},
        "ProcessingResources": {"ClusterConfig": {**cluster, "VolumeSizeInGB": _VOLUME, "VolumeKmsKeyId": None}},
        "RoleArn": spec["role"],
        "StoppingCondition": {"MaxRuntimeInSeconds": int(spec["max_run"])},
    }


def texts(spec: CompleteSpec, host_info: HostInfo) -> Dict[str, str]:
    """Return the text of every config file by its path under ``/opt/ml``."""
    hosts = {"current_host": host_info.host, "hosts": sorted(host_info.hosts)}
    found = {
        "config/resourceconfig.json": json.dumps(hosts),
        "config/processingjobconfig.json": json.dumps(_job_config(spec, host_info)),
    }
    if script.is_framework_processor(spec):
        name = script.script_name(spec)
        start = f"exec python3 {shlex.quote(name)}"
        if spec["command"]:
            words = [*spec["command"], name] if spec["entry_point"] else spec["command"]
            start = f"exec {' '.join(map(shlex.quote, words))}"
        elif not name.endswith(".py"):
            start = f"chmod +x {shlex.quote(name)} && exec ./{shlex.quote(name)}"
        found["processing/input/entrypoint/runproc.sh"] = _RUNPROC.format(
            folder=shlex.quote(script.code_folder(spec, host_info)),
            archive=script.ARCHIVE,
            start=start,
        )
    return found


def _name(text: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in text).upper()


def variables(spec: CompleteSpec, host_info: HostInfo) -> Dict[str, str]:
    """Return the variables of the folders that the request names; SageMaker itself has none for them."""
    found = {}
    if spec["kind"] == "process":
        for channel in spec.get("channels") or []:
            found["SMX_INPUT_" + _name(channel["name"])] = input_folder(host_info, "process", channel)
    for output in spec.get("outputs") or []:
        found["SMX_OUTPUT_" + _name(output["name"])] = host_info.real_path(output["path"])
    return found
