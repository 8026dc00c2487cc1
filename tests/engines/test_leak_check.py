"""Bug 33 of the catalogue: a test that leaks a process or a socket must fail, so the check itself is tested."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import jupyter_smx

CONFTEST = Path(__file__).parents[1] / "conftest.py"

LEAKY = """
import os, socket, subprocess, sys

def start(**extra):
    read, write = os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-c", f"import os, signal; os.write({write}, b'1'); signal.pause()"],
        env={**os.environ, **extra}, pass_fds=(write,), start_new_session=True)
    os.read(read, 1)
    return child

children = []
"""

CASES = {
    "an agent": "def test_it():\n    children.append(start(JUPYTER_SMX_HOST='c/algo-1'))\n",
    "a socket": (
        "def test_it(tmp_path):\n    s = socket.socket(socket.AF_UNIX)\n"
        "    s.bind(str(tmp_path / 'agent.sock'))\n    s.listen()\n    children.append(s)\n"
    ),
}


def run_inner(folder: Path, body: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST.read_text())
    (folder / "test_inner.py").write_text(LEAKY + body)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder]
    environment = {**os.environ, "PYTHONPATH": str(Path(jupyter_smx.__file__).parents[1])}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("what", CASES)
def test_bug_33_a_test_that_leaves_something_behind_fails_and_what_it_left_is_ended(what: str, tmp_path: Path) -> None:
    outcome = run_inner(tmp_path, CASES[what])
    assert outcome.returncode == 1, outcome.stdout
    assert "The test left behind:" in outcome.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_bug_33_a_test_that_cleans_up_passes(tmp_path: Path) -> None:
    body = (
        "def test_it():\n    child = start(JUPYTER_SMX_HOST='c/algo-1')\n    child.kill()\n    child.wait()\n"
        "def test_strangers_are_not_blamed():\n"
        "    children.append(start(JUPYTER_SMX_TEST_RUN='of another run', JUPYTER_SMX_HOST='c/algo-1'))\n"
        f"    open({str(tmp_path / 'pid')!r}, 'w').write(str(children[0].pid))\n"
    )
    outcome = run_inner(tmp_path, body)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert outcome.returncode == 0, outcome.stdout
