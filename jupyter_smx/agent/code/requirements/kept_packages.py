"""Keep installed requirements for later jobs of the same image, in a folder that all its hosts on a machine share.

Each set of requirements has a folder, named by all that pip reads. It is complete as soon as it has its name, and never
changes afterwards. Jobs only read there: what a script installs itself goes elsewhere.
"""

from __future__ import annotations

import contextlib
import csv
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import stat
import sys
from typing import Iterator, List, Mapping, Optional

from jupyter_smx.agent.system.files import rmtree
from jupyter_smx.agent.system.named_tuple import NamedTuple

_CHANGING = re.compile(
    r"(?:-e|--editable|-f|--find-links|-r|--requirement)\b|[./]|.*(?:file:|# content |\b(?:git|hg|svn|bzr)\+)"
)
"""Lines of requirements that name files or branches, which may change while the line stays."""
_LOCAL_VARIABLES = ("PIP_FIND_LINKS", "PIP_REQUIREMENT", "PIP_CONSTRAINT", "PIP_CONFIG_FILE")
_PIP = "PIP_"
_READ_ONLY = ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)
_PART = ".part"


class KeptSet(NamedTuple):
    """Kept packages: the folder for Python's path, and that of their programs."""

    packages: str
    programs: str


def name_of(lines: List[str], environ: Mapping[str, str]) -> str:
    """Return the name of a set of requirements, "" if its files may change although its lines stay."""
    if any(map(_CHANGING.match, lines)) or any(environ.get(name) for name in _LOCAL_VARIABLES):
        return ""
    options = {name: value for name, value in environ.items() if name.startswith(_PIP)}
    facts = [lines, options, sys.version_info[:2], platform.machine()]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


@contextlib.contextmanager
def lock(top: str, name: str) -> Iterator[bool]:
    """Let one job at a time install a set; other hosts share the folder, and so the lock. Blocks.

    Yields False if the folder cannot be written: then each job installs for itself.
    """
    with contextlib.ExitStack() as stack:
        is_locked = False
        with contextlib.suppress(OSError):
            file = stack.enter_context(open(os.path.join(top, f"{name}.lock"), "a", encoding="utf-8"))
            fcntl.flock(file, fcntl.LOCK_EX)
            is_locked = True
        yield is_locked


def find(top: str, name: str) -> Optional[KeptSet]:
    """Return a kept set, and record that it was used; None if there is none."""
    folder = os.path.join(top, name)
    if not os.path.isdir(folder):
        return None
    with contextlib.suppress(OSError):
        os.utime(os.path.join(top, f"{name}.lock"))
    return KeptSet(os.path.join(folder, "packages"), os.path.join(folder, "bin"))


def can_keep(packages: str, programs: str) -> bool:
    """Return True if pip installed into these two folders only; some wheels have libraries or data beside them."""
    for entry in os.listdir(packages):
        record = os.path.join(packages, entry, "RECORD")
        if not entry.endswith(".dist-info") or not os.path.exists(record):
            continue
        with open(record, encoding="utf-8", newline="") as file:
            for row in csv.reader(file):
                path = os.path.normpath(os.path.join(packages, row[0])) if row else packages
                if not f"{path}/".startswith((f"{packages}/", f"{programs}/")):
                    return False
    return True


def keep(top: str, name: str, packages: str, programs: str) -> None:
    """Copy what pip installed into a set, which nothing changes later.

    :raises OSError: the disk is full.
    """
    part = os.path.join(top, name + _PART)
    rmtree.remove_if_possible(part)
    try:
        os.mkdir(part)
        shutil.copytree(packages, os.path.join(part, "packages"), ignore=_overlays)
        shutil.copytree(programs, os.path.join(part, "bin"), ignore=_links)
        _close(part)
        os.rename(part, os.path.join(top, name))
    except OSError:
        rmtree.remove_if_possible(part)
        raise


def _overlays(_folder: str, names: List[str]) -> List[str]:
    """Name the files that show the image's own packages, which each job has itself."""
    return [name for name in names if name.startswith("_jupyter_smx_")]


def _links(folder: str, names: List[str]) -> List[str]:
    """Name the links to Python, which each job has itself."""
    return [name for name in names if os.path.islink(os.path.join(folder, name))]


def _close(top: str) -> None:
    for folder, _, files in os.walk(top):
        for name in files:
            path = os.path.join(folder, name)
            os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) & _READ_ONLY)
