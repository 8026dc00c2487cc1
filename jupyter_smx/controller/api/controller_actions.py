"""Answer requests about the controller itself: its state, its changes, its engines and their instance types."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from jupyter_smx.controller.api.answer import Answer, json_answer
from jupyter_smx.model import http_routes as routes

if TYPE_CHECKING:
    from jupyter_smx.controller.api.base import Actions, ApiHandler

EVENTS_AT_ONCE = 1_000


def list_instance_types(request: ApiHandler) -> Answer:
    """List the catalogue, the file that the administrator replaced it by, and the types that engines bring."""
    return json_answer(request.facade.instance_types())


async def list_engine_names(request: ApiHandler) -> Answer:
    """List the names of engines, and what options name on one of them."""
    return json_answer(await request.facade.engine_names(request.query(routes.NAMES_OF)))


def get_engine(request: ApiHandler) -> Answer:
    """Describe an engine for a submitter."""
    return json_answer(request.facade.engine(request.ref))


async def list_changes(request: ApiHandler) -> Answer:
    """Return the events after a number, or wait for one if there is none."""
    since = request.query(routes.SINCE_EVENT)
    until = time.monotonic() + request.query(routes.WAIT)
    changes = request.facade.changes(since, EVENTS_AT_ONCE)
    while not (changes.events or changes.reset) and (left := until - time.monotonic()) > 0:
        # The future is taken before any other task can run, so that no change is missed.
        await request.wait_while_connected(asyncio.wait({request.facade.next_change()}, timeout=left))
        changes = request.facade.changes(since, EVENTS_AT_ONCE)
    return json_answer(changes)


def describe_controller(request: ApiHandler) -> Answer:
    """Return version, protocol, process, epoch, newest event and data folder."""
    return json_answer(request.services.about())


async def diagnose(request: ApiHandler) -> Answer:
    """Return the data of the doctor page about the controller and its engines, or about one engine."""
    return json_answer(await request.facade.doctor(request.query(routes.ENGINE)))


async def fix(request: ApiHandler) -> Answer:
    """Remove hosts of clusters without a record, and files of ended clusters on other machines."""
    return json_answer(await request.facade.fix(request.query(routes.ENGINE)))


ACTIONS: Actions = {
    "describe_controller": describe_controller,
    "list_instance_types": list_instance_types,
    "list_engine_names": list_engine_names,
    "get_engine": get_engine,
    "list_changes": list_changes,
    "diagnose": diagnose,
    "fix": fix,
}
