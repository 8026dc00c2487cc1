"""``--python`` for an engine with interpreters of its own: a word that the kernel passes on unread."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.kernel.api import session
from jupyter_smx.kernel.request import interpreters
from jupyter_smx.kernel.request.request import JobRequest, SubmissionContext
from jupyter_smx.model.errors import ResourceNotFoundError, ValidationError

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell
    from scripted_controller import ScriptedController

    from jupyter_smx.model.spec.job_spec import JobSpec

ASKED: list[str] = []


def interpreters_of(engine: str) -> str:
    ASKED.append(engine)
    return "remote" if engine == "lab" else "local"


def built(python: str, engine: str = "lab", requirements: str = "none") -> JobSpec:
    here = SubmissionContext(
        python=sys.executable, python_version="3.11", folder=Path("/"), interpreters_of=interpreters_of
    )
    request = JobRequest(kind="train", fields={"engine": engine}, python=python, requirements=requirements)
    return request.build_spec("pass", 0, here, 0.0)


@pytest.mark.parametrize("word", ["/opt/py/bin/python", "conda:nowhere", "torch", "module/torch", "~/venv"])
def test_a_word_is_passed_on_although_nothing_here_has_its_name(word: str) -> None:
    spec = built(word)
    assert (spec.python, spec.python_version, spec.python_named) == (word, "", True)
    with pytest.raises(ValidationError):
        built(word, engine="local")


def test_without_a_word_the_engine_is_not_asked_and_the_controller_drops_what_runs_here() -> None:
    ASKED.clear()
    spec = built("")
    assert not ASKED
    assert (spec.python, spec.python_named) == (sys.executable, False)


def test_requirements_alone_name_no_interpreter_of_this_machine() -> None:
    spec = built("uv:numpy,pandas==2.2")
    assert (spec.python, spec.requirements, spec.requirements_only) == ("", ("numpy", "pandas==2.2"), True)


@pytest.mark.usefixtures("front_end")
def test_a_kernel_asks_once_whose_interpreters_an_engine_has_and_only_where_one_is_named(
    shell: InteractiveShell, controller: ScriptedController
) -> None:
    controller.remote_interpreters.add("local")
    assert shell.run_cell("%%train --as first\npass").success
    assert not [target for target in controller.targets if "engines" in target]
    for name in ("second", "third"):
        assert shell.run_cell(f"%%train --python conda:nowhere --as {name}\npass").success
    assert len([target for target in controller.targets if "engines" in target]) == 1
    assert [job.spec.python for job in controller.jobs.values()] == [sys.executable, "conda:nowhere", "conda:nowhere"]


def test_a_controller_of_an_earlier_version_has_no_engines_with_interpreters(
    shell: InteractiveShell, controller: ScriptedController, monkeypatch: pytest.MonkeyPatch
) -> None:
    del shell, controller

    def no_route(*_: object) -> None:
        raise ResourceNotFoundError("There is no route.")

    client = session.current_session().client
    monkeypatch.setattr(client, "_request", no_route)
    assert client.interpreters_of("local") == "local"


def test_variables_may_be_packed_for_a_version_that_is_not_known_here() -> None:
    interpreters.check_send(built("torch"), "3.11", ("the function scale",))
