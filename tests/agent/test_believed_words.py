"""What a real agent says, as the controller hears it: all of it is believed, and nothing becomes anything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from far_side import FOREVER

from jupyter_smx.policy.hosts import agent_messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from far_side import Agent

ENDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "a model and variables": (
        "artifacts",
        "import os, json\nopen(os.environ['SM_MODEL_DIR'] + '/m', 'w').write('m')\nbest = 1.5",
        {"receive": ["best", "missing"]},
    ),
    "an exception": ("exception", "def f():\n    raise ValueError('no')\nf()", {}),
    "a signal": ("signal", "import os\nos.kill(os.getpid(), 9)", {}),
    "a refusal": ("errors", "pass", {"channels": [{"name": "train", "source": "/no/such/file", "mode": "File"}]}),
    "leavings": ("left_behind", "import subprocess\nsubprocess.Popen(['sleep', '60'])", {}),
    "words of a processing job": (
        "message",
        "open('../output/message', 'w').write('done')",
        {"kind": "process", "outputs": [{"name": "out", "path": "out"}]},
    ),
}
GREETED = {"python", "version", "isolation", "preload", "deadline", "jobs", "machine", "limits", "host", "pid"}


@pytest.mark.parametrize("end", ENDS)
def test_the_record_of_a_real_end_is_believed_as_it_is(agent: Agent, end: str) -> None:
    speaks_of, source, fields = ENDS[end]
    job, _lease = agent.start(source, **fields)
    record = agent.end_of(job)
    assert record[speaks_of]
    assert agent_messages.parse_record(record) == record
    assert [agent_messages.parse_event(event) for event in agent.client.events] == agent.client.events


def test_a_greeting_is_believed_as_it_is(start_agent: Callable[..., Agent], wait_until: Callable[..., Any]) -> None:
    host = start_agent(preload=["json", "no_such_module"])
    record = host.run("print('x')")
    assert record["exit_code"] == 0
    job, lease = host.start(FOREVER)
    host.wait_for_log(job, "on")
    greetings = [host.greeting, host.client.ask("hello", protocol=1, epoch=1)]
    host.stop(job, lease)
    host.end_of(job)
    last = lambda: host.client.ask("hello", protocol=1, epoch=1)  # noqa: E731
    wait_until(lambda: not last()["preload"]["pending"], "what can be imported is known")
    greetings.append(last())
    new, working, over = greetings
    assert set(new) >= GREETED
    assert {name: facts["phase"] for name, facts in working["jobs"].items()}[job] == "running"
    assert {facts["phase"] for facts in over["jobs"].values()} == {"ended"}
    assert (over["preload"]["loaded"], [*over["preload"]["failed"]]) == (["json"], ["no_such_module"])
    assert [agent_messages.parse_hello(greeting) for greeting in greetings] == greetings


def test_half_a_character_in_an_exception_can_be_written_down_and_ends_no_host(agent: Agent) -> None:
    """Names of files that are no UTF-8 have such halves, and come into the words of exceptions."""
    record = agent.run("raise ValueError('half \\ud800')")
    assert (record["cause"], record["exception"]["line"]) == ("exit", 1), record
    assert agent_messages.parse_record(record)["failure"] == "ValueError: half \\ud800"
    agent.serves()
