"""A controller that was frozen for so long that another one took its place: when it wakes it acts on nothing."""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from world import PATIENCE, python_behind

from jupyter_smx import controller_launch
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from world import World

KEPT = 600


@contextmanager
def replaced(world: World) -> Iterator[int]:
    """Freeze the controller and let another one take its place; at the end the old one wakes up and must leave."""
    frozen = world.controller()
    os.kill(frozen, signal.SIGSTOP)
    world.client.close_thread_connections()
    # What a careless clean-up does: the lock's name is gone, so another process gets a lock of its own.
    (world.data / "controller.lock").unlink()
    Path(controller_launch.socket_address()).unlink()
    try:
        assert world.controller() != frozen
        yield frozen
    finally:
        os.kill(frozen, signal.SIGCONT)
    eventually_blocking(lambda: frozen not in world.controllers(), "the old one left", within=PATIENCE)


def test_bug_03_it_ends_no_pool_whose_time_was_over_only_for_it(world: World) -> None:
    world.warm()
    pool = world.cluster()
    world.client.set_keep_alive(pool, 8)  # a busy machine starts the next controller in 4 s
    over = time.time() + 8.5
    agent = world.agent()
    with replaced(world):
        world.client.set_keep_alive(pool, KEPT)
        job = world.submit(gate=(gate := world.gate()))
        job.until_it_says("begun")
        eventually_blocking(lambda: time.time() > over, "the old one thinks that the pool is over", within=PATIENCE)
    gate.touch()
    assert job.wait().state is SecondaryStatus.COMPLETED
    assert (job.runs(), job.log(), job.why().split(":")[0]) == (1, "begun\ndone\n", "Warm")
    assert (world.cluster(), world.agent()) == (pool, agent)


def test_bug_03_it_gives_up_no_hosts_that_came_up_for_another(world: World) -> None:
    gate = world.gate()
    job = world.submit(python=python_behind(gate, world.folder))
    eventually_blocking(world.agents, "the hosts are on their way", within=PATIENCE)
    pool = world.cluster()
    with replaced(world):
        gate.touch()
        assert job.wait().state is SecondaryStatus.COMPLETED
    assert job.runs() == 1
    assert world.cluster() == pool
    assert world.pools()[0].state == "Available"
    assert world.agents()


def test_bug_03_a_long_log_is_there_once(world: World) -> None:
    gate = world.gate()
    job = world.submit(
        f"import time\nfor number in range(20_000): print(number)\n"
        f"while not os.path.exists({str(gate)!r}): time.sleep(0.002)\n"
        "for number in range(20_000): print(number)",
        gate=(begin := world.gate()),
    )
    job.until_it_says("begun")
    with replaced(world):
        begin.touch()
        job.until_it_says("19999\n")
    gate.touch()
    assert job.wait().state is SecondaryStatus.COMPLETED
    numbers = [*map(str, range(20_000))]
    said = world.client.log(job.id, "", 0, limit=2**20).data.decode().split()
    assert said == ["begun", *numbers, *numbers, "done"]
