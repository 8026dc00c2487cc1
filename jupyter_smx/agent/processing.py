"""The contract of a processing job: its config files and its variables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Dict

from jupyter_smx.agent.place import channel_folder
from jupyter_smx.agent.script import argv

if TYPE_CHECKING:
    from jupyter_smx.agent.place import Place


def _job_config(spec: Dict[str, Any], place: Place) -> Dict[str, Any]:
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
            found["SMX_INPUT_" + _name(channel["name"])] = channel_folder(place, "process", channel["name"])
    for output in spec.get("outputs") or []:
        found["SMX_OUTPUT_" + _name(output["name"])] = place.real(output["path"])
    return found
