"""A stop reaches everything that a job started, politely first: each of its processes once, wherever it hides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from far_side import STUBBORN

if TYPE_CHECKING:
    from far_side import Agent


@pytest.fixture
def agent(shared_agent: Agent) -> Agent:
    """Give the agent of the module."""
    return shared_agent


FAMILY = """
import os, signal, subprocess, sys, time

CHILD = '''
import os, signal, sys
name = sys.argv[1]
def heard(*_):
    os.write(1, (name + " heard it" + chr(10)).encode())
    sys.exit(0)
signal.signal(signal.SIGTERM, heard)
os.write(1, (name + " is on" + chr(10)).encode())
while True: signal.pause()
'''

def start(name, **options):
    return subprocess.Popen([sys.executable, "-c", CHILD, name], **options)

def heard(*_):
    for child in children: child.wait()
    # What is left when the script ends is killed at once, so it waits for the one that is not its child, too.
    while os.path.exists(f"/proc/{orphan}"): time.sleep(0.01)
    os.write(1, ("script heard it" + chr(10)).encode())
    sys.exit(0)

NESTED = "import subprocess, sys; command = [sys.executable, '-c', sys.argv[1], 'orphan']; "
NESTED += "print(subprocess.Popen(command, start_new_session=True, stdout=sys.stderr).pid)"
signal.signal(signal.SIGTERM, heard)
children = [start("child"), start("session", start_new_session=True)]
orphan = int(subprocess.run([sys.executable, "-c", NESTED, CHILD], check=True, stdout=subprocess.PIPE).stdout)
print("script is on", flush=True)
while True: signal.pause()
"""
NAMES = ("child", "session", "orphan")


@pytest.mark.parametrize("cause", ["stopped", "interrupted", "max_wait", "max_runtime"])
def test_everything_that_a_job_started_hears_the_polite_signal_once(agent: Agent, cause: str) -> None:
    limit = {"max_run": 3, "grace": 20} if cause == "max_runtime" else {}
    job, lease = agent.start(FAMILY, **limit)
    for name in (*NAMES, "script"):
        agent.wait_for_log(job, f"{name} is on")
    if cause != "max_runtime":
        agent.stop(job, lease, grace=20.0, cause=cause)
    record = agent.end_of(job)
    said = sorted(line for line in agent.log(job).splitlines() if "heard" in line)
    assert said == sorted(f"{name} heard it" for name in (*NAMES, "script"))
    assert (record["cause"], record["exit_code"], record["left_behind"]) == (cause, 0, [])
    agent.serves()


def test_without_a_grace_nobody_is_waited_for(agent: Agent) -> None:
    job, lease = agent.start(STUBBORN)
    agent.wait_for_log(job, "on")
    agent.stop(job, lease, grace=0.0, cause="interrupted")
    record = agent.end_of(job)
    assert (record["cause"], record["signal"]) == ("interrupted", 9)


COUNTS = """
import os, signal
def heard(*_):
    os.write(1, b"heard it\\n")
signal.signal(signal.SIGTERM, heard)
os.write(1, b"on\\n")
while True: signal.pause()
"""


def test_who_asks_again_neither_signals_again_nor_begins_the_grace_anew(agent: Agent) -> None:
    # As a controller does that lost its stream: it cannot know whether the first request was heard.
    job, lease = agent.start(COUNTS)
    agent.wait_for_log(job, "on")
    agent.stop(job, lease, grace=1.0)
    agent.wait_for_log(job, "heard it")
    agent.stop(job, lease, grace=600.0, cause="max_wait")
    record = agent.end_of(job)
    assert agent.log(job).splitlines() == ["on", "heard it"]
    assert (record["cause"], record["signal"]) == ("stopped", 9)


def test_who_asks_again_may_shorten_the_grace(agent: Agent) -> None:
    job, lease = agent.start(COUNTS)
    agent.wait_for_log(job, "on")
    agent.stop(job, lease, grace=600.0)
    agent.wait_for_log(job, "heard it")
    agent.stop(job, lease, grace=0.1)
    record = agent.end_of(job)
    assert agent.log(job).splitlines() == ["on", "heard it"]
    assert (record["cause"], record["signal"]) == ("stopped", 9)
