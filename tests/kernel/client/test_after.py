"""``--after``: handles, variables, names and ids become the ids of a wish before anything is handed in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import jupyter_smx as smx
from jupyter_smx.model.errors import ResourceNotFoundError, ValidationError

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell
    from scripted_controller import ScriptedController


def newest(controller: ScriptedController) -> Any:
    return [*controller.jobs.values()][-1]


@pytest.mark.usefixtures("front_end")
def test_a_line_names_handles_names_and_ids(shell: InteractiveShell, controller: ScriptedController) -> None:
    shell.run_cell("%%train --as prep --name prepare\npass")
    shell.run_cell("%%train --as other\npass")
    prep, other = controller.jobs
    shell.run_cell(f"%%train --after prep,{controller.jobs[other].name} --after {prep}\npass")
    assert newest(controller).spec.after == (prep, other)


@pytest.mark.usefixtures("front_end")
def test_a_name_that_nobody_has_is_refused_and_nothing_is_handed_in(
    shell: InteractiveShell, controller: ScriptedController
) -> None:
    done = shell.run_cell("%%train --after nobody\npass")
    assert isinstance(done.error_in_exec, ResourceNotFoundError)
    assert str(done.error_in_exec).startswith("--after: there is no job 'nobody'")
    assert controller.jobs == {}


@pytest.mark.usefixtures("shell")
def test_functions_take_a_handle_a_name_or_several(controller: ScriptedController) -> None:
    first = smx.train("pass", name="first")
    smx.process("pass", after=first)
    assert newest(controller).spec.after == (first.id,)
    smx.train("pass", after=["first", first])
    assert newest(controller).spec.after == (first.id,)

    @smx.remote(after=first)
    def call() -> None:
        """Do nothing."""

    reply = call.submit()
    assert newest(controller).spec.after == (first.id,)
    smx.train("pass", after=[reply.job])
    assert newest(controller).spec.after == (reply.job.id,)


@pytest.mark.usefixtures("shell")
def test_what_is_no_job_is_refused(controller: ScriptedController) -> None:
    with pytest.raises(ValidationError, match="a value of type int is not a job"):
        smx.train("pass", after=[3])  # type: ignore[list-item]
    assert controller.jobs == {}
