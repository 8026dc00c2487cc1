"""Remove containers and networks without a record, at every daemon that this data folder has used."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from jupyter_smx.engines.docker.containers import container_spec, probe_container
from jupyter_smx.engines.docker.containers.folders import read_daemon_url
from jupyter_smx.engines.docker.teardown import remove_all
from jupyter_smx.model.errors import SmxError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from jupyter_smx.engines.docker.containers.origin import OriginFilter
    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon
    from jupyter_smx.engines.docker.daemon_registry import DaemonRegistry
    from jupyter_smx.engines.machine.cluster_folders import ClusterFolders

_log = logging.getLogger(__name__)


def daemon_urls(folders: ClusterFolders) -> list[str]:
    """Return the addresses of the daemons of all clusters, released ones included. Blocks.

    :raises OSError: the data folder cannot be read.
    """
    return sorted({read_daemon_url(folders, cluster) for cluster in folders.names()} - {""})


async def sweep(
    daemons: DaemonRegistry, urls: Iterable[str], owner: str, seconds: float, spare: Callable[[Mapping[str, Any]], bool]
) -> list[str]:
    """Remove at each daemon the objects with a data folder's label, except those to be kept; one after the other.

    ``urls`` are those of the records; the daemon of new hosts comes first. Return the names of removed objects, and a
    sentence for each daemon that does not answer.

    :raises SmxError: there is only one daemon, and it does not answer.
    """
    mark = f"{container_spec.OWNER}={owner}"
    found: list[str] = []
    asked: dict[str, SmxError | None] = {}
    for url in ("", *urls):
        where = url
        try:
            daemon = daemons.get(url)
            where = daemon.url
            if where in asked:
                continue
            names = await remove_all(daemon, [mark], seconds, spare)
        except SmxError as error:
            asked[where] = error
            found.append(f"The daemon {f'at {where}' if where else 'of new hosts'} did not answer: {error}")
            continue
        asked[where] = None
        found += [f"{name} at {where}" for name in names] if url else names
    [first, *others] = asked.values()
    if first is not None and not others:
        raise first
    return found


async def sweep_probes(daemon: Daemon, mark: str, others: OriginFilter, seconds: float) -> None:
    """Remove test containers of a controller that was killed; ``mark`` is the label of the data folder."""

    def spare(row: Mapping[str, Any]) -> bool:
        # In another container the number of the process that looks means another process, or none.
        return others.is_of_other(row) or probe_container.is_owner_alive(row)

    try:
        await remove_all(daemon, [mark, container_spec.PROBE], seconds, spare)
    except UnavailableError as problem:
        _log.warning("daemon=%s cleanup of old containers failed: %s", daemon.url, problem)
