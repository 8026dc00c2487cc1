"""Arrays with the real controller, agent and local engine: values, exceptions, shared pools, grids."""

from __future__ import annotations

from typing import Any

import pytest

import jupyter_smx as smx
from jupyter_smx.kernel.api import session


@pytest.fixture
def here(shared_notebook: Any) -> None:
    """Work in an empty folder, without the notebook; no test here ends the controller."""
    del shared_notebook
    session.close_session()
    session.open_session(None)


def share(total: int, part: int) -> float:
    return total / part


@pytest.mark.usefixtures("here")
def test_values_come_back_in_order_and_an_exception_is_that_of_its_task(eventually_blocking: Any) -> None:
    array = smx.map(share, [12, 6, 1, 9], [3, 2, 0, 9], max_concurrent=1)
    values = array.results(100, return_exceptions=True)
    assert values[:2] == [4.0, 3.0]
    assert values[3] == 1.0
    assert isinstance(values[2], ZeroDivisionError)
    assert "Task 2 of 4, share(1, 0): " in str(values[2].__cause__)
    starts = [job.record.why.start for job in array if job.record.why]
    assert starts == ["cold", "warm", "warm", "warm"], "one host handed over from task to task"
    eventually_blocking(lambda: not smx.pools(), "the end of the last pool")


@pytest.mark.usefixtures("here")
def test_a_grid_runs_every_point_with_its_own_hyperparameters() -> None:
    code = "import os\ngot = os.environ['SM_HP_LR'] + '/' + os.environ['SM_HP_N']"
    array = smx.train(code, hyperparameters={"lr": [0.1, 0.2], "n": 3}, sweep=True, receive=["got"])
    assert isinstance(array, smx.JobArray)
    assert [found.got for found in array.results(100)] == ["0.1/3", "0.2/3"]
    assert [(row["lr"], row["status"]) for row in array.table()] == [(0.1, "Completed"), (0.2, "Completed")]
    assert all(row["seconds"] > 0 for row in array.table())
