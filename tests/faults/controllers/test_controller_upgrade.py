"""jupyter-smx is updated while a job runs and while a pool is idle: nothing is lost, and nothing is confused."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from world import PATIENCE, kill

from jupyter_smx import controller_launch
from jupyter_smx.agent.wire import PROTOCOL, VERSION
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable

    from world import World

pytestmark = pytest.mark.heavy("faults")

PACKAGE = Path(controller_launch.__file__).parent
OLD = "0.0.7"


@pytest.fixture
def start_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], int]:
    """Give ``start_old(protocol)``, which starts a controller of version 0.0.7, and what it packs is of 0.0.7, too."""

    def start(protocol: int) -> int:
        old = tmp_path / "old"
        shutil.copytree(PACKAGE, old / "jupyter_smx", ignore=shutil.ignore_patterns("labextension", "__pycache__"))
        for path, now, then in (
            ("agent/__init__.py", f'"{VERSION}"', f'"{OLD}"'),
            ("agent/wire.py", f"PROTOCOL = {PROTOCOL}\n", f"PROTOCOL = {protocol}\n"),
        ):
            text = (old / "jupyter_smx" / path).read_text()
            assert now in text
            (old / "jupyter_smx" / path).write_text(text.replace(now, then))
        with monkeypatch.context() as patch:
            patch.setenv("PYTHONPATH", str(old))
            process = controller_launch.start_controller()
        assert controller_launch.wait_ready(PATIENCE, process), controller_launch.last_log_line()
        return process.pid

    return start


def update(world: World) -> None:
    """End the old controller; the next request starts one of this version."""
    (old,) = world.controllers()
    os.kill(old, signal.SIGTERM)
    eventually_blocking(lambda: old not in world.controllers(), "the old one left", within=PATIENCE)


def test_a_job_ends_under_the_old_agent_and_the_next_one_gets_a_new_one(
    world: World, start_old: Callable[[int], int]
) -> None:
    start_old(PROTOCOL)
    gate = world.gate()
    job = world.submit("open(os.environ['SM_MODEL_DIR'] + '/m', 'w').write('m')", gate=gate)
    job.until_it_says("begun")
    old = world.cluster()
    update(world)
    gate.touch()
    ended = job.wait()
    assert (ended.state, job.runs(), job.log()) == (SecondaryStatus.COMPLETED, 1, "begun\ndone\n")
    assert [artifact.name for artifact in ended.artifacts] == ["model.tar.gz"]
    eventually_blocking(lambda: world.pools()[0].state == "Available", "its pool is idle", within=PATIENCE)
    name = world.pools()[0].name
    second = world.run()
    assert second.why() == f"Cold: pool {name} has jupyter-smx version {OLD}, this job needs {VERSION}."
    eventually_blocking(lambda: world.cluster() != old, "the old pool is let go", within=PATIENCE)
    told = job.job().warm_pool
    assert told is not None
    assert told.reason == "Its hosts run another version of jupyter-smx."
    assert world.run().why().startswith("Warm: ")


def test_a_job_under_an_agent_of_another_protocol_goes_on_and_its_end_is_read_from_its_disk(
    world: World, start_old: Callable[[int], int]
) -> None:
    start_old(PROTOCOL + 1)
    gate = world.gate()
    job = world.submit("open(os.environ['SM_MODEL_DIR'] + '/m', 'w').write('m')", gate=gate, keep_alive=0)
    job.until_it_says("begun")
    update(world)
    job.until(lambda record: "another version" in record.transitions[-1].status_message, "the record says so")
    # The machine is not blocked: another job gets hosts of this version.
    assert world.run().why().endswith(f"has jupyter-smx version {OLD}, this job needs {VERSION}.")
    gate.touch()
    record = next((world.data / "clusters").glob(f"*/algo-1/spool/{job.id}")) / "end.json"
    eventually_blocking(record.exists, "the old agent wrote the end down", within=PATIENCE)
    # Its linger would be a minute; what ends it here is what ends it there, only sooner.
    for agent in [pid for pid in world.agents() if str(record.parent.parent.parent) in command(pid)]:
        kill(agent)
    ended = job.wait()
    assert (ended.state, job.runs(), job.log()) == (SecondaryStatus.COMPLETED, 1, "begun\ndone\n")
    assert [artifact.name for artifact in ended.artifacts] == ["model.tar.gz"]


def test_a_job_under_an_agent_of_another_protocol_can_be_stopped(world: World, start_old: Callable[[int], int]) -> None:
    start_old(PROTOCOL + 1)
    job = world.submit(gate=world.gate())
    job.until_it_says("begun")
    old = world.agents()
    update(world)
    job.until(lambda record: "another version" in record.transitions[-1].status_message, "the record says so")
    world.client.stop(job.id)
    ended = job.wait()
    assert ended.state is SecondaryStatus.STOPPED, ended.failure_reason
    eventually_blocking(lambda: not set(old) & set(world.agents()), "its hosts are gone", within=PATIENCE)


def command(pid: int) -> str:
    """Give the command line of a process."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
