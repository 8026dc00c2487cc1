"""Check where checkpoints are kept: at a URL, or in a folder that the hosts share with the controller."""

from __future__ import annotations

from posixpath import normpath
from typing import TYPE_CHECKING

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.policy import urls

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_smx.model.spec.job_spec import JobSpec


_ML = "/opt/ml"
_RESERVED_FOLDERS = tuple(
    f"{_ML}/{name}"
    for name in ("code", "config", "input", "model", "output/data", "output/intermediate", "processing", "sagemaker")
)
"""Folders that a job finds filled, or that are emptied when it ends."""
_HOST_FOLDERS = (_ML, "/dev/shm")  # noqa: S108 - no file is made there


def check(spec: JobSpec, *, is_shared: Callable[[str], bool]) -> None:
    """Refuse a place that the hosts of an engine cannot reach; ``is_shared`` returns True if they see a folder.

    :raises ValidationError: a URL that cannot be written to, a relative path, or a folder that hosts do not share.
    """
    if spec.checkpoint_local_path:
        _check_local_path(spec)
    if urls.is_url(spec.checkpoint):
        _check_url(spec.checkpoint)
    elif spec.checkpoint:
        _check_folder(spec, is_shared=is_shared)


def _check_local_path(spec: JobSpec) -> None:
    path = spec.checkpoint_local_path
    folder = normpath(path)
    said = ""
    if not spec.checkpoint:
        said = "It sets where the job finds its checkpoints, and the job has no --checkpoint."
    elif not folder.startswith(f"{_ML}/"):
        said = f"On this engine the path is absolute and below {_ML}."
    else:
        near = [
            one for one in _RESERVED_FOLDERS if f"{folder}/".startswith(f"{one}/") or f"{one}/".startswith(f"{folder}/")
        ]
        said = f"{near[0]} is reserved." if near else ""
    if said:
        raise ValidationError(
            f"--checkpoint-local-path: {path!r} cannot be the folder of checkpoints.",
            field="checkpoint_local_path",
            value=path,
            rule=said,
            cure="Add --checkpoint with the place to keep them."
            if not spec.checkpoint
            else f"For example {_ML}/checkpoints/last.",
        )


def _check_url(place: str) -> None:
    why = urls.unwritable_reason(place)
    if why:
        raise ValidationError(
            f"--checkpoint: checkpoints cannot be written to {place}.",
            field="checkpoint",
            value=place,
            rule=why,
            cure="Use a folder of an object store, e.g. s3://BUCKET/FOLDER, or of this machine.",
        )


def _check_folder(spec: JobSpec, *, is_shared: Callable[[str], bool]) -> None:
    if not spec.checkpoint.startswith("/"):
        raise ValidationError(
            f"--checkpoint: {spec.checkpoint} is not a folder of this machine.",
            field="checkpoint",
            value=spec.checkpoint,
            rule="Checkpoints are kept in a folder of this machine or at a URL.",
            cure="Use the absolute path of a folder.",
        )
    if any(f"{normpath(spec.checkpoint)}/".startswith(f"{taken}/") for taken in _HOST_FOLDERS):
        raise ValidationError(
            f"--checkpoint: {spec.checkpoint} is a folder inside the hosts.",
            field="checkpoint",
            value=spec.checkpoint,
            rule="Each host has its own files in it, which are deleted with the job.",
            cure="Use a folder of this machine; the job finds it at /opt/ml/checkpoints.",
        )
    if not is_shared(spec.checkpoint):
        raise ValidationError(
            f"--checkpoint: hosts of the engine {spec.engine} do not share this folder with this machine.",
            field="checkpoint",
            value=spec.checkpoint,
            rule="Hosts write checkpoints directly, so they need access to the folder.",
            cure="Use a URL, e.g. s3://BUCKET/FOLDER, or --engine local.",
        )
