"""Real PyTorch in a warm host: ranks of torchrun, and the jobs before and after them, keep their preloads."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

sys.path.insert(0, os.fspath(Path(__file__).parents[2] / "faults"))

from pytorch import interpreter

if TYPE_CHECKING:
    from collections.abc import Callable

    from far_side import Agent

pytestmark = [pytest.mark.heavy("torch"), pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[3]
ASK = "import sys\nprint('preloaded', 'torch' in sys.modules, 'numpy' in sys.modules, flush=True)\n"
RANKS = {"runner": "torchrun", "processes": 2, "groups": []}


def preloads(record: dict[str, Any]) -> set[str]:
    """Give what each process of a job said of its preloads."""
    assert (record["exit_code"], record["missing_preloads"]) == (0, {"modules": [], "reasons": []}), record
    return {line for line in record["text"].splitlines() if line.startswith("preloaded")}


def test_torch_stays_preloaded_in_plain_jobs_with_other_variables_and_in_ranks(
    start_agent: Callable[..., Agent],
) -> None:
    program = (interpreter(), "-m", "jupyter_smx.agent")
    agent = start_agent(options={"program": program}, environment={"PYTHONPATH": os.fspath(ROOT)})
    agent.client.ask("preload", modules=["torch", "numpy"])
    assert agent.client.event("preload")["loaded"] == ["torch", "numpy"]
    jobs: list[dict[str, Any]] = [
        {},
        {"environment": {"A": "1", "B": "2", "C": "3"}},
        {"distribution": RANKS},
        {"hyperparameters": {"epochs": "1"}},
        {"distribution": RANKS, "hyperparameters": {"epochs": "1"}},
        {},
    ]
    assert [preloads(agent.run(ASK, **job)) for job in jobs] == [{"preloaded True True"}] * len(jobs)
