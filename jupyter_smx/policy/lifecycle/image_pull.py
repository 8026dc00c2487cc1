"""Image downloads for jobs: their messages, and when an unreachable registry is tried again. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from jupyter_smx.model.errors import RefusedError, UnavailableError
from jupyter_smx.model.records.job import IMAGE_GONE
from jupyter_smx.model.spec.image import is_build_name
from jupyter_smx.model.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_smx.model.errors import SmxError
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.spec.image import Image

PULLING, PULLED = "pulling", "pulled"
"""Moments in the timings of a job: the download of its image began, and was over."""
GONE = IMAGE_GONE
BACKOFF = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds before a registry that is away is asked again; a minute in all, which a restart of one takes."""


def is_available(job: Job) -> bool:
    """Return True if the image of a job is on record, and was not found missing."""
    return job.image is not None and GONE not in job.timings


def is_built(job: Job) -> bool:
    """Return True if the image of a job has to be built; later attempts run the image on its record."""
    return bool(job.spec.build) and job.image is None


def pull_reference(job: Job) -> str:
    """Return the reference to pull: the name of an image, or the digest of the recorded one."""
    return job.spec.image if job.image is None else job.image.digest


def mark_image_missing(job: Job, now: float) -> Job | None:
    """Return a job without hosts whose image was deleted, to download it again; None if no registry has it."""
    if job.image is None or not job.image.digest:
        return None
    return replace(job, cluster="", lease=0, timings={**job.timings, GONE: now})


def image_missing_error(image: Image) -> RefusedError:
    """Return the error of a job without hosts whose image was deleted and cannot be downloaded again."""
    why = "later downloads replaced it" if image.digest else "that image has no known registry"
    return RefusedError(
        f"image: {image.display_name_with_digest()} is no longer on this machine.",
        field="image",
        value=image.name,
        rule=f"A job runs in the image that its name had when it was submitted, and {why}.",
        cure=f"Submit it again to use the current {image.name}.",
    )


def check_same_image(image: Image, found: Image) -> Image:
    """Return a pulled image if it is the one on record.

    :raises RefusedError: it is another image.
    """
    if found == image:
        return image
    raise RefusedError(
        f"image: {image.digest} is not {image.display_name()}, the image of this job.",
        field="image",
        value=image.name,
        rule=f"The name now has the id {found.id}.",
        cure=f"Submit the job again to use the current {image.name}.",
    )


def format_pull_status(name: str) -> str:
    """Return the message for an image download, in SageMaker's words except for the name."""
    return f"Downloading the image {name}"


def format_retry(error: SmxError, seconds: float) -> str:
    """Return why a request to a registry or an engine is repeated, and when; for an engine with its cure."""
    text = str(error) if isinstance(error, UnavailableError) else error.message
    return f"{text.rstrip('.')}; next attempt in {format_duration(seconds)}"


def note(image: Image, timings: Mapping[str, float]) -> str:
    """Return the note for ``why``: the image of a job's hosts, and how long its download took, if there was one."""
    if not image.id and is_build_name(image.name):
        return f"The image is built first, from {image.name.partition(':')[2]}."
    if not image.id:
        return f"The image {image.display_name()} is not on this machine and is downloaded first."
    begun, over = timings.get(PULLING), timings.get(PULLED)
    made = f"Its hosts use the image {image.display_name()}"
    if begun is None or over is None:
        return f"{made}."
    return f"{made}, which was downloaded in {format_duration(max(0.0, over - begun))}."
