"""The operations that list jobs: ListTrainingJobs, ListProcessingJobs, and Search for training jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_smx.aws.sagemaker.errors import aws_error, unsupported_error
from jupyter_smx.aws.sagemaker.lists.listing import JobRow, list_page, page_of, row_of
from jupyter_smx.aws.sagemaker.lists.search_expression import field_values, matches
from jupyter_smx.aws.service import WAY_BACK
from jupyter_smx.model.errors import ResourceNotFoundError, SmxError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_smx.aws.controller_client import BilledJob
    from jupyter_smx.aws.sagemaker.jobs import Kind, NamedJobs
    from jupyter_smx.aws.sagemaker.processing_jobs import ProcessingJobs
    from jupyter_smx.aws.sagemaker.training_jobs import TrainingJobs
    from jupyter_smx.aws.service import Caller, Operation

_TRAINING_JOB = "TrainingJob"
_TRAINING = ("TrainingJobName", "TrainingJobArn", "CreationTime", "TrainingEndTime", "LastModifiedTime")
_TRAINING_SUMMARY = (*_TRAINING, "TrainingJobStatus", "SecondaryStatus", "WarmPoolStatus")
_ORDERS = {"TrainingJobName": "Name", "TrainingJobStatus": "Status", "CreationTime": "CreationTime"}
"""Orders of Search by its properties; others have the default, the time of the last change."""
_PROCESSING = ("ProcessingJobName", "ProcessingJobArn", "CreationTime", "ProcessingEndTime", "LastModifiedTime")
_PROCESSING_SUMMARY = (*_PROCESSING, "ProcessingJobStatus", "FailureReason", "ExitMessage")
ONLY_DESCRIBED = frozenset(
    {
        *("InfraCheckConfig", "MlflowConfig", "ProfilerRuleConfigurations", "ProfilingStatus", "RemoteDebugConfig"),
        "ServerlessJobConfig",
    }
)
"""Members of a described training job that a result of Search does not have."""


class JobLists:
    """Answers the operations that list jobs."""

    def __init__(self, jobs: NamedJobs, training: TrainingJobs, processing: ProcessingJobs) -> None:
        self._jobs = jobs
        self._training = training
        self._processing = processing

    def operations(self) -> Mapping[str, Operation]:
        """Return the operations by their names."""
        return {
            "ListTrainingJobs": self.list_training,
            "ListProcessingJobs": self.list_processing,
            "Search": self.search,
        }

    async def list_training(self, request: dict[str, Any], caller: Caller) -> dict[str, Any]:
        """List a page of training jobs."""
        page = list_page(await self._rows("train"), request)
        found = [self._training.answer(each, caller.region) for each in await self._records(page.rows)]
        summaries = [_select(each, _TRAINING_SUMMARY) for each in found]
        return {"TrainingJobSummaries": summaries, **_next_token(page.token)}

    async def list_processing(self, request: dict[str, Any], caller: Caller) -> dict[str, Any]:
        """List a page of processing jobs."""
        page = list_page(await self._rows("process"), request)
        found = [self._processing.answer(each, caller.region) for each in await self._records(page.rows)]
        summaries = [_select(each, _PROCESSING_SUMMARY) for each in found]
        return {"ProcessingJobSummaries": summaries, **_next_token(page.token)}

    async def search(self, request: dict[str, Any], caller: Caller) -> dict[str, Any]:
        """Find training jobs by their name, status and times."""
        if request["Resource"] != _TRAINING_JOB:
            raise unsupported_error(f"Resource {request['Resource']}", "only training jobs are found here.", WAY_BACK)
        expression = request.get("SearchExpression") or {}
        rows = [row for row in await self._rows("train") if matches(expression, field_values(row))]
        descending = request.get("SortOrder", "Descending") == "Descending"
        sort = _ORDERS.get(request.get("SortBy", ""), "LastModifiedTime")
        page = page_of(rows, sort, request, descending=descending)
        found = [self._search_result(each, caller.region) for each in await self._records(page.rows)]
        return {"Results": found, **_next_token(page.token)}

    def _search_result(self, found: BilledJob, region: str) -> dict[str, Any]:
        stored = self._jobs.requests.read(found.job.id)
        tags = [{"Key": key, "Value": value} for key, value in stored.tags.items()]
        answer = self._training.answer(found, region)
        members = {name: value for name, value in answer.items() if name not in ONLY_DESCRIBED}
        return {_TRAINING_JOB: {**members, "Tags": tags}}

    async def _rows(self, kind: Kind) -> list[JobRow]:
        try:
            return [row_of(job) for job in await self._jobs.controller.all_summaries() if job.kind == kind]
        except SmxError as error:
            raise aws_error(error) from error

    async def _records(self, rows: tuple[JobRow, ...]) -> list[BilledJob]:
        """Read the jobs of a page; those that were deleted meanwhile are left out."""
        found = [await self._record(row.id) for row in rows]
        return [each for each in found if each is not None]

    async def _record(self, job: str) -> BilledJob | None:
        try:
            return await self._jobs.controller.job(job)
        except ResourceNotFoundError:
            return None
        except SmxError as error:
            raise aws_error(error) from error


def _select(members: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: members[name] for name in names if name in members}


def _next_token(token: str) -> dict[str, str]:
    return {"NextToken": token} if token else {}
