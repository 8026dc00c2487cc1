"""A job that began again: the wish for it, its logs one after the other, and the words of its card."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

import jupyter_smx as smx
from jupyter_smx.kernel.options.help_pages import manual
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from conftest import Screenshots
    from IPython.core.interactiveshell import InteractiveShell
    from scripted_controller import ScriptedController


@pytest.mark.usefixtures("front_end")
def test_a_line_asks_for_retries(shell: InteractiveShell, controller: ScriptedController) -> None:
    shell.run_cell("%%train --retries 3\npass")
    (job,) = controller.jobs.values()
    assert job.spec.retries == 3
    done = shell.run_cell("%%train --retries many\npass")
    assert isinstance(done.error_in_exec, ValidationError)
    assert len(controller.jobs) == 1


def test_the_manual_says_what_is_never_retried() -> None:
    assert "a failure of the code is never retried" in manual("train")


@pytest.mark.usefixtures("shell")
def test_the_logs_of_all_attempts_follow_each_other_told_apart(controller: ScriptedController) -> None:
    job = smx.train("pass", retries=2)
    controller.run(job.id)
    controller.write(job.id, "first\nhalf a li")
    controller.change(job.id, attempt=2, state=SecondaryStatus.STARTING)
    controller.write(job.id, "second\n", host="attempt-2/algo-1")
    assert job.logs() == "first\nhalf a li\n--- attempt 2 ---\nsecond\n"


@pytest.mark.usefixtures("shell")
def test_whoever_follows_sees_the_next_attempt_begin(
    controller: ScriptedController, capsys: pytest.CaptureFixture[str]
) -> None:
    job = smx.train("pass", retries=2)
    controller.run(job.id)
    controller.write(job.id, "a long first attempt\n")
    follower = threading.Thread(target=job.follow)
    follower.start()
    assert controller.wait_for(lambda: any("offset=21" in target for target in controller.targets), 20)
    controller.change(job.id, attempt=2, state=SecondaryStatus.STARTING)
    controller.write(job.id, "second\n", host="attempt-2/algo-1")
    controller.end(job.id)
    follower.join(20)
    assert capsys.readouterr().out.endswith("a long first attempt\n--- attempt 2 ---\nsecond\n")


def test_the_card_says_which_attempt_it_is(front_end: Screenshots, controller: ScriptedController) -> None:
    job = smx.train("pass", retries=3)
    controller.run(job.id)
    controller.change(job.id, attempt=2, state=SecondaryStatus.STARTING)
    controller.end(job.id)
    job.wait()
    eventually_blocking(lambda: front_end.cards()[-1]["summary"]["status"] == "Completed", "its card says so")
    shown = front_end.shown[-1]["data"]
    assert ", attempt 2 of 4" in shown["text/plain"]
    assert ", attempt 2 of 4" in shown["text/html"]
    assert shown["application/vnd.jupyter-smx.card+json"]["summary"]["attempt"] == 2
