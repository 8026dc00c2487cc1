"""Arrays over the API: many jobs in one request, found, counted, waited for and stopped together."""

from __future__ import annotations

import msgspec

from jupyter_smx.controller.api.array_facade import ArrayRequest
from jupyter_smx.controller.api.base import ApiHandler
from jupyter_smx.controller.api.log_handlers import MAX_WAIT

ARRAYS_AT_ONCE = 200


class ArraySubmission(ArrayRequest, frozen=True, kw_only=True):
    """Body of ``POST /v1/arrays``."""

    id: str

    def request(self) -> ArrayRequest:
        """Give what is asked for, without the id."""
        return ArrayRequest(spec=self.spec, tasks=self.tasks, title=self.title, max_concurrent=self.max_concurrent)


class ArraysHandler(ApiHandler):
    """All arrays, and new ones."""

    def get(self) -> None:
        """Give the newest."""
        limit = int(self.number("limit", 20, ARRAYS_AT_ONCE))
        self.answer({"arrays": self.facade.arrays.newest(limit)})

    def post(self) -> None:
        """Take an array: all of its tasks or none."""
        sent = self.body(ArraySubmission)
        array, is_new = self.facade.arrays.submit(sent.id, sent.request())
        self.answer(array, 201 if is_new else 200)


class ArrayHandler(ApiHandler):
    """One array."""

    async def get(self, ref: str) -> None:
        """Give it and its tasks (``tasks=0``: without), waiting until more than ``ended`` of them have a verdict."""
        arrays = self.facade.arrays
        array = arrays.find(ref)
        wait = self.number("wait", 0.0, MAX_WAIT)
        if wait:
            await self.wait_while_connected(arrays.wait(array, int(self.number("ended", 0, 2**31)), wait))
        tasks = arrays.tasks(array) if self.number("tasks", 1, 1) else []
        self.answer(msgspec.to_builtins(arrays.summary(array)) | {"tasks": tasks})


class StopArrayHandler(ApiHandler):
    """The wish that all tasks of an array end."""

    def post(self, ref: str) -> None:
        """Take it."""
        arrays = self.facade.arrays
        self.answer(arrays.stop(arrays.find(ref)))
