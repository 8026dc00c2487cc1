"""Hosts after jobs that made trouble: one that is unfit ends and says why, one that is fit stays for the next job."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from world import PATIENCE

from jupyter_smx.model.spec.channel import Output
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.testing import process_scan
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from world import Ran, World


@pytest.fixture
def world(shared_world: World) -> World:
    """Provide the world of the module."""
    return shared_world


COMPLETED, FAILED = SecondaryStatus.COMPLETED, SecondaryStatus.FAILED

# A frame has room for 120,000 names as people give them. These have 3000 characters, and few of them are as much.
DEEP = """
os.chdir(os.environ["SMX_OUTPUT_R"])
for _ in range(12):
    os.mkdir("d" * 249)
    os.chdir("d" * 249)
for number in range(3000):
    open(str(number), "w").close()
"""


@pytest.fixture
def stone(tmp_path: Path, world: World) -> Iterator[str]:
    """Give the name of a file that a job may make immutable; it can be deleted again when the test is over."""
    trial = tmp_path / "trial"
    trial.touch()
    program = shutil.which("chattr")
    if os.getuid() != 0 or program is None or subprocess.run([program, "+i", trial], check=False).returncode:
        pytest.skip("files cannot be made immutable here")
    subprocess.run([program, "-i", trial], check=True)
    yield "stone"
    for path in world.data.rglob("stone"):
        subprocess.run([program, "-i", path], check=True)


def pool_of(job: Ran) -> str:
    """Give why the pool of a job ended."""
    ended = job.until(lambda one: one.warm_pool and one.warm_pool.status.value == "Terminated", "the pool ended")
    assert ended.warm_pool is not None
    return ended.warm_pool.reason


def test_a_host_that_cannot_be_made_clean_ends_and_its_pool_says_what_was_in_the_way(stone: str, world: World) -> None:
    job = world.run(
        f"import subprocess\npath = os.environ['SM_OUTPUT_DIR'] + '/{stone}'\nopen(path, 'w')\n"
        "subprocess.run(['chattr', '+i', path], check=True)"
    )
    reason = pool_of(job)
    assert reason.startswith("algo-1 ended: "), reason
    assert f"/{stone} of job {job.id} cannot be removed (Operation not permitted)." in reason
    again = world.run()
    assert (again.runs(), again.job().cluster != job.job().cluster) == (1, True)
    assert again.why().startswith("Cold: ")


@pytest.mark.parametrize("number", [9, 15], ids=["SIGKILL", "SIGTERM"])
def test_code_that_ends_its_own_host_is_told_that_it_was_lost_and_nothing_stays(world: World, number: int) -> None:
    world.warm()
    cluster = world.cluster()
    job = world.submit(
        "def parent(pid): return int(open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[1])\n"
        f"os.kill(parent(os.getppid()), {number})\nimport time\ntime.sleep(999)"
    )
    ended = job.wait()
    assert (ended.state, job.runs()) == (FAILED, 1)
    assert ended.failure_reason.startswith("InternalServerError: "), ended.failure_reason
    eventually_blocking(
        lambda: not process_scan.cluster_processes(cluster), "nothing of the host is left", within=PATIENCE
    )
    again = world.run()
    assert (again.runs(), again.job().cluster != cluster) == (1, True)


def test_a_job_that_makes_more_files_than_a_frame_can_name_is_completed_and_its_host_stays_warm(world: World) -> None:
    output = Output(name="r", path="/opt/ml/processing/output/r")
    done = world.run(DEEP, kind="process", outputs=(output,)).job()
    assert done.state is COMPLETED
    assert len(done.artifacts) == 3000
    assert not any(end.errors for end in done.hosts)
    cluster = world.cluster()
    assert world.run(kind="process", outputs=(output,)).job().cluster == cluster
