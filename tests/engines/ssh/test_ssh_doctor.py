"""What ``doctor`` says of machines that SSH reaches, alone and by the command in a terminal."""

from __future__ import annotations

import os
import re
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest_asyncio
from ssh_terminal import read_smx, run_smx

from jupyter_smx.engines.ssh.engine import SshEngine, control_folder
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ssh_controller import SshControllerWorld
    from worlds.ssh.ssh_world import SshWorld

ALIASES = ("smx-one", "smx-two", "smx-three")
FOLDER = "/home/far-user/.local/share/jupyter_smx"


@pytest_asyncio.fixture
async def engine(ssh_world: SshWorld, tmp_path: Path) -> AsyncIterator[SshEngine]:
    """Give an engine for all machines of the world, which knows the first one; its connections end with the test."""
    for machine in ssh_world.machines:
        machine.wipe()  # an earlier test may have left files there
    made = SshEngine(
        data_dir=os.fspath(tmp_path / "smx"),
        program=os.fspath(ssh_world.bin / "ssh"),
        machines={alias: {"slots": 3} for alias in ALIASES},
    )
    made.target = ALIASES[0]
    await machines_of(made)
    made.target = ""
    yield made
    for alias in ALIASES:
        await made.machine(alias).close()
    shutil.rmtree(control_folder(made._folder))


async def machines_of(engine: SshEngine, timeout: float = 15.0) -> dict[str, Any]:
    found: Any = (await engine.doctor(timeout))["machines"]
    return dict(found)


async def test_machines_are_examined_side_by_side_and_each_problem_is_a_sentence(
    ssh_world: SshWorld, engine: SshEngine
) -> None:
    ssh_world["two"].kill()
    ssh_world["three"].hide_python()
    began = time.monotonic()
    found = await machines_of(engine, 3.0)
    assert time.monotonic() - began < 5.0
    assert [*found] == [*ALIASES]
    assert found["smx-two"] == {
        "problem": "smx-two did not answer within 3 s. Check that it runs, and the network or VPN of this machine."
    }
    assert found["smx-three"]["problem"].startswith("smx-three: there is no Python 'python3'. ")
    whole = found["smx-one"]
    assert whole["python"].endswith(" at /opt/python/bin/python3")
    assert whole.pop("first_contact").endswith((" ms", " s"))
    assert whole.pop("round_trip").endswith(" ms")
    assert " free" in whole.pop("disk")
    assert whole.pop("limits_of_jobs")
    assert whole.pop("memory").endswith(" GiB")
    assert re.match(r"archives [34]\.\d MiB", whole.pop("files_there"))
    assert whole == {
        "host_name": "box-one",
        "platform": whole["platform"],
        "python": whole["python"],
        "uv": "not found",
        "cpus": os.cpu_count(),
        "gpus": "none",
        "slots": "0 of 3 in use",
        "folder": FOLDER,
    }


async def test_a_silent_connection_is_reported_within_the_limit_and_works_again_later(
    ssh_world: SshWorld, engine: SshEngine
) -> None:
    assert "problem" not in (await machines_of(engine))["smx-one"]
    ssh_world["one"].cut()
    found = await machines_of(engine, 1.5)
    assert found["smx-one"]["problem"].startswith("smx-one did not answer within ")
    assert "problem" not in found["smx-two"]
    ssh_world["one"].restore()
    assert "problem" not in (await machines_of(engine))["smx-one"]


def examine(world: SshControllerWorld, engine: str, *words: str) -> Any:
    return read_smx(world.folder, "doctor", "--engine", engine, *words)["engines"][engine]["machines"]


def test_the_command_examines_a_machine_and_frees_its_disk(
    shared_controller: SshControllerWorld, ssh_world: SshWorld
) -> None:
    shared_controller.run(engine="ssh:smx-one", keep_alive=600)
    machine = examine(shared_controller, "ssh:smx-one", "--fix")["smx-one"]
    assert machine["slots"] == "1 of 4 in use"
    assert re.match(r"archives [34]\.\d MiB", machine["files_there"])
    assert ", clusters " in machine["files_there"]
    assert "--fix --engine ssh:smx-one" in machine["to_free_space"]
    (pool,) = shared_controller.pools()
    shared_controller.client.release(pool.id)
    eventually_blocking(lambda: not shared_controller.pools(), "the pool is released")
    folders = ssh_world["one"].home / ".local/share/jupyter_smx/clusters"
    assert pool.id in [path.name for path in folders.iterdir()]
    page = run_smx(shared_controller.folder, "doctor", "--engine", "ssh:smx-one", "--fix").stdout
    assert "\n        slots: 0 of 4 in use\n" in page
    assert "\nremoved:\n  ssh:smx-one: files of 1 ended cluster\n" in page
    assert pool.id not in [path.name for path in folders.iterdir()]


def test_the_command_fails_where_a_machine_or_an_engine_is_not_there(
    shared_controller: SshControllerWorld, ssh_world: SshWorld
) -> None:
    ssh_world["two"].stop_sshd()
    done = run_smx(shared_controller.folder, "doctor", "--engine", "ssh:smx-two")
    assert done.returncode == 1
    assert "      smx-two:\n        problem: smx-two accepts no connection on the port of ssh." in done.stdout
    done = run_smx(shared_controller.folder, "doctor", "--engine", "pbs:smx-two")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("There is no engine 'pbs:smx-two'. Installed engines: ")
