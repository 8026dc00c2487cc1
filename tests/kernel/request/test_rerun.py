from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

import jupyter_smx as smx
from jupyter_smx.kernel.api import session
from jupyter_smx.model.errors import ResourceNotFoundError
from jupyter_smx.model.status import SecondaryStatus

if TYPE_CHECKING:
    from conftest import Screenshots
    from IPython.core.interactiveshell import InteractiveShell
    from scripted_controller import ScriptedController


@pytest.fixture
def job(shell: InteractiveShell, front_end: Screenshots, controller: ScriptedController) -> Any:
    shell.user_ns["cfg"] = {"a": 1}
    assert shell.run_cell("%%train --as job --name digits -k 5m --hp lr=0.1 --send cfg --receive x\nx = cfg").success
    front_end.shown.clear()
    (record,) = controller.jobs.values()
    controller.end(record.id)
    return record


@pytest.mark.parametrize("words", ["job", "digits", ""])
def test_a_job_runs_again_with_the_same_wish_under_a_new_id(
    shell: InteractiveShell, front_end: Screenshots, controller: ScriptedController, job: Any, words: str
) -> None:
    assert shell.run_cell(f"%smx rerun {words}").success
    first, second = controller.jobs.values()
    assert first.id == job.id != second.id
    assert replace(second.spec, submitted_at=0) == replace(first.spec, submitted_at=0)
    assert second.spec.submitted_at > first.spec.submitted_at
    assert second.id in [card["id"] for card in front_end.cards()]
    assert session.current_session().latest_handle.id == second.id


def test_a_rerun_with_nobody_there_waits_and_fails_its_cell(
    shell: InteractiveShell, controller: ScriptedController
) -> None:
    controller.on_submit = lambda fake, job: (fake.write(job.id, "hi\n"), fake.end(job.id, SecondaryStatus.COMPLETED))
    assert shell.run_cell("%%train --name digits\npass").success
    controller.on_submit = lambda fake, job: fake.end(job.id, SecondaryStatus.FAILED, failure_reason="AlgorithmError")
    done = shell.run_cell("%smx rerun digits")
    assert isinstance(done.error_in_exec, smx.JobFailed)


def test_without_magic_the_new_handle_comes_back(controller: ScriptedController, job: Any) -> None:
    again = smx.rerun("digits")
    assert again.id != job.id
    assert list(controller.jobs) == [job.id, again.id]


def test_a_job_whose_variables_are_gone_is_not_run(controller: ScriptedController, job: Any) -> None:
    Path(job.spec.send.path).unlink()
    with pytest.raises(ResourceNotFoundError, match=r"its sent variables were deleted.*Run its cell again"):
        smx.rerun(job.id)
    assert len(controller.jobs) == 1


@pytest.fixture
def grid(shell: InteractiveShell, front_end: Screenshots, controller: ScriptedController) -> Any:
    shell.user_ns["cfg"] = {"a": 1}
    line = "--as grid --name tree --sweep --max-concurrent 2 --hp lr=[1,2] --hp depth=[3,4] --hp epochs=5 --send cfg"
    assert shell.run_cell(f"%%train {line}\nx = cfg").success
    front_end.shown.clear()
    return next(iter(controller.arrays.values()))


def tasks_of(controller: ScriptedController, array: Any) -> list[Any]:
    return [job for job in controller.jobs.values() if job.spec.array and job.spec.array.id == array.id]


@pytest.mark.parametrize("word", ["grid", "tree", "NAME", "ID", ""])
def test_an_array_runs_again_as_a_whole(
    shell: InteractiveShell, front_end: Screenshots, controller: ScriptedController, grid: Any, word: str
) -> None:
    word = {"NAME": grid.name, "ID": grid.id}.get(word, word)
    assert shell.run_cell(f"%smx rerun {word}").success
    first, second = controller.arrays.values()
    assert (second.title, second.max_concurrent, second.size) == (first.title, 2, 4)
    assert first.id != second.id
    for old, new in zip(tasks_of(controller, first), tasks_of(controller, second), strict=True):
        assert old.spec.array.label == new.spec.array.label
        assert replace(new.spec, submitted_at=0, array=None) == replace(old.spec, submitted_at=0, array=None)
    assert session.current_session().latest_handle.id == second.id
    assert front_end.shown


@pytest.mark.usefixtures("front_end")
def test_a_task_runs_again_alone(shell: InteractiveShell, controller: ScriptedController, grid: Any) -> None:
    task = tasks_of(controller, grid)[1]
    assert shell.run_cell(f"%smx rerun {task.name}").success
    assert len(controller.arrays) == 1
    again = [*controller.jobs.values()][-1]
    assert again.spec.array is None
    assert again.spec.hyperparameters == task.spec.hyperparameters


def test_so_it_is_in_python_by_names_and_handles(controller: ScriptedController, grid: Any, shell: Any) -> None:
    task = tasks_of(controller, grid)[0]
    for ref in ("tree", shell.user_ns["grid"]):
        again = smx.rerun(ref)
        assert isinstance(again, smx.JobArray)
        assert len(again) == 4
    for one in (task.name, smx.job(task.id)):
        assert isinstance(smx.rerun(one), smx.Job)
    assert len(controller.arrays) == 3


def test_an_array_that_lost_tasks_does_not_run_again(controller: ScriptedController, grid: Any) -> None:
    del controller.jobs[tasks_of(controller, grid)[0].id]
    with pytest.raises(ResourceNotFoundError, match=rf"{grid.name} cannot run again: 1 of its 4 tasks were deleted\."):
        smx.rerun(grid.name)
    assert len(controller.arrays) == 1


@pytest.mark.usefixtures("grid")
def test_an_array_whose_variables_are_gone_is_not_run(controller: ScriptedController) -> None:
    for path in {job.spec.send.path for job in controller.jobs.values()}:
        Path(path).unlink()
    with pytest.raises(ResourceNotFoundError, match="its sent variables were deleted"):
        smx.rerun("tree")
    assert len(controller.arrays) == 1
