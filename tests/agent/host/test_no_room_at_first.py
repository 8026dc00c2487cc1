from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

STARTS = """
import os, sys
from jupyter_smx.agent import startup
from jupyter_smx.agent import serve
def no_room(*_):
    number = int(sys.argv[3])
    raise OSError(number, os.strerror(number))
setattr(*{"claim": (startup, "claim"), "word": (startup, "_write_agent_json")}[sys.argv[2]], no_room)
sys.exit(serve.main([sys.argv[1]]))
"""


@pytest.mark.parametrize(
    ("what", "number", "code"),
    [("claim", errno.ENOSPC, 5), ("word", errno.EDQUOT, 5), ("word", errno.EROFS, 6), ("word", errno.EACCES, 1)],
)
def test_a_host_that_finds_no_room_to_begin_ends_with_a_code_of_its_own(
    tmp_path: Path, what: str, number: int, code: int
) -> None:
    """Its exit code is the only hint for the engine that waits for it: on a full disk it writes no log either."""
    about = {"protocol": 1, "host": "algo-1", "cluster": "c", "isolate": False, "hosts": ["algo-1"]}
    (tmp_path / "host.json").write_text(json.dumps(about))
    words = [sys.executable, "-c", STARTS, os.fspath(tmp_path), what, str(number)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == code, done.stderr
    assert os.strerror(number) in done.stderr


WITHOUT_JOBS = """
import sys
from jupyter_smx.agent import serve
sys.modules["jupyter_smx.agent.job.job"] = None
sys.exit(serve.main([sys.argv[1]]))
"""
"""An agent one of whose modules cannot be imported."""


def test_a_host_that_cannot_load_what_jobs_need_ends(tmp_path: Path) -> None:
    about = {"protocol": 1, "host": "algo-1", "cluster": "c", "isolate": False, "hosts": ["algo-1"]}
    (tmp_path / "host.json").write_text(json.dumps(about))
    words = [sys.executable, "-c", WITHOUT_JOBS, os.fspath(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1, done.stderr
    assert "ends: its program cannot be loaded: import of jupyter_smx.agent.job.job halted" in done.stderr
