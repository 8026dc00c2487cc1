"""Check which requests can name an image, and which options an image replaces."""

from __future__ import annotations

import re
from posixpath import normpath
from typing import TYPE_CHECKING

from msgspec.structs import replace

from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from jupyter_smx.model.spec.job_spec import JobSpec, SourceDir

MAX_NAME = 255
"""Letters of SageMaker's ``TrainingImage`` and ``ImageUri``."""
_NAME = re.compile(rf"[^\s\0-\x1f\x7f-][^\s\0-\x1f\x7f]{{0,{MAX_NAME - 1}}}")

_FILE = r"(?:file:(?://)?)?"
_PATH = re.compile(rf"(?:^|\s|=)(?:{_FILE}(/[^\s;\[]+)|\"{_FILE}(/[^\"]*)|'{_FILE}(/[^']*))")
"""A path of the submitter's machine in a line of requirements, where such paths are absolute; it may have quotes."""


def apply_default_image(spec: JobSpec, usual: str) -> JobSpec:
    """Return a request for hosts of an image, ``usual`` if it names none, without the submitter's interpreter.

    An interpreter of ``--python`` stays, so that it can be refused.
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
            f"--image: no image was given, and the engine {spec.engine} needs one.",
            field="image",
            value="",
            rule="A job on this engine needs an image with Python, unless the administrator set a default image.",
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
            cure="Remove --python and use an image with the Python that you need; --requirements adds packages to it.",
        )


def _check_requirements(spec: JobSpec) -> None:
    """Refuse files of this machine among what is required, but for those that come with the code."""
    for line in spec.requirements:
        for found in _PATH.finditer(line.partition(" # content ")[0]):
            path = found[found.lastindex or 0]
            if spec.source_dir is None or not _is_sent(normpath(path), spec.source_dir):
                raise ValidationError(
                    f"--requirements: hosts of the engine {spec.engine} cannot read {path}.",
                    field="requirements",
                    value=line,
                    rule="On these hosts pip reads only package indexes and files that are sent with the code.",
                    cure="Put the file into --source-dir, or send it with --dependency from the folder of the script, "
                    "or install the package when you build the image.",
                )


def _is_sent(path: str, source: SourceDir) -> bool:
    """Return True if a file comes with the code, to a path that hosts derive from the common folder of the code."""
    if not source.folder or not f"{path}/".startswith(f"{source.folder}/"):
        return False
    return source.is_whole or path.removeprefix(f"{source.folder}/").partition("/")[0] in source.dependencies


def _check_none(spec: JobSpec) -> None:
    if spec.image:
        raise ValidationError(
            f"--image: the engine {spec.engine} does not use images.",
            field="image",
            value=spec.image,
            rule="On this engine a job runs the notebook's Python, or the one of --python and --requirements.",
            cure="Remove --image, or choose an --engine that uses images.",
        )


def _check_name(image: str) -> None:
    if not _NAME.fullmatch(image):
        raise ValidationError(
            f"--image: {image[:MAX_NAME]!r} is not a valid image name.",
            field="image",
            value=image[:MAX_NAME],
            rule=f"A name has 1 to {MAX_NAME} characters without blanks and does not start with a hyphen.",
            cure="For example --image REPOSITORY:TAG.",
        )
