"""What a doctor asks of every engine: how it is, and to end what nobody has a record of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_smx.model.errors import SmxError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from jupyter_smx.engines.base import Engine


async def examine(engine_of: Callable[[str], Engine], engine: str) -> dict[str, Any]:
    """Give what an engine says of itself, or what its trouble is."""
    try:
        return await engine_of(engine).doctor()
    except (SmxError, OSError) as error:
        return {"trouble": str(error)}


async def sweep(engine_of: Callable[[str], Engine], engine: str, known: Callable[[], Collection[str]]) -> list[str]:
    """Name what an engine ended of clusters that are none of those that ``known`` gives, or say why it could not."""
    try:
        return await engine_of(engine).sweep(known)
    except (SmxError, OSError) as error:
        return [f"Nothing could be ended: {error}"]
