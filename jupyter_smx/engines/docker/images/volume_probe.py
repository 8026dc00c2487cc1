"""Find out, in a short-lived container, which volumes of an image jobs can write to."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from jupyter_smx.engines.docker.containers import probe_container
from jupyter_smx.engines.docker.daemon.daemon_client import DaemonError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon

_SCRIPT = "import json, os, sys; print(json.dumps([p for p in sys.argv[1:] if not os.access(p, os.W_OK)]))"
_TIMEOUT = 60.0
"""Seconds for each step of the container."""


async def closed_volumes(
    daemon: Daemon,
    under_way: set[str],
    command: Sequence[str],
    volumes: Sequence[str],
    user: str,
    labels: Mapping[str, str],
) -> tuple[str, ...]:
    """Return the volumes of an image that ``user`` cannot write to; a new volume belongs to the image's own user.

    ``command`` is the image's id and its Python. If the container fails, all volumes count as writable.

    :raises UnavailableError: the daemon does not answer.
    """
    image, python = command
    words = [python, "-I", "-c", _SCRIPT, *volumes]
    config = probe_container.container_config(image, words, user, labels, daemon.kind)
    async with probe_container.Probe(daemon, under_way, _TIMEOUT) as probe:
        try:
            await probe.start(config)
            await probe.wait_exit(_TIMEOUT)
            output = await daemon.call(lambda api: api.logs(probe.name, stdout=True, stderr=False, tail=1))
            found = json.loads(output)
        except (DaemonError, asyncio.TimeoutError, ValueError):
            return ()
    return tuple(path for path in volumes if path in found)
