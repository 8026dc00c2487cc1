"""A user whose home folder is on a network file system; the kernel's own FUSE stands for it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_smx.agent.stores.fuse_mount import find_rclone

PROGRAM = Path(__file__).with_name("network_home.py")
NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
PATIENCE = 240.0


@pytest.mark.parametrize("kind", ["fuse.sshfs"])
def test_jobs_run_and_their_outputs_are_at_home_while_the_records_are_on_a_local_disk(
    tmp_path: Path, kind: str
) -> None:
    rclone = find_rclone([sys.executable])
    if os.getuid() != 0 or shutil.which("unshare") is None or not rclone or not os.access("/dev/fuse", os.W_OK):
        pytest.skip("only root mounts a file system, with rclone and FUSE")
    command = ["timeout", "-s", "KILL", f"{PATIENCE}", *NAMESPACES, sys.executable, PROGRAM, tmp_path, kind, rclone]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert "Completed" in told["run"]
    assert "Completed" in told["jobs"]
    assert f"network file system ({kind})" in told["doctor"]
    assert {"controller.lock", "controller.sock", "smx.sqlite"} <= {*told["records"]}
    assert "jobs" not in told["records"]
    of_jobs = [path for path in told["home"] if path.startswith("jupyter/smx/jobs/")]
    assert {Path(path).name for path in of_jobs} >= {"model.tar.gz", "algo-1.log", "cell.py"}
    assert {*told["home"]} == {*of_jobs, "job.py", "jupyter/smx/.records-token"}
