"""What preloads cost and how they are bounded: measured in the trial, the largest left out, told with the greeting."""

from __future__ import annotations

import mmap
import sys
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.forkserver import fork_safety

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from far_side import Agent

MIB = 1 << 20
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="private memory is told by Linux only")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    for name, size in {"small": 2, "medium": 20, "large": 40}.items():
        (folder / f"{name}.py").write_text(f"content = b'x' * ({size} << 20)\n")
    return folder


@pytest.fixture
def budgeted(start_agent: Callable[..., Agent], site: Path) -> Callable[..., Any]:
    """Ask a host with so many MiB for modules, and give the news and the host."""

    def ask(budget: int, *names: str) -> Any:
        agent = start_agent(environment={"PYTHONPATH": str(site)}, preload_memory=budget)
        agent.client.ask("preload", modules=list(names))
        return agent.client.event("preload"), agent

    return ask


@LINUX
def test_costs_of_each_preload_are_measured_and_told(budgeted: Callable[..., Any], site: Path) -> None:
    (site / "slow.py").write_text(
        "import time, small\nend = time.perf_counter() + 0.2\nwhile time.perf_counter() < end: pass"
    )
    news, agent = budgeted(0, "small", "slow", "large")
    costs = news["costs"]
    assert set(costs) == {"small", "slow", "large"}
    assert 2 * MIB <= costs["small"]["bytes"] < 4 * MIB
    assert 40 * MIB <= costs["large"]["bytes"] < 44 * MIB
    assert 0.2 <= costs["slow"]["seconds"] < 5
    assert costs["slow"]["needs"] == ["small"]
    assert costs["small"]["needs"] == costs["large"]["needs"] == []
    assert agent.client.ask("hello", protocol=1, epoch=1)["preload"]["costs"] == costs


@LINUX
def test_what_does_not_fit_is_left_out_the_largest_first_and_named(budgeted: Callable[..., Any]) -> None:
    news, agent = budgeted(32, "large", "small", "medium")
    assert news["loaded"] == ["small", "medium"]
    assert news["failed"]["large"].endswith("MiB of the 32 MiB that all preloads may take here")
    assert agent.run("import sys; print('large' in sys.modules, 'medium' in sys.modules)")["text"] == "False True\n"
    assert agent.run("import large; print(len(large.content))")["text"] == f"{40 * MIB}\n"


@LINUX
def test_the_budget_is_for_all_preloads_together_also_those_of_earlier_trials(budgeted: Callable[..., Any]) -> None:
    news, agent = budgeted(50, "medium", "small")
    assert news["loaded"] == ["medium", "small"]
    agent.client.ask("preload", modules=["large"])
    later = agent.client.event("preload")
    assert (later["loaded"], list(later["failed"])) == (["medium", "small"], ["large"])


@LINUX
def test_no_budget_is_no_limit(budgeted: Callable[..., Any]) -> None:
    assert budgeted(0, "large", "medium")[0]["loaded"] == ["large", "medium"]


@LINUX
def test_the_measure_counts_what_a_process_has_for_itself() -> None:
    # Pages that the system maps anew: an ordinary object may lie in memory that malloc kept from an earlier test.
    with mmap.mmap(-1, 30 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as held:
        before = fork_safety.private_memory()
        for page in range(0, len(held), mmap.PAGESIZE):
            held[page] = 1
        grown = fork_safety.private_memory() - before
        assert len(held) <= grown < len(held) + 8 * MIB
    assert fork_safety.private_memory("0") == 0
