"""An agent whose parent holds a pipe open ends with the pipe; the pipe is the agent's ``--parent-fd``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from far_side import STUBBORN, is_alive

if TYPE_CHECKING:
    from collections.abc import Callable

    from far_side import Agent

STRAYS = """
import os, subprocess
print(os.getpid(), subprocess.Popen(["sleep", "99"], start_new_session=True, env={}).pid, flush=True)
"""

LISTS_ITS_FILES = """
import json, os
paths = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
print(json.dumps([os.readlink(path) for path in paths if os.path.lexists(path)]))
"""


class Child(NamedTuple):
    """An agent and the end of the pipe that its parent holds."""

    agent: Agent
    pipe: int


@pytest.fixture
def child(start_agent: Callable[..., Agent]) -> Child:
    theirs, ours = os.pipe()
    agent = start_agent(options={"parent_fd": theirs}, keep_uncollected=86_400.0)
    os.close(theirs)
    return Child(agent, ours)


def test_an_idle_host_ends_when_the_pipe_of_its_parent_closes(child: Child) -> None:
    os.close(child.pipe)
    assert child.agent.wait() == 0
    assert "the process that started this host has ended" in (child.agent.folder / "agent.log").read_text()


def test_a_job_and_all_that_it_started_end_with_the_pipe(child: Child) -> None:
    agent = child.agent
    job, _lease = agent.start(STRAYS + STUBBORN)
    pids = [int(word) for word in agent.wait_for_log(job, "on").split()[:2]]
    os.close(child.pipe)
    assert agent.wait() == 0
    assert not any(is_alive(pid) for pid in pids)
    record = json.loads((agent.folder / "spool" / job / "end.json").read_text())
    assert record["errors"] == ["host: the process that started this host has ended."]


def test_results_that_wait_to_be_read_do_not_keep_a_host_without_parent(child: Child) -> None:
    child.agent.run("print('kept')")
    child.agent.client.ask("deadline", seconds=0)
    assert child.agent.client.is_closed()
    os.close(child.pipe)
    assert child.agent.wait() == 0


def test_what_a_parent_writes_into_the_pipe_ends_nothing(child: Child) -> None:
    os.write(child.pipe, b"x")
    child.agent.serves()
    os.close(child.pipe)


def test_no_process_of_a_job_holds_the_pipe(child: Child) -> None:
    assert str(Path(f"/proc/self/fd/{child.pipe}").readlink()) not in child.agent.json(LISTS_ITS_FILES)
    os.close(child.pipe)
