"""Which outputs may go where they go while the job runs: those of processing jobs, to URLs and to shared folders."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.policy import urls

if TYPE_CHECKING:
    from jupyter_smx.model.spec.channel import Output
    from jupyter_smx.model.spec.job_spec import JobSpec

_PARAMETER = "sagemaker_s3_output"
"""Hyperparameter of sagemaker-training: where its images bring that folder."""


def check(spec: JobSpec, *, shared_folder: bool) -> None:
    """Refuse what nobody could bring there before the end.

    :raises ValidationError: names the output, or the hyperparameter.
    """
    for output in spec.outputs:
        if output.mode == "Continuous":
            _check(output, spec, shared_folder=shared_folder)
    _check_intermediate(spec, shared_folder=shared_folder)


def intermediate_destination(spec: JobSpec) -> str:
    """Give the place for what is written to ``/opt/ml/output/intermediate``, "" where there is none."""
    if spec.kind != "train" or spec.contract != "v2":
        return ""
    text = spec.hyperparameters.get(_PARAMETER, "")
    try:
        found = json.loads(text)
    except ValueError:
        found = text
    return found if isinstance(found, str) and not found.startswith("file:") else ""


def _check_intermediate(spec: JobSpec, *, shared_folder: bool) -> None:
    place = intermediate_destination(spec)
    rule = urls.unwritable_reason(place) if urls.is_url(place) else ""
    if place and not urls.is_url(place):
        if not place.startswith("/"):
            rule = "Files of a job that runs are brought to a URL, or to a folder that is named by its whole path."
        elif not shared_folder:
            rule = f"Hosts of the engine {spec.engine} share no folder with this machine."
    if rule:
        raise ValidationError(
            f"--hp {_PARAMETER}: nothing of /opt/ml/output/intermediate can be brought to {place!r}.",
            field="hyperparameters",
            value=place,
            rule=rule,
            cure="Name a folder of an object store, as s3://BUCKET/FOLDER.",
        )


def _check(output: Output, spec: JobSpec, *, shared_folder: bool) -> None:
    if spec.kind == "train":
        rule, cure = (
            "The archives of a training job are made at its end.",
            "Save to --checkpoint what is needed before.",
        )
    elif urls.is_url(output.destination):
        rule = urls.unwritable_reason(output.destination)
        cure = "Name a folder of an object store, as s3://BUCKET/FOLDER, or of this machine."
    elif not output.destination.startswith("/"):
        rule = "While a job runs its files are brought to a folder of this machine, or a URL, which has to be named."
        cure = f"For example --output {output.name}={output.path}:{output.name},mode=Continuous."
    elif not shared_folder:
        rule = f"Hosts of the engine {spec.engine} share no folder with this machine."
        cure = "Leave mode=Continuous out: the files come at the end."
    else:
        rule = cure = ""
    if not rule:
        return
    raise ValidationError(
        f"--output {output.name}: it cannot be Continuous.", field="output", value=output.name, rule=rule, cure=cure
    )
