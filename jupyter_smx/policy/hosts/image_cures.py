"""Name the settings of an image that a failed job did not follow, where the job misses what they may provide. Pure."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from jupyter_smx.model.text import format_list

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import HostEnd
    from jupyter_smx.model.spec.image import Image
    from jupyter_smx.model.spec.job_spec import JobSpec

_MISSING_TYPES = ("ModuleNotFoundError", "FileNotFoundError", "PermissionError")
_MISSING = re.compile(
    r"No module named|no such file|not found|cannot open shared object|cannot import name|Permission denied",
    re.IGNORECASE,
)
_READ_ONLY = re.compile(r"""(?:([^\s'"]+)['"]?: )?Read-only file system(?:: b?'([^']*)')?""")
"""Programs write the path before the reason, Python after it."""
_WRITABLE = ("/opt/ml", "/tmp", "/dev/shm")  # noqa: S108 - folders of a container
_MAX_WORDS = 60
"""Characters of an entry point that a sentence quotes."""


def image_settings_cure(spec: JobSpec, end: HostEnd, image: Image | None) -> str:
    """Return a sentence about the settings of the image that did not count; "" if none could be the cause."""
    if image is None:
        return ""
    ignored = _ignored_settings(spec, image) if _misses_something(end) else {}
    if not ignored:
        return _read_only_cure(spec, end)
    said = format_list([f"{name} {value}" for name, value in ignored.values()], most=len(ignored))
    if spec.spelling == "keyword":
        options = " ".join(f'{option}="image"' for option in ignored)
    else:
        options = " ".join(f"--{option} image" for option in ignored)
    verb = "count" if len(ignored) > 1 else "counts"
    return f"The image has {said}, which {verb} for a job only if it says so. If it needs them, add {options}."


def _read_only_cure(spec: JobSpec, end: HostEnd) -> str:
    """Return where a job may write, if it wrote into its image; "" if it did not."""
    said = end.exception.message if end.exception is not None else end.failure if end.cause == "exit" else ""
    found = _READ_ONLY.search(said)
    if found is None:
        return ""
    path = PurePosixPath(found[2] or found[1] or "")
    if any(path.is_relative_to(other) for other in (*_WRITABLE, *(mount.target for mount in spec.mounts))):
        return ""
    sentence = "A job cannot change its image: it writes to /opt/ml, /tmp and /dev/shm."
    if spec.image_user != "image" or "HOME" in spec.environment:
        return sentence
    option = 'env={"HOME": "/tmp"}' if spec.spelling == "keyword" else "--env HOME=/tmp"
    return f"{sentence} For caches in the home of the image's user, add {option}."


def _misses_something(end: HostEnd) -> bool:
    exception = end.exception
    if exception is None:
        return end.cause in ("exit", "refused") and bool(_MISSING.search(end.failure))
    return exception.type in _MISSING_TYPES or bool(_MISSING.search(exception.message))


def _ignored_settings(spec: JobSpec, image: Image) -> dict[str, tuple[str, str]]:
    """Return the settings that did not count by their options: their names in a Dockerfile, and their values."""
    entrypoint = shlex.join(image.entrypoint)
    values = {
        "user": (spec.image_user, "USER", image.user),
        "entrypoint": (spec.image_entrypoint, "ENTRYPOINT", entrypoint[:_MAX_WORDS]),
        "workdir": (spec.image_workdir, "WORKDIR", "" if image.workdir == "/" else image.workdir),
    }
    if spec.image_program:  # both count for it
        del values["entrypoint"], values["workdir"]
    return {option: (name, value) for option, (choice, name, value) in values.items() if value and choice != "image"}
