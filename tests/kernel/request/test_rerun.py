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
