"""Where checkpoints may be kept: in a folder that the hosts share with the controller."""

from __future__ import annotations

from posixpath import normpath
from typing import TYPE_CHECKING

from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from jupyter_smx.model.spec import JobSpec


_OF_HOSTS = ("/opt/ml", "/dev/shm")  # noqa: S108 - no file is made there


def check(spec: JobSpec, *, shared_folder: bool) -> None:
    """Refuse a place that the hosts of an engine cannot reach.

    :raises ValidationError: a URL, a relative path, or a folder that is not theirs.
    """
    if not spec.checkpoint:
        return
    if "://" in spec.checkpoint or not spec.checkpoint.startswith("/"):
        raise ValidationError(
            f"--checkpoint: {spec.checkpoint} is not a folder of this machine.",
            field="checkpoint",
            value=spec.checkpoint,
            rule="Checkpoints are kept in a folder here.",
            cure="Name a folder; copy it to the object store when the job is done.",
        )
    if any(f"{normpath(spec.checkpoint)}/".startswith(f"{taken}/") for taken in _OF_HOSTS):
        raise ValidationError(
            f"--checkpoint: {spec.checkpoint} is a folder of the hosts.",
            field="checkpoint",
            value=spec.checkpoint,
            rule="There every host has files of its own, which are gone with the job.",
            cure="Name a folder of yours; the job finds it at /opt/ml/checkpoints.",
        )
    if not shared_folder:
        raise ValidationError(
            f"--checkpoint: hosts of the engine {spec.engine} share no folder with this machine.",
            field="checkpoint",
            value=spec.checkpoint,
            rule="Checkpoints are kept by the hosts themselves, in a folder that they see.",
            cure="Use the engine local, or save what matters in /opt/ml/model.",
        )
