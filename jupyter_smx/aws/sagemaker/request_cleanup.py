"""Delete the requests of jobs that the controller does not have any more, since they may have secrets.

A job is also deleted by a user or by the controller's own rules, of which the front gets no notice. It looks at its
start and every ten minutes, while it has requests and a controller listens; it starts none for this.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from jupyter_smx.model.errors import SmxError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from jupyter_smx.aws.controller_client import ControllerClient
    from jupyter_smx.aws.sagemaker.request_store import RequestStore

_log = logging.getLogger(__name__)

_PERIOD = 600.0
_NEW = 3_600.0
"""Seconds for which the request of a job that the controller does not have is kept: it may be creating that job."""


class RequestCleanup:
    """Deletes old requests; ``clock`` gives seconds since the epoch."""

    def __init__(
        self,
        controller: ControllerClient,
        requests: RequestStore,
        clock: Callable[[], float],
        is_listening: Callable[[], bool],
    ) -> None:
        self._controller = controller
        self._requests = requests
        self._clock = clock
        self._is_listening = is_listening

    async def repeat(self, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Delete old requests now and after each pause, until this is cancelled."""
        while True:
            try:
                await self.delete_old()
            except SmxError as error:
                _log.info("Old requests were not deleted: %s", error)
            await pause(_PERIOD)

    async def delete_old(self) -> None:
        """Delete the requests of jobs that do not exist, if a controller listens.

        :raises SmxError: the controller does not list its jobs.
        """
        if self._requests.is_empty() or not self._is_listening():
            return
        started = self._clock()
        known = {job.id for job in await self._controller.all_summaries()}
        await asyncio.to_thread(self._requests.delete_others, known, started - _NEW)
