"""What operations on training and processing jobs share: find a job by its exact name, submit one, hold an answer."""

from __future__ import annotations

import asyncio
import os
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakValueDictionary

from jupyter_smx import controller_launch
from jupyter_smx.agent.contract.platform_variables import format_arn
from jupyter_smx.aws.controller_client import WAIT_STEP, BilledJob, ControllerClient
from jupyter_smx.aws.sagemaker.errors import aws_error, ended_job_error, name_taken_error
from jupyter_smx.aws.sagemaker.hold import FirstDescribes, hold_seconds
from jupyter_smx.aws.sagemaker.record_members import RecordPlaces
from jupyter_smx.aws.sagemaker.request_store import RequestStore, StoredRequest, job_id
from jupyter_smx.aws.sagemaker.requests.job_clients import lead_clients
from jupyter_smx.aws.sagemaker.requests.job_code import build_spec
from jupyter_smx.aws.sagemaker.requests.manifests import link_manifests
from jupyter_smx.aws.sagemaker.requests.translation import TranslatedRequest, TranslationContext
from jupyter_smx.model.errors import ResourceInUseError, ResourceNotFoundError, SmxError, UnavailableError
from jupyter_smx.model.status import DesiredState, Status, is_final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_smx.aws.sagemaker.settings import SageMakerSettings
    from jupyter_smx.aws.service import AwsError, Caller
    from jupyter_smx.model.spec.job_spec import JobSpec

Kind = Literal["train", "process"]
TITLES: dict[Kind, str] = {"train": "Training", "process": "Processing"}


