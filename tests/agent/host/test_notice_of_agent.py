"""A notice to the agent: its job is interrupted with a part of the grace, its record is written, then the host ends."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from far_side import FOREVER, STUBBORN, is_alive
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.agent.host import notice
from jupyter_smx.agent.system.files import host_layout

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from far_side import Agent

SAVES = """
import os, signal, sys
def save(*_):
    with open(os.path.join(os.environ["SM_MODEL_DIR"], "saved"), "w") as file:
        file.write("step 7")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("on", flush=True)
while True: signal.pause()
"""


@pytest.fixture
def start(start_agent: Callable[..., Agent]) -> Callable[[float], Agent]:
    return lambda grace: start_agent(notice_grace=grace)


def begin(agent: Agent, source: str, **fields: Any) -> str:
    job, _lease = agent.start(source, **fields)
    agent.wait_for_log(job, "on")
    return job


def give_notice(agent: Agent) -> None:
    agent.process.send_signal(signal.SIGTERM)


def kept(agent: Agent, job: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((agent.folder / "spool" / job / "end.json").read_text())
    return record


def test_a_job_saves_its_work_and_its_controller_reads_it(start: Callable[[float], Agent]) -> None:
    agent = start(20.0)
    job = begin(agent, SAVES)
    give_notice(agent)
    assert agent.client.event("notice")["seconds"] == 20.0
    record = agent.end_of(job)
    assert (record["cause"], record["exit_code"]) == ("interrupted", 0)
    assert "host: the machine was taken away; its notice came 20 s before." in record["errors"]
    assert agent.read(job, "artifacts/model.tar.gz")
    assert agent.client.ask("forget", job=job)["ok"]
    assert agent.wait() == 0


def test_a_job_that_exited_by_the_same_signal_before_the_notice_was_interrupted(
    start: Callable[[float], Agent],
) -> None:
    agent = start(20.0)
    source = "import os\nopen(os.environ['SM_MODEL_DIR'] + '/big', 'wb').write(os.urandom(50_000_000))"
    job, _lease = agent.start(source)
    agent.client.event("exited")
    give_notice(agent)
    record = agent.end_of(job)
    assert (record["cause"], record["exit_code"]) == ("interrupted", 0)


def test_an_exit_long_before_a_notice_has_a_reason_of_its_own() -> None:
    assert notice.came_with_exit(100.0, 100.1)
    assert not notice.came_with_exit(100.0, 101.0)
    assert not notice.came_with_exit(None, 101.0)


def test_a_long_job_waits_for_a_notice_where_its_processes_are_signalled_too(
    start_agent: Callable[..., Agent],
) -> None:
    agent = start_agent(notice_grace=20.0, signals_jobs=True)
    job, _lease = agent.start("import threading\nthreading.Event().wait(0.6)")
    agent.client.event("exited")
    give_notice(agent)
    assert agent.end_of(job)["cause"] == "interrupted"


@pytest.mark.parametrize(
    ("awake", "exited", "status", "waits"),
    [(100.0, 100.1, 0, False), (100.0, 101.0, 0, True), (None, 101.0, 0, False), (100.0, 100.1, 15, True)],
)
def test_a_short_job_waits_for_a_notice_only_after_sigterm(
    awake: float | None, exited: float, status: int, *, waits: bool
) -> None:
    assert bool(notice.exit_pause(awake, exited, status)) is waits


def test_a_job_that_ignores_the_notice_is_killed_in_time_and_has_its_record(start: Callable[[float], Agent]) -> None:
    agent = start(3.0)
    job = begin(agent, "import os\nprint(os.getpid(), flush=True)\n" + STUBBORN)
    pid = int(agent.log(job).split()[0])
    began = time.monotonic()
    give_notice(agent)
    assert agent.end_of(job)["signal"] == signal.SIGKILL
    assert agent.wait() == 0
    assert time.monotonic() - began < 3.0
    assert not is_alive(pid)
    assert kept(agent, job)["cause"] == "interrupted"


def test_the_sender_of_a_notice_may_say_how_long_the_machine_stays(start: Callable[[float], Agent]) -> None:
    agent = start(600.0)
    job = begin(agent, STUBBORN)
    (agent.folder / host_layout.NOTICE).write_text('{"seconds": 3}')
    give_notice(agent)
    record = agent.end_of(job)
    assert "its notice came 3 s before" in record["errors"][0]
    assert agent.wait() == 0


@pytest.mark.parametrize("text", ["", "{", '{"seconds": "soon"}', "[]", None])
def test_a_file_that_says_nothing_leaves_the_configured_grace(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "notice.json").write_text(text)
    assert notice.announced_seconds(str(tmp_path / "notice.json"), 30.0) == 30.0


def test_a_limit_that_would_be_over_before_the_machine_is_the_cause(start: Callable[[float], Agent]) -> None:
    agent = start(20.0)
    job = begin(agent, FOREVER, max_run=19)
    give_notice(agent)
    assert agent.end_of(job)["cause"] == "max_runtime"


def test_a_job_that_was_told_to_stop_before_was_stopped(start: Callable[[float], Agent]) -> None:
    agent = start(3.0)
    job, lease = agent.start(STUBBORN)
    agent.wait_for_log(job, "on")
    agent.stop(job, lease, grace=60.0)
    give_notice(agent)
    assert agent.wait() == 0
    assert kept(agent, job)["cause"] == "stopped"


def test_a_noticed_host_takes_no_job_and_says_so(start: Callable[[float], Agent]) -> None:
    agent = start(20.0)
    job = begin(agent, SAVES)
    give_notice(agent)
    agent.end_of(job)
    answer = agent.client.ask("run", job="another", lease=9, spec=agent.spec("pass"))
    assert (answer["ok"], answer["code"]) == (False, "ServiceUnavailable")
    greeting = agent.client.ask("hello", protocol=1, epoch=1)
    assert (greeting["closed"], greeting["deadline"]) == (True, 0.0)


def test_a_host_without_a_controller_ends_with_its_job_so_that_its_results_can_be_copied(
    start: Callable[[float], Agent],
) -> None:
    agent = start(600.0)
    job = begin(agent, SAVES)
    agent.client.close()
    give_notice(agent)
    assert agent.wait() == 0
    assert kept(agent, job)["cause"] == "interrupted"


def test_a_host_whose_controller_leaves_after_its_job_ends_so_that_its_results_can_be_copied(
    start: Callable[[float], Agent],
) -> None:
    agent = start(600.0)
    job = begin(agent, SAVES)
    give_notice(agent)
    agent.end_of(job)
    assert agent.process.poll() is None, "the controller may read the results"
    agent.client.close()
    assert agent.wait() == 0
    assert kept(agent, job)["cause"] == "interrupted"


def test_an_idle_host_ends_at_once(start: Callable[[float], Agent]) -> None:
    agent = start(600.0)
    give_notice(agent)
    assert agent.wait() == 0


def test_a_second_notice_changes_nothing(start: Callable[[float], Agent]) -> None:
    agent = start(20.0)
    job = begin(agent, SAVES)
    give_notice(agent)
    give_notice(agent)
    assert agent.end_of(job)["exit_code"] == 0
    assert [event["event"] for event in agent.client.events].count("notice") <= 1


@pytest.mark.parametrize(("number", "grace"), [(signal.SIGUSR1, 60.0), (signal.SIGTERM, 0.0)])
def test_a_release_ends_a_host_at_once(start: Callable[[float], Agent], number: int, grace: float) -> None:
    """SIGUSR1 always does; SIGTERM where its engine gives no grace, as the local one."""
    agent = start(grace)
    job = begin(agent, STUBBORN)
    began = time.monotonic()
    agent.process.send_signal(number)
    assert agent.wait() == 0
    assert time.monotonic() - began < 10.0
    assert kept(agent, job)["cause"] == "stopped"


@given(st.floats(0.5, 1e5))
def test_a_job_has_most_of_the_grace_and_two_minutes_at_most(grace: float) -> None:
    assert 0.69 * grace <= notice.job_seconds(grace) <= 120.0 or notice.job_seconds(grace) == 120.0
    assert notice.job_seconds(grace) < notice.host_seconds(grace) < grace
