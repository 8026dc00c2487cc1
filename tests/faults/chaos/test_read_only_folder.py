"""A data folder that is read-only for a while, under a real controller: no accepted job fails, no end is lost."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from chaos_namespaces import read_only

from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.status import SecondaryStatus

if TYPE_CHECKING:
    from world import World

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a folder read-only")
WAITS = "waits for the file system (Read-only file system)."


def test_jobs_wait_for_a_folder_that_is_read_only(world: World) -> None:
    running = world.submit("print('x' * 1000)", gate=(gate := world.gate()))
    running.until_it_says("begun")
    with read_only(world.data):
        # The records are open, so they can be written; nothing else can.
        waiting = world.submit()
        waiting.until(lambda job: job.transitions[-1].status_message == f"Its launch {WAITS}", "the job says so")
        rows = {row.id: row.message for row in world.client.jobs(20)}
        assert rows[waiting.id] == f"Its launch {WAITS}"
        gate.touch()
    for job in (running, waiting):
        ended = job.wait()
        assert (ended.state, ended.failure_reason, job.runs()) == (SecondaryStatus.COMPLETED, "", 1)
        assert job.log().endswith("done\n")


def test_a_submission_to_a_folder_that_is_read_only_is_refused_in_one_sentence(world: World) -> None:
    world.data.mkdir(mode=0o700, exist_ok=True)
    with read_only(world.data):
        with pytest.raises(UnavailableError, match="Read-only file system") as refusal:
            world.submit()
        assert "Traceback" not in str(refusal.value)
        assert str(world.data) in str(refusal.value)
    assert world.run().runs() == 1
