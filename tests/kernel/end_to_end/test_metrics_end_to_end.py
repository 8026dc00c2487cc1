"""Progress and metrics from a job's own prints to the notebook, the lists and the records, with real processes."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

import jupyter_smx as smx
from jupyter_smx import cli, controller_launch
from jupyter_smx.kernel.api import session
from jupyter_smx.kernel.text.pages import jobs_page

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_smx.model.records.job import JobSummary

STEPS = """
import os, sys, time
for number in range(1, 7):
    print(f"epoch {number}/6  loss={1 / number:.4f}", flush=True)
    print(f"my score is {number * 10};", file=sys.stderr, flush=True)
    while not os.path.exists(os.path.join(folder, f"go-{number}")):
        time.sleep(0.01)
"""
"""Prints one epoch each time that it is let."""


@pytest.fixture
def shared(shared_notebook: Any, tmp_path: Path) -> Path:
    """Give the working folder of a test that does not end the controller; one serves them all."""
    del shared_notebook  # it works in the same folder
    return tmp_path


@pytest.fixture
def shows(eventually_blocking: Any) -> Callable[[str], JobSummary]:
    """Wait until the newest job's row says how far it is."""

    def wait(text: str) -> JobSummary:
        def row() -> JobSummary | None:
            (newest,) = session.current_session().client.jobs(1)
            return newest if newest.progress is not None and newest.progress.text == text else None

        found: JobSummary = eventually_blocking(row, text, within=30.0)
        return found

    return wait


def test_a_job_shows_how_far_it_is_while_it_runs_and_what_it_measured_for_ever(
    shared: Path, shows: Callable[[str], JobSummary], capsys: pytest.CaptureFixture[str]
) -> None:
    job = smx.train(STEPS, send={"folder": str(shared)}, metrics={"score": r"my score is (\d+);"}, keep_alive="1m")
    row = shows("epoch 1/6")
    assert row.progress is not None
    assert row.progress.fraction == 0.1667
    (shared / "go-1").touch()
    row = shows("epoch 2/6")
    assert job.metrics["loss"] == 0.5
    assert job.progress is not None
    assert "epoch 2/6, 33 %" in jobs_page([row], row.created_at + 1)[0]
    for number in range(2, 7):
        (shared / f"go-{number}").touch()
    job.wait(30)
    assert dict(job.metrics) == {"loss": 0.1667, "score": 60.0}
    assert [point.value for point in job.metrics.history("score")] == [10, 20, 30, 40, 50, 60]
    assert [point.step for point in job.metrics.history("loss")] == [1, 2, 3, 4, 5, 6]
    assert {value.name: value.value for value in job.record.metrics} == {"loss": 0.1667, "score": 60.0}
    assert cli.main(["jobs"]) == 0
    assert "loss 0.1667, score 60" in capsys.readouterr().out
    assert cli.main(["jobs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"][0]["metrics"] == {"loss": 0.1667, "score": 60.0}


def test_a_controller_that_is_killed_leaves_metrics_that_the_next_one_goes_on_with(
    real: Path, shows: Callable[[str], JobSummary], eventually_blocking: Any
) -> None:
    job = smx.train(STEPS, send={"folder": str(real)}, keep_alive="1m")
    for number in range(1, 3):
        shows(f"epoch {number}/6")
        (real / f"go-{number}").touch()
    shows("epoch 3/6")
    pid = session.current_session().client.controller_info().pid
    os.kill(pid, signal.SIGKILL)
    eventually_blocking(lambda: not controller_launch.is_listening(), "the death of the controller")
    for number in range(3, 5):
        (real / f"go-{number}").touch()
    shows("epoch 5/6")
    assert session.current_session().client.controller_info().pid != pid
    for number in range(5, 7):
        (real / f"go-{number}").touch()
    job.wait(30)
    values = [0.3333 if number == 3 else round(1 / number, 4) for number in range(1, 7)]
    assert [point.value for point in job.metrics.history("loss")] == values


@pytest.mark.usefixtures("shared")
def test_the_second_run_of_the_same_code_says_how_long_it_will_take(tmp_path: Path, eventually_blocking: Any) -> None:
    code = f"import time\ntime.sleep(3)\n# {tmp_path}"  # its own: an earlier run of the test counts, too
    smx.train("pass", keep_alive="1m").wait(30)
    first = smx.train(code, keep_alive="1m")
    client = session.current_session().client

    def expectation(job_id: str) -> Any:
        return next(row.expectation for row in client.jobs(10) if row.id == job_id)

    first.wait(30)
    again = smx.train(code, keep_alive="1m")
    found = eventually_blocking(lambda: expectation(again.id), "the expected end")
    assert (found.basis, found.runs) == ("history", 1)
    assert 2.9 < found.seconds < 30
