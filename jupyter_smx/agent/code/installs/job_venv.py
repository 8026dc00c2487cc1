"""Make a virtual environment for the packages that a job's code installs, and let the job use it.

It shows the packages of the job's Python, which pip leaves as they are: pip removes nothing outside of its
environment. It lies below ``/opt/ml``, so the host removes it after the job.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import sysconfig
from typing import Dict, Iterable, Iterator, List, Mapping, MutableMapping, Sequence

from jupyter_smx.agent.code import virtual_environment
from jupyter_smx.agent.code.installs import detection
from jupyter_smx.agent.system.named_tuple import NamedTuple
from jupyter_smx.agent.system.processes import process

FOLDER = "installed"
"""Below ``/opt/ml``, where the host removes it after the job."""
_HEAD = 512
"""Bytes of a program in which its interpreter is named; pip writes a long path into the second line."""
_REDIRECTING = (
    "PIP_PREFIX",
    "PIP_PYTHON",
    "PIP_ROOT",
    "PIP_TARGET",
    "UV_PREFIX",
    "UV_PYTHON",
    "UV_SYSTEM_PYTHON",
    "UV_TARGET",
)
"""Variables that would have packages installed in a folder of the host's."""
_PIPS = ("pip", "pip3", "pip{}.{}".format(*sys.version_info))
_ENDINGS = ("site-packages", "dist-packages")
_CONFIGURATION = "pip.conf"
_EXECUTABLE = 0o755


class JobVenv(NamedTuple):
    """A virtual environment: its folder, its Python, and its folder of packages."""

    home: str
    python: str
    packages: str

    @property
    def programs(self) -> str:
        """Return the folder of the environment's programs."""
        return os.path.dirname(self.python)


def make(home: str) -> JobVenv:
    """Make one in a folder that does not exist, with the packages of this Python behind its own.

    :raises OSError: disk full.
    """
    seen = [path for path in _installed(sys.path) if path.rstrip("/").endswith(_ENDINGS)]
    packages = virtual_environment.make(home, seen)
    venv = JobVenv(home, os.path.join(home, "bin", "python"), packages)
    settings = os.path.join(sys.prefix, _CONFIGURATION)
    if os.path.isfile(settings):
        os.symlink(settings, os.path.join(home, _CONFIGURATION))
    for name in _PIPS:
        _write_program(os.path.join(venv.programs, name), [venv.python, "-m", "pip"])
    for path in _python_programs(_program_folders()):
        wrapper = os.path.join(venv.programs, os.path.basename(path))
        if not os.path.lexists(wrapper):
            _write_program(wrapper, [venv.python, path])
    uv = shutil.which("uv")
    if uv:
        _write_program(os.path.join(venv.programs, "uv"), [venv.python, "-I", process.entry(), "uv", uv])
    return venv


def enter(home: str, own: Mapping[str, str], command: str) -> str:
    """Make an environment in the folder ``home`` and let this process, and what it starts, use it; return its Python.

    ``own`` are the variables that the user gave the job, ``command`` is how its code installs packages.

    :raises OSError: the disk is full.
    """
    venv = make(home)
    sys.path[:] = search_path(sys.path, venv.packages)
    activate(venv, os.environ, own, user_site=command.endswith(detection.USER_SITE))
    return venv.python


def _stdlib_end(path: Sequence[str]) -> int:
    """Return the index after the folders of Python's own modules; before them are the code and ``PYTHONPATH``."""
    own = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    own |= {os.path.join(folder, "lib-dynload") for folder in own}
    return max((at + 1 for at, entry in enumerate(path) if entry in own), default=len(path))


def _installed(path: Sequence[str]) -> List[str]:
    """Return the folders of ``sys.path`` that installers filled, those of ``--requirements`` first."""
    at = _stdlib_end(path)
    return [*filter(_is_of_requirements, path[:at]), *path[at:]]


def _is_of_requirements(entry: str) -> bool:
    return f"{os.sep}{virtual_environment.REQUIREMENTS}{os.sep}lib{os.sep}python" in entry


def search_path(path: Sequence[str], packages: str) -> List[str]:
    """Return ``sys.path`` of a job in an environment: its packages come before those of its Python.

    Its code and ``PYTHONPATH`` stay before Python's own modules.
    """
    at = _stdlib_end(path)
    first = [entry for entry in path[:at] if not _is_of_requirements(entry)]
    return [*first, packages, *_installed(path)]


def _program_folders() -> List[str]:
    return list(dict.fromkeys(os.path.dirname(path) for path in (sys.executable, shutil.which("python") or "") if path))


def _python_programs(folders: Iterable[str]) -> Iterator[str]:
    """Yield the programs that this Python runs by path; without a wrapper they would not use the environment."""
    for folder in folders:
        interpreter = os.fsencode(os.path.join(folder, "python"))
        # `DirEntry.is_file` raises an error for a link that leads to itself or into a closed folder.
        for path in (os.path.join(folder, name) for name in _entries(folder)):
            if os.path.isfile(path) and _names(path, interpreter):
                yield path


def _entries(folder: str) -> List[str]:
    try:
        return os.listdir(folder)
    except OSError:  # programs in it can be run, but it may not be read
        return []


def _names(path: str, interpreter: bytes) -> bool:
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    return head.startswith(b"#!") and interpreter in b"\n".join(head.split(b"\n", 2)[:2])


def _write_program(path: str, words: List[str]) -> None:
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(f'#!/bin/sh\nexec {" ".join(map(shlex.quote, words))} "$@"\n')
    os.chmod(path, _EXECUTABLE)


def activate(venv: JobVenv, environ: MutableMapping[str, str], own: Mapping[str, str], *, user_site: bool) -> None:
    """Set the variables by which installers and other programs find the environment.

    ``own`` are the variables that the user gave the job; they are not replaced. ``user_site`` also moves the user's own
    folder of packages into the environment.
    """
    for name in _REDIRECTING:
        if name not in own:
            environ.pop(name, None)
    environ.update(_variables(venv, environ))
    if user_site and "PYTHONUSERBASE" not in own:
        environ["PYTHONUSERBASE"] = venv.home
    kept = [
        entry for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry and not _is_of_requirements(entry)
    ]
    if kept or "PYTHONPATH" in environ:
        environ["PYTHONPATH"] = os.pathsep.join(kept)


def _variables(venv: JobVenv, environ: Mapping[str, str]) -> Dict[str, str]:
    found = {
        "VIRTUAL_ENV": venv.home,
        "PATH": os.pathsep.join([venv.programs, environ.get("PATH", os.defpath)]),
        # The user's own folder of packages is not the job's, even if a configuration file sets it.
        "PIP_USER": "0",
    }
    if not os.path.exists(os.path.join(venv.programs, "uv")):
        # The job may install uv, which reads this variable also with --system. See uv_program for an installed uv.
        found["UV_PYTHON"] = venv.python
    project = environ.get("UV_PROJECT_ENVIRONMENT", "")
    if project and os.path.realpath(project) == os.path.realpath(sys.prefix):
        found["UV_PROJECT_ENVIRONMENT"] = venv.home
    return found
