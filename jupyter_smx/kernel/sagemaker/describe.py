"""Describe a job in the form of ``DescribeTrainingJob`` and ``DescribeProcessingJob``.

The answer has values of the record, and none that are invented. Where the API requires others: the ARN is the job's own
(account ``000000000000``), paths of this machine have a URL of ``file://``, an instance type may be ``local`` as in the
SDK's local mode, a processing job without an image has the image ``""``, and its volume is the API's minimum, 1 GB. A
role is included if it is an ARN. Fields without a value are left out: volumes of training jobs, networks, keys,
debuggers, outputs of a training job besides its model and its data.
"""

from __future__ import annotations

import os
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, convert, json, to_builtins

from jupyter_smx import controller_launch
from jupyter_smx.agent.contract.platform_variables import format_arn, region_of, requested_region
from jupyter_smx.agent.system.files.host_layout import ARTIFACTS
from jupyter_smx.kernel.sagemaker.estimator_call import is_heterogeneous, script_arguments
from jupyter_smx.kernel.sagemaker.option_fields import api_fields, merge_fields
from jupyter_smx.model.records.cluster import WarmPoolStatus
from jupyter_smx.model.records.job import Job
from jupyter_smx.model.redaction import redact_record, redact_text
from jupyter_smx.model.spec.channel import input_folder, output_folder
from jupyter_smx.model.status import Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_smx.model.records.cluster import WarmPool
    from jupyter_smx.model.records.job import Transition
    from jupyter_smx.model.results.reports import Bill
    from jupyter_smx.model.spec.channel import Channel, Output
    from jupyter_smx.model.spec.job_spec import JobSpec

MODEL = "model.tar.gz"
CHECKPOINTS = "/opt/ml/checkpoints"
_CODE = "/opt/ml/processing/input/code"
SMALLEST_VOLUME = 1
"""GB; the API requires it for a processing job, and hosts here have no volume of their own."""
LONGEST_REASON = 1_024
_ROLE = re.compile(r"arn:aws[a-z\-]*:iam::\d{12}:role/?[a-zA-Z_0-9+=,.@\-_/]+")


class LocalContext(Struct, frozen=True):
    """Values that no record has: the region of the user's tools, and the parent folder of the jobs' folders."""

    region: str
    jobs: Path


def local_context() -> LocalContext:
    """Read this process's variables, as the job's host did."""
    return LocalContext(region_of(os.environ), controller_launch.jobs_dir())


def description(job: Job, where: LocalContext, bill: Bill | None = None) -> dict[str, Any]:
    """Describe a job as boto3 would: times are datetimes of UTC, and missing values have no key.

    ``bill`` has the seconds that it ran and those that are billed. The result contains no secret.
    """
    job = convert(redact_record(to_builtins(job)), Job)
    own = _processing(job, where) if job.spec.kind == "process" else _training(job, where, bill)
    return _without_none(own)


def format_description(found: Mapping[str, Any]) -> str:
    """Write a description as JSON for people: times in ISO 8601."""
    return json.format(json.encode(found), indent=2).decode()


def _arn(job: Job, where: LocalContext) -> str:
    return format_arn(job.spec.kind, job.name, requested_region(job.spec.environment, where.region))


def _without_none(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if value is not None}


def _training(job: Job, where: LocalContext, bill: Bill | None) -> dict[str, Any]:
    spec = job.spec
    # None keeps the place of a field in the order of the API.
    answer: dict[str, Any] = {
        "TrainingJobName": job.name,
        "TrainingJobArn": _arn(job, where),
        "ModelArtifacts": {"S3ModelArtifacts": _model(job, where)},
        "TrainingJobStatus": job.status().value,
        "SecondaryStatus": job.state.value,
        "FailureReason": _reason(job),
        "HyperParameters": spec.all_hyperparameters(),
        "AlgorithmSpecification": _algorithm(job),
        "RoleArn": None,
        "InputDataConfig": [_channel(channel) for channel in spec.channels] or None,
        "OutputDataConfig": {
            "S3OutputPath": _uri(_artifacts(job, where)),
        },
        "ResourceConfig": _hosts(spec),
        "WarmPoolStatus": _pool(job),
        "StoppingCondition": {},
        **_times(job, "Training"),
        "SecondaryStatusTransitions": [_transition(row) for row in job.transitions],
        "FinalMetricDataList": _metrics(job) or None,
        "EnableNetworkIsolation": None,
        "EnableInterContainerTrafficEncryption": False,
        "EnableManagedSpotTraining": None,
        "CheckpointConfig": None,
        "TrainingTimeInSeconds": _seconds(bill.training_seconds) if bill else None,
        "BillableTimeInSeconds": _seconds(bill.billable_seconds) if bill else None,
        "Environment": controller_launch.leave_front(spec.environment),
    }
    return merge_fields(answer, api_fields(spec, lambda names: names.training_api, _training_values(job)))


