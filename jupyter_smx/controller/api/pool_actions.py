"""Answer requests about pools."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from jupyter_smx.controller.api.answer import Answer, json_answer
from jupyter_smx.model import http_routes as routes

if TYPE_CHECKING:
    from jupyter_smx.controller.api.base import Actions, ApiHandler


class KeepAliveRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``PATCH /v1/pools/{ref}``; seconds from now."""

    keep_alive: int


def list_pools(request: ApiHandler) -> Answer:
    """List the live pools."""
    return json_answer({"pools": request.facade.pools()})


async def extend_pool(request: ApiHandler) -> Answer:
    """Keep an available pool for a number of seconds from now; 0 releases it."""
    return json_answer(await request.facade.extend(request.ref, request.body(KeepAliveRequest).keep_alive))


def release_pool(request: ApiHandler) -> Answer:
    """Release an available pool."""
    return json_answer(request.facade.release(request.ref))


async def get_pool_shell(request: ApiHandler) -> Answer:
    """Return the command that opens a shell on a host of a pool."""
    shells = request.facade.shell_commands
    return json_answer(await shells.command_for_pool(request.ref, request.query(routes.HOST)))


ACTIONS: Actions = {
    "list_pools": list_pools,
    "extend_pool": extend_pool,
    "release_pool": release_pool,
    "get_pool_shell": get_pool_shell,
}
