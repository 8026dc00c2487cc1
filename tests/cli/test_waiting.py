"""A terminal that follows a job shows what the job waits for before its code runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.cli.wait_reason import WaitReason, wait_reason
from jupyter_smx.model.records.job import Job, Transition
from jupyter_smx.model.results.reports import Why
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import SecondaryStatus, message_of
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from conftest import Terminal

KEEP = ("-k", "10m")
WAITS = "import os\nprint('begun', flush=True)\nopen(os.environ['SM_HP_GATE']).read()\nprint('done')\n"


def a_job(state: SecondaryStatus, said: str = "", **fields: object) -> Job:
    row = Transition(status=state, start_time=1.0, status_message=said)
    spec = JobSpec(kind="train", source="", base_name="t")
    return Job(id="1" * 32, name="t-1", spec=spec, created_at=1.0, state=state, transitions=(row,), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (a_job(SecondaryStatus.DOWNLOADING, "Downloading: 3 of 9 MB"), "Downloading: 3 of 9 MB"),
        (a_job(SecondaryStatus.PENDING, "P", why=Why(start="queued", sentence="Number 2.")), "Number 2."),
        (a_job(SecondaryStatus.PENDING, "P", why=Why(start="cold", sentence="Cold.")), "P"),
        (a_job(SecondaryStatus.STARTING, "Its container is paused."), "Its container is paused."),
        (a_job(SecondaryStatus.STARTING, message_of(SecondaryStatus.STARTING)), ""),
        (a_job(SecondaryStatus.STARTING), ""),
        (a_job(SecondaryStatus.TRAINING, "In progress", timings={"first_line": 2.0}), ""),
        (a_job(SecondaryStatus.STOPPED, "Stopped"), ""),
    ],
)
def test_it_is_said_what_stands_between_a_job_and_its_first_line(job: Job, words: str) -> None:
    assert wait_reason(job) == words


def test_the_same_is_told_once_and_another_thing_again() -> None:
    waiting, one, other = WaitReason(), *(a_job(SecondaryStatus.STARTING, said) for said in ("one", "other"))
    assert [waiting.new_reason(job) for job in (one, one, other, other, one)] == ["one", "", "other", "", "one"]


@pytest.mark.parametrize(("command", "hosts"), [("run", 1), ("logs", 1), ("run", 2)])
def test_who_follows_a_job_reads_what_it_waits_for(terminal: Terminal, command: str, hosts: int) -> None:
    path = terminal.folder / f"gate-of-{command}-{hosts}"
    os.mkfifo(path)
    script = terminal.script("waits.py", WAITS)
    first = terminal.run("run", script, *KEEP, "--detach", "--hp", f"gate={path}").stdout.strip()
    keep = KEEP if hosts == 1 else ()  # a pool of two hosts does not stay for other tests
    after = ("run", "hello.py", *keep, "--after", first, "--name", "later", "--instance-count", str(hosts))
    if command == "logs":
        follower = terminal.start("logs", "-f", terminal.run(*after, "--detach").stdout.strip())
    else:
        follower = terminal.start(*after)
        assert follower.stderr is not None
        assert follower.stderr.readline().startswith("later-")
    assert follower.stderr is not None
    told = follower.stderr.readline()
    Path(path).write_text("", encoding="utf-8")
    rest, _ = follower.communicate(timeout=30)
    assert first in told, told
    marks = [""] if hosts == 1 else ["algo-1 | ", "algo-2 | "]
    assert (follower.returncode, sorted(rest.splitlines())) == (0, [f"{mark}hello None None" for mark in marks])
    eventually_blocking(lambda: len(terminal.document("pools")["pools"]) == 1, "its hosts are given back")
