"""The config files of a training job on one host."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Dict

if TYPE_CHECKING:
    from jupyter_smx.agent.place import Place


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


def texts(spec: Dict[str, Any], place: Place) -> Dict[str, str]:
    """Give the text of every config file by its path under ``/opt/ml``."""
    return {
        "input/config/resourceconfig.json": json.dumps(resource_config(place)),
        "input/config/inputdataconfig.json": json.dumps(input_data_config(spec)),
        "input/config/hyperparameters.json": json.dumps(spec.get("hyperparameters") or {}),
    }
