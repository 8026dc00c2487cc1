"""List the limits of SageMaker that a job exceeds, in sentences; this machine's limits are wider."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jupyter_smx.kernel.sagemaker.estimator_call import interpreter_of, keep_alive_seconds, script_arguments
from jupyter_smx.model.text import format_list

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_smx.model.spec.job_spec import JobSpec

_ECR = re.compile(r"\d{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(\.cn)?/.+")
MAX_HYPERPARAMETERS = 100
SDK_HYPERPARAMETERS = 5
"""Hyperparameters that the SDK adds to those of a script."""
MAX_VARIABLES = 100
MAX_VALUE_LENGTH = {"train": 512, "process": 256}
"""Of the value of a variable."""
MAX_ARGUMENTS = 100
MAX_ARGUMENT_LENGTH = 256


def api_limit_notes(spec: JobSpec) -> Iterator[str]:
    """Say what of a job the API refuses, and what its call does in another way."""
    if spec.image and not _ECR.fullmatch(spec.image):
        yield f"It ran in the image `{spec.image}`. SageMaker needs an image of Amazon ECR: push it there."
    yield from _environment_notes(spec)
    if spec.kind == "train" and spec.keep_alive and not keep_alive_seconds(spec):
        whose = "spot instances" if spec.spot else "instance groups"
        yield f"It kept its hosts warm. SageMaker has no warm pools of {whose}: the call does not request one."
    if spec.kind == "process":
        yield from _argument_notes(spec)
        if spec.requirements and not has_processor_requirements(spec):
            yield (
                f"It requires {format_list(spec.requirements)}. SageMaker's Spark processors install nothing: use an "
                "image that has them."
            )
        if not interpreter_of(spec):
            yield (
                f"`{spec.entry_point}` is a program, and SageMaker's processors start scripts by an interpreter: start "
                "it from a shell script, or make it the entry point of an image."
            )
    elif len(spec.hyperparameters) > MAX_HYPERPARAMETERS - SDK_HYPERPARAMETERS and spec.contract == "v2":
        yield (
            f"It has {len(spec.hyperparameters)} hyperparameters; SageMaker's maximum is {MAX_HYPERPARAMETERS}, "
            f"and its SDK adds {SDK_HYPERPARAMETERS}."
        )
    if spec.contract == "v3":
        yield (
            "It ran by the contract of SDK 3 (`--contract v3`); `sagemaker_job.py` is a call of SDK 2, by which the "
            "script gets other words, variables and folders. `model_trainer.py`, a call of SDK 3's `ModelTrainer`, "
            "shows it the same."
        )


def has_processor_requirements(spec: JobSpec) -> bool:
    """Say whether a processor is to install what a job asked for, which it does from beside the script."""
    return spec.kind == "process" and bool(spec.requirements) and spec.distribution is None


def _environment_notes(spec: JobSpec) -> Iterator[str]:
    most = MAX_VALUE_LENGTH[spec.kind]
    long = [name for name, value in spec.environment.items() if len(value) > most]
    if len(spec.environment) > MAX_VARIABLES:
        yield f"It has {len(spec.environment)} environment variables; SageMaker's maximum is {MAX_VARIABLES}."
    if long:
        names = ", ".join(f"`{name}`" for name in long)
        yield f"The variables {names} are longer than SageMaker's maximum of {most} characters."


def _argument_notes(spec: JobSpec) -> Iterator[str]:
    words = script_arguments(spec)
    if len(words) > MAX_ARGUMENTS:
        yield f"Its script gets {len(words)} arguments; SageMaker's maximum is {MAX_ARGUMENTS}."
    long = [word for word in words if len(word) > MAX_ARGUMENT_LENGTH]
    if long:
        yield (f"{len(long)} of the script's arguments exceed SageMaker's maximum of {MAX_ARGUMENT_LENGTH} characters.")
