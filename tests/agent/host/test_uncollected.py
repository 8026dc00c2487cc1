"""A host whose time is over keeps the results that no controller has read, as a small process."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable

    from far_side import Agent, Client

DAY = 86_400.0
MIB = 2**20
SMALL = 30 * MIB


@pytest.fixture
def agent(start_agent: Callable[..., Agent]) -> Agent:
    return start_agent(keep_uncollected=DAY)


def closed(agent: Agent) -> tuple[Client, dict[str, object]]:
    """Let the deadline of the host come, and greet it again."""
    agent.client.ask("deadline", seconds=0)
    assert agent.client.is_closed()
    client = agent.connect()
    return client, client.ask("hello", protocol=1, epoch=1)


def ended(agent: Agent, source: str = "print('kept')") -> str:
    job, _lease = agent.start(source)
    agent.end_of(job)
    return job


def resident(pid: int) -> int:
    """Give the resident memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def test_a_closed_host_says_so_and_gives_record_log_and_artefacts(agent: Agent) -> None:
    job = ended(agent, "import os; print('kept')\nopen(os.environ['SM_MODEL_DIR'] + '/w', 'w').write('x' * 99)")
    client, greeting = closed(agent)
    assert (greeting["closed"], greeting["deadline"]) == (True, 0.0)
    assert greeting["jobs"][job]["phase"] == "ended"  # type: ignore[index]
    agent.client = client
    assert agent.log(job) == "kept\n"
    assert agent.read(job, "artifacts/model.tar.gz")
    assert b'"exit_code"' in agent.read(job, "end.json")


def test_a_host_is_open_until_its_deadline(agent: Agent) -> None:
    ended(agent)
    assert agent.client.ask("hello", protocol=1, epoch=1)["closed"] is False


def test_a_closed_host_is_one_small_process_without_a_zygote(agent: Agent) -> None:
    ended(agent, "import json, decimal, asyncio")
    assert agent.processes()
    closed(agent)
    assert agent.processes() == []
    assert resident(agent.process.pid) <= SMALL
    folders = {path.name for path in agent.folder.iterdir() if path.is_dir() and any(path.iterdir())}
    assert folders <= {"spool", "inputs"}


def test_a_closed_host_takes_no_job_and_no_longer_deadline(agent: Agent) -> None:
    ended(agent)
    client, _greeting = closed(agent)
    answer = client.ask("run", job="another", lease=9, spec=agent.spec("pass"))
    assert (answer["ok"], answer["code"]) == (False, "ServiceUnavailable")
    assert client.ask("deadline", seconds=None)["deadline"] == 0.0
    assert client.ask("preload", modules=["json"])["ok"]
    assert agent.processes() == []


def test_a_closed_host_ends_when_all_results_were_read(agent: Agent) -> None:
    first, second = ended(agent), ended(agent)
    client, _greeting = closed(agent)
    assert client.ask("forget", job=first)["ok"]
    assert client.ask("ping")["ok"]
    assert client.ask("forget", job=second)["ok"]
    assert agent.wait() == 0


def test_a_host_whose_results_were_read_ends_at_its_deadline(agent: Agent) -> None:
    job = ended(agent)
    assert agent.client.ask("forget", job=job)["ok"]
    agent.client.ask("deadline", seconds=0)
    assert agent.wait() == 0


def test_results_that_no_controller_reads_are_kept_for_the_time_that_was_asked_for(
    start_agent: Callable[..., Agent],
) -> None:
    agent = start_agent(keep_uncollected=0.5)
    ended(agent)
    since = time.monotonic()
    agent.client.ask("deadline", seconds=0)
    assert agent.wait() == 0
    assert time.monotonic() - since >= 0.5
    eventually_blocking(lambda: not agent.processes())
