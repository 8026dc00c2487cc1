"""Answer requests about arrays: submit, find, count, await and stop many jobs at once."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

from jupyter_smx.controller.api.answer import Answer, json_answer
from jupyter_smx.controller.api.array_facade import ArrayRequest
from jupyter_smx.model import http_routes as routes

if TYPE_CHECKING:
    from jupyter_smx.controller.api.base import Actions, ApiHandler


class ArraySubmission(ArrayRequest, frozen=True, kw_only=True):
    """Body of ``POST /v1/arrays``."""

    id: str

    def request(self) -> ArrayRequest:
        """Return the request without the id."""
        return ArrayRequest(spec=self.spec, tasks=self.tasks, title=self.title, max_concurrent=self.max_concurrent)


def list_arrays(request: ApiHandler) -> Answer:
    """List the newest arrays."""
    return json_answer({"arrays": request.facade.arrays.newest(request.query(routes.LIMIT_ARRAYS))})


async def submit_array(request: ApiHandler) -> Answer:
    """Admit an array: all of its tasks or none."""
    sent = request.body(ArraySubmission)
    interpreter = await request.facade.validator.resolve_interpreter(sent.spec)
    array, is_new = request.facade.arrays.submit(sent.id, sent.request(), interpreter)
    return json_answer(array, None if is_new else HTTPStatus.OK)


async def get_array(request: ApiHandler) -> Answer:
    """Return an array and its tasks, or wait until more than ``ended`` of them have ended."""
    arrays = request.facade.arrays
    array = arrays.find(request.ref)
    wait = request.query(routes.WAIT)
    if wait:
        await request.wait_while_connected(arrays.wait(array, request.query(routes.ENDED), wait))
    tasks = arrays.tasks(array) if request.query(routes.WITH_TASKS) else []
    return json_answer(msgspec.to_builtins(arrays.summary(array)) | {"tasks": tasks})


def stop_array(request: ApiHandler) -> Answer:
    """Request the stop of every task of an array."""
    arrays = request.facade.arrays
    return json_answer(arrays.stop(arrays.find(request.ref), abandon=request.query(routes.ABANDON)))


ACTIONS: Actions = {
    "submit_array": submit_array,
    "list_arrays": list_arrays,
    "get_array": get_array,
    "stop_array": stop_array,
}
