"""Requests that come before the first zygote of a host is up: those for jobs wait for it, in their order."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from far_side import Agent, Client

from jupyter_smx.agent.system.files import short_path
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WAITS = """
import os, sys
if "zygote" in sys.orig_argv:
    open(os.environ["GATE"]).close()
"""
"""What Python runs at its start: a zygote waits for a writer at the gate."""
JOB, LEASE = "a" * 16, 1


class Early:
    """An agent that listens, and whose first zygote comes up when the gate is opened."""

    def __init__(self, agent: Agent, gate: Path) -> None:
        self.agent = agent
        self.gate = gate

    def run(self, source: str) -> int:
        """Send a job; return the number of the request."""
        return self.agent.client.send("run", job=JOB, lease=LEASE, spec=self.agent.spec(source))

    def open(self) -> None:
        self.gate.write_text("")


def listens(path: Path) -> bool:
    """Try to connect: the socket has its name a moment before the agent listens."""
    try:
        Client(path).close()
    except OSError:
        return False
    return True


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


@pytest.fixture
def environment(gate: Path, tmp_path: Path) -> dict[str, str]:
    """Give the variables of an agent whose zygotes wait at the gate."""
    (tmp_path / "sitecustomize.py").write_text(WAITS)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]), "GATE": str(gate)}


@pytest.fixture
def early(host_folder: Callable[..., Path], gate: Path, environment: dict[str, str]) -> Iterator[Early]:
    folder = host_folder()
    words = [sys.executable, "-m", "jupyter_smx.agent", "serve", os.fspath(folder)]
    process = subprocess.Popen(words, env=environment)
    try:
        eventually_blocking(lambda: listens(folder / "agent.sock"), within=30.0)
        agent = Agent(folder, process)
        with closing(agent.client):
            yield Early(agent, gate)
    finally:
        process.kill()
        process.wait()
        short_path.remove_link(os.fspath(folder))  # as an engine does for an agent that was killed


def test_a_job_runs_as_soon_as_the_first_zygote_is_up(early: Early) -> None:
    asked = early.run("print('here')")
    assert early.agent.client.ask("ping")["ok"], "other requests are answered meanwhile"
    assert early.agent.client.ask("hello", protocol=1, epoch=1)["jobs"] == {}
    assert not (early.agent.folder / "agent.json").exists()
    early.open()
    assert early.agent.client.answer(asked).header["phase"] == "running"
    assert (early.agent.end_of(JOB)["exit_code"], early.agent.log(JOB)) == (0, "here\n")
    assert (early.agent.folder / "agent.json").exists()


def test_a_job_that_is_stopped_before_it_could_start_ends(early: Early) -> None:
    began = early.run("import signal\nwhile True: signal.pause()")
    asked = early.agent.client.send("stop", job=JOB, lease=LEASE, grace=5.0, cause="stopped")
    early.open()
    assert early.agent.client.answer(began).header["ok"], "in the order of the requests"
    assert early.agent.client.answer(asked).header["ok"]
    assert early.agent.end_of(JOB)["cause"] == "stopped"


def test_a_job_whose_stream_was_closed_meanwhile_does_not_start(early: Early) -> None:
    early.run("print('here')")
    assert early.agent.client.ask("ping")["ok"]
    later = early.agent.connect()
    assert later.ask("hello", protocol=1, epoch=2)["ok"]
    assert early.agent.client.is_closed()
    early.open()
    eventually_blocking((early.agent.folder / "agent.json").exists, within=30.0)
    assert later.ask("run", job="b" * 16, lease=2, spec=early.agent.spec("print('there')"))["ok"]
    assert [*later.ask("hello", protocol=1, epoch=2)["jobs"]] == ["b" * 16]
    later.close()


IMPATIENT = "from jupyter_smx.agent import __main__, startup; startup._ZYGOTE_LIMIT = 0.5; __main__.main()"


def test_a_host_whose_first_zygote_does_not_come_up_ends_and_says_so(
    host_folder: Callable[..., Path], environment: dict[str, str]
) -> None:
    words = [sys.executable, "-c", IMPATIENT, "serve", os.fspath(host_folder())]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "its first zygote did not come up within 0.5 s" in done.stderr


EARLY_SIGNAL = """
import os, signal
from jupyter_smx.agent.system.processes.event_loop import Loop
loop = Loop()
loop.on_signal(signal.SIGTERM, lambda: (print("here"), loop.stop()))
for _ in range(2000):
    os.kill(os.getpid(), signal.SIGTERM)
loop.run()
"""


def test_signals_that_come_before_the_loop_runs_are_one_that_is_not_lost() -> None:
    done = subprocess.run([sys.executable, "-c", EARLY_SIGNAL], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "here\n"
