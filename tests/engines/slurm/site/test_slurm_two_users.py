"""Two users of one cluster, each with a controller and a pool on the same node: nothing of one is open to the other."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

import pytest
from slurm_controller import SlurmControllerWorld
from world import VARIABLE
from worlds.machines_controller import second_controller
from worlds.ssh import disk

from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from worlds.slurm.slurm_world import SlurmWorld
    from worlds.ssh.machine import Machine

pytestmark = pytest.mark.heavy("slurm")
SECOND = disk.User("far-second", 4212)
NODE = {"words": "--nodelist=box-one"}
FOLDER = f"/tmp/jupyter_smx-{disk.UID}"  # noqa: S108 - on the node
STARTED = "/tmp/started"  # noqa: S108 - likewise
CONNECT = """
import socket, sys
with socket.socket(socket.AF_UNIX) as peer:
    peer.connect(sys.argv[1])
"""
START = f"""
import json, socket, sys
with socket.socket(socket.AF_UNIX) as peer:
    peer.connect("\\0" + sys.argv[1])
    launch = {{"words": ["/bin/touch", {STARTED!r}], "folder": "/tmp", "log": "/dev/null", "variables": {{}}}}
    peer.sendall(json.dumps(launch).encode() + b"\\n")
    print(peer.recv(65_536).decode())
"""


@pytest.fixture(scope="module")
def shell_of_second(slurm_world_of_session: SlurmWorld) -> Path:
    """Give the folder with the login shell of another user, which all machines have as an account."""
    return slurm_world_of_session.add_user(SECOND)


@pytest.fixture
def second(
    slurm_controller: SlurmControllerWorld, shell_of_second: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SlurmControllerWorld]:
    """Give the other user's controller, with the same configuration but for the shell, and with its own data folder."""
    slurm_controller.controller()
    cluster = slurm_controller.slurm
    text = (tmp_path / "config" / "jupyter_smx_config.py").read_text()
    (tmp_path / "second-config").mkdir()
    (tmp_path / "second-config" / "jupyter_smx_config.py").write_text(
        text.replace(os.fspath(cluster.programs), os.fspath(shell_of_second))
    )
    variables = {
        VARIABLE: os.fspath(tmp_path / "second"),
        "JUPYTER_CONFIG_DIR": os.fspath(tmp_path / "second-config"),
    }
    with second_controller(monkeypatch, variables, lambda: SlurmControllerWorld(tmp_path, cluster, SECOND)) as world:
        yield world


def run_as_second(node: Machine, *words: str) -> str:
    """Run a command on a node as the other user; give all that it printed."""
    command = f"setpriv --reuid={SECOND.uid} --regid={SECOND.uid} --clear-groups {shlex.join(words)} 2>&1"
    return node.run(command, root=True, check=False).stdout


def test_two_users_with_pools_on_one_node_reach_nothing_of_each_other(
    slurm_controller: SlurmControllerWorld, second: SlurmControllerWorld
) -> None:
    first, node, gate = slurm_controller, slurm_controller.slurm.node("box-one"), slurm_controller.gate()
    held = first.submit(gate=gate, keep_alive=600, engine_options=NODE)
    held.until_it_says("begun")
    ran = second.run("print(os.getuid())", keep_alive=600, engine_options=NODE)
    assert f"{SECOND.uid}\n" in ran.log()
    for world in (first, second):
        (pool,) = world.pools()
        assert pool.machines == ("box-one",)
        assert (len(world.agents()), len(world.submissions()), world.sweep("slurm")) == (1, 1, [])
    assert [each.id for each in first.client.jobs(10)] == [held.id]
    assert [each.id for each in second.client.jobs(10)] == [ran.id]
    (socket, *_) = node.run(f"find {FOLDER} -name agent.sock").stdout.split()
    assert "Permission denied" in run_as_second(node, "ls", FOLDER)
    assert "Permission denied" in run_as_second(node, disk.PYTHON, "-c", CONNECT, socket)
    parent = f"jupyter_smx-{disk.UID}-{first.job_id()}"
    assert '"error"' in run_as_second(node, disk.PYTHON, "-c", START, parent), "its address is open to all users"
    assert node.run(f"ls {STARTED}", root=True, check=False).returncode

    second.client.release(ran.job().cluster)
    eventually_blocking(lambda: not first.slurm.jobs(user=SECOND.name), "its pool has ended", within=30.0)
    assert not second.agents()
    gate.touch()
    assert (held.wait().state.value, held.runs()) == ("Completed", 1)
    assert first.run(keep_alive=600, engine_options=NODE).why().startswith("Warm")


def test_a_stop_of_one_user_s_job_leaves_the_pool_of_the_other_one_warm(
    slurm_controller: SlurmControllerWorld, second: SlurmControllerWorld
) -> None:
    slurm_controller.run(keep_alive=600, engine_options=NODE)
    gate = second.gate()
    stopped = second.submit(gate=gate, engine_options=NODE)
    stopped.until_it_says("begun")
    second.client.stop(stopped.id)
    assert stopped.wait().state.value == "Stopped"
    again = slurm_controller.run(keep_alive=600, engine_options=NODE)
    assert again.why().startswith("Warm")
    assert again.job().cluster == slurm_controller.cluster()
