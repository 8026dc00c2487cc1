"""Packages that a test writes, and an agent that has imported them for its jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from far_side import Agent


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Give a folder of installed packages."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    return folder


@pytest.fixture
def preload(start_agent: Callable[..., Agent], site: Path) -> Callable[..., tuple[Agent, dict[str, Any]]]:
    """Start an agent and give it with the news of its preloads."""

    def start(*names: str, **changes: Any) -> tuple[Agent, dict[str, Any]]:
        agent = start_agent(preload=list(names), environment={"PYTHONPATH": str(site)}, **changes)
        told = agent.greeting["preload"]
        return agent, agent.client.event("preload") if told["pending"] else told

    return start
