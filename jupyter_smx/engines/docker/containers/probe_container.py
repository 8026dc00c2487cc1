"""Short-lived containers that test a daemon: created, monitored, and always removed."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import threading
from typing import TYPE_CHECKING, Any

import psutil

from jupyter_smx.agent.paths import ML
from jupyter_smx.engines.docker.containers import container_spec, isolation
from jupyter_smx.engines.docker.daemon.daemon_client import CONFLICT, NOT_FOUND, DaemonError, remove
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.redaction import redact_text
from jupyter_smx.model.text import format_log_end

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from typing_extensions import Self

    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon
    from jupyter_smx.engines.docker.daemon.daemon_info import DaemonInfo

_log = logging.getLogger(__name__)

ENDED_STATES = ("exited", "dead")
"""States of a container that has ended."""
POLL_INTERVAL = 0.01
"""Seconds between two looks at what a container does."""
_FILE_POLL_INTERVAL = 0.002
"""The same of a file in the first second, in which most come."""
_FAST_POLLS = 500
"""Looks of that second."""
_POLLS_PER_INSPECT = 100
"""Looks at a file for one at its container."""
_WAIT_TIMEOUT = 120.0
"""Seconds that a daemon may be waited for beside its container."""
_MEMORY, _PIDS = 256 << 20, 64


class Probe:
    """A probe container that exists while its block runs; meanwhile its name is in ``under_way``.

    Each of its requests may take the daemon up to ``seconds``.
    """

    def __init__(self, daemon: Daemon, under_way: set[str], seconds: float) -> None:
        self.token = secrets.token_hex(6)
        self.name = f"jupyter-smx-probe-{self.token}"
        self._daemon = daemon
        self._under_way = under_way
        self._seconds = seconds
        self._cancel_event = threading.Event()

    async def __aenter__(self) -> Self:
        """Prevent other tasks from removing containers of this name."""
        self._under_way.add(self.name)
        return self

    async def __aexit__(self, *_raised: object) -> None:
        """Remove it, whatever happened."""
        try:
            await self._remove()
        finally:
            self._under_way.discard(self.name)

    async def start(self, config: Mapping[str, Any]) -> None:
        """Make and start it.

        :raises DaemonError: the daemon refused.
        :raises UnavailableError: it does not answer.
        """
        await self.create(config)
        await self._daemon.call(lambda api: api.start(self.name), self._seconds)

    async def create(self, config: Mapping[str, Any]) -> None:
        """Make it, and do not start it.

        :raises DaemonError: the daemon refused.
        :raises UnavailableError: it does not answer.
        """
        await self._daemon.call(lambda api: self._make(api, config), self._seconds)

    def _make(self, api: Any, config: Mapping[str, Any]) -> None:
        """Create the container, and remove it if the caller has given up meanwhile and could not remove it.

        Runs in one thread, which finishes even if the caller gave up.
        """
        api.create_container_from_config(config, self.name)
        if self._cancel_event.is_set():
            remove(api, self.name)

    async def wait_exit(self, seconds: float) -> int:
        """Wait until it ends; return its exit code.

        :raises asyncio.TimeoutError: it runs on.
        :raises DaemonError: the daemon refused.
        :raises UnavailableError: it does not answer.
        """
        waits = self._daemon.call(
            lambda api: int(api.wait(self.name, timeout=_WAIT_TIMEOUT)["StatusCode"]), _WAIT_TIMEOUT
        )
        return await asyncio.wait_for(waits, seconds)

    async def _remove(self) -> None:
        # What a daemon does not remove now stays until a doctor looks.
        self._cancel_event.set()
        try:
            await self._daemon.call(lambda api: remove(api, self.name), self._seconds)
        except (DaemonError, UnavailableError) as problem:
            if getattr(problem, "status", 0) not in (NOT_FOUND, CONFLICT):  # another process removes it, or has
                _log.warning("container=%s remove failed: %s", self.name, problem)


def container_config(
    image: str, words: Sequence[str], user: str, labels: Mapping[str, str], kind: DaemonInfo, *mounts: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the request for a probe container, isolated as a host is; ``words`` are its command."""
    found: dict[str, Any] = {
        "NetworkMode": container_spec.NONE,
        "ReadonlyRootfs": True,
        "CapDrop": ["ALL"],
        "SecurityOpt": isolation.security_options(kind),
        "LogConfig": container_spec.LOG_CONFIG,
        **container_spec.supported_limits(kind, memory=_MEMORY, pids=_PIDS),
    }
    return {
        "Image": image,
        "User": user,
        "Env": container_spec.format_environment(container_spec.NO_GPU_VARIABLES),
        "Entrypoint": [*words],
        "Cmd": [],
        "Healthcheck": {"Test": ["NONE"]},
        "Labels": {**labels, container_spec.PROBE: str(os.getpid())},
        "HostConfig": found | ({"Mounts": [*mounts]} if mounts else {}),
    }


def prepare_entrypoint(config: dict[str, Any], workdir: str, kind: DaemonInfo, user: str = "") -> None:
    """Give a probe container what an entry point has in a host: its working folder, and folders to write to.

    ``user`` is the image's own as ``uid:gid``, for a container whose request leaves the user to the image.
    """
    uid, _, gid = str(config["User"] or user).partition(":")
    # Some daemons give it the mode of the image's folder, so that only its owner can write.
    owner = f",uid={uid},gid={gid}" if uid.isdecimal() and gid.isdecimal() else ""
    if kind.podman:
        owner = ",U"  # the user of the container; Podman refuses uid=
    config["WorkingDir"] = workdir or "/"
    config["HostConfig"]["Tmpfs"] = {container_spec.TMP: "", ML: f"mode=1777{owner}"}


def is_owner_alive(row: Mapping[str, Any]) -> bool:
    """Return True if the process that created a listed container still runs."""
    number = str((row.get("Labels") or {}).get(container_spec.PROBE, ""))
    return not number.isdecimal() or psutil.pid_exists(int(number))


async def wait_for_file(is_there: Callable[[], bool], see: Callable[[], Awaitable[None]]) -> None:
    """Wait for a file that a container writes; ``see`` looks at that now and then, and raises where it has ended."""
    looks = 0
    while not await asyncio.to_thread(is_there):
        looks += 1
        if looks % _POLLS_PER_INSPECT == 0:
            await see()
        await asyncio.sleep(_FILE_POLL_INTERVAL if looks < _FAST_POLLS else POLL_INTERVAL)


async def log_tail(daemon: Daemon, container: str, lines: int) -> str:
    """Return the end of a container's output in one line; "" if it cannot be read."""
    try:
        said: bytes = await daemon.call(lambda api: api.logs(container, tail=lines))
    except (DaemonError, UnavailableError):
        return ""
    return redact_text(format_log_end(said.decode(errors="replace")))
