"""Launches on machines that are asked side by side: the agent is packed once, and no slot is given to two clusters."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from shell_engine import ShellEngine, ShellMachine

from jupyter_smx.engines.base import ClusterRequest, HostSpec
from jupyter_smx.engines.machine import agent_zipapp
from jupyter_smx.engines.remote import account
from jupyter_smx.engines.remote.account import Account
from jupyter_smx.engines.remote.cluster_register import ClusterRegister, Intention
from jupyter_smx.model.errors import RefusedError
from jupyter_smx.model.records.cluster import Handle
from jupyter_smx.model.spec.instance import HOMOGENEOUS, InstanceGroup
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from jupyter_smx.engines.remote.machine import Completed

pytestmark = pytest.mark.processes
FOLDER = ".local/share/jupyter_smx"


class SilentMachine(ShellMachine):
    """A machine that answers nothing."""

    async def run(self, command: str, data: bytes = b"", timeout: float = 20.0) -> Completed:
        del command, data, timeout
        (self._home / "asked").touch()
        await asyncio.Event().wait()
        raise AssertionError


class HalfSilentEngine(ShellEngine):
    """An engine whose machine of the name ``silent`` answers nothing."""

    def machine(self, name: str) -> ShellMachine:
        made = super().machine(name)
        return SilentMachine(name, made._home) if name == "silent" else made


@pytest.fixture
async def engine_of(tmp_path: Path) -> AsyncIterator[Callable[..., HalfSilentEngine]]:
    """Give ``engine_of(*machines)``: engines that share a data folder and machines."""
    made = []

    def make(*names: str) -> HalfSilentEngine:
        homes = {name: os.fspath(tmp_path / name) for name in names}
        for home in homes.values():
            Path(home).mkdir(exist_ok=True)
        made.append(HalfSilentEngine(data_dir=os.fspath(tmp_path / "controller"), homes=homes))
        return made[-1]

    yield make
    for engine in made:
        for cluster, intention in register_of(tmp_path).live().items():
            if {*intention.machines()} <= {*engine.homes}:
                await engine.release(Handle(engine="shell", cluster=cluster))


def register_of(folder: Path) -> ClusterRegister:
    return ClusterRegister(folder / "controller", folder / "controller/engines/shell/clusters")


async def launch(engine: ShellEngine, cluster: str) -> Mapping[str, str]:
    """Launch one host; gives the machine of each."""
    host = HostSpec(host="algo-1", group=HOMOGENEOUS, instance_type="local", vcpus=1)
    request = ClusterRequest(
        cluster=cluster, hosts=(host,), instance_groups=(InstanceGroup(),), python="", idle_limit=120.0
    )
    async for step in engine.acquire(request):
        assert isinstance(step, Handle)
        last = step
    return {each.host: str(each.data["machine"]) for each in last.hosts}


async def test_machines_that_need_the_agent_at_once_get_one_that_is_packed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = []
    pack = agent_zipapp.pack
    monkeypatch.setattr(agent_zipapp, "pack", lambda content: packed.append(1) or pack(content))
    account._pack_archive.cache_clear()
    homes = [tmp_path / name for name in "abc"]
    for home in homes:
        home.mkdir()
    accounts = [Account(ShellMachine(home.name, home)) for home in homes]
    await asyncio.gather(*(each.ask("observe", {"clusters": []}) for each in accounts))
    assert len(packed) == 1
    assert all((home / FOLDER / agent_zipapp.file_name()).exists() for home in homes)


async def test_a_placement_waits_for_the_one_of_another_process_and_sees_what_it_took(
    tmp_path: Path, engine_of: Callable[..., HalfSilentEngine]
) -> None:
    register = register_of(tmp_path)
    engine = engine_of("a", "b")
    async with register.placement_lock():
        launching = asyncio.create_task(launch(engine, "ours"))
        facts = [tmp_path / f"controller/engines/shell/machines/{name}.json" for name in "ab"]
        await eventually(lambda: all(path.exists() for path in facts), "both machines were asked", within=30)
        (register.folder / "theirs").mkdir(parents=True, exist_ok=True)
        register.write("theirs", Intention({"algo-1": "a"}))
    assert await launching == {"algo-1": "b"}
    register.release("theirs")


async def test_a_machine_that_is_silent_holds_up_no_placement_on_another_one(
    tmp_path: Path, engine_of: Callable[..., HalfSilentEngine]
) -> None:
    waiting = asyncio.create_task(launch(engine_of("silent"), "waits"))
    await eventually((tmp_path / "silent/asked").exists, "the silent machine was asked")
    assert await asyncio.wait_for(launch(engine_of("a"), "runs"), 30) == {"algo-1": "a"}
    assert not waiting.done()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


async def test_a_cluster_that_is_released_while_machines_are_asked_is_not_launched(
    tmp_path: Path, engine_of: Callable[..., HalfSilentEngine]
) -> None:
    register = register_of(tmp_path)
    async with register.placement_lock():
        launching = asyncio.create_task(launch(engine_of("a"), "ours"))
        facts = tmp_path / "controller/engines/shell/machines/a.json"
        await eventually(facts.exists, "the machine was asked", within=30)
        register.release("ours")
    with pytest.raises(RefusedError, match="was released"):
        await launching
    assert register.read("ours") is None
