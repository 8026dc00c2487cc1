from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

REHEARSES = """
import json, os, sys
from jupyter_smx.agent.forkserver import child
from jupyter_smx.agent.paths import HostInfo

def state():
    return [dict(os.environ), list(sys.argv), os.getcwd(), sorted(os.listdir("/proc/self/fd"))]

place = HostInfo("algo-1", ["algo-1"], [], "", "local", 2, 0, base=sys.argv[1])
before = state()
lines = []
first_line = child.job_process.JobRun.first_line
child.job_process.JobRun.first_line = lambda self: (lines.append(os.environ["SM_HP_A"]), first_line(self))
child._warm_up(child.ChildSetup(logs=(1, 2), place=place, threads=2, notes=[]))
print(json.dumps([lines, before == state()]))
"""


def test_a_rehearsal_goes_all_the_way_to_the_first_line_and_leaves_nothing(tmp_path: Path) -> None:
    """The previous job may still run in the same folders, or another process may have removed them."""
    host = tmp_path / "host"
    host.mkdir()
    words = [sys.executable, "-c", REHEARSES, os.fspath(host / "ml")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [["1"], True]
    assert list(host.iterdir()) == []
