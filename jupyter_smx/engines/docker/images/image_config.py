"""Read the settings of an image from the daemon, and what a container of it reports about itself. Pure."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from jupyter_smx.engines.docker.containers.image_parts import ImageUser

if TYPE_CHECKING:
    from collections.abc import Mapping

REPORT_SCRIPT = """
import json, os, sys
def closed(path):
    found = []
    while path not in ("", "/"):
        if not os.stat(path).st_mode & 1 and not path.endswith(".py"):
            found.append(path)
        path = os.path.dirname(path)
    return found
def name():
    try:
        import pwd
        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):
        return ""
def holds(path):
    try:
        return bool(os.listdir(path))
    except OSError as error:
        return not isinstance(error, (FileNotFoundError, NotADirectoryError))
library = os.path.realpath(os.__file__)
folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
try:
    print(json.dumps({
        "uid": os.getuid(), "gid": os.getgid(), "groups": os.getgroups(),
        "name": name(), "home": os.environ.get("HOME", ""),
        "closed": sorted({*closed(sys.executable), *closed(os.path.realpath(sys.executable)), *closed(library)}),
        "train": any(os.access(os.path.join(folder, "train"), os.X_OK) for folder in folders),
        "files": holds("/opt/ml"),
        "bytecode": os.path.exists(json.__spec__.cached or ""),
    }))
except OSError:
    pass
"""
"""Prints facts about the container that runs it."""


class ImageConfig(Struct, frozen=True):
    """Settings of an image: ``USER``, ``WORKDIR``, ``ENTRYPOINT``, ``CMD``."""

    user: str = ""
    workdir: str = ""
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()


class ContainerReport(Struct, frozen=True):
    """What a short-lived container of an image reports about itself."""

    user: ImageUser | None = None
    closed: tuple[str, ...] = ()
    """Folders and files on the way to its Python that only their owner or group may use."""
    has_train: bool = False
    has_files: bool = False
    """True if the image has something in ``/opt/ml``."""
    has_bytecode: bool = True
    """False if the ``.pyc`` files of Python's own modules are missing."""
    python_version: str = ""
    """Version of the Python that wrote the report, as ``3.11``."""


def parse_config(told: Mapping[str, Any]) -> ImageConfig:
    """Read the settings of an image from the daemon's description of it."""
    config = told.get("Config") or {}
    return ImageConfig(
        user=str(config.get("User") or ""),
        workdir=str(config.get("WorkingDir") or ""),
        entrypoint=_words(config.get("Entrypoint")),
        cmd=_words(config.get("Cmd")),
    )


def _words(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(map(str, value)) if isinstance(value, list) else ()


def parse_report(said: str) -> ContainerReport:
    """Find the report among the lines that a container wrote; an empty one if there is none."""
    for line in reversed(said.splitlines()):
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            told = json.loads(line)
            user = ImageUser(int(told["uid"]), int(told["gid"]), tuple(told["groups"]), told["name"], told["home"])
            has_train, has_files, has_bytecode = (bool(told[name]) for name in ("train", "files", "bytecode"))
            return ContainerReport(user, tuple(told["closed"]), has_train, has_files, has_bytecode)
    return ContainerReport()
