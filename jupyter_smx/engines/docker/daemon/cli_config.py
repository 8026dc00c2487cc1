"""The configuration of Docker's command line: the context in use, and the proxies of containers.

Docker's library finds contexts only beside a configuration file, which they do not need.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docker.utils.config import load_general_config
from docker.utils.proxy import ProxyConfig

from jupyter_smx.controller_launch import restart_hint
from jupyter_smx.model.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_DEFAULT_CONTEXT = "default"
_RULE = "Hosts run on the daemon of the context set by DOCKER_CONTEXT or docker context use."
_ALL_PROXY = "allProxy"
_NO_PROXY = ("no_proxy", "NO_PROXY")


def context_address(environ: Mapping[str, str]) -> str:
    """Return the daemon address of the context in use, "" where it is the usual one.

    :raises RefusedError: there is no context of that name, or it names no daemon.
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
    why = problem.strerror if isinstance(problem, OSError) else "it has no Docker endpoint"
    return RefusedError(
        f"docker_host: {path} cannot be read; it contains the address of context {name!r} ({why}).",
        field="docker_host",
        value=name,
        rule=_RULE,
        cure="See docker context inspect, or set DOCKER_HOST or DockerEngine.docker_host.",
    )


def _unknown_context_error(name: str, folder: Path) -> RefusedError:
    return RefusedError(
        f"docker_host: {folder} has no context {name!r}.",
        field="docker_host",
        value=name,
        rule=_RULE,
        cure="See docker context ls, or set DOCKER_HOST or DockerEngine.docker_host, which take precedence. "
        + restart_hint(),
    )


def read_proxies(url: str) -> dict[str, str]:
    """Read the proxy variables that ``docker run`` passes to containers of the daemon at ``url``; none by default.

    They are in ``proxies`` of ``config.json``. Blocks, for as long as it takes to read a small file.
    """
    config = load_general_config()
    table = config.get("proxies") if isinstance(config, dict) else None
    rows = [table.get(name) for name in (url, "default")] if isinstance(table, dict) else []
    row: Any = next((row for row in rows if isinstance(row, dict)), {})
    variables: dict[str, Any] = dict(ProxyConfig.from_dict(row).get_environment())
    if row.get(_ALL_PROXY):  # Docker's own program has it, and its library does not
        variables |= dict.fromkeys(("all_proxy", "ALL_PROXY"), row[_ALL_PROXY])
    return {name: str(value) for name, value in variables.items()}


def add_no_proxy(proxies: Mapping[str, str], hosts: Iterable[str]) -> dict[str, str]:
    """Exclude the hosts of one cluster from the proxies, which cannot resolve their names."""
    if not set(proxies).difference(_NO_PROXY):
        return dict(proxies)
    known = proxies.get(_NO_PROXY[0], "")
    return {**proxies, **dict.fromkeys(_NO_PROXY, ",".join(filter(None, [known, *hosts])))}
