"""Validate a request before an engine of this machine launches anything; raise the error that refuses it."""

from __future__ import annotations

import errno
import os
import re
import subprocess
from typing import TYPE_CHECKING

from jupyter_smx.agent.errors import EXIT_DISK_FAILS, EXIT_DISK_FULL, is_full, is_temporary
from jupyter_smx.controller_launch import DATA_DIR_VARIABLE
from jupyter_smx.engines.machine.host_folder import SOCKET_LIMIT, HostFolder
from jupyter_smx.model.errors import RefusedError
from jupyter_smx.model.python_version import MIN_PYTHON, describe_failure, version

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from jupyter_smx.engines.base import ClusterRequest

_PLAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def is_valid_name(name: str) -> bool:
    """Return True if a name of a cluster or a host can be the name of a folder on every system."""
    return _PLAIN.fullmatch(name) is not None


def check_names(request: ClusterRequest) -> None:
    """Check the names of the cluster and of its hosts; pure.

    :raises RefusedError: one cannot name a folder, two hosts have the same, or there is no host.
    """
    names = [host.host for host in request.hosts]
    for field, value in [("cluster", request.cluster), *(("hosts", name) for name in names)]:
        if not is_valid_name(value):
            raise RefusedError(
                f"{field}: {value!r} is not a valid folder name.",
                field=field,
                value=value,
                rule="Letters, digits, dots, hyphens and underscores, 63 characters at most.",
            )
    if not names or len(set(names)) != len(names):
        raise RefusedError(
            f"hosts: {names} is not a set of hosts.",
            field="hosts",
            value=names,
            rule="A cluster has at least one host, and each has a unique name.",
        )


def check_python(python: str) -> tuple[int, int]:
    """Start the interpreter of the hosts once and return its version. Blocks for some ten milliseconds.

    :raises RefusedError: it cannot be started or is too old for an agent.
    """
    if not os.path.isabs(python):  # noqa: PTH117 - a text, not yet a path
        raise _python_error(python, "is not an absolute path")
    try:
        found = version(python)
    except (OSError, ValueError, subprocess.SubprocessError) as problem:
        raise _python_error(python, f"cannot be started ({describe_failure(python, problem)})") from problem
    if found < MIN_PYTHON:
        raise _python_error(python, f"is Python {found[0]}.{found[1]}")
    return found


def _python_error(python: str, what: str) -> RefusedError:
    return RefusedError(
        f"python: {python!r} {what}.",
        field="python",
        value=python,
        rule=f"A host runs a Python of this machine, {MIN_PYTHON[0]}.{MIN_PYTHON[1]} or newer.",
        cure="Run the notebook with a kernel whose sys.executable exists and can be started here.",
    )


def check_sockets(folders: Iterable[HostFolder]) -> None:
    """Check that an agent can listen in each folder; pure.

    :raises RefusedError: this system has no unix sockets or the path is too long for one.
    """
    for folder in folders:
        if not folder.can_have_socket():
            raise RefusedError(
                f"data_dir: an agent cannot listen at {str(folder.socket)!r}.",
                field="data_dir",
                value=folder.socket,
                rule=f"Agents use unix sockets, whose paths have at most {SOCKET_LIMIT} bytes here.",
                cure=f"Set {DATA_DIR_VARIABLE} to a folder with a short path; on Windows run Jupyter in WSL.",
            )


def released_error(cluster: str) -> RefusedError:
    """Refuse a cluster that was released."""
    return RefusedError(
        f"cluster: {cluster!r} was released.",
        field="cluster",
        value=cluster,
        rule="A cluster id can be used only once.",
    )


def check_disk(code: int | None, folder: Path) -> None:
    """Check an agent that ended instead of coming up.

    :raises RefusedError: its disk is full, read-only or failed, so it could not write the files of its host.
    """
    if code == EXIT_DISK_FULL:
        raise not_writable_error(folder, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    if code == EXIT_DISK_FAILS:
        raise not_writable_error(folder, OSError(errno.EIO, "the file system is read-only or fails"))


def not_writable_error(folder: Path, problem: OSError) -> RefusedError:
    """Refuse to launch where nothing can be written down; transient where that may pass, as on a full disk."""
    cure = "Free some space on its disk" if is_full(problem) else "Make it writable"
    return RefusedError(
        f"data_dir: {str(folder)!r} cannot be written ({problem}).",
        field="data_dir",
        value=folder,
        rule="Every host has a folder in it.",
        cure=f"{cure}, or set {DATA_DIR_VARIABLE} to another folder.",
        transient=is_temporary(problem),
    )
