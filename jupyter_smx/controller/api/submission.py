"""Complete and validate a submitted spec until it can become a job record; nothing is stored here."""

from __future__ import annotations

import asyncio
import logging
import sys
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from jupyter_smx.aws_endpoint.environment import hide_secret
from jupyter_smx.controller.errors import wrap_unexpected
from jupyter_smx.controller.scheduling import engine_capabilities
from jupyter_smx.model.errors import ResourceNotFoundError, SmxError, UnavailableError
from jupyter_smx.model.name import job_name
from jupyter_smx.model.records.job import Job, Transition
from jupyter_smx.model.spec.image import Image
from jupyter_smx.model.status import SecondaryStatus, message_of
from jupyter_smx.model.text import engine_kind
from jupyter_smx.policy.admission import (
    checkpoint_rules,
    checks,
    container_rules,
    continuous_output_rules,
    engine_option_rules,
    host_visibility,
    image_rules,
    interpreter_rules,
    network_rules,
)
from jupyter_smx.policy.lifecycle import environment
from jupyter_smx.policy.scheduling import reuse

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from jupyter_smx.controller.state.live_state import LiveState
    from jupyter_smx.engines.base import Engine
    from jupyter_smx.model.spec.job_spec import JobSpec

_log = logging.getLogger(__name__)

RESOLVE_TIMEOUT = 5.0
"""Seconds that an engine may take to name an interpreter, while its submitter waits."""


