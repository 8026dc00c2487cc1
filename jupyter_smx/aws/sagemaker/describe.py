"""Answer Describe: members of the request as they were sent, and over them those of the record. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_smx.agent.contract.platform_variables import format_arn
from jupyter_smx.aws.sagemaker.requests.instance_types import add_selection
from jupyter_smx.aws.sagemaker.requests.training import model_uri
from jupyter_smx.kernel.sagemaker.describe import LocalContext, description
from jupyter_smx.model.status import DesiredState, Status, is_final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from jupyter_smx.aws.controller_client import BilledJob
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
_UNKNOWN_CAUSE = "InternalServerError: the record of the job has no reason."


def describe_training(found: BilledJob, stored: StoredRequest, region: str, jobs: Path) -> dict[str, Any]:
    """Answer ``DescribeTrainingJob``."""
    job = found.job
    own = description(job, LocalContext(region, jobs), found.bill)
    answer = _merge(job, own, stored, region, "TrainingJobArn")
    if job.status() is not Status.COMPLETED:
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


def _profiling_status(answer: Mapping[str, Any]) -> str:
    """Return what the request asked for, since methods of the SDK depend on it; nothing is profiled here."""
    profiler = answer.get("ProfilerConfig")
    return "Disabled" if profiler is None or profiler.get("DisableProfiler") else "Enabled"


def describe_processing(found: BilledJob, stored: StoredRequest, region: str, jobs: Path) -> dict[str, Any]:
    """Answer ``DescribeProcessingJob``."""
    own = description(found.job, LocalContext(region, jobs), found.bill)
    answer = _merge(found.job, own, stored, region, "ProcessingJobArn")
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
