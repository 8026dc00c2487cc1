"""The Docker engine at a daemon of ours, and what its tests want of it."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from fake_dockerd import answer, end, listen, room

from jupyter_smx.engines.base import ClusterRequest, HostSpec
from jupyter_smx.model.records.cluster import Handle, HostHandle
from jupyter_smx.model.spec.instance import HOMOGENEOUS, InstanceGroup
from jupyter_smx.testing.data_folder import provide_archive

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from fake_dockerd import FakeDockerd

    from jupyter_smx.engines.docker.engine import DockerEngine


HANDLE = Handle(engine="docker", cluster="c1", hosts=(HostHandle(host="algo-1", data={"container": "x"}),))


def live(container: dict[str, Any]) -> None:
    """Be what was asked for: a look at an image, one at the ground, or an agent that listens as soon as it starts."""
    if "Mounts" not in container["config"]["HostConfig"]:
        end(container, 0, "[3, 11]\n")
    elif (room(container) / "token").exists():
        answer(container)
    elif (room(container) / "claim").exists():
        end(container, 3, "another agent has this folder\n")
    else:
        for name in ("claim", "agent.json"):
            (room(container) / name).write_text("{}")
        listen(container)


def engine_at(daemon: FakeDockerd, folder: Path, **traits: Any) -> DockerEngine:
    from jupyter_smx.engines.docker.engine import DockerEngine  # noqa: PLC0415 - imports Docker's library

    provide_archive(folder)  # a controller has made the folder before it asks an engine
    return DockerEngine(data_dir=os.fspath(folder), docker_host=daemon.url, **traits)


def wanted(hosts: int = 1, image: str = "train:1") -> ClusterRequest:
    plans = [HostSpec(host=f"algo-{n}", group=HOMOGENEOUS, instance_type="local", vcpus=1) for n in range(1, hosts + 1)]
    groups = (InstanceGroup(instance_count=hosts),)
    return ClusterRequest(cluster="c1", hosts=tuple(plans), instance_groups=groups, python="", image=image)


async def up(engine: DockerEngine, request: ClusterRequest) -> Handle:
    handle = Handle(engine="docker", cluster="")
    async for handle in engine.acquire(request):  # noqa: B007 - the last one is wanted
        pass
    return handle


async def end_of(question: Coroutine[Any, Any, Any]) -> BaseException | None:
    [found] = await asyncio.gather(question, return_exceptions=True)
    return found if isinstance(found, BaseException) else None
