from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.controller.environments.build_process import BuildError
from jupyter_smx.controller.environments.cache import EnvironmentCache
from jupyter_smx.model.records.cluster import ReuseKey
from jupyter_smx.model.spec.job_spec import PythonEnvironment

if TYPE_CHECKING:
    from pathlib import Path

KEY = ReuseKey(
    engine="local",
    user="me",
    role="",
    instance_groups=(),
    python="/usr/bin/python3",
    environment=PythonEnvironment(requirements=("gone",)),
)


class FailsAtItsEnd:
    """A builder that finds out what is wrong at the moment in which it is ended."""

    def __init__(self) -> None:
        self.began = asyncio.Event()

    async def build(self, *_: object) -> None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise BuildError("--requirements: gone cannot be installed.", field="requirements") from None


async def test_a_build_that_fails_when_nobody_wants_it_any_more_troubles_nobody(tmp_path: Path) -> None:
    troubles: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: troubles.append(context))
    builder = FailsAtItsEnd()
    room = EnvironmentCache(tmp_path, builder, limit=60.0, max_unused=1)
    wants = asyncio.create_task(room.provide(KEY, lambda _step: None))
    await builder.began.wait()
    wants.cancel()
    with pytest.raises(asyncio.CancelledError):
        await wants
    while len(asyncio.all_tasks()) > 1:
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
    gc.collect()
    assert troubles == []
