"""Check which requests can name an image, and which options an image replaces."""

from __future__ import annotations

import re
from posixpath import normpath
from typing import TYPE_CHECKING

from msgspec.structs import replace

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.image import build_name
from jupyter_smx.model.spec.job_spec import TRAIN

if TYPE_CHECKING:
    from collections.abc import Collection

    from jupyter_smx.model.spec.image import Image
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
    built = build_name(spec.build) if spec.build else ""
    spec = replace(spec, image=spec.image or built or usual)
    return spec if spec.python_named else replace(spec, python="", python_version="")


def apply_image_settings(spec: JobSpec, names: Collection[str]) -> JobSpec:
    """Return a request in which the named settings of its image count, unless it says something about them."""
    fields = {name: f"image_{name}" for name in names if not getattr(spec, f"image_{name}")}
    return replace(spec, **dict.fromkeys(fields.values(), "image"))


def check(spec: JobSpec, *, images: bool, settings: bool = True) -> None:
    """Refuse an image where hosts are made of none, and where they are, its absence and what it has no room for.

    ``settings`` is True if settings of the image can count on this engine.

    :raises ValidationError: names the field, and the cure.
    """
    if not (images and settings):
        _check_no_settings(spec)
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
    if not spec.build:
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


def check_program(spec: JobSpec, image: Image) -> None:
    """Refuse a job without a script whose image has no program of its own.

    :raises ValidationError: it has none.
    """
    has_program = bool(image.entrypoint) or (image.has_train if spec.kind == "train" else bool(image.cmd))
    if not spec.image_program or has_program:
        return
    what = f"program {TRAIN} on its PATH" if spec.kind == "train" else "ENTRYPOINT and no CMD"
    raise ValidationError(
        f"--image: {image.name} has no {what}.",
        field="image",
        value=image.name,
        rule="A job without a script runs the image's own program, as on SageMaker: for training ENTRYPOINT with the "
        "word train, for processing ENTRYPOINT and CMD.",
        cure="Pass a script, or --command; or install the package sagemaker-training, which has train, in the image.",
    )


def program_of(spec: JobSpec, image: Image | None) -> tuple[str, ...]:
    """Return the command of a job: its own, or the program of its image by SageMaker's rule.

    A host that was started through the entry point has its variables already.
    """
    if not spec.image_program:
        return spec.command
    first = image.entrypoint if image and not ("entrypoint" in spec.image_settings() and spec.kind == "train") else ()
    if spec.kind == "train":
        return (*first, TRAIN)
    return (*first, *(spec.arguments or (image.cmd if image else ())))


def _check_no_settings(spec: JobSpec) -> None:
    for option in ("user", "entrypoint", "workdir"):
        if getattr(spec, f"image_{option}") == "image":
            raise ValidationError(
                f"--{option}: the engine {spec.engine} does not follow settings of images.",
                field=option,
                value="image",
                rule="USER, ENTRYPOINT and WORKDIR of an image count only for hosts that are its containers.",
                cure=f"Remove --{option}, or choose --engine docker.",
            )


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