@dataclass(frozen=True)
class NamedJobs:
    """The jobs of the controller, as the operations see them. ``clock`` gives seconds since the epoch."""

    controller: ControllerClient
    settings: SageMakerSettings
    clock: Callable[[], float]
    monotonic: Callable[[], float]
    requests: RequestStore
    first: FirstDescribes = field(default_factory=FirstDescribes)
    _locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary, init=False)
    """Locks of jobs that are being created, by id; one is dropped when no attempt holds or waits for it."""
    _released: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    async def find(self, kind: Kind, name: str) -> BilledJob | None:
        """Return the job of a kind with exactly this name; None if there is none."""
        try:
            found = await self.controller.job(name)
        except ResourceNotFoundError:
            return None
        except SmxError as error:
            raise aws_error(error) from error
        # The controller also finds jobs by an id, a base name or the beginning of a name.
        return found if (found.job.name, found.job.spec.kind) == (name, kind) else None

    async def find_or_raise(self, kind: Kind, name: str, unknown: AwsError) -> BilledJob:
        """Return the job of a kind with exactly this name.

        :raises AwsError: ``unknown``, if there is none.
        """
        found = await self.find(kind, name)
        if found is None:
            raise unknown
        return found

    async def hold(self, found: BilledJob, caller: Caller) -> BilledJob:
        """Wait for the end of a job as long as its caller's answer may be held; return the job then."""
        seconds = hold_seconds(caller, found.job.id, self.first, self.settings)
        until = self.monotonic() + seconds
        # A caller that goes away cancels this; the request that is then left over ends after one step.
        while not is_final(found.job.state) and (left := until - self.monotonic()) > 0:
            again = await self._wait(found.job.id, min(left, WAIT_STEP))
            if again is None:
                break
            found = again
        return found

    def release(self) -> None:
        """End all holds, and hold no other answer: clients get a job as it was at most one step before."""
        self._released.set()

    async def _wait(self, job: str, seconds: float) -> BilledJob | None:
        """Return a job at its end, or as it is after some seconds; None after a release, or without a controller."""
        poll = asyncio.ensure_future(self.controller.job(job, wait=seconds))
        released = asyncio.ensure_future(self._released.wait())
        try:
            await asyncio.wait({poll, released}, return_when=asyncio.FIRST_COMPLETED)
            return await poll if poll.done() else None
        except UnavailableError:
            return None
        except SmxError as error:
            raise aws_error(error) from error
        finally:
            poll.cancel()
            released.cancel()

    async def stop(self, found: BilledJob, what: str) -> None:
        """Request the stop of a job; ``what`` is ``training`` or ``processing``.

        :raises AwsError: it has ended, or is being stopped.
        """
        job = found.job
        if is_final(job.state):
            raise ended_job_error(what, job.status().value)
        if job.goal is DesiredState.STOP:
            raise ended_job_error(what, Status.STOPPING.value)
        try:
            await self.controller.stop(job.id)
        except SmxError as error:
            raise aws_error(error) from error

    async def delete(self, found: BilledJob) -> None:
        """Delete a job that has ended, its files, and what is kept of its request.

        :raises AwsError: it runs, or retains a warm pool.
        """
        try:
            await self.controller.delete(found.job.id)
        except SmxError as error:
            raise aws_error(error) from error
        self.requests.delete(found.job.id)

    async def create(
        self,
        kind: Kind,
        name: str,
        request: dict[str, Any],
        translate: Callable[[Mapping[str, Any], TranslationContext], TranslatedRequest],
        caller: Caller,
    ) -> str:
        """Submit the job of a request, and return its ARN; a repeated call of one client creates one job.

        :raises AwsError: the name is taken, or the request cannot become a job.
        """
        arn = format_arn(kind, name, caller.region)
        job = job_id(kind, name, caller.invocation_id or secrets.token_hex())
        # Attempts of one call share the folder of its inputs: the second one looks at what the first one stored.
        async with self._locks.setdefault(job, asyncio.Lock()):
            if self.requests.has(job) and await self._is_repeated_call(kind, name, job, request, arn):
                return arn
            await self._create(kind, job, request, translate, caller.region, arn)
        self.first.add(job)
        return arn

    async def _create(
        self,
        kind: Kind,
        job: str,
        request: dict[str, Any],
        translate: Callable[[Mapping[str, Any], TranslationContext], TranslatedRequest],
        region: str,
        arn: str,
    ) -> None:
        """Turn a request into a job under the id ``job``, and submit it.

        :raises AwsError: as :meth:`create`.
        """
        try:
            found = await asyncio.to_thread(translate, request, await self.context())  # it reads folders of channels
            inputs = self.requests.inputs_folder(job)
            found = await asyncio.to_thread(link_manifests, found, self.settings.s3_root, inputs)
            info = await self.controller.engine_info(self.settings.engine)
            interpreters = info.interpreters
            found = await asyncio.to_thread(lead_clients, found, self.settings, info.aws_front, region, os.environ)
            now = self.clock()
            spec = await asyncio.to_thread(build_spec, found, controller_launch.data_dir(), now, interpreters)
            tags = {tag["Key"]: tag["Value"] for tag in request.get("Tags") or ()}
            self.requests.write(job, StoredRequest(request=request, notes=found.notes, tags=tags))
            await self._submit(kind, job, spec, arn)
        except SmxError as error:
            raise aws_error(error, kind) from error

    async def _submit(self, kind: Kind, job: str, spec: JobSpec, arn: str) -> None:
        """Submit a job; if it is refused, delete what was kept of its request.

        :raises AwsError: the name is taken.
        """
        try:
            await self.controller.submit(job, spec)
        except UnavailableError:
            raise  # the job may have been accepted
        except SmxError as error:
            self.requests.delete(job)
            if isinstance(error, ResourceInUseError) and error.field == "job_name":
                raise await self._name_taken(kind, spec.job_name, arn) from error
            raise

    async def _name_taken(self, kind: Kind, name: str, arn: str) -> AwsError:
        """Return the error of a taken name, with the ARN of the job that has it: both kinds share their names here."""
        holder: Kind = "train" if kind == "process" else "process"
        if await self.find(holder, name) is None:
            return name_taken_error(TITLES[kind], TITLES[kind], arn)
        return name_taken_error(TITLES[kind], TITLES[holder], format_arn(holder, name, arn.split(":")[3]))

    async def _is_repeated_call(self, kind: Kind, name: str, job: str, request: dict[str, Any], arn: str) -> bool:
        """Return True if this very call has created the job already; False if it was refused.

        :raises AwsError: a call with other members has.
        """
        try:
            known = (await self.controller.job(name)).job
        except ResourceNotFoundError:
            return False
        except SmxError as error:
            raise aws_error(error) from error
        if known.name != name:
            return False
        if known.id == job and self.requests.read(job).request == request:
            return True
        raise await self._name_taken(kind, name, arn)

    def places(self, region: str) -> RecordPlaces:
        """Return what descriptions for a client in a region depend on."""
        return RecordPlaces(region, controller_launch.jobs_dir(), self.settings.s3_root)

    async def context(self) -> TranslationContext:
        """Return what the translation of a request depends on at the controller."""
        engine = self.settings.engine
        info = await self.controller.engine_info(engine)
        return TranslationContext(
            s3_root=self.settings.s3_root,
            engine=engine,
            has_images=info.images,
            instance_types=await self.controller.instance_types(engine),
            images=self.settings.images,
            match_images=self.settings.match_images,
            keep_alive_cap=info.keep_alive_cap,
            processing_keep_alive=self.settings.processing_keep_alive,
        )
