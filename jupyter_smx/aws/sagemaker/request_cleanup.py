"""Delete the requests of jobs that the controller does not have any more, since they may have secrets.

A job is also deleted by a user or by the controller's own rules, of which the front gets no notice. It looks at its
start and every hour, while it has old requests and a controller listens; it starts none for this.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from jupyter_smx.model.errors import ResourceNotFoundError, SmxError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from jupyter_smx.aws.controller_client import ControllerClient
    from jupyter_smx.aws.sagemaker.request_store import RequestStore

_log = logging.getLogger(__name__)

_PERIOD = 3_600.0
"""Seconds between two looks; longer than a controller is idle before it ends, or each look would keep it alive."""
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
            except (SmxError, OSError) as error:
                _log.info("Old requests were not deleted: %s", error)
            await pause(_PERIOD)

    async def delete_old(self) -> None:
        """Delete the requests of jobs that do not exist, if a controller listens.

        A list may lack a job that was deleted or damaged meanwhile, so each job that it lacks is read by its id.

        :raises SmxError: the controller does not answer.
        :raises OSError: the folder of the requests cannot be read.
        """
        old = await asyncio.to_thread(self._requests.jobs_before, self._clock() - _NEW)
        if not old or not await asyncio.to_thread(self._is_listening):
            return
        try:
            old -= {job.id for job in await self._controller.all_summaries()}
            for job in sorted(old):
                if not await self._exists(job):
                    await asyncio.to_thread(self._requests.delete, job)
        finally:
            self._controller.close()

    async def _exists(self, job: str) -> bool:
        try:
            await self._controller.job(job)
        except ResourceNotFoundError:
            return False
        return True
