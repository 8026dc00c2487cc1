"""An agent keeps nothing of a job that was forgotten: what lives in it is counted by type, which RSS cannot tell."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from far_side import Agent

SETTLED, LATER = 100, 300
SLACK = 20
"""Objects of one type more or fewer that a moment makes; one for each job would be ten times as many."""
STANDING = 6
"""Timers of a host at rest. Those of a job that has just ended wait out their second or two, and hold the job."""
PATIENCE = 30.0
"""Seconds."""

# The agent itself, whose greeting also says how many objects of each type live in it.
COUNTED = """
import collections, gc, sys
from jupyter_smx.agent import serve
from jupyter_smx.agent.host import host
describe = host.describe
def counted(one):
    one.loop.purge_timers()
    gc.collect()
    kinds = collections.Counter(type(each).__qualname__ for each in gc.get_objects())
    sizes = {name: len(each) for name, each in vars(one).items() if hasattr(each, "__len__")}
    sizes.update({"loop." + name: len(each) for name, each in vars(one.loop).items() if hasattr(each, "__len__")})
    held = {"pool." + name: each for name, each in vars(one.fork_server).items()}
    sizes.update({name: len(each) for name, each in held.items() if hasattr(each, "__len__")})
    return dict(describe(one), kinds=dict(kinds), sizes=sizes, blocks=sys.getallocatedblocks())
host.describe = counted
sys.exit(serve.main(sys.argv[2:]))
"""


def census(agent: Agent) -> dict[str, Any]:
    """Greet anew, which the agent answers with its counts, until the host has come to rest."""
    until = time.monotonic() + PATIENCE
    while True:
        agent.client.close()
        agent.client = agent.connect()
        greeting: dict[str, Any] = agent.client.ask("hello", protocol=1, epoch=1)
        if greeting["sizes"]["loop._timers"] <= STANDING or time.monotonic() > until:
            return greeting


@pytest.mark.timeout(300)  # many jobs, where others use the machine too
def test_bug_19_what_lives_in_an_agent_does_not_grow_with_the_jobs_that_it_has_run(
    start_agent: Callable[..., Agent],
) -> None:
    agent = start_agent(options={"program": (sys.executable, "-c", COUNTED)})
    counts = {}
    for number in range(1, LATER + 1):
        job, _lease = agent.start("print('x')")
        agent.end_of(job)
        assert agent.client.ask("forget", job=job)["ok"]
        agent.client.events.clear()
        if number in (SETTLED, LATER):
            counts[number] = census(agent)
    before, after = counts[SETTLED], counts[LATER]
    kinds = before["kinds"].keys() | after["kinds"].keys()
    grown = {kind: after["kinds"].get(kind, 0) - before["kinds"].get(kind, 0) for kind in kinds}
    assert {kind: more for kind, more in grown.items() if more > SLACK} == {}
    larger = {name: size - before["sizes"][name] for name, size in after["sizes"].items() if name in before["sizes"]}
    assert {name: more for name, more in larger.items() if more > SLACK} == {}
    assert after["blocks"] - before["blocks"] < LATER - SETTLED, "memory blocks; less than one for each job"
