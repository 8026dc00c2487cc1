"""Check that a Docker daemon is installed on this machine, or configured, without a request to it."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from jupyter_smx.controller_launch import restart_hint
from jupyter_smx.engines.docker.daemon import cli_config
from jupyter_smx.engines.docker.daemon.daemon_client import UNIX, daemon_address
from jupyter_smx.model.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

_PROGRAMS = ("docker", "podman", "dockerd")
"""Programs of an installation; if one of them is there and no socket is, the daemon was stopped."""


def check_installed(configured: str, environ: Mapping[str, str]) -> None:
    """Check that a daemon is installed or configured, and that this user may use its socket.

    ``configured`` is the address of the configuration, "" for none. A daemon that was stopped passes.

    :raises RefusedError: there is no daemon, its address is wrong, or its socket is closed to this user.
    """
    path = daemon_address(configured, environ).removeprefix(UNIX)
    if os.path.exists(path):  # noqa: PTH110 - pathlib raises if a parent folder is closed
        _check_socket(path)
    elif not (_is_configured(configured, environ) or _has_program(environ)):
        raise RefusedError(
            "--engine: Docker is not installed on this machine.",
            field="engine",
            value="docker",
            rule=f"There is no program {', '.join(_PROGRAMS[:-1])} or {_PROGRAMS[-1]}, and no socket of a daemon.",
            cure="Install Docker or Podman, or set DOCKER_HOST or DockerEngine.docker_host to the socket of a daemon. "
            f"{restart_hint()}",
        )


def _check_socket(path: str) -> None:
    if os.access(path, os.R_OK | os.W_OK):
        return
    raise RefusedError(
        f"--engine: this user may not use the socket of Docker, {path}.",
        field="docker_host",
        value=path,
        rule="Hosts are containers, which the daemon at that socket starts.",
        cure=f"Add the user to the group of the socket, and log in again (often: sudo usermod -aG docker $USER). "
        f"{restart_hint()}",
    )


def _is_configured(configured: str, environ: Mapping[str, str]) -> bool:
    return bool(configured or environ.get("DOCKER_HOST") or cli_config.context_address(environ))


def _has_program(environ: Mapping[str, str]) -> bool:
    return any(shutil.which(program, path=environ.get("PATH")) for program in _PROGRAMS)
