"""Bug 33 of the catalogue: a test that leaks a process or a socket must fail, so the check itself is tested."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import jupyter_smx

pytestmark = pytest.mark.heavy("faults")

TESTS = Path(__file__).parents[1]

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


HELPER = """
helper = subprocess.Popen([sys.executable, "-c", '''
import os, subprocess, sys
sys.stdin.readline()
agent = {**os.environ, "JUPYTER_SMX_HOST": "c/algo-1"}
subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], env=agent, start_new_session=True)
print("started", flush=True)
sys.stdin.readline()
'''], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

def test_before():
    pass

def test_it():
    helper.stdin.write(b"start\\n")
    helper.stdin.flush()
    assert helper.stdout.readline()
"""


def run_inner(folder: Path, body: str, *options: str) -> subprocess.CompletedProcess[str]:
    for name in ("conftest.py", "heavy.py"):
        (folder / name).write_text((TESTS / name).read_text())
    for name in ("plugins", "worlds"):
        shutil.copytree(TESTS / name, folder / name, dirs_exist_ok=True)
    (folder / "test_inner.py").write_text(LEAKY + body)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  processes\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, folder / "test_inner.py"]
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


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_bug_33_what_a_process_of_an_earlier_test_starts_is_found(tmp_path: Path) -> None:
    outcome = run_inner(tmp_path, HELPER)
    assert outcome.returncode == 1, outcome.stdout
    assert "ERROR test_inner.py::test_it" in outcome.stdout
    assert "The test left behind:" in outcome.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_test_that_starts_a_process_fails_where_none_may_be_started(tmp_path: Path) -> None:
    body = "def test_it():\n    subprocess.run(['true'], check=True)\n"
    assert run_inner(tmp_path, body).returncode == 0
    refused = run_inner(tmp_path, body, "--no-processes")
    assert refused.returncode == 1
    assert "The test starts a process" in refused.stdout
    marked = "import pytest\npytestmark = pytest.mark.processes\n"
    assert "2 deselected" in run_inner(tmp_path, marked + body + "def test_b():\n    pass\n", "--no-processes").stdout
