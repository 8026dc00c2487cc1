"""The toy machine is what it says: another view of files, another clock, a gateway that can be closed."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import RemoteWorld

pytestmark = pytest.mark.heavy("remote")


def test_a_script_runs_there_by_one_command(remote: RemoteWorld) -> None:
    script = remote.folder / "hello.py"
    script.write_text("import socket\nprint('from', socket.gethostname())\n")
    words = [sys.executable, "-m", "jupyter_smx.cli", "run", script, "--engine", "toy"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert "from algo-1" in done.stdout


def test_a_job_sees_no_folder_of_the_controller(remote: RemoteWorld) -> None:
    assert remote.data.exists()
    job = remote.run(f"print(os.listdir({str(remote.data)!r}))")
    assert "\n[]\n" in job.log()


def test_a_job_has_the_clock_of_the_machine(remote: RemoteWorld, configure: Callable[[str], None]) -> None:
    configure("c.ToyEngine.clock_offset = -3600.0")
    job = remote.run("import time; print('now', time.time())")
    there = float(job.log().partition("now ")[2].split()[0])
    assert abs(time.time() - 3600 - there) < 60


def test_a_job_goes_on_while_the_gateway_is_closed(remote: RemoteWorld) -> None:
    gate = remote.gate()
    job = remote.submit(gate=gate)
    job.until_it_says("begun")
    remote.gateway.close()
    gate.touch()
    job.until(lambda seen: "cannot be reached" in seen.transitions[-1].status_message, "the record says why it waits")
    remote.gateway.open()
    assert (job.wait().state.value, job.runs()) == ("Completed", 1)