def _training_values(job: Job) -> dict[str, str | None]:
    spec = job.spec
    return {
        "image": _image(job),
        "role": _role(spec),
        "checkpoint": _uri(spec.checkpoint) if spec.checkpoint else None,
        "checkpoint_local_path": (spec.checkpoint_local_path or CHECKPOINTS) if spec.checkpoint else None,
    }


def _processing(job: Job, where: LocalContext) -> dict[str, Any]:
    spec = job.spec
    first = spec.instance_groups[0]
    outputs = [_output(output, job, where) for output in spec.outputs]
    answer = {
        "ProcessingInputs": [_processing_input(channel) for channel in spec.channels] or None,
        "ProcessingOutputConfig": {"Outputs": outputs} if outputs else None,
        "ProcessingJobName": job.name,
        "ProcessingResources": {
            "ClusterConfig": {
                "InstanceCount": spec.instance_count(),
                "InstanceType": first.instance_type,
                "VolumeSizeInGB": SMALLEST_VOLUME,
            }
        },
        "StoppingCondition": {},
        "AppSpecification": _without_none(
            {
                "ImageUri": _image(job) or "",
                "ContainerEntrypoint": _entry_point(spec),
                "ContainerArguments": script_arguments(spec) or None,
            }
        ),
        "Environment": controller_launch.leave_front(spec.environment),
        "NetworkConfig": {"EnableInterContainerTrafficEncryption": False},
        "ProcessingJobArn": _arn(job, where),
        "ProcessingJobStatus": job.status().value,
        # Records of an earlier version have the job's text without redaction.
        "ExitMessage": redact_text(job.exit_message) or None,
        "FailureReason": _reason(job),
        **_times(job, "Processing"),
    }
    own = {"image": None, "role": _role(spec)}
    return merge_fields(answer, api_fields(spec, lambda names: names.processing_api, own))


def _entry_point(spec: JobSpec) -> list[str] | None:
    """Return the command of a processing job, with its script where a ScriptProcessor puts it."""
    script = [f"{_CODE}/{spec.entry_point}"] if spec.entry_point else []
    return [*spec.command, *script] if spec.command else None


def _times(job: Job, what: str) -> dict[str, datetime | None]:
    return {
        "CreationTime": _utc_datetime(job.created_at),
        f"{what}StartTime": _utc_datetime(job.started_at),
        f"{what}EndTime": _utc_datetime(job.ended_at),
        "LastModifiedTime": _utc_datetime(job.last_modified_at()),
    }


def _utc_datetime(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)


def _seconds(counted: float) -> int | None:
    """Return whole seconds, at least 1 as in the API; None if nothing was counted."""
    return max(1, round(counted)) if counted > 0 else None


def _reason(job: Job) -> str | None:
    """Return SageMaker's reason, cut at SageMaker's limit, and the cure of the failure on a line of its own."""
    if job.status() is not Status.FAILED or not job.failure_reason:
        return None
    cure = f"\n{job.failure_cure}" if job.failure_cure else ""
    return f"{job.failure_reason[: max(LONGEST_REASON - len(cure), 0)]}{cure}"[:LONGEST_REASON]


def _role(spec: JobSpec) -> str | None:
    return spec.role if _ROLE.fullmatch(spec.role) else None


def _image(job: Job) -> str | None:
    return (job.image.name if job.image else job.spec.image) or None


def _algorithm(job: Job) -> dict[str, Any]:
    metrics = [{"Name": name, "Regex": regex} for name, regex in job.spec.metrics.items()]
    image = _image(job)
    command = [] if job.spec.entry_point or job.spec.image_program else list(job.spec.command)
    return _without_none(
        {
            "TrainingImage": image,
            "TrainingInputMode": "File",
            "MetricDefinitions": metrics or None,
            "ContainerEntrypoint": command or None,
        }
    )


