"""Sizes of memory: the agent, whose archive has no model, and the model write them alike."""

from __future__ import annotations

import pytest

from jupyter_smx.agent.system.resources import memory
from jupyter_smx.model import text


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (3 << 28, "768.0 MiB"),
        (1 << 33, "8.0 GiB"),
        (1 << 70, "1048576.0 PiB"),
    ],
)
def test_agent_and_model_write_a_size_of_memory_alike(count: int, words: str) -> None:
    assert text.format_size(count) == memory.format_size(count) == words
