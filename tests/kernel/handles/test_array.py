"""``JobArray`` over a scripted controller: results in order, tasks as they end, failures with their task's name."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import jupyter_smx as smx
from jupyter_smx import controller_launch
from jupyter_smx.kernel.client.client import Client
from jupyter_smx.kernel.failures.exceptions import JobFailed, JobStopped
from jupyter_smx.kernel.handles import job_array as array_module
from jupyter_smx.kernel.handles.job_array import JobArray
from jupyter_smx.kernel.request import payload
from jupyter_smx.model.errors import ResourceNotFoundError, ValidationError
from jupyter_smx.model.records.job import HostEnd, RemoteException
from jupyter_smx.model.spec.array import TaskOverrides, task_id
from jupyter_smx.model.spec.channel import Artifact
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Screenshots
    from IPython.core.interactiveshell import InteractiveShell
    from scripted_controller import ScriptedController

MANY = 1_000
ENOUGH = 5.0
"""Seconds for a thousand items, on whatever machine."""


def double(number: int, plus: int = 0) -> int:
    return 2 * number + plus


def result(folder: Path, **brought: Any) -> tuple[Artifact, ...]:
    return (Artifact(name="result.pkl", path=payload.pack(brought, folder).path, size=1),)


def complete(controller: ScriptedController, folder: Path, array: Any, index: int, value: Any) -> None:
    job = task_id(array.id, index)
    controller.run(job)
    controller.end(job, artifacts=result(folder, value=value, raised=None))


def fail(controller: ScriptedController, folder: Path, array: Any, index: int, error: Exception) -> None:
    job = task_id(array.id, index)
    told = RemoteException(type=type(error).__name__, message=str(error), traceback="Traceback: …", line=3)
    end = HostEnd(host="algo-1", cause="exit", exit_code=1, exception=told)
    brought = result(folder, raised=error)
    controller.run(job)
    controller.end(job, SecondaryStatus.FAILED, hosts=(end,), artifacts=brought, failure_reason="AlgorithmError: x")


@pytest.mark.usefixtures("shell")
def test_results_come_in_the_order_of_the_items_whatever_ends_first(
    controller: ScriptedController, tmp_path: Path
) -> None:
    array = smx.map(double, [1, 2, 3])
    for index in (2, 0, 1):
        complete(controller, tmp_path, array, index, 2 * (index + 1))
    assert array.results(20) == [2, 4, 6]
    assert array.status == {"pending": 0, "running": 0, "completed": 3, "failed": 0, "stopped": 0}
    assert [job.record.spec.array.index for job in (array[1], *array[::-2])] == [1, 2, 0]
    assert [job.id for job in array] == [task_id(array.id, index) for index in range(3)]


@pytest.mark.usefixtures("shell")
def test_results_keep_their_order_while_somebody_waits_for_them(controller: ScriptedController, tmp_path: Path) -> None:
    array = smx.map(double, [1, 2, 3])
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.extend(array.results(20)))
    waiting.start()
    for ended, index in enumerate((2, 0, 1)):
        asked = f"ended={ended}"
        assert controller.wait_for(lambda asked=asked: any(asked in target for target in controller.targets), 20)
        complete(controller, tmp_path, array, index, index)
    waiting.join(20)
    assert found == [0, 1, 2]


@pytest.mark.usefixtures("shell")
def test_tasks_are_given_as_they_end(controller: ScriptedController, tmp_path: Path) -> None:
    array = smx.map(double, [1, 2, 3])
    seen = array.as_completed(20)
    for index in (1, 2, 0):
        complete(controller, tmp_path, array, index, index)
        assert next(seen).id == task_id(array.id, index)
    assert list(seen) == []


@pytest.mark.usefixtures("shell")
def test_what_a_task_raised_is_raised_with_its_index_and_arguments(
    controller: ScriptedController, tmp_path: Path
) -> None:
    array = smx.map(double, [1, "x" * 500], [5, 6])
    complete(controller, tmp_path, array, 0, 7)
    fail(controller, tmp_path, array, 1, KeyError("gone"))
    with pytest.raises(KeyError) as raised:
        array.results(20)
    assert "Task 1 of 2, double('xxx" in str(raised.value.__cause__)
    assert "xxx', 6): " in str(raised.value.__cause__)
    seven, error = array.results(20, return_exceptions=True)
    assert (seven, type(error)) == (7, KeyError)


@pytest.mark.usefixtures("shell")
def test_a_stop_asks_all_and_is_raised_where_results_are_wanted(controller: ScriptedController) -> None:
    array = smx.map(double, range(3), max_concurrent=2)
    assert controller.arrays[array.id].max_concurrent == 2
    array.stop()
    assert array.status["stopped"] == 3
    with pytest.raises(JobStopped, match=r"^Task 0 of 3, double\(0\): "):
        array.results(20)


def test_who_waits_closes_no_connection_that_others_share(controller: ScriptedController) -> None:
    client = Client(controller_launch.socket_path(), controller.start)
    summary = client.submit_array("ab" * 16, JobSpec(kind="train", source="pass", base_name="grid"), [TaskOverrides()])
    controller.end(task_id(summary.id, 0))
    JobArray(summary, client, lambda record: record, lambda _: None).wait(20)
    client.controller_info()
    assert controller.connections == 1
    client.close()


@pytest.mark.usefixtures("shell")
def test_waiting_has_an_end(controller: ScriptedController) -> None:
    array = smx.map(double, [1])
    assert controller.arrays
    with pytest.raises(TimeoutError, match="0 of 1 done"):
        array.wait(0.05)


@pytest.mark.usefixtures("shell")
def test_nobody_waits_to_look_at_many_tasks_when_all_have_ended(
    controller: ScriptedController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_module, "_PER_TASK", 60.0)
    array = smx.map(double, [1])
    waiting = threading.Thread(target=array.wait, args=(30,), daemon=True)
    waiting.start()
    assert controller.wait_for(lambda: any("ended=0" in target for target in controller.targets), 20)
    complete(controller, tmp_path, array, 0, 2)
    waiting.join(20)
    assert not waiting.is_alive()


@pytest.mark.usefixtures("shell")
def test_the_pause_between_two_looks_is_no_longer_than_the_waiting(
    controller: ScriptedController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_module, "_PER_TASK", 10.0)
    array = smx.map(double, [1, 2])
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(array.wait, 1.0)
        assert controller.wait_for(lambda: any("ended=0" in target for target in controller.targets), 20)
        complete(controller, tmp_path, array, 0, 2)
        with pytest.raises(TimeoutError, match="1 of 2 done"):
            waiting.result(ENOUGH)


@pytest.mark.usefixtures("shell")
def test_a_task_that_is_deleted_while_others_go_on_costs_no_further_question(
    controller: ScriptedController, tmp_path: Path
) -> None:
    array = smx.map(double, [1, 2, 3])
    complete(controller, tmp_path, array, 0, 2)
    controller.delete(task_id(array.id, 0))
    waiting = threading.Thread(target=array.wait, args=(30,), daemon=True)
    waiting.start()
    assert controller.wait_for(lambda: any("ended=1" in target for target in controller.targets), 20)
    asked = sum("ended=" in target for target in controller.targets)
    complete(controller, tmp_path, array, 1, 4)
    assert controller.wait_for(lambda: any("ended=2" in target for target in controller.targets), 20)
    complete(controller, tmp_path, array, 2, 6)
    waiting.join(20)
    assert not waiting.is_alive()
    assert sum("ended=" in target for target in controller.targets) == asked + 1


@pytest.mark.usefixtures("shell")
def test_a_task_that_was_deleted_is_not_waited_for(controller: ScriptedController, tmp_path: Path) -> None:
    array = smx.map(double, [1, 2])
    complete(controller, tmp_path, array, 0, 2)
    controller.end(task_id(array.id, 1))
    controller.delete(task_id(array.id, 1))
    assert array.wait(20).ended()
    assert [task.id for task in array.tasks] == [task_id(array.id, 0)]


@pytest.mark.usefixtures("shell")
def test_a_task_that_was_deleted_is_no_other_one(controller: ScriptedController) -> None:
    array = smx.map(double, range(31))
    controller.delete(task_id(array.id, 3))
    with pytest.raises(ResourceNotFoundError):
        array[3]
    assert array[30].id == task_id(array.id, 30)


@pytest.mark.usefixtures("controller", "shell")
def test_tasks_of_an_array_with_the_longest_name_are_found() -> None:
    array = smx.map(double, [1, 2], name="n" * 56)
    assert [job.id for job in array] == [task_id(array.id, index) for index in range(2)]
    assert array[-1].name.endswith("-1")


@pytest.mark.usefixtures("shell")
async def test_an_array_can_be_awaited(controller: ScriptedController, tmp_path: Path) -> None:
    array = await asyncio.to_thread(smx.map, double, [1, 2])
    for index in range(2):
        complete(controller, tmp_path, array, index, index)
    assert await array == [0, 1]


@pytest.mark.usefixtures("shell")
async def test_who_gives_up_waiting_for_an_array_leaves_no_thread_behind(
    controller: ScriptedController, tmp_path: Path
) -> None:
    made = await asyncio.to_thread(smx.map, double, [1, 2])
    again = await asyncio.to_thread(smx.array, made.id)
    for array in (made, again) * 20:  # more than an event loop has threads
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(array, 0.01)
    assert await asyncio.wait_for(asyncio.to_thread(len, again), 5.0) == 2
    waiting = [asyncio.ensure_future(_results(array)) for array in (made, again)]
    await asyncio.sleep(0)
    for index in range(2):
        await asyncio.to_thread(complete, controller, tmp_path, made, index, index)
    results, brought = await asyncio.wait_for(asyncio.gather(*waiting), 20.0)
    assert results == [each["value"] for each in brought] == [0, 1]


@pytest.mark.usefixtures("shell")
async def test_the_first_failure_of_an_array_that_is_awaited_is_raised_while_others_go_on(
    controller: ScriptedController, tmp_path: Path
) -> None:
    array = await asyncio.to_thread(smx.map, double, [1, 2])
    waiting = asyncio.ensure_future(_results(array))
    await asyncio.to_thread(fail, controller, tmp_path, array, 1, KeyError("gone"))
    with pytest.raises(KeyError, match="gone"):
        await asyncio.wait_for(waiting, 20.0)
    assert array.latest_summary.counts.pending == 1


async def _results(array: JobArray) -> list[Any]:
    return await array


@pytest.mark.usefixtures("shell")
def test_a_function_is_packed_once_and_each_item_for_itself(controller: ScriptedController) -> None:
    array = smx.map(double, [1, 2, 1])
    specs = [job.spec for job in controller.jobs.values()]
    assert len({spec.shared.path for spec in specs}) == 1
    assert set(specs[0].shared.sizes) == {"function", "keywords", "lines"}
    assert [set(spec.send.sizes) for spec in specs] == [{"arguments"}] * 3
    assert len({spec.send.path for spec in specs}) == 2, "equal items share their file"
    assert array.latest_summary.title == "map double"


@pytest.mark.usefixtures("shell")
def test_a_remote_function_is_mapped_with_its_own_wish(controller: ScriptedController) -> None:
    smx.map(smx.remote(keep_alive="5m", name="mine")(double), [1], name="other")
    (job,) = controller.jobs.values()
    assert (job.spec.keep_alive, job.spec.base_name) == (300, "other")


@pytest.mark.usefixtures("shell")
@pytest.mark.parametrize(("items", "sentence"), [(([],), "there are no items"), ((range(10_001),), "10001 items")])
def test_what_cannot_be_mapped_is_refused_before_anything_is_packed(
    controller: ScriptedController, items: tuple[Any, ...], sentence: str
) -> None:
    with pytest.raises(ValidationError, match=sentence):
        smx.map(double, *items)
    with pytest.raises(TypeError):
        smx.map(double, [1], [2], [3])
    with pytest.raises(ValidationError, match="is not an option"):
        smx.map(double, [1], send="x")
    with pytest.raises(ValidationError, match=r"item 1: .*cannot be pickled"):
        smx.map(double, [1, threading.Lock()])
    assert controller.jobs == {}


@pytest.mark.usefixtures("shell")
def test_a_thousand_items_are_handed_in_soon(controller: ScriptedController) -> None:
    began = time.process_time()  # other programs of a busy machine take no time of it
    smx.map(double, range(MANY))
    assert time.process_time() - began < ENOUGH
    assert len(controller.jobs) == MANY


def test_a_grid_becomes_one_array_with_one_card(
    shell: InteractiveShell, front_end: Screenshots, controller: ScriptedController, tmp_path: Path
) -> None:
    shell.user_ns["depths"] = [2, 4]
    shell.run_cell("%%train --hp lr=[0.1,0.01] --hp depth={depths} --hp n=1 --sweep --max-concurrent 3 --as arr\npass")
    array = shell.user_ns["arr"]
    own = [job.spec.hyperparameters for job in controller.jobs.values()]
    assert own[1] == {"n": "1", "lr": "0.1", "depth": "4"}
    assert len(own) == 4
    assert array.latest_summary.max_concurrent == 3
    for index in range(3):
        complete(controller, tmp_path, array, index, None)
    fail(controller, tmp_path, array, 3, ValueError("no"))
    array.wait(20)
    eventually_blocking(lambda: front_end.cards()[-1]["states"] == "cccf", "its card says so")
    assert len({shot["transient"]["display_id"] for shot in front_end.shown}) == 1
    shown = front_end.shown[-1]["data"]
    assert shown["text/plain"].startswith("✗ sweep lr, depth: 3 of 4 done, 1 failed")
    assert 'aria-label="task 3: failed"' in shown["text/html"]
    with pytest.raises(JobFailed, match=r"^Task 3 of 4, lr=0.01, depth=4: "):
        array.results(20)
    rows = array.table()
    assert [(row["task"], row["lr"], row["depth"], row["status"]) for row in rows[2:]] == [
        (2, 0.01, 2, "Completed"),
        (3, 0.01, 4, "Failed"),
    ]


@pytest.mark.usefixtures("front_end")
def test_without_sweep_a_list_stays_a_value(shell: InteractiveShell, controller: ScriptedController) -> None:
    shell.run_cell("%%train --hp lr=[0.1,0.01]\npass")
    (job,) = controller.jobs.values()
    assert job.spec.hyperparameters == {"lr": "[0.1,0.01]"}
    done = shell.run_cell("%%train --hp lr=1 --sweep\npass")
    assert "no hyperparameter has a list" in str(done.error_in_exec)
    done = shell.run_cell("%%train --max-concurrent 2\npass")
    assert "is given without --sweep" in str(done.error_in_exec)
    assert len(controller.jobs) == 1


@pytest.mark.usefixtures("shell")
def test_a_function_of_ours_sweeps_too_and_an_array_is_found_again(controller: ScriptedController) -> None:
    array = smx.train("pass", hyperparameters={"lr": [1, 2]}, sweep=True, name="grid")
    assert isinstance(array, smx.JobArray)
    again = smx.array(array.name)
    assert (again.id, len(again)) == (array.id, 2)
    assert [task.array.label for task in again.tasks if task.array] == ["lr=1", "lr=2"]
    smx.train("pass", after=array)
    assert [*controller.jobs.values()][-1].spec.after == (array.id,)


@pytest.mark.usefixtures("front_end")
def test_a_job_may_come_after_an_array_that_is_named_on_the_line(
    shell: InteractiveShell, controller: ScriptedController
) -> None:
    array = smx.train("pass", hyperparameters={"lr": [1, 2]}, sweep=True, name="grid")
    shell.run_cell(f"%%train --after {array.name}\npass")
    assert [*controller.jobs.values()][-1].spec.after == (array.id,)


def test_the_docstring_of_train_explains_every_keyword() -> None:
    assert ":param retries: how often" in (smx.train.__doc__ or "")
    assert ":raises UnavailableError" in (smx.train.__doc__ or "")


def test_a_bare_word_means_the_sweep_that_came_last_and_not_the_job_before_it(
    shell: InteractiveShell, controller: ScriptedController, capsys: pytest.CaptureFixture[str]
) -> None:
    before = smx.train("pass", name="before")
    array = smx.train("pass", hyperparameters={"lr": [1, 2]}, sweep=True, name="grid")
    for line in ("logs", "why", "diff", f"diff {before.name} {array.name}", f"logs {array.name}"):
        with pytest.raises(ValidationError, match=rf"{array.name} is an array of 2 tasks\..*e\.g\. {array.name}-0\."):
            shell.run_line_magic("smx", line)
    controller.end(task_id(array.id, 1), SecondaryStatus.FAILED)
    with pytest.raises(ValidationError, match=rf"Name one task, e\.g\. {array.name}-1, which failed\."):
        shell.run_line_magic("smx", "logs")
    capsys.readouterr()
    shell.run_line_magic("smx", "stop")
    assert f"{array.name}: 0 of 2 done, 1 failed, 1 stopped." in capsys.readouterr().out
    assert controller.jobs[before.id].ended_at is None
    again = smx.train("pass", name="after")
    shell.run_line_magic("smx", "stop")
    assert f"{again.name}: Stopped." in capsys.readouterr().out


@pytest.mark.usefixtures("controller")
def test_the_list_has_one_row_for_an_array_and_a_stop_means_all_of_it(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.user_ns["arr"] = array = smx.train("pass", hyperparameters={"lr": [1, 2]}, sweep=True, name="grid")
    smx.train("pass", name="alone")
    capsys.readouterr()
    shell.run_line_magic("smx", "jobs")
    listed = capsys.readouterr().out
    assert "sweep lr, 0 of 2 done" in listed
    assert listed.count("grid-") == 1
    shell.run_line_magic("smx", "stop arr")
    assert f"{array.name}: 0 of 2 done, 2 stopped." in capsys.readouterr().out
    smx.train("pass", hyperparameters={"lr": [1, 2]}, sweep=True, name="other")
    shell.run_line_magic("smx", "stop other")
    assert "0 of 2 done, 2 stopped." in capsys.readouterr().out, "a base name means the array, not its newest task"
