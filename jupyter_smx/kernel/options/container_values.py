"""Parse ``--mount SOURCE:TARGET[:rw]``, and check the folder of ``--build``."""

from __future__ import annotations

import os
import re
from pathlib import Path
from posixpath import normpath
from typing import TYPE_CHECKING

from jupyter_smx.kernel.options.option_values import expand_user, path_kind
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.mount import Mount

if TYPE_CHECKING:
    from collections.abc import Iterable

_MODES = {"ro": False, "rw": True}
_DOCKERS_FORM = re.compile(r"(?:^|,)(type|source|src|target|destination|dst)=([^,]*)")
_FORM = "The form is SOURCE:TARGET, with :rw at its end if jobs may write there."
_PARTS = (2, 3)


def parse_mounts(texts: Iterable[str], folder: Path) -> tuple[Mount, ...]:
    """Parse mounts and sort them by their targets, so that the order on a line makes no other hosts.

    :raises ValidationError: one of them has another form.
    """
    return tuple(sorted((_parse_mount(text, folder) for text in texts), key=lambda mount: mount.target))


def check_build(path: str) -> None:
    """Check that an image can be built from a folder, or from a Dockerfile.

    :raises ValidationError: there is no Dockerfile.
    """
    kind = path_kind(path)
    if not path or kind == "file" or path_kind(Path(path, "Dockerfile")) == "file":
        return
    raise ValidationError(
        f"--build: {path} has no file Dockerfile." if kind == "folder" else f"--build: there is no {path}.",
        field="build",
        value=path,
        rule="An image is built from a folder with a Dockerfile, or from a Dockerfile with any name.",
        cure="Correct the path, or use --image with a finished image.",
    )


def _parse_mount(text: str, folder: Path) -> Mount:
    parts = text.split(":")
    mode = parts[2] if len(parts) == max(_PARTS) else "ro"
    if _DOCKERS_FORM.search(text) or len(parts) not in _PARTS or mode not in _MODES or not parts[0]:
        raise _form_error(text)
    source, target = parts[:2]
    if not target.startswith("/"):
        raise ValidationError(
            f"--mount: {target!r} is not an absolute path.",
            field="mounts",
            value=text,
            rule=f"TARGET is the path on the hosts. {_FORM}",
            cure=f"For example --mount {source}:/{target or 'data'}.",
        )
    is_path = "/" in source or source in (".", "..") or source.startswith("~")
    place = os.path.normpath(folder / expand_user(source)) if is_path else source
    return Mount(source=place, target=_normalize(target), writable=_MODES[mode])


def _normalize(target: str) -> str:
    return f"/{normpath(target).lstrip('/')}"


def _form_error(text: str) -> ValidationError:
    words = {name: value for name, value in _DOCKERS_FORM.findall(text) if value}
    source = words.get("source") or words.get("src") or "/data"
    target = words.get("target") or words.get("destination") or words.get("dst") or "/data"
    return ValidationError(
        f"--mount: {text!r} is not a mount.",
        field="mounts",
        value=text,
        rule=_FORM,
        cure=f"For example --mount {source}:{target}.",
    )
