"""Where what a training job writes to ``/opt/ml/output/intermediate`` goes while it runs: sagemaker-training's rules.

The toolkit leaves a folder that is there already to the platform, so here it is the agent that brings the files.
"""

from __future__ import annotations

import os
from typing import Any, Dict

from jupyter_smx.agent.contract.hyperparameters import split
from jupyter_smx.agent.contract.script import is_sdk3_driven

FOLDER = os.path.join("output", "intermediate")


def destination(spec: Dict[str, Any]) -> str:
    """Give the folder or URL of a job's own that its files go to, "" where they go nowhere."""
    if spec["kind"] != "train" or is_sdk3_driven(spec):
        return ""
    _own, framework = split(spec["hyperparameters"])
    place = framework.get("sagemaker_s3_output")
    if not isinstance(place, str) or not place or place.startswith("file:"):
        return ""
    return "/".join([place.rstrip("/"), spec["name"], *FOLDER.split(os.sep)])
