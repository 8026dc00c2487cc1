"""Which wishes may name an image, and what an image takes the place of."""

from __future__ import annotations

import re
from posixpath import normpath
from typing import TYPE_CHECKING

from msgspec.structs import replace

from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from jupyter_smx.model.spec.job_spec import JobSpec

MAX_NAME = 255
"""Letters of SageMaker's ``TrainingImage`` and ``ImageUri``."""
_NAME = re.compile(rf"[^\s\0-\x1f\x7f-][^\s\0-\x1f\x7f]{{0,{MAX_NAME - 1}}}")

_FILE = r"(?:file:(?://)?)?"
_PATH = re.compile(rf"(?:^|\s|=)(?:{_FILE}(/[^\s;\[]+)|\"{_FILE}(/[^\"]*)|'{_FILE}(/[^']*))")
"""A path of the submitter's machine in a line of requirements, where such paths are absolute; it may have quotes."""


def apply_default_image(spec: JobSpec, usual: str) -> JobSpec:
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
    _check_requirements(spec)
    if spec.python_named:
        raise ValidationError(
            f"--python: {spec.python} is an interpreter of this machine.",
            field="python",
            value=spec.python,
            rule=f"A job on the engine {spec.engine} runs the Python of its image.",
            cure="Leave it out, and name an image that has the Python you want; --requirements adds packages to it.",
        )


def _check_requirements(spec: JobSpec) -> None:
    """Refuse files of this machine among what is required, but for those that come with the code."""
    folder = spec.source_dir.folder if spec.source_dir else ""
    for line in spec.requirements:
        for found in _PATH.finditer(line.partition(" # content ")[0]):
            path = found[found.lastindex or 0]
            if not folder or not f"{normpath(path)}/".startswith(f"{folder}/"):
                raise ValidationError(
                    f"--requirements: hosts of the engine {spec.engine} do not see {path}.",
                    field="requirements",
                    value=line,
                    rule="There pip reads package indexes, and what lies in --source-dir.",
                    cure="Put it into --source-dir, or install it when the image is built.",
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