def _hosts(spec: JobSpec) -> dict[str, Any]:
    groups = spec.instance_groups
    if not is_heterogeneous(spec):
        return {"InstanceType": groups[0].instance_type, "InstanceCount": groups[0].instance_count}
    return {
        "InstanceGroups": [
            {
                "InstanceType": group.instance_type,
                "InstanceCount": group.instance_count,
                "InstanceGroupName": group.name,
            }
            for group in groups
        ]
    }


def _pool(job: Job) -> dict[str, Any] | None:
    pool = job.warm_pool
    if pool is None or _had_no_pool(job, pool):
        return None
    return _without_none(
        {
            "Status": pool.status.value,
            "ResourceRetainedBillableTimeInSeconds": pool.resource_retained_billable_seconds,
            "ReusedByJob": pool.reused_by_job or None,
        }
    )


def _had_no_pool(job: Job, pool: WarmPool) -> bool:
    """Return True if hosts ended with a job that neither asked for a pool, nor took one, nor left one to its array."""
    took = job.why is not None and bool(job.why.reused_from)
    was_one = took or bool(pool.resource_retained_billable_seconds) or pool.status is not WarmPoolStatus.TERMINATED
    return not job.spec.keep_alive and not was_one


def _transition(row: Transition) -> dict[str, Any]:
    return _without_none(
        {
            "Status": row.status.value,
            "StartTime": _utc_datetime(row.start_time),
            "EndTime": _utc_datetime(row.end_time),
            "StatusMessage": row.status_message,
        }
    )


def _metrics(job: Job) -> list[dict[str, Any]]:
    """Return the last value of each metric that is a number; of several hosts the newest.

    SageMaker has only metrics with a definition here: others that were found in the log are left out.
    """
    defined = (metric for metric in job.metrics if metric.name in job.spec.metrics)
    known = sorted((metric for metric in defined if metric.value is not None), key=lambda metric: metric.at)
    newest = {metric.name: metric for metric in known}
    return [
        {"MetricName": name, "Value": metric.value, "Timestamp": _utc_datetime(metric.at)}
        for name, metric in newest.items()
    ]


def _channel(channel: Channel) -> dict[str, Any]:
    source = {
        "S3DataType": channel.data_type,
        "S3Uri": _uri(channel.source),
        "S3DataDistributionType": channel.distribution,
        "InstanceGroupNames": list(channel.groups) or None,
    }
    return _without_none(
        {
            "ChannelName": channel.name,
            "DataSource": {"S3DataSource": _without_none(source)},
            "ContentType": channel.content_type or None,
            "CompressionType": "None",
            "RecordWrapperType": "None",
            "InputMode": channel.mode,
        }
    )


def _processing_input(channel: Channel) -> dict[str, Any]:
    return {
        "InputName": channel.name,
        "AppManaged": False,
        "S3Input": {
            "S3Uri": _uri(channel.source),
            "LocalPath": input_folder("process", channel.name, channel.path),
            "S3DataType": channel.data_type,
            "S3InputMode": "File",
            "S3DataDistributionType": channel.distribution,
            "S3CompressionType": "None",
        },
    }


def _output(output: Output, job: Job, where: LocalContext) -> dict[str, Any]:
    return {
        "OutputName": output.name,
        "AppManaged": False,
        "S3Output": {
            "S3Uri": _uri(_destination(output, job, where)),
            "LocalPath": output_folder(output),
            "S3UploadMode": output.mode,
        },
    }


def _artifacts(job: Job, where: LocalContext) -> str:
    return str(where.jobs / job.id / ARTIFACTS)


def _destination(output: Output, job: Job, where: LocalContext) -> str:
    """Return the destination of an output: the user's place, or the folder of the job's files."""
    if not output.destination:
        return f"{_artifacts(job, where)}/outputs/{output.name}"
    if "://" in output.destination:
        return output.destination
    return str(Path(job.spec.working_directory or where.jobs / job.id, output.destination))


def _model(job: Job, where: LocalContext) -> str:
    """Return the place of the model, also before it exists: an archive, or the folder of its files."""
    if job.spec.disable_output_compression:
        asked = next((output for output in job.spec.outputs if output.name == "model"), None)
        return _uri(_destination(asked, job, where) if asked else f"{_artifacts(job, where)}/outputs/model")
    found = next((artifact.path for artifact in job.artifacts if artifact.name == MODEL), None)
    return _uri(found or f"{_artifacts(job, where)}/{MODEL}")


def _uri(place: str) -> str:
    """Write a place as a URL. Letters stay as they are, so that a pattern finds again what it found."""
    return place if "://" in place else f"file://{place}"
