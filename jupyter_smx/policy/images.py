"""Which wishes may name an image, and what an image takes the place of."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from jupyter_smx.model.spec import JobSpec

MAX_NAME = 255
"""Letters of SageMaker's ``TrainingImage`` and ``ImageUri``."""
_NAME = re.compile(rf"[^\s\0-\x1f\x7f-][^\s\0-\x1f\x7f]{{0,{MAX_NAME - 1}}}")


def completed(spec: JobSpec, usual: str) -> JobSpec:
    """Give a wish for hosts of an image, ``usual`` if it names none; what its submitter runs plays no role there.

    An interpreter that somebody named stays, so that it can be refused.
    """
    spec = replace(spec, image=spec.image or usual)
    return spec if spec.python_named else replace(spec, python="", python_version="")


def check(spec: JobSpec, *, images: bool) -> None:
    """Refuse an image where hosts are made of none, and where they are, its absence and what it has no room for.

    :raises ValidationError: names the field, and the cure.
    """
    if not images:
        _check_none(spec)
        return
    if not spec.image:
        raise ValidationError(
            f"--image: none is named, and the engine {spec.engine} makes hosts of one.",
            field="image",
            value="",
            rule="A job on such an engine names an image that has a Python, unless the administrator set a usual one.",
            cure="For example --image python:3.11-slim.",
        )
    _check_name(spec.image)
    if spec.requirements:
        raise ValidationError(
            "--requirements: they cannot be had in an image.",
            field="requirements",
            value=spec.requirements[0],
            rule=f"What a job on the engine {spec.engine} imports is what its image holds.",
            cure="Install them when the image is built; --requirements none leaves the file in --source-dir alone.",
        )
    if spec.python_named:
        raise ValidationError(
            f"--python: {spec.python} is an interpreter of this machine.",
            field="python",
            value=spec.python,
            rule=f"A job on the engine {spec.engine} runs the Python of its image.",
            cure="Leave it out, and name an image that has the Python you want.",
        )


def _check_none(spec: JobSpec) -> None:
    if spec.image:
        raise ValidationError(
            f"--image: hosts of the engine {spec.engine} are made of no image.",
            field="image",
            value=spec.image,
            rule="There a job runs the Python of its notebook, or what --python and --requirements say.",
            cure="Leave --image out, or name an engine whose hosts are made of images by --engine.",
        )


def _check_name(image: str) -> None:
    if not _NAME.fullmatch(image):
        raise ValidationError(
            f"--image: {image[:MAX_NAME]!r} cannot name an image.",
            field="image",
            value=image[:MAX_NAME],
            rule=f"It has 1 to {MAX_NAME} letters without blanks, and begins with no hyphen.",
            cure="For example --image REPOSITORY:TAG.",
        )
