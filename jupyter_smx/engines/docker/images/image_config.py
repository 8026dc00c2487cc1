"""Read the settings of an image from the daemon, and what a container of it reports about itself. Pure."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from jupyter_smx.engines.docker.containers.image_parts import ImageUser

if TYPE_CHECKING:
    from collections.abc import Mapping

REPORT_SCRIPT = """
import json, os, sys
from importlib.util import MAGIC_NUMBER, cache_from_source
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
def compiled():
    of_packages = []
    for folder in sys.path:
        if folder.endswith("-packages") and os.path.isdir(folder):
            for package in sorted(os.listdir(folder))[:200]:
                path = os.path.join(folder, package, "__init__.py")
                if os.path.exists(path):
                    of_packages.append(os.path.exists(cache_from_source(path)))
    found = of_packages or [os.path.exists(cache_from_source(json.__file__))]
    return sum(found) * 2 >= len(found)
def hides():
    for folder in folders:
        if folder == os.path.dirname(sys.executable):
            return False
        for name in ("python3", "python"):
            try:
                os.stat(os.path.join(folder, name))
            except PermissionError:
                return True
            except OSError:
                pass
    return False
library = os.path.realpath(os.__file__)
folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
try:
    print(json.dumps({
        "uid": os.getuid(), "gid": os.getgid(), "groups": os.getgroups(),
        "name": name(), "home": os.environ.get("HOME", ""),
        "closed": sorted({*closed(sys.executable), *closed(os.path.realpath(sys.executable)), *closed(library)}),
        "train": any(os.access(os.path.join(folder, "train"), os.X_OK) for folder in folders),
        "files": holds("/opt/ml"),
        "bytecode": compiled(),
        "magic": MAGIC_NUMBER.hex(),
        "executable": sys.executable,
        "hides": hides(),
    }))
except OSError:
    pass
"""
"""Prints facts about the container that runs it."""
_MAGIC = re.compile(r"[0-9a-f]{8}")


class ImageConfig(Struct, frozen=True):
    """Settings of an image: ``USER`` ("" for root), ``WORKDIR``, ``ENTRYPOINT``, ``CMD``."""

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
    """False if most packages have no ``.pyc`` file; without packages, if Python's own modules have none."""
    python_version: str = ""
    """Version of the Python that wrote the report, as ``3.11``."""
    magic: str = ""
    """Magic number of the bytecode that this Python reads, as hexadecimal digits; "" if it was not reported."""
    executable: str = ""
    """Path of this Python."""
    may_hide_python: bool = False
    """True if its user cannot look into a place on ``PATH`` before this Python, where another one may be."""


def parse_config(told: Mapping[str, Any]) -> ImageConfig:
    """Read the settings of an image from the daemon's description of it."""
    config = told.get("Config") or {}
    user, entrypoint = str(config.get("User") or ""), _words(config.get("Entrypoint"))
    return ImageConfig(
        user="" if user.partition(":")[0] in ("root", "0") else user,
        workdir=str(config.get("WorkingDir") or ""),
        entrypoint=() if entrypoint == ("",) else entrypoint,  # which the daemon takes for none
        cmd=_words(config.get("Cmd")),
    )


def variable_names(told: Mapping[str, Any]) -> list[str]:
    """Read the names of the environment variables of an image from the daemon's description of it."""
    return [str(line).partition("=")[0] for line in (told.get("Config") or {}).get("Env") or ()]


def _words(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _magic(value: object) -> str:
    return value if isinstance(value, str) and _MAGIC.fullmatch(value) else ""


def parse_report(said: str) -> ContainerReport:
    """Find the report among the lines that a container wrote; an empty one if there is none."""
    for line in reversed(said.splitlines()):
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            told = json.loads(line)
            user = ImageUser(int(told["uid"]), int(told["gid"]), tuple(told["groups"]), told["name"], told["home"])
            return ContainerReport(
                user,
                closed=tuple(told.get("closed", ())),
                has_train=bool(told.get("train")),
                has_files=bool(told.get("files")),
                has_bytecode=bool(told.get("bytecode", True)),
                magic=_magic(told.get("magic", "")),
                executable=str(told.get("executable", "")),
                may_hide_python=bool(told.get("hides")),
            )
    return ContainerReport()
