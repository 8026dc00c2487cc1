"""What a job sees of GPUs: those that it was given, by the names that its host has for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.system.processes.environment import GPU_VARIABLES, visibility_variables

if TYPE_CHECKING:
    from collections.abc import Callable

    from far_side import Agent

SAYS = f"import json, os; print(json.dumps([os.environ.get(name) for name in {GPU_VARIABLES!r}]))"


@pytest.mark.parametrize(
    ("gpus", "here", "seen"),
    [
        ([0], "", "0"),
        ([1, 3], "", "1,3"),
        ([0, 1], "2,3", "2,3"),
        ([0, 1], "0,1", "0,1"),
        ([1], "2,3", "3"),
        ([1], " GPU-8f2 , GPU-77a ", "GPU-77a"),
        ([2], "5", "2"),
    ],
)
def test_numbers_are_those_that_the_host_sees(gpus: list[int], here: str, seen: str) -> None:
    assert visibility_variables(gpus, {"CUDA_VISIBLE_DEVICES": here}) == {
        "CUDA_VISIBLE_DEVICES": seen,
        "HIP_VISIBLE_DEVICES": ",".join(map(str, gpus)),
    }


def test_a_job_that_was_given_none_is_told_nothing() -> None:
    assert visibility_variables([], {"CUDA_VISIBLE_DEVICES": "1"}) == {}


def test_a_job_sees_its_own_and_the_next_one_what_it_is_given(start_agent: Callable[..., Agent]) -> None:
    agent = start_agent(environment={"CUDA_VISIBLE_DEVICES": "4,6"})
    assert agent.json(SAYS, gpus=[1]) == ["6", "1"]
    assert agent.json(SAYS, gpus=[0]) == ["4", "0"]
    assert agent.json(SAYS) == ["4,6", None]
    assert agent.json(SAYS, gpus=[0], environment={"CUDA_VISIBLE_DEVICES": "7"}) == ["7", "0"]
