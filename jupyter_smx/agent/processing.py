"""The contract of a processing job: its config files and its variables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Dict, List

from jupyter_smx.agent import script, service
from jupyter_smx.agent.place import input_folder

if TYPE_CHECKING:
    from jupyter_smx.agent.place import Place


_VOLUME = 30
"""Gigabytes that SageMaker's SDK asks for; nothing here depends on it."""


def _input(name: str, folder: str, source: str, channel: Dict[str, Any]) -> Dict[str, Any]:
    return {
        "InputName": name,
        "S3Input": {
            "LocalPath": folder,
            "S3Uri": source,
            "S3DataDistributionType": channel.get("distribution") or "FullyReplicated",
            "S3DataType": "S3Prefix",
            "S3InputMode": channel.get("mode") or "File",
            "S3CompressionType": "None",
            "S3DownloadMode": "StartOfJob",
        },
    }


def _inputs(spec: Dict[str, Any], place: Place) -> List[Dict[str, Any]]:
    """Name the channels, and the code, which is an input like any other."""
    found = [
        _input(one["name"], input_folder(place, "process", one), one.get("source", ""), one) for one in spec["channels"]
    ]
    if spec["source_dir"] or spec["entry_point"]:
        found.append(_input("code", script.code_folder(spec, place), spec["folder"], {}))
    return found


def _job_config(spec: Dict[str, Any], place: Place) -> Dict[str, Any]:
    outputs = [
        {
            "OutputName": output["name"],
            "S3Output": {
                "LocalPath": place.real(output["path"]),
                "S3Uri": output.get("destination", ""),
                "S3UploadMode": output.get("mode") or "EndOfJob",
            },
        }
        for output in spec["outputs"]
    ]
    name, *words = script.argv(spec, place)
    cluster = {"InstanceCount": len(place.hosts), "InstanceType": place.instance_type}
    return {
        "ProcessingJobArn": service.arn(spec, place),
        "ProcessingJobName": spec["name"],
        "AppSpecification": {
            "ImageUri": "",
            "ContainerEntrypoint": ["python3", name] if name.endswith(".py") else [name],
            "ContainerArguments": words or None,
        },
        "Environment": spec["environment"],
        "ProcessingInputs": _inputs(spec, place),
        "ProcessingOutputConfig": {"Outputs": outputs, "KmsKeyId": None},
        "ProcessingResources": {"ClusterConfig": {**cluster, "VolumeSizeInGB": _VOLUME, "VolumeKmsKeyId": None}},
        "RoleArn": spec["role"],
        "StoppingCondition": {"MaxRuntimeInSeconds": int(spec["max_run"])},
    }


def texts(spec: Dict[str, Any], place: Place) -> Dict[str, str]:
    """Give the text of every config file by its path under ``/opt/ml``."""
    hosts = {"current_host": place.host, "hosts": sorted(place.hosts)}
    return {
        "config/resourceconfig.json": json.dumps(hosts),
        "config/processingjobconfig.json": json.dumps(_job_config(spec, place)),
    }


def _name(text: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in text).upper()


def variables(spec: Dict[str, Any], place: Place) -> Dict[str, str]:
    """Give the variables of the folders that the wish names; SageMaker itself has none for them."""
    found = {}
    if spec["kind"] == "process":
        for channel in spec.get("channels") or []:
            found["SMX_INPUT_" + _name(channel["name"])] = input_folder(place, "process", channel)
    for output in spec.get("outputs") or []:
        found["SMX_OUTPUT_" + _name(output["name"])] = place.real(output["path"])
    return found
