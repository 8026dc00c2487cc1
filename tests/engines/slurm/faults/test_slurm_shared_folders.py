"""A folder that the nodes and the controller's machine share: nothing below it is sent, and checkpoints lie there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import worlds.ssh.disk
from slurm_controller import PATIENCE

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.channel import Channel
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slurm_controller import SlurmControllerWorld

pytestmark = pytest.mark.heavy("slurm")
MOUNT = Path(worlds.ssh.disk.__file__).with_name("namespace_mount.py")
URGENT = "sbatch --parsable --partition=urgent --nodes=3 --exclusive --time=5 --output=/dev/null --wrap='sleep 300'"
GOES_ON = """
import signal, sys
place = "/opt/ml/checkpoints/step"
print("rows", open(os.environ["SM_CHANNEL_ROWS"] + "/rows.csv").read(), flush=True)
if os.path.exists(place):
    print("goes on after", open(place).read(), flush=True)
    sys.exit(0)
def save(*_):
    open(place, "w").write("step 7")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while True: signal.pause()
"""


@pytest.fixture
def scratch(slurm_controller: SlurmControllerWorld, tmp_path: Path) -> Iterator[Path]:
    """Give a folder that each node has at the same path."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    folder.chmod(0o777)
    nodes = slurm_controller.slurm.nodes
    for node in nodes:
        (node.root / os.fspath(folder)[1:]).mkdir(parents=True)
        subprocess.run([sys.executable, MOUNT, folder, str(node.pid), folder], check=True)
    yield folder
    for node in nodes:
        node.run(f"umount -l {folder}", root=True)


def test_a_spot_job_whose_nodes_are_taken_away_goes_on_from_its_checkpoint(
    slurm_controller: SlurmControllerWorld, configure: Callable[[str], None], scratch: Path, tmp_path: Path
) -> None:
    configure(f"c.SlurmEngine.partition = 'spare'\nc.SlurmEngine.shared_folders = [{os.fspath(scratch)!r}]")
    (scratch / "rows.csv").write_text("1\n")
    channels = (Channel(name="rows", source=os.fspath(scratch / "rows.csv"), mode="File"),)
    with pytest.raises(ValidationError, match="do not share this folder"):
        slurm_controller.submit(GOES_ON, channels=channels, checkpoint=os.fspath(tmp_path / "kept"))
    kept = scratch / "kept"
    kept.mkdir(mode=0o777)
    kept.chmod(0o777)
    job = slurm_controller.submit(GOES_ON, spot=True, channels=channels, checkpoint=os.fspath(kept))
    job.until_it_says("ready")
    sent = "tmp/jupyter_smx-*/clusters/*/algo-1/inputs/provided/files/*"
    assert not [path for node in slurm_controller.slurm.nodes for path in node.root.glob(sent)], "nothing is sent"
    other = slurm_controller.slurm.run(URGENT).strip()
    try:
        eventually_blocking((kept / "step").exists, "the job saved its checkpoint", within=PATIENCE)
    finally:
        slurm_controller.slurm.run(f"scancel {other}")
    assert (job.wait().state.value, job.runs()) == ("Completed", 2)
    assert "goes on after step 7\n" in job.log()
