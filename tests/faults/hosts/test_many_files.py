"""A job that makes more files than the event of its end can name: they come home, and its pool stays warm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.model.spec.channel import Output
from jupyter_smx.model.status import SecondaryStatus

if TYPE_CHECKING:
    from world import World

# A frame has room for 120,000 names as people give them. These have 3000 characters, and few of them are as much.
DEEP = """
os.chdir(os.environ["SMX_OUTPUT_R"])
for _ in range(12):
    os.mkdir("d" * 249)
    os.chdir("d" * 249)
for number in range(3000):
    open(str(number), "w").close()
"""


def test_a_job_that_makes_more_files_than_a_frame_can_name_is_completed_and_its_host_stays_warm(world: World) -> None:
    output = Output(name="r", path="/opt/ml/processing/output/r")
    done = world.run(DEEP, kind="process", outputs=(output,)).job()
    assert done.state is SecondaryStatus.COMPLETED
    assert len(done.artifacts) == 3000
    assert not any(end.errors for end in done.hosts)
    cluster = world.cluster()
    assert world.run(kind="process", outputs=(output,)).job().cluster == cluster
