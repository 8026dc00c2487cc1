"""List the limits of SageMaker that a job exceeds, in sentences; this machine's limits are wider."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jupyter_smx.kernel.sagemaker.estimator_call import (
    LONGEST_KEEP_ALIVE,
    LONGEST_PROCESSING,
    interpreter_of,
    is_heterogeneous,
    keep_alive_seconds,
    script_arguments,
)
from jupyter_smx.model.text import engine_kind, format_count, format_duration, format_list

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jupyter_smx.model.spec.job_spec import JobSpec

_ECR = re.compile(r"\d{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(\.cn)?/.+")
MAX_HYPERPARAMETERS = 100
SDK_INPUTS = 2
"""Inputs that the SDK adds to those of a script with a folder of code: the folder, and what starts the script."""
SDK_HYPERPARAMETERS = 5
"""Hyperparameters that the SDK adds to those of a script."""
MAX_VARIABLES = 100
MAX_VALUE_LENGTH = {"train": 512, "process": 256}
"""Maximum length of the value of a variable."""
MAX_PROCESSING_CHANNELS = 10
"""Inputs, and outputs, of a processing job."""
MAX_PROCESSING_INSTANCES = 100
LONGEST_TRAINING = 28 * 86_400
"""Seconds that a training job may run."""
MAX_ARGUMENTS = 100
MAX_ARGUMENT_LENGTH = 256


def api_limit_notes(spec: JobSpec) -> Iterator[str]:
    """Yield notes on parts of a job that the API refuses, or that its call does in another way."""
    yield from _container_notes(spec)
    yield from _engine_notes(spec)
    if spec.build:
        yield f"Its image was built from `{spec.build}`. SageMaker needs an image of Amazon ECR: push it there."
    elif spec.image and not _ECR.fullmatch(spec.image):
        yield f"It ran in the image `{spec.image}`. SageMaker needs an image of Amazon ECR: push it there."
    yield from _environment_notes(spec)
    yield from _time_notes(spec)
    if spec.kind == "train" and spec.keep_alive and not keep_alive_seconds(spec):
        whose = "spot instances" if spec.spot else "instance groups"
        yield f"It kept its hosts warm. SageMaker has no warm pools of {whose}: the call does not request one."
    if spec.kind == "process":
        yield from _argument_notes(spec)
        yield from _processing_notes(spec)
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
    else:
        yield from _training_notes(spec)
    if spec.contract == "v3":
        yield (
            "It ran by the contract of SDK 3 (`--contract v3`); `sagemaker_job.py` is a call of SDK 2, by which the "
            "script gets other words, variables and folders. `model_trainer.py`, a call of SDK 3's `ModelTrainer`, "
            "shows it the same."
        )


def _container_notes(spec: JobSpec) -> Iterator[str]:
    if spec.mounts:
        mounts = ", ".join(f"`{mount.option_value()}`" for mount in spec.mounts)
        yield f"It mounted {mounts}. SageMaker's hosts see no folders of this machine: make them inputs."
    if spec.shm_size:
        yield "It set the size of `/dev/shm`. SageMaker's instance types have a size of their own."


def _engine_notes(spec: JobSpec) -> Iterator[str]:
    if spec.engine_options:
        options = ", ".join(f"`{name}={value}`" for name, value in sorted(spec.engine_options.items()))
        yield f"It had options of the engine {engine_kind(spec.engine)}: {options}. SageMaker has no such options."


def _training_notes(spec: JobSpec) -> Iterator[str]:
    manifests = [each.name for each in spec.channels if each.mode == "FastFile" and each.data_type == "ManifestFile"]
    if manifests:
        yield f"{_inputs(manifests)} in mode FastFile by a manifest. SageMaker allows only prefixes: use mode File."
    if len(spec.hyperparameters) > MAX_HYPERPARAMETERS - SDK_HYPERPARAMETERS and spec.contract == "v2":
        yield (
            f"It has {len(spec.hyperparameters)} hyperparameters; SageMaker's maximum is {MAX_HYPERPARAMETERS}, "
            f"and its SDK adds {SDK_HYPERPARAMETERS}."
        )


def _processing_notes(spec: JobSpec) -> Iterator[str]:
    own = 1 if spec.source_dir is None and spec.send is None else SDK_INPUTS
    if len(spec.channels) + own > MAX_PROCESSING_CHANNELS:
        yield (
            f"It has {format_count(len(spec.channels), 'input')}; the maximum of SageMaker's processing jobs is "
            f"{MAX_PROCESSING_CHANNELS}, and its SDK adds {own} for the code."
        )
    if len(spec.outputs) > MAX_PROCESSING_CHANNELS:
        yield (
            f"It has {format_count(len(spec.outputs), 'output')}; the maximum of SageMaker's processing jobs is "
            f"{MAX_PROCESSING_CHANNELS}."
        )
    fast = [channel.name for channel in spec.channels if channel.mode == "FastFile"]
    if fast:
        yield f"{_inputs(fast)} in mode FastFile. SageMaker's processing jobs do not have it: the call copies files."
    if spec.instance_count() > MAX_PROCESSING_INSTANCES:
        yield (
            f"It had {spec.instance_count()} hosts; the maximum of SageMaker's processing jobs is "
            f"{MAX_PROCESSING_INSTANCES}."
        )
    if is_heterogeneous(spec):
        yield "It ran on instance groups. SageMaker's processing jobs have hosts of one type: the call takes the first."
    if spec.metrics:
        yield "It has metrics. SageMaker's processing jobs have none: the call leaves them out."
    if spec.retries:
        yield "It has retries. SageMaker's processing jobs have none: the call leaves them out."


def _inputs(names: Sequence[str]) -> str:
    listed = ", ".join(f"`{name}`" for name in names)
    return f"The input {listed} was" if len(names) == 1 else f"The inputs {listed} were"


def _time_notes(spec: JobSpec) -> Iterator[str]:
    longest = LONGEST_PROCESSING if spec.kind == "process" else LONGEST_TRAINING
    if spec.max_run > longest:
        yield f"It may run for {format_duration(spec.max_run)}; SageMaker's maximum is {format_duration(longest)}."
    keep_alive = spec.keep_alive or 0
    if spec.kind == "train" and keep_alive_seconds(spec) and keep_alive > LONGEST_KEEP_ALIVE:
        yield (
            f"It kept its hosts warm for {format_duration(keep_alive)}; SageMaker's maximum is "
            f"{format_duration(LONGEST_KEEP_ALIVE)}, which the call requests."
        )


def has_processor_requirements(spec: JobSpec) -> bool:
    """Return True if a processor should install a job's requirements, which it reads from beside the script."""
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
