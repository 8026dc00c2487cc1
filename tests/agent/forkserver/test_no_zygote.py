"""No zygote can be started for a while: what runs goes on and ends, and the host serves again."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from far_side import FOREVER, count, is_alive, pid_of_job

from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from far_side import Agent

NONE = "No such file or directory"


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """Give a name for this environment that can be taken away while its processes run."""
    (tmp_path / "env").symlink_to(sys.prefix)
    return tmp_path / "env" / "bin" / Path(sys.executable).name


@pytest.fixture
def host(start_agent: Callable[..., Agent], python: Path) -> Agent:
    """Give an agent that starts its zygotes by that name."""
    return start_agent(options={"program": (str(python), "-m", "jupyter_smx.agent")})


@contextlib.contextmanager
def no_processes(python: Path) -> Iterator[None]:
    """Let the system refuse every zygote: it cannot find the program."""
    env = python.parents[1]
    env.rename(env.with_name("away"))
    try:
        yield
    finally:
        env.with_name("away").rename(env)


def kill_its_zygote(agent: Agent) -> None:
    """Kill the zygote and wait until the agent has tried to start another."""
    (zygote,) = agent.zygotes()
    os.kill(zygote, signal.SIGKILL)
    log = agent.folder / "agent.log"
    eventually_blocking(lambda: NONE in log.read_text(), "another zygote was tried")


def test_a_job_whose_zygote_cannot_be_replaced_ends_as_it_ends(host: Agent, python: Path) -> None:
    job, lease = host.start("import sys, signal\nsignal.signal(15, lambda *_: sys.exit(6))\n" + FOREVER)
    host.wait_for_log(job, "on")
    with no_processes(python):
        kill_its_zygote(host)
        host.stop(job, lease)
        record = host.end_of(job)
        assert (record["cause"], record["exit_code"]) == ("stopped", 6), record
    eventually_blocking(host.zygotes, "there is a zygote again")
    host.serves()


def test_a_job_whose_zygote_was_replaced_late_ends_with_its_host(host: Agent, python: Path) -> None:
    # It has no mark in its environment by which it could be found.
    job, _lease = host.start(
        "import os\nprint(os.getpid(), flush=True)\nos.execve('/bin/sleep', ['sleep', '1000'], {})"
    )
    pid = pid_of_job(host, job)
    eventually_blocking(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n", "it is somebody else")
    with no_processes(python):
        kill_its_zygote(host)
    eventually_blocking(lambda: count(f"{host.folder}/slots") == 1, "a new zygote has parked a child")
    host.process.kill()
    try:
        eventually_blocking(lambda: not is_alive(pid), "it is dead")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_job_that_comes_while_no_process_can_be_started_is_refused_with_the_reason(host: Agent, python: Path) -> None:
    with no_processes(python):
        kill_its_zygote(host)
        record = host.run("print('never')")
        assert (record["cause"], record["text"]) == ("refused", "")
        assert record["errors"] == [f"host: no process could be parked for this job. {NONE}: {python}."]
    eventually_blocking(host.zygotes, "there is a zygote again")
    host.serves()


def test_a_preload_for_which_no_process_can_be_started_has_failed_and_can_be_asked_for_again(
    host: Agent, python: Path
) -> None:
    with no_processes(python):
        assert host.client.ask("preload", modules=["json.tool", "csv"])["ok"]
        told = host.client.event("preload")
        why = f"no process could be started to import it ({NONE})"
        assert (told["loaded"], told["pending"]) == ([], [])
        assert told["failed"] == {"json.tool": why, "csv": why}
    host.client.ask("preload", modules=["csv"])
    told = host.client.event("preload")
    assert (told["loaded"], told["failed"]) == (["csv"], {"json.tool": why})
