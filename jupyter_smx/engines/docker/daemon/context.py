"""Docker's context in use, as its own program keeps it: where the daemon is that a user chose.

Docker's library finds contexts only beside a configuration file, which they do not need.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_smx.controller_launch import restart_hint
from jupyter_smx.model.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

_DEFAULT_CONTEXT = "default"
_RULE = "Hosts are made at the daemon of the context that DOCKER_CONTEXT, or docker context use, has chosen."


def context_address(environ: Mapping[str, str]) -> str:
    """Give the address of the context in use, "" where it is the usual one.

    :raises RefusedError: there is no context of that name, or it says nothing of a daemon.
    """
    folder = Path(environ.get("DOCKER_CONFIG") or "~/.docker").expanduser()
    name = environ.get("DOCKER_CONTEXT") or _current(folder)
    if name == _DEFAULT_CONTEXT:
        return ""
    path = folder / "contexts" / "meta" / hashlib.sha256(name.encode()).hexdigest() / "meta.json"
    try:
        found = str(json.loads(path.read_text())["Endpoints"]["docker"]["Host"])
    except FileNotFoundError:
        raise _unknown_context_error(name, folder) from None
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise _unreadable_error(name, path, problem) from problem
    return found.removeprefix("http+")  # as Docker's library writes it


def _current(folder: Path) -> str:
    try:
        return str(json.loads((folder / "config.json").read_text()).get("currentContext") or _DEFAULT_CONTEXT)
    except (OSError, ValueError, AttributeError):
        return _DEFAULT_CONTEXT


def _unreadable_error(name: str, path: Path, problem: Exception) -> RefusedError:
    why = problem.strerror if isinstance(problem, OSError) else "it names no daemon of Docker's"
    return RefusedError(
        f"docker_host: {path} cannot be read, which says where the daemon of context {name!r} is ({why}).",
        field="docker_host",
        value=name,
        rule=_RULE,
        cure="See docker context inspect; or name the daemon by DOCKER_HOST or DockerEngine.docker_host.",
    )


def _unknown_context_error(name: str, folder: Path) -> RefusedError:
    return RefusedError(
        f"docker_host: {folder} has no context {name!r}.",
        field="docker_host",
        value=name,
        rule=_RULE,
        cure="See docker context ls; or name the daemon by DOCKER_HOST or DockerEngine.docker_host, which go before. "
        + restart_hint(),
    )
