"""The operations on training jobs: create, describe, stop, update and delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_smx.aws.sagemaker.describe import describe_training, job_arn
from jupyter_smx.aws.sagemaker.errors import aws_error, unknown_training_job_error, validation_error
from jupyter_smx.aws.sagemaker.requests.training import translate_training
from jupyter_smx.model.errors import ResourceInUseError, SmxError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_smx.aws.controller_client import BilledJob
    from jupyter_smx.aws.sagemaker.jobs import NamedJobs
    from jupyter_smx.aws.service import Caller, Operation

_NAME = "TrainingJobName"


class TrainingJobs:
    """Answers the operations on training jobs."""

    def __init__(self, jobs: NamedJobs) -> None:
        self._jobs = jobs

    def operations(self) -> Mapping[str, Operation]:
        """Return the operations by their names."""
        return {
            "CreateTrainingJob": self.create,
            "DescribeTrainingJob": self.describe,
            "StopTrainingJob": self.stop,
            "UpdateTrainingJob": self.update,
            "DeleteTrainingJob": self.delete,
        }

    async def create(self, request: dict[str, Any], caller: Caller) -> dict[str, Any]:
        """Submit a training job."""
        arn = await self._jobs.create("train", request[_NAME], request, translate_training, caller)
        return {"TrainingJobArn": arn}

    async def describe(self, request: dict[str, Any], caller: Caller) -> dict[str, Any]:
        """Describe a training job; for a client that would sleep, when it ends."""
        found = await self._jobs.hold(await self._find(request), caller)
        return self.answer(found, caller.region)

    def answer(self, found: BilledJob, region: str) -> dict[str, Any]:
        """Describe a training job as it is."""
        stored = self._jobs.requests.read(found.job.id)
        return describe_training(found, stored, self._jobs.places(region))

    async def stop(self, request: dict[str, Any], caller: Caller) -> dict[str, Any]:
        """Request the stop of a training job."""
        del caller
        await self._jobs.stop(await self._find(request), "training")
        return {}

    async def update(self, request: dict[str, Any], caller: Caller) -> dict[str, Any]:
        """Change the keep-alive of a training job, also of the pool that it retains; other members change nothing."""
        job = (await self._find(request)).job
        resources = request.get("ResourceConfig")
        if resources is not None:
            seconds = resources["KeepAlivePeriodInSeconds"]
            try:
                await self._jobs.controller.set_keep_alive(job.id, seconds)
            except ResourceInUseError as error:
                raise validation_error(f"The keep-alive of {job.name} cannot be updated: {error}") from error
            except SmxError as error:
                raise aws_error(error) from error
            self._jobs.requests.set_keep_alive(job.id, seconds)
        return {"TrainingJobArn": job_arn(job, caller.region)}

    async def delete(self, request: dict[str, Any], caller: Caller) -> dict[str, Any]:
        """Delete a training job that has ended, and its files."""
        del caller
        await self._jobs.delete(await self._find(request))
        return {}

    async def _find(self, request: Mapping[str, Any]) -> BilledJob:
        return await self._jobs.find_or_raise("train", request[_NAME], unknown_training_job_error())