class SubmissionValidator:
    """Completes the spec of a request, checks it, and makes a job of it."""

    def __init__(self, live_state: LiveState, engine_of: Callable[[str], Engine], engines: Collection[str]) -> None:
        self._live_state = live_state
        self._engine_of = engine_of
        self._engines = engines

    def complete(self, spec: JobSpec) -> JobSpec:
        """Fill in what its submitter left to the controller and the engine, and leave out the secret of the front."""
        # The front sends it nevertheless: a controller of an earlier version does not fill it in for the run.
        spec = replace(spec, base_name=spec.base_name or spec.kind, environment=hide_secret(spec.environment))
        if engine_kind(spec.engine) in self._engines:
            engine = self._engine_of(spec.engine)
            spec = replace(spec, network_isolation=spec.network_isolation or engine.is_network_isolated())
            if engine.capabilities.images:
                spec = image_rules.apply_default_image(spec, engine.default_image())
                has_settings = engine.capabilities.image_settings
                return (
                    image_rules.apply_image_settings(spec, engine.image_defaults(spec.image)) if has_settings else spec
                )
            if engine.capabilities.interpreters == "remote":
                return interpreter_rules.apply_remote_default(spec)
        return replace(spec, python=spec.python or sys.executable)

    async def resolve_interpreter(self, spec: JobSpec) -> str | None:
        """Return the engine's interpreter for a job of this spec; None if it is one of this machine or of an image.

        If the engine does not answer in time, return the text itself: the job waits for the engine anyway.

        :raises RefusedError: there is no such interpreter.
        """
        if engine_kind(spec.engine) not in self._engines:
            return None  # it is refused when it is checked
        engine = self._engine_of(spec.engine)
        if engine.capabilities.images or engine.capabilities.interpreters == "local":
            return None
        word = self.complete(spec).python
        try:
            with wrap_unexpected(_log, f"Resolving the interpreter at the engine {spec.engine}"):
                return await asyncio.wait_for(engine.resolve_interpreter(word), RESOLVE_TIMEOUT)
        except (UnavailableError, asyncio.TimeoutError):
            return word

    def check(self, spec: JobSpec) -> None:
        """Check a completed request.

        :raises ValidationError: it names something that does not exist, or needs more than there is.
        :raises RefusedError: a requirement of its engine is not installed or not configured.
        """
        limits = self._live_state.limits_of(spec.engine)
        checks.check(spec, limits, self._engines)
        engine = self._engine_of(spec.engine)
        # It is optional in the port: an object with the six methods is an engine, too.
        if check_installed := getattr(engine, "check_installed", None):
            check_installed()
        capabilities = engine.capabilities
        container_rules.check(
            spec,
            mounts=capabilities.mounts,
            shm_size=capabilities.shm_size,
            builds=capabilities.builds_images,
        )
        if spec.mounts:
            engine.check_mounts(spec.mounts)
        engine_option_rules.check(spec, options=capabilities.options)
        if spec.engine_options:
            engine.check_options(spec.engine_options)
        image_rules.check(spec, images=capabilities.images, settings=capabilities.image_settings)
        environment.check(
            spec,
            builds=capabilities.environments or capabilities.images or capabilities.builds_environments,
            builds_remotely=capabilities.builds_environments,
        )
        shares_all = capabilities.shared_folder and capabilities.same_paths
        folders = ("/",) if shares_all else capabilities.shared_folders
        is_shared = partial(host_visibility.is_below, folders=folders)
        checkpoint_rules.check(spec, is_shared=is_shared)
        continuous_output_rules.check(spec, is_shared=is_shared)
        host_visibility.check(spec, same_paths=capabilities.same_paths, host_addresses=capabilities.host_addresses)
        if spec.network_isolation:  # the question to all engines imports each of them
            able = engine_capabilities.isolating_engines(self._engine_of, self._engines)
            network_rules.check(spec, able, for_all=engine.is_network_isolated())
        if capabilities.bounded_by_machine:
            checks.check_hosts(spec, limits)
        checks.check_slots(spec, engine.slots())

    def check_dependencies(self, spec: JobSpec) -> None:
        """Check that a request names existing jobs and arrays as dependencies.

        :raises ResourceNotFoundError: one of them is unknown.
        """
        for ref in spec.after:
            first = self._live_state.job_queue.predecessor(ref)
            if first is not None and first.status is None:
                raise ResourceNotFoundError(
                    f"--after: tasks of the array {first.name} were deleted.",
                    field="after",
                    value=ref,
                    rule="All tasks must have completed; the records of some were deleted.",
                    cure="List the existing jobs that this job needs.",
                )
            if first is None:
                raise ResourceNotFoundError(
                    f"--after: there is no job {ref!r}.",
                    field="after",
                    value=ref,
                    rule="--after takes the ids of jobs that were submitted before.",
                )

    def check_python_version(self, job: Job) -> None:
        """Check that a job's hosts can run the code in its variables, if their Python version is known.

        It is known of an image that was inspected, and from earlier hosts. The submitter has checked an interpreter of
        this machine.

        :raises ValidationError: they run another version of Python.
        """
        has_variables = job.spec.send is not None or job.spec.shared is not None
        if has_variables and (job.image is not None or job.interpreter is not None):
            inspected = job.image.python_version if job.image is not None else ""
            reported = self._live_state.python_version(reuse.key_of_job(job, user=""))
            interpreter_rules.check_send(job.spec, inspected or reported)

    def new_checked_job(self, job_id: str, spec: JobSpec, interpreter: str | None = None) -> Job:
        """Validate a request, except for its dependencies, which were checked, and build its job. Writes nothing.

        :raises ValidationError: as the check.
        """
        spec = self.complete(spec)
        self.check(spec)
        job = self.new_job(job_id, spec, interpreter=interpreter)
        self.check_python_version(job)
        return job

    def new_job(self, job_id: str, spec: JobSpec, image: Image | None = None, interpreter: str | None = None) -> Job:
        """Build the job of a request; ``image`` is the resolved image, if it is known already."""
        now = self._live_state.clock()
        pending = SecondaryStatus.PENDING
        first = Transition(status=pending, start_time=now, status_message=message_of(pending))
        return Job(
            id=job_id,
            name=spec.job_name or job_name(spec.base_name, job_id),
            spec=spec,
            image=image,
            interpreter=interpreter,
            created_at=now,
            modified_at=now,
            wait_until=now + spec.max_wait if spec.max_wait else None,
            transitions=(first,),
            timings={"magic": spec.submitted_at, "accepted": now} if spec.submitted_at else {"accepted": now},
        )

    async def peek_image(self, spec: JobSpec) -> Image | None:
        """Return the image that a request means now, without an id if it must be pulled; None for hosts without images.

        :raises ValidationError, RefusedError, UnavailableError: hosts cannot use it.
        """
        spec = self.complete(spec)
        self.check(spec)
        if not spec.image:
            return None
        if spec.build:
            return Image(name=spec.image, id="")
        engine = self._engine_of(spec.engine)
        found = await engine.peek_image(spec.image, **engine_capabilities.image_arguments(spec))
        if found is None:
            return Image(name=spec.image, id="")
        image_rules.check_program(spec, found)
        return found

    async def cached_image(self, spec: JobSpec) -> Image | None:
        """Return the image that a request means if its engine has it cached; None if it must be resolved."""
        spec = self.complete(spec)
        if not spec.image or spec.build:
            return None
        try:
            # Everything else is checked at the submission; the name becomes a part of a request to an engine.
            engine = self._engine_of(spec.engine)
            can = engine.capabilities
            image_rules.check(spec, images=can.images, settings=can.image_settings)
            with wrap_unexpected(_log, f"The image lookup of the engine {spec.engine}"):
                found = await engine.cached_image(spec.image, **engine_capabilities.image_arguments(spec))
            if found is not None:
                image_rules.check_program(spec, found)
        except SmxError:
            return None  # it is refused, or looked up, at the submission
        return found
