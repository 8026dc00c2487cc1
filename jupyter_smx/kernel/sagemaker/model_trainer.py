"""Export a job of ``--contract v3`` as a program that uses SageMaker's Python SDK 3. Pure.

Its script sees there what it saw here: hyperparameters go as the texts that they are, and the drivers are the SDK's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.kernel.sagemaker.estimator_call import (
    HEAD,
    checkpoint_uri,
    format_call,
    format_instance_type,
    format_variables,
    has_uploads,
    helper_comment,
    is_heterogeneous,
    join_program,
    keep_alive_seconds,
    list_argument,
    quote,
    uri_of,
    wait_seconds,
)
from jupyter_smx.kernel.sagemaker.option_fields import trainer_objects

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_smx.kernel.sagemaker.estimator_call import Arguments
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.spec.channel import Channel
    from jupyter_smx.model.spec.distribution import Distribution
    from jupyter_smx.model.spec.job_spec import JobSpec

NAME = "model_trainer.py"
_CLASSES = {"torchrun": "Torchrun", "mpi": "MPI"}
_CONFIGS = "sagemaker.core.training.configs"


def trainer_program(job: Job, script: str, *, requirements: bool) -> str:
    """Write the program for a job whose ``script`` lies in ``code/``, with a ``requirements.txt`` or without.

    Without a ``script`` ("") the program of its image runs.
    """
    spec = job.spec
    body, used = _body(spec, script, requirements=requirements)
    plain = [*(["import glob"] if has_uploads(spec) else []), "from pathlib import Path"]
    classes = [
        "from sagemaker.core.helper.session_helper import Session",
        f"from {_CONFIGS} import {', '.join(sorted(used))}",
        "from sagemaker.train import ModelTrainer",
        *([f"from sagemaker.train.distributed import {_launcher(spec.distribution)}"] if spec.distribution else []),
    ]
    head = HEAD.format(
        versions=">=3.27,<4",
        title=f"The training job {spec.base_name} as a call of ModelTrainer of the SageMaker Python SDK 3.",
        name=job.name,
        prefix=quote(job.name),
        image=quote(spec.image),
        imports="\n".join([*plain, "", *classes]),
    )
    return join_program(spec, head, body)


def _launcher(distribution: Distribution) -> str:
    return _CLASSES[distribution.runner]


def _constructor_call(used: set[str], name: str, words: Iterable[tuple[str, str]]) -> str:
    """Write that something is made, on one line, and note of what."""
    used.add(name)
    return f"{name}({', '.join(f'{word}={value}' for word, value in words)})"


def _body(spec: JobSpec, script: str, *, requirements: bool) -> tuple[str, set[str]]:
    used: set[str] = set()
    code = [("source_dir", "CODE"), ("entry_script", quote(script))]
    code += [("requirements", '"requirements.txt"')] if requirements else []
    source_code = [("source_code", _constructor_call(used, "SourceCode", code))] if script else []
    asked: Arguments = [
        ("training_image", "IMAGE_URI"),
        ("role", "ROLE"),
        ("sagemaker_session", "session"),
        ("base_job_name", quote(spec.base_name)),
        *source_code,
        *([("distributed", _distributed(spec.distribution))] if spec.distribution else []),
        *_objects(used, spec),
        *([("hyperparameters", quote(spec.hyperparameters))] if spec.hyperparameters else []),
        *([("environment", format_variables(spec.environment, 2))] if spec.environment else []),
    ]
    lines = [format_call("trainer = ModelTrainer", asked)]
    if spec.retries:
        again = _constructor_call(used, "RetryStrategy", [("maximum_retry_attempts", str(spec.retries))])
        lines.append(f"    trainer.with_retry_strategy({again})")
    if spec.metrics:
        found = [_constructor_call(used, "MetricDefinition", _metric(*row)) for row in spec.metrics.items()]
        lines.append(format_call("trainer.with_metric_definitions", list_argument("metric_definitions", found)))
    inputs = list_argument("input_data_config", [_input(used, channel) for channel in spec.channels])
    lines.append(format_call("trainer.train", inputs) if inputs else "    trainer.train()")
    return "\n".join(lines), used


def _metric(name: str, regex: str) -> Arguments:
    return [("name", quote(name)), ("regex", quote(regex))]


def _distributed(distribution: Distribution) -> str:
    count = distribution.processes
    return f"{_launcher(distribution)}({'' if count is None else f'process_count_per_node={count}'})"


def _objects(used: set[str], spec: JobSpec) -> Arguments:
    """Write the objects that hold the plain options, and what they have besides."""
    own: dict[str, Arguments] = {
        "compute": _hosts(used, spec),
        "output_data_config": [("s3_output_path", 'f"s3://{BUCKET}/{PREFIX}/output"')],
    }
    values = {
        "max_run": str(spec.max_run),
        "keep_alive": keep_alive_seconds(spec),
        "max_wait": wait_seconds(spec),
        "checkpoint": checkpoint_uri(spec.checkpoint) if spec.checkpoint else None,
    }
    classes: dict[tuple[str, str], Arguments] = {
        ("compute", "Compute"): [],
        ("output_data_config", "OutputDataConfig"): [],
    } | trainer_objects(spec, values)
    return [
        (keyword, _constructor_call(used, name, [*own.get(keyword, []), *fields]))
        for (keyword, name), fields in classes.items()
    ]


def _hosts(used: set[str], spec: JobSpec) -> Arguments:
    if is_heterogeneous(spec):
        groups = "".join(
            f"                {_group(used, group.name, group.instance_type, group.instance_count)},"
            f"{helper_comment(group)}\n"
            for group in spec.instance_groups
        )
        return [("instance_groups", f"[\n{groups}            ]")]
    only = spec.instance_groups[0]
    return [("instance_type", format_instance_type(only.instance_type)), ("instance_count", str(only.instance_count))]


def _group(used: set[str], name: str, instance_type: str, count: int) -> str:
    words = [("instance_group_name", quote(name)), ("instance_type", format_instance_type(instance_type))]
    return _constructor_call(used, "InstanceGroup", [*words, ("instance_count", str(count))])


def _input(used: set[str], channel: Channel) -> str:
    """Write a channel; ``InputData`` supports only a place and a type."""
    name = [("channel_name", quote(channel.name))]
    kind = [("content_type", quote(channel.content_type))] if channel.content_type else []
    usual = (channel.distribution, channel.mode, channel.data_type) == ("FullyReplicated", "File", "S3Prefix")
    if usual and not channel.groups:
        return _constructor_call(used, "InputData", [*name, ("data_source", uri_of(channel)), *kind])
    where = [
        ("s3_data_type", quote(channel.data_type)),
        ("s3_uri", uri_of(channel)),
        ("s3_data_distribution_type", quote(channel.distribution)),
        *([("instance_group_names", quote(channel.groups))] if channel.groups else []),
    ]
    source = _constructor_call(used, "DataSource", [("s3_data_source", _constructor_call(used, "S3DataSource", where))])
    return _constructor_call(
        used, "Channel", [*name, ("data_source", source), ("input_mode", quote(channel.mode)), *kind]
    )
