"""Launch the hosts of a cluster in parallel: all of them, or none."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from jupyter_smx.model.errors import RefusedError, UnavailableError
from jupyter_smx.model.records.cluster import Handle

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
    from typing import Any

    from jupyter_smx.engines.base import ClusterRequest, Engine, HostSpec
    from jupyter_smx.model.records.cluster import HostHandle

_log = logging.getLogger(__name__)


async def launch_all(
    engine: Engine, request: ClusterRequest, launch_host: Callable[[HostSpec], Coroutine[Any, Any, HostHandle]]
) -> AsyncGenerator[Handle, None]:
    """Yield an empty handle, and a new handle whenever another host listens.

    The caller closes it (:func:`contextlib.aclosing`), so that nothing keeps running after a cancellation.

    :raises RefusedError: one of them can never come up, so the others cannot either.
    :raises UnavailableError: a host did not come up; the others were, or will be, released.
    """
    empty = Handle(engine=engine.name, cluster=request.cluster)
    # From the next line on something may cost, and a controller that saved this handle can find and release it.
    yield empty
    ready: dict[str, HostHandle] = {}
    pending = {asyncio.create_task(launch_host(host)) for host in request.hosts}
    try:
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            if errors := [error for task in done if (error := task.exception())]:
                raise errors[0]
            ready |= {task.result().host: task.result() for task in done}
            hosts = tuple(ready[host.host] for host in request.hosts if host.host in ready)
            yield Handle(engine=engine.name, cluster=request.cluster, hosts=hosts)
    except (RefusedError, UnavailableError):
        await _cancel_all(pending)
        try:
            await engine.release(empty)
        except UnavailableError as away:
            # The caller has the handle and releases it again, but only this error has the reason of the failed launch.
            _log.warning("cluster=%s launch failed, release pending: %s", request.cluster, away)
        raise
    finally:
        await _cancel_all(pending)


async def _cancel_all(tasks: Iterable[asyncio.Task[HostHandle]]) -> None:
    tasks = [*tasks]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
