"""The operations on processing jobs: create, describe, stop and delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_smx.agent.contract.platform_variables import format_arn
from jupyter_smx.aws.sagemaker.describe import describe_processing
from jupyter_smx.aws.sagemaker.errors import unknown_processing_job_error, unknown_update_error
from jupyter_smx.aws.sagemaker.requests.processing import translate_processing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_smx.aws.controller_client import BilledJob
    from jupyter_smx.aws.sagemaker.jobs import NamedJobs
    from jupyter_smx.aws.service import Caller, Operation

_NAME = "ProcessingJobName"


class ProcessingJobs:
    """Answers the operations on processing jobs."""

    def __init__(self, jobs: NamedJobs) -> None:
        self._jobs = jobs

    def operations(self) -> Mapping[str, Operation]:
        """Return the operations by their names."""
        return {
            "CreateProcessingJob": self.create,
            "DescribeProcessingJob": self.describe,
            "StopProcessingJob": self.stop,
            "DeleteProcessingJob": self.delete,
        }

    async def create(self, request: dict[str, Any], caller: Caller) -> dict[str, Any]:
        """Submit a processing job."""
        arn = await self._jobs.create("process", request[_NAME], request, translate_processing, caller)
        return {"ProcessingJobArn": arn}

    async def describe(self, request: dict[str, Any], caller: Caller) -> dict[str, Any]:
        """Describe a processing job; for a client that would sleep, when it ends."""
        return self.answer(await self._jobs.hold(await self._find(request, caller), caller), caller.region)

    def answer(self, found: BilledJob, region: str) -> dict[str, Any]:
        """Describe a processing job as it is."""
        stored = self._jobs.requests.read(found.job.id)
        return describe_processing(found, stored, self._jobs.places(region))

    async def stop(self, request: dict[str, Any], caller: Caller) -> dict[str, Any]:
        """Request the stop of a processing job."""
        del caller
        name = request[_NAME]
        await self._jobs.stop(await self._jobs.find_or_raise("process", name, unknown_update_error(name)), "processing")
        return {}

    async def delete(self, request: dict[str, Any], caller: Caller) -> dict[str, Any]:
        """Delete a processing job that has ended, and its files."""
        await self._jobs.delete(await self._find(request, caller))
        return {}

    async def _find(self, request: Mapping[str, Any], caller: Caller) -> BilledJob:
        name = request[_NAME]
        unknown = unknown_processing_job_error(name, format_arn("process", name, caller.region))
        return await self._jobs.find_or_raise("process", name, unknown)
