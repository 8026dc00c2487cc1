"""Make the service ``sagemaker``, a module of its own because all operations meet in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.aws.sagemaker.jobs import NamedJobs
from jupyter_smx.aws.sagemaker.lists.job_lists import JobLists
from jupyter_smx.aws.sagemaker.processing_jobs import ProcessingJobs
from jupyter_smx.aws.sagemaker.request_store import RequestStore
from jupyter_smx.aws.sagemaker.tags import Tags
from jupyter_smx.aws.sagemaker.training_jobs import TrainingJobs
from jupyter_smx.aws.service import Service
from jupyter_smx.aws_endpoint.request_folder import request_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_smx.aws.controller_client import ControllerClient
    from jupyter_smx.aws.sagemaker.settings import SageMakerSettings


def make_service(
    controller: ControllerClient,
    settings: SageMakerSettings,
    clock: Callable[[], float],
    monotonic: Callable[[], float],
) -> Service:
    """Make the service; ``clock`` gives seconds since the epoch, ``monotonic`` those of no clock that is set."""
    jobs = NamedJobs(controller, settings, clock, monotonic, RequestStore(request_folder(settings.data_folder)))
    training, processing = TrainingJobs(jobs), ProcessingJobs(jobs)
    operations = (training, processing, JobLists(jobs, training, processing), Tags(jobs))
    named = {name: each for owner in operations for name, each in owner.operations().items()}
    return Service("sagemaker", named, jobs.release)
