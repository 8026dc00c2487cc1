"""Check which outputs can be copied while the job runs: those of processing jobs, to URLs or shared folders."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.policy import urls

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_smx.model.spec.channel import Output
    from jupyter_smx.model.spec.job_spec import JobSpec

_PARAMETER = "sagemaker_s3_output"
"""Hyperparameter of sagemaker-training: the destination of that folder in its images."""


def check(spec: JobSpec, *, is_shared: Callable[[str], bool]) -> None:
    """Refuse continuous outputs that cannot be copied before the job ends.

    ``is_shared`` returns True if hosts see a folder of this machine.

    :raises ValidationError: names the output, or the hyperparameter.
    """
    for output in spec.outputs:
        if output.mode == "Continuous":
            _check(output, spec, is_shared=is_shared)
    _check_intermediate(spec, is_shared=is_shared)


def intermediate_destination(spec: JobSpec) -> str:
    """Return the destination of ``/opt/ml/output/intermediate``, "" if there is none."""
    if spec.kind != "train" or spec.contract != "v2":
        return ""
    text = spec.hyperparameters.get(_PARAMETER, "")
    try:
        found = json.loads(text)
    except ValueError:
        found = text
    return found if isinstance(found, str) and not found.startswith("file:") else ""


def _check_intermediate(spec: JobSpec, *, is_shared: Callable[[str], bool]) -> None:
    place = intermediate_destination(spec)
    rule = urls.unwritable_reason(place) if urls.is_url(place) else ""
    if place and not urls.is_url(place):
        if not place.startswith("/"):
            rule = "Files of a running job can be copied to a URL or to an absolute path."
        elif not is_shared(place):
            rule = f"Hosts of the engine {spec.engine} do not share this folder with this machine."
    if rule:
        raise ValidationError(
            f"--hp {_PARAMETER}: /opt/ml/output/intermediate cannot be copied to {place!r}.",
            field="hyperparameters",
            value=place,
            rule=rule,
            cure="Use a folder of an object store, e.g. s3://BUCKET/FOLDER.",
        )


def _check(output: Output, spec: JobSpec, *, is_shared: Callable[[str], bool]) -> None:
    if spec.kind == "train":
        rule, cure = (
            "The archives of a training job are created when it ends.",
            "To keep files earlier, write them to the checkpoint folder (--checkpoint).",
        )
    elif urls.is_url(output.destination):
        rule = urls.unwritable_reason(output.destination)
        cure = "Use a folder of an object store, e.g. s3://BUCKET/FOLDER, or of this machine."
    elif not output.destination.startswith("/"):
        rule = "Continuous copies files while the job runs, so --output must name a folder or a URL."
        cure = f"For example --output {output.name}={output.path}:{output.name},mode=Continuous."
    elif not is_shared(output.destination):
        rule = f"Hosts of the engine {spec.engine} do not share this folder with this machine."
        cure = "Remove mode=Continuous: the files are copied when the job ends."
    else:
        rule = cure = ""
    if not rule:
        return
    raise ValidationError(
        f"--output {output.name}: it cannot be Continuous.", field="output", value=output.name, rule=rule, cure=cure
    )
