"""Machines whose clock is not that of the controller's machine."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ssh_controller import SshControllerWorld

pytestmark = pytest.mark.processes
KEEP = 600
OFFSETS = (-3600.0, 3600.0, -20.0, 20.0)


def test_pools_on_machines_with_other_clocks_keep_their_keep_alive_and_jobs_true_moments(
    ssh_controller: SshControllerWorld,
) -> None:
    world, one = ssh_controller, ssh_controller.world["one"]
    for offset in OFFSETS:
        one.set_clock(offset)
        before = time.time()
        first = world.run(keep_alive=KEEP, max_run=500 + abs(int(offset)) % 97)
        done = time.time()
        (pool,) = world.pools()
        assert (pool.state, pool.expires_at) == ("Available", pytest.approx(done + KEEP, abs=2.0)), offset
        second = world.run(keep_alive=KEEP)
        assert second.why().startswith("Warm"), offset
        for job in (first.job(), second.job()):
            at = [job.timings[name] for name in ("sent", "received", "awake", "first_line", "exited", "ended", "final")]
            moments = [before, *at, time.time()]
            assert all(later - earlier >= -0.05 for earlier, later in pairwise(moments)), (offset, job.timings)
            assert before <= (job.started_at or 0.0) <= (job.ended_at or 0.0) <= time.time()
        world.client.release(pool.id)
        world.until_nothing_is_left()
