"""Answer Describe: members of the request as they were sent, and over them those of the record. Pure.

The description of a job without a stored request is made of its record alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_smx.agent.contract.platform_variables import format_arn
from jupyter_smx.aws.sagemaker.record_members import complete_training, put_bucket_uris
from jupyter_smx.aws.sagemaker.requests.instance_types import add_selection
from jupyter_smx.aws.sagemaker.requests.training import model_uri
from jupyter_smx.kernel.sagemaker.describe import MODEL, LocalContext, description
from jupyter_smx.model.status import DesiredState, Status, is_final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_smx.aws.controller_client import BilledJob
    from jupyter_smx.aws.sagemaker.record_members import RecordPlaces
    from jupyter_smx.aws.sagemaker.request_store import StoredRequest
    from jupyter_smx.model.records.job import Job

_LIVING = frozenset(
    {
        *("TrainingJobName", "TrainingJobArn", "TrainingJobStatus", "SecondaryStatus", "FailureReason"),
        *("WarmPoolStatus", "CreationTime", "TrainingStartTime", "TrainingEndTime", "LastModifiedTime"),
        *("SecondaryStatusTransitions", "FinalMetricDataList", "TrainingTimeInSeconds", "BillableTimeInSeconds"),
        *("ProcessingJobName", "ProcessingJobArn", "ProcessingJobStatus", "ExitMessage"),
        *("ProcessingStartTime", "ProcessingEndTime"),
    }
)
"""Members of an answer that are not in the request."""
_NOT_ECHOED = frozenset({"Tags", "SessionChainingConfig"})
"""Members of a request that Describe does not have."""
_STATUSES = ("TrainingJobStatus", "SecondaryStatus", "ProcessingJobStatus")
_MODEL_FILES = "outputs/model/"
"""Folder of a model without compression among the files of a job."""
_UNKNOWN_CAUSE = "InternalServerError: the record of the job has no reason."


def describe_training(found: BilledJob, stored: StoredRequest, here: RecordPlaces) -> dict[str, Any]:
    """Answer ``DescribeTrainingJob``."""
    job = found.job
    own = description(job, LocalContext(here.region, here.jobs), found.bill)
    if not stored.request:
        own = complete_training(own, job, here)
    answer = _merge(job, own, stored, here.region, "TrainingJobArn")
    if not _has_model(job):
        answer.pop("ModelArtifacts", None)
    elif stored.request:
        answer["ModelArtifacts"] = {"S3ModelArtifacts": model_uri(stored.request)}
    answer["OutputDataConfig"] = {"KmsKeyId": "", "CompressionType": "GZIP", **answer["OutputDataConfig"]}
    answer["StoppingCondition"] = {"MaxRuntimeInSeconds": job.spec.max_run, **answer.get("StoppingCondition", {})}
    answer.setdefault("EnableNetworkIsolation", False)
    answer.setdefault("EnableInterContainerTrafficEncryption", False)
    answer.setdefault("EnableManagedSpotTraining", False)
    answer["ProfilingStatus"] = _profiling_status(answer)
    resources = add_selection(answer.get("ResourceConfig", {}))
    if stored.keep_alive is not None:
        resources["KeepAlivePeriodInSeconds"] = stored.keep_alive
    if resources:
        answer["ResourceConfig"] = resources
    return answer


def _has_model(job: Job) -> bool:
    """Return True if the model is at its place: that of a job that was stopped, if its script had written one."""
    if job.status() is Status.STOPPED:
        return any(each.name == MODEL or each.name.startswith(_MODEL_FILES) for each in job.artifacts)
    return job.status() is Status.COMPLETED


def _profiling_status(answer: Mapping[str, Any]) -> str:
    """Return what the request asked for, since methods of the SDK depend on it; nothing is profiled here."""
    profiler = answer.get("ProfilerConfig")
    return "Disabled" if profiler is None or profiler.get("DisableProfiler") else "Enabled"


def describe_processing(found: BilledJob, stored: StoredRequest, here: RecordPlaces) -> dict[str, Any]:
    """Answer ``DescribeProcessingJob``."""
    own = description(found.job, LocalContext(here.region, here.jobs), found.bill)
    own = own if stored.request else put_bucket_uris(own, here.s3_root)
    answer = _merge(found.job, own, stored, here.region, "ProcessingJobArn")
    answer["ProcessingResources"] = {"ClusterConfig": add_selection(answer["ProcessingResources"]["ClusterConfig"])}
    answer["StoppingCondition"] = {"MaxRuntimeInSeconds": found.job.spec.max_run, **answer.get("StoppingCondition", {})}
    return answer


def job_arn(job: Job, region: str) -> str:
    """Return the ARN of a job in the region of the client that names it."""
    return format_arn(job.spec.kind, job.name, region)


def _merge(job: Job, own: Mapping[str, Any], stored: StoredRequest, region: str, arn: str) -> dict[str, Any]:
    echo = {name: value for name, value in stored.request.items() if name not in _NOT_ECHOED}
    # A job that was not submitted here has only what its record says.
    living = {name: value for name, value in own.items() if name in _LIVING} if echo else own
    answer = {**echo, **living, arn: job_arn(job, region)}
    if job.goal is DesiredState.STOP and not is_final(job.state):
        answer |= {name: Status.STOPPING.value for name in _STATUSES if name in answer}
    if job.status() is Status.FAILED:
        answer.setdefault("FailureReason", job.failure_cause() or _UNKNOWN_CAUSE)
    return answer
