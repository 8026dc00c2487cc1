"""Check which requests can have mounts, a size of ``/dev/shm``, or an image that is built. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.image import build_name

if TYPE_CHECKING:
    from jupyter_smx.model.spec.job_spec import JobSpec
    from jupyter_smx.model.spec.mount import Mount

_OWN_FOLDERS = ("/opt/ml", "/tmp", "/run", "/proc", "/sys", "/dev")  # noqa: S108 - paths on a host
"""Folders of a host that are made for it, or that are emptied after each job, so that no data may be there."""
_VOLUME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]+")
_CONTAINERS = "It needs an engine whose hosts are containers."


def check(spec: JobSpec, *, mounts: bool, shm_size: bool, builds: bool) -> None:
    """Refuse options of containers that an engine does not have, and mounts at paths that hosts need themselves.

    The keywords are what the engine can do.

    :raises ValidationError: names the field, and the cure.
    """
    if spec.mounts and not mounts:
        raise _no_such_option_error(spec, "--mount", "mounts", spec.mounts[0].option_value())
    if spec.shm_size and not shm_size:
        raise _no_such_option_error(spec, "--shm-size", "shm_size", str(spec.shm_size))
    if spec.build and not builds:
        raise _no_such_option_error(spec, "--build", "build", spec.build)
    if spec.build and spec.image not in ("", build_name(spec.build)):
        raise ValidationError(
            "--build cannot be combined with --image.",
            field="build",
            value=spec.image,
            rule="A job has one image: a finished one, or the one that is built.",
            cure="Remove one of the two.",
        )
    for mount in spec.mounts:
        _check_mount(mount)
    _check_unique(spec)


def _no_such_option_error(spec: JobSpec, option: str, field: str, value: str) -> ValidationError:
    return ValidationError(
        f"{option}: the engine {spec.engine} does not have this option.",
        field=field,
        value=value,
        rule=_CONTAINERS,
        cure=f"Remove {option}, or use --engine docker.",
    )


def _check_mount(mount: Mount) -> None:
    for folder in _OWN_FOLDERS:
        if _is_below(mount.target, folder) or _is_below(folder, mount.target):
            raise ValidationError(
                f"--mount: nothing can be mounted at {mount.target}.",
                field="mounts",
                value=mount.option_value(),
                rule=f"Hosts have a {folder} of their own.",
                cure="Use another TARGET, for example /data.",
            )
    if mount.is_volume() and not _VOLUME.fullmatch(mount.source):
        raise ValidationError(
            f"--mount: {mount.source!r} is neither an absolute path nor the name of a volume.",
            field="mounts",
            value=mount.option_value(),
            rule="A volume's name has letters, digits, underscores, dots and hyphens.",
            cure="For example --mount /data/images:/data.",
        )


def _is_below(path: str, folder: str) -> bool:
    return f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")


def _check_unique(spec: JobSpec) -> None:
    targets = [mount.target for mount in spec.mounts]
    for target in targets:
        outer = next((other for other in targets if other != target and _is_below(target, other)), "")
        if outer:
            raise ValidationError(
                f"--mount: {target} is inside {outer}, the target of another mount.",
                field="mounts",
                value=target,
                rule="The daemon would create a folder for it in the other one's source, which stays there.",
                cure="Use a TARGET beside it.",
            )
        if targets.count(target) > 1:
            raise ValidationError(
                f"--mount: two mounts have the target {target}.",
                field="mounts",
                value=target,
                rule="A path on the hosts shows one folder.",
                cure="Use another TARGET for one of them.",
            )
