"""Jobs that write to the literal /opt/ml where hosts have none of their own and may use that of the machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("shared_opt_ml.py")
NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
PATIENCE = 240.0


def test_files_in_the_literal_folder_are_collected_and_the_next_job_finds_none(tmp_path: Path) -> None:
    if os.getuid() != 0 or shutil.which("unshare") is None or sys.base_prefix.startswith("/opt/"):
        pytest.skip("only root mounts an /opt of its own, in which no Python is")
    command = ["timeout", "-s", "KILL", f"{PATIENCE}", *NAMESPACES, sys.executable, PROGRAM, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert all("found [] False" in run and "Completed" in run for run in told["runs"]), told
    assert told["outputs"] == ["model.tar.gz"] * 2
    assert "links in the /opt/ml of the machine" in told["why"]
    assert "machine opt ml: leads to one host at a time" in told["doctor"]
    assert "extra" not in told["inside"]
    assert "model" in told["inside"]
    assert "the /opt/ml of this machine leads to another host" in told["other_controller"]
    assert "turn the option off" in told["other_controller"]
    assert "found" not in told["other_controller"]
    assert "found [] False" in told["other_pool"], "the idle pool made room"
    assert "Completed" in told["other_pool"]
