"""A line for each task that ended, in a cell or a terminal, and which records are read for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import jupyter_smx as smx
from jupyter_smx.cli.main import main
from jupyter_smx.kernel.failures.exceptions import JobFailed
from jupyter_smx.model.records.job import HostEnd
from jupyter_smx.model.spec.array import task_id
from jupyter_smx.model.status import SecondaryStatus

if TYPE_CHECKING:
    from pathlib import Path

    from scripted_controller import ScriptedController

    from jupyter_smx.model.records.job import Job


def ends_at_once(fake: ScriptedController, job: Job) -> None:
    """Let tasks with a hyperparameter that is not 0 fail with it as their exit code."""
    code = int(job.spec.hyperparameters["code"])
    if code:
        end = HostEnd(host="algo-1", cause="exit", exit_code=code)
        fake.end(job.id, SecondaryStatus.FAILED, hosts=(end,), failure_reason=f"AlgorithmError: exit code {code}")
    else:
        fake.end(job.id)


def records(controller: ScriptedController) -> list[str]:
    return [each for each in controller.requests if each.startswith("GET /v1/jobs/")]


@pytest.mark.usefixtures("shell")
def test_a_cell_that_waits_for_a_sweep_reads_no_record_of_a_task_that_completed(
    controller: ScriptedController, capsys: pytest.CaptureFixture[str]
) -> None:
    controller.on_submit = ends_at_once
    array = smx.train("pass", hyperparameters={"code": [0] * 20}, sweep=True, name="grid", wait=True)
    lines = [line for line in capsys.readouterr().out.splitlines() if "Completed" in line]
    assert lines == [f"{array.name}-{index}: Completed. 20 of 20 done" for index in range(20)]
    assert records(controller) == []


@pytest.mark.usefixtures("shell")
def test_a_cell_that_waits_for_a_sweep_raises_the_first_failure(
    controller: ScriptedController, capsys: pytest.CaptureFixture[str]
) -> None:
    controller.on_submit = ends_at_once
    with pytest.raises(JobFailed, match=r"^Task 1 of 4, code=3: .*exit code 3"):
        smx.train("pass", hyperparameters={"code": [0, 3, 0, 5]}, sweep=True, name="grid", wait=True)
    (array,) = controller.arrays
    assert records(controller) == [f"GET /v1/jobs/{task_id(array, 1)}"]
    assert "-3: Failed. 2 of 4 done, 2 failed" in capsys.readouterr().out


@pytest.mark.parametrize(("words", "read"), [((), (0, 1, 2, 3)), (("--json",), (1,))], ids=["lines", "document"])
def test_a_terminal_reads_the_record_of_each_task_and_a_program_that_of_the_first_that_did_not_complete(
    controller: ScriptedController,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    read: tuple[int, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    controller.on_submit = ends_at_once
    (tmp_path / "grid.py").write_text("pass\n")
    assert main(["run", "grid.py", "--hp", "code=[0,7,0,5]", "--sweep", *words]) == 7
    (array,) = controller.arrays
    assert records(controller) == [f"GET /v1/jobs/{task_id(array, number)}" for number in read]
    said = capsys.readouterr()
    lines = said.err if words else said.out
    assert lines.splitlines()[-1].endswith("-3: Failed. 2 of 4 done, 2 failed")
