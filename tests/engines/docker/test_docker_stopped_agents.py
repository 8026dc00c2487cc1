"""An agent in a container that does not run is found without a question to the daemon, and said with its cure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fake_engine import HANDLE, engine_at, up, wanted

from jupyter_smx.engines.base import StoppedAgent, stopped_process
from jupyter_smx.engines.docker.containers import agent_process
from jupyter_smx.engines.docker.containers.agent_process import stopped_agent_pid

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from fake_dockerd import FakeDockerd

CONTAINER = "ab" * 32
INIT, AGENT, OTHER = 40, 41, 42
SERVES = b"python\0-I\0/agent.pyz\0serve\0/host\0--contained"


def add_process(proc: Path, container: str, pid: int, state: str, command: bytes, children: str = "") -> None:
    folder = proc / str(pid)
    (folder / "task" / str(pid)).mkdir(parents=True)
    (folder / "task" / str(pid) / "children").write_text(children)
    (folder / "cgroup").write_text(f"0::/system.slice/docker-{container}.scope\n")
    (folder / "cmdline").write_bytes(command)
    (folder / "stat").write_text(f"{pid} (a) b) {state} 1 {pid} {pid}{' 0' * 15} 77 0\n")


def add_container(proc: Path, container: str) -> None:
    """Add an init process, the agent, which is stopped, and another process, as of ``docker exec``."""
    add_process(proc, container, INIT, "S", b"/sbin/docker-init\0--\0" + SERVES, f"{OTHER} {AGENT} ")
    add_process(proc, container, AGENT, "T", SERVES)
    add_process(proc, container, OTHER, "T", b"sh")


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder that is the ``/proc`` of this machine."""
    folder = tmp_path / "proc"
    monkeypatch.setattr(agent_process, "_PROC", folder)
    return folder


def test_an_agent_that_a_signal_has_stopped_is_found_below_its_init_process(proc: Path) -> None:
    add_container(proc, CONTAINER)
    assert stopped_agent_pid(INIT, CONTAINER) == AGENT
    assert stopped_agent_pid(AGENT, CONTAINER) == AGENT, "a daemon may have no init process"
    (proc / str(AGENT) / "stat").write_text(f"{AGENT} (python) S 1 1 1{' 0' * 15} 77 0\n")
    assert stopped_agent_pid(INIT, CONTAINER) == 0, "what else is stopped there is not the agent"


def test_a_process_of_no_or_another_container_is_never_taken_for_the_agent(proc: Path) -> None:
    add_container(proc, CONTAINER)
    assert stopped_agent_pid(INIT, "cd" * 32) == 0
    assert stopped_agent_pid(0, CONTAINER) == 0
    assert stopped_agent_pid(99, CONTAINER) == 0


@pytest.mark.usefixtures("inspected_image")
async def test_a_container_that_was_paused_at_the_last_look_is_named_without_another_one(
    daemon: FakeDockerd, tmp_path: Path
) -> None:
    engine = engine_at(daemon, tmp_path)
    handle = await up(engine, wanted())
    [name] = daemon.containers
    await engine.observe_all([handle])
    assert engine.stopped_agent(handle, "algo-1") is None
    daemon.containers[name]["state"] = {"Status": "paused", "Paused": True}
    await engine.observe_all([handle])
    asked = len(daemon.asked)
    paused = StoppedAgent("its container is paused", f"Resume it with docker unpause {name}.")
    assert engine.stopped_agent(handle, "algo-1") == paused
    assert engine.stopped_agent(handle, "algo-2") is None
    assert len(daemon.asked) == asked
    daemon.containers[name]["state"] = {"Status": "running"}
    await engine.observe_all([handle])
    assert engine.stopped_agent(handle, "algo-1") is None


async def test_a_stopped_agent_is_found_by_the_process_that_the_daemon_named_on_the_way_to_it(
    daemon: FakeDockerd, agent: socket.socket, tmp_path: Path, proc: Path
) -> None:
    engine, name = engine_at(daemon, tmp_path), str(HANDLE.hosts[0].data["container"])
    state = {"Status": "running", "Pid": INIT}
    config = {"Labels": {}, "HostConfig": {}}
    daemon.containers[name] = {"config": config, "state": state, "said": "", "networks": {}}
    add_container(proc, name)
    assert engine.stopped_agent(HANDLE, "algo-1") is None
    _, writer = await engine.connect(HANDLE, "algo-1")
    agent.accept()[0].close()
    writer.close()
    asked = len(daemon.asked)
    assert engine.stopped_agent(HANDLE, "algo-1") == stopped_process(AGENT)
    assert len(daemon.asked) == asked
