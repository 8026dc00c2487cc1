"""Controller, agent and zygote, each killed at every step of a job's and a pool's life."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

import pytest
from world import PATIENCE, Ran, World, frozen, has_lost_its_pool, kill, python_behind

from jupyter_smx.kernel.request import payload
from jupyter_smx.model.spec.channel import Channel, Output
from jupyter_smx.model.status import SecondaryStatus, is_final
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_smx.model.records.job import Job

pytestmark = pytest.mark.heavy("faults")

BIG = 512 * 1024 * 1024
MODEL = 12 * 1024 * 1024
FILES = 1500
"""So many files with long names fill more than one frame of an end record."""
LOST = "InternalServerError: Host algo-1 was lost while the job ran: "
RECORD_LOST = "InternalServerError: The code ended on algo-1, but the record of its end was lost with the host: "


def _kill_controller(world: World) -> None:
    kill(world.controller())


def _kill_agent(world: World) -> None:
    for pid in world.agents():
        kill(pid)


def _kill_zygote(world: World) -> None:
    for pid in eventually_blocking(world.zygotes, "there is a zygote", within=PATIENCE):
        kill(pid)


VICTIMS = {"controller": _kill_controller, "agent": _kill_agent, "zygote": _kill_zygote}


def _after_the_201(world: World, victim: str) -> Ran:
    if victim == "controller":
        job = world.submit()
        _kill_controller(world)
        return job
    world.warm()
    with frozen(world.agent()):
        job = world.submit()
        VICTIMS[victim](world)
    return job


def _while_provisioning(world: World, victim: str) -> Ran:
    gate = world.gate()
    job = world.submit(python=python_behind(gate, world.folder))
    eventually_blocking(world.agents, "an agent was started", within=PATIENCE)
    assert world.pools()[0].state == "Provisioning"
    if victim == "zygote":
        gate.touch()
    VICTIMS[victim](world)
    gate.touch()
    return job


def _while_downloading(world: World, victim: str) -> Ran:
    world.warm()
    big = world.folder / "big"
    with big.open("wb") as file:
        file.truncate(BIG)
    body = f"assert os.path.getsize(os.environ['SM_CHANNEL_TRAINING'] + '/big') == {BIG}"
    job = world.submit(body, channels=(Channel(name="training", source=str(big)),))
    inputs = world.data / "clusters" / world.cluster() / "algo-1" / "inputs"
    eventually_blocking(lambda: any(inputs.glob("parts/*")), "the copy began", within=PATIENCE)
    assert world.client.job(job.id).state == "Downloading"
    VICTIMS[victim](world)
    return job


class _Slow:
    """A variable that takes long to be unpickled."""

    def __init__(self, reading: Path, gate: Path) -> None:
        self.code = (
            f"import os, time\nopen({str(reading)!r}, 'w')\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.002)"
        )

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, (self.code,)


def _before_the_first_line(world: World, victim: str) -> Ran:
    world.warm()
    reading, gate = world.folder / "reading", world.gate()
    job = world.submit(send=payload.pack({"slow": _Slow(reading, gate)}, world.data / "payloads"))
    eventually_blocking(reading.exists, "the variables are being read", within=PATIENCE)
    VICTIMS[victim](world)
    gate.touch()
    return job


def _while_training(world: World, victim: str) -> Ran:
    gate = world.gate()
    job = world.submit(gate=gate)
    job.until_it_says("begun")
    VICTIMS[victim](world)
    gate.touch()
    return job


def _while_stopping(world: World, victim: str) -> Ran:
    deaf = (
        "import signal\nsignal.signal(signal.SIGTERM, lambda *_: print('no', flush=True))\nprint('deaf', flush=True)\n"
    )
    job = world.submit(deaf + "while True: time.sleep(0.01)", gate=world.gate())
    world.gates[-1].touch()
    job.until_it_says("deaf")
    world.client.stop(job.id)
    job.until_it_says("no")
    assert job.job().state is SecondaryStatus.STOPPING
    VICTIMS[victim](world)
    return job


def _while_archiving(world: World, victim: str) -> Ran:
    body = f"open(os.environ['SM_MODEL_DIR'] + '/weights', 'wb').write(os.urandom({MODEL}))"
    job = world.submit(body)
    spool = world.data / "clusters" / world.cluster() / "algo-1" / "spool" / job.id / "artifacts"
    eventually_blocking(lambda: [*spool.glob("model.tar.gz*")], "the model is being packed", within=PATIENCE)
    VICTIMS[victim](world)
    return job


def _while_uploading(world: World, victim: str) -> Ran:
    world.warm()
    many = Output(name="many", path="/opt/ml/processing/many", destination=str(world.folder / "home"))
    body = f"for n in range({FILES}): open(f'{many.path}/{{n:0100d}}', 'w').write(str(n))"
    job = world.submit(body, kind="process", outputs=(many,))
    job.until(
        lambda seen: seen.state is SecondaryStatus.UPLOADING or is_final(seen.state), "it brings its outputs home"
    )
    assert job.job().state is SecondaryStatus.UPLOADING
    VICTIMS[victim](world)
    return job


STEPS = {
    "after the 201": _after_the_201,
    "while Provisioning": _while_provisioning,
    "while Downloading": _while_downloading,
    "before the first line": _before_the_first_line,
    "while Training": _while_training,
    "while Stopping": _while_stopping,
    "while archiving": _while_archiving,
    "while Uploading": _while_uploading,
}

COMPLETED, FAILED, STOPPED = SecondaryStatus.COMPLETED, SecondaryStatus.FAILED, SecondaryStatus.STOPPED
UNLIKE = {
    ("while Stopping", "controller"): (STOPPED, 1),
    ("while Stopping", "agent"): (STOPPED, 1),
    ("while Stopping", "zygote"): (STOPPED, 1),
    # The code may have begun, so the controller does not run it a second time.
    ("before the first line", "agent"): (FAILED, 0),
    ("while Training", "agent"): (FAILED, 1),
    ("while archiving", "agent"): (FAILED, 1),
}
ON_A_WARM_POOL = {"while Downloading", "before the first line", "while Uploading"}
LOSES_ITS_HOSTS = {"after the 201", "while Downloading"}


def starts(step: str, victim: str) -> str:
    """Return how the last run started."""
    if step == "after the 201":
        return "warm" if victim == "zygote" else "cold"
    lost = victim == "agent" and step in LOSES_ITS_HOSTS
    return "warm" if step in ON_A_WARM_POOL and not lost else "cold"


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("step", STEPS)
def test_killed(world: World, step: str, victim: str) -> None:
    job = STEPS[step](world, victim)
    ended = job.wait()
    expected, runs = UNLIKE.get((step, victim), (COMPLETED, 1))
    assert (ended.state, job.runs()) == (expected, runs), ended.failure_reason
    if expected is FAILED:
        assert ended.failure_reason.startswith(RECORD_LOST if step == "while archiving" else LOST), ended.failure_reason
        assert "SIGKILL" in ended.failure_reason
    else:
        assert ended.failure_reason == ""
    assert ended.why is not None
    assert ended.why.start == starts(step, victim), ended.why
    assert len(world.pools()) == (0 if victim == "agent" and expected is not COMPLETED else len(world.agents()))
    if expected is COMPLETED:
        assert job.log() == "begun\ndone\n"
        check_artifacts(step, world, ended)


def check_artifacts(step: str, world: World, ended: Job) -> None:
    """Assert that everything that the job wrote was collected, and completely."""
    if step == "while archiving":
        with tarfile.open(ended.artifacts[0].path) as archive:
            assert archive.getmember("weights").size == MODEL
    elif step == "while Uploading":
        home = world.folder / "home"
        assert {int(file.name): int(file.read_text()) for file in home.iterdir()} == {n: n for n in range(FILES)}
        assert len(ended.artifacts) == FILES


def test_a_controller_killed_while_its_pool_is_available_leaves_pool_and_deadline(world: World) -> None:
    first = world.warm()
    (before,) = world.pools()
    kill(world.controller())
    (after,) = world.pools()
    assert after.id == before.id
    assert before.expires_at is not None
    assert after.expires_at == pytest.approx(before.expires_at, abs=1.5)
    second = world.run()
    assert second.why() == f"Warm: reused pool {before.name} after {first.name}."
    told = first.job().warm_pool
    assert told is not None
    assert (told.status.value, told.reused_by_job) == ("Reused", second.name)


def test_a_zygote_killed_while_its_pool_is_available_costs_no_warmth(world: World) -> None:
    first = world.warm()
    _kill_zygote(world)
    second = world.run()
    assert second.why().endswith(f"after {first.name}.")
    assert (first.runs(), second.runs(), world.clusters_ever()) == (1, 1, 1)


def test_an_agent_killed_while_its_pool_is_available_is_said_and_replaced(world: World) -> None:
    first = world.warm()
    (gone,) = world.pools()
    _kill_agent(world)
    second = world.run()
    assert second.why().startswith("Cold: ")
    told = first.until(has_lost_its_pool, "the record says that the pool is gone").warm_pool
    assert told is not None
    assert told.reason == "The idle host ended unexpectedly."
    eventually_blocking(lambda: gone.id not in [pool.id for pool in world.pools()], "the pool is gone")
    assert (first.runs(), second.runs()) == (1, 1)


@pytest.mark.parametrize("victim", VICTIMS)
def test_killed_while_releasing(world: World, victim: str) -> None:
    first = world.warm()
    pids = {"agent": [world.agent()], "zygote": world.zygotes(), "controller": [world.controller()]}[victim]
    world.client.release(world.cluster())
    for pid in pids:
        kill(pid)
    eventually_blocking(lambda: not world.pools(), "no pool is left", within=PATIENCE)
    assert not world.agents()
    told = first.job().warm_pool
    assert told is not None
    assert (told.status.value, told.reason) == ("Terminated", "Released by the user.")
    assert world.run().why() == "Cold: there was no warm pool."
