"""Images that are downloaded for jobs: what is said of it, and when a registry that is away is asked again. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.model import duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_smx.model.errors import SmxError
    from jupyter_smx.model.image import Image

PULLING, PULLED = "pulling", "pulled"
"""Moments in the timings of a job: the download of its image began, and was over."""
PAUSES = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds before a registry that is away is asked again; a minute in all, which a restart of one takes."""


def doing(name: str) -> str:
    """Say that an image is downloaded, in SageMaker's words but for the name."""
    return f"Downloading the image {name}"


def again(error: SmxError, seconds: float) -> str:
    """Say why a registry is asked again, and when."""
    return f"{error.message.rstrip('.')}; it is tried again in {seconds:g} s"


def note(image: Image, timings: Mapping[str, float]) -> str:
    """Say for ``why`` of what the hosts of a job are made, and how long that took to come here if it had to."""
    if not image.id:
        return f"The image {image.words()} is not here, and is downloaded first."
    begun, over = timings.get(PULLING), timings.get(PULLED)
    made = f"Its hosts are made of the image {image.words()}"
    if begun is None or over is None:
        return f"{made}."
    return f"{made}, which was downloaded in {duration.words(max(0.0, over - begun))}."
