"""What ``doctor`` says of machines that SSH reaches, alone and by the command in a terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from jupyter_smx import controller_launch
from jupyter_smx.engines.ssh.engine import SshEngine
from jupyter_smx.testing.teardown import stop_everything

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from worlds.ssh.ssh_world import SshWorld

ALIASES = ("smx-one", "smx-two", "smx-three")
LIMIT = 60.0
FOLDER = "/home/far-user/.local/share/jupyter_smx"


@pytest_asyncio.fixture
async def engine(ssh_world: SshWorld, tmp_path: Path) -> AsyncIterator[SshEngine]:
    """Give an engine for all machines of the world, which knows the first one; its connections end with the test."""
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
    assert whole.pop("files_there").startswith("archives 3.")
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


class Terminal:
    """Runs ``jupyter smx`` in a folder of its own with the world's machines configured."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "jupyter_smx.cli", *words]
        return subprocess.run(command, cwd=self.folder, timeout=LIMIT, check=False, text=True, capture_output=True)

    def engine_facts(self, engine: str, *words: str) -> dict[str, Any]:
        done = self.run("doctor", "--engine", engine, *words, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found


@pytest.fixture
def terminal(ssh_world: SshWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """Give a terminal with a controller of its own."""
    config = tmp_path / "config"
    config.mkdir()
    options = {
        "SshEngine.program": os.fspath(ssh_world.bin / "ssh"),
        "SshEngine.config_file": os.fspath(ssh_world.folder / "ssh_config.direct"),
        "ControllerApp.grace": 0.5,
    }
    text = "".join(f"c.{name} = {value!r}\n" for name, value in options.items())
    (config / "jupyter_smx_config.py").write_text(text)
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", os.fspath(config))
    monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, os.fspath(tmp_path / "smx"))
    yield Terminal(tmp_path)
    stop_everything()
    ssh_world["one"].wipe()


def test_the_command_examines_a_machine_and_frees_its_disk(terminal: Terminal, ssh_world: SshWorld) -> None:
    (terminal.folder / "hello.py").write_text('print("hello")\n')
    done = terminal.run("run", "hello.py", "--engine", "ssh:smx-one", "--keep-alive", "10m")
    assert done.returncode == 0, done.stdout + done.stderr
    machine = terminal.engine_facts("ssh:smx-one", "--fix")["engines"]["ssh:smx-one"]["machines"]["smx-one"]
    assert machine["slots"].startswith("1 of ")
    assert machine["files_there"].startswith("archives 3.")
    assert ", clusters " in machine["files_there"]
    assert "--fix --engine ssh:smx-one" in machine["to_free_space"]
    (pool,) = json.loads(terminal.run("pools", "--json").stdout)["pools"]
    assert terminal.run("release", pool["name"]).returncode == 0
    folders = ssh_world["one"].home / FOLDER.removeprefix("/home/far-user/") / "clusters"
    assert [path.name for path in folders.iterdir()] == [pool["id"]]
    page = terminal.run("doctor", "--engine", "ssh:smx-one", "--fix").stdout
    assert "\n        slots: 0 of " in page
    assert "\nremoved:\n  ssh:smx-one: files of 1 ended cluster" in page
    assert [*folders.iterdir()] == []


def test_the_command_fails_where_a_machine_or_an_engine_is_not_there(terminal: Terminal, ssh_world: SshWorld) -> None:
    ssh_world["two"].stop_sshd()
    done = terminal.run("doctor", "--engine", "ssh:smx-two")
    assert done.returncode == 1
    assert "      smx-two:\n        problem: smx-two accepts no connection on the port of ssh." in done.stdout
    done = terminal.run("doctor", "--engine", "slurm:smx-two")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("There is no engine 'slurm:smx-two'. Installed engines: ")
    page = terminal.run("doctor").stdout
    assert "    ssh:\n      not usable: --engine: 'ssh' has no machines." in page
