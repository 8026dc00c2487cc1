"""A disk that is read-only or fails for a while: the end of a job waits for it, and is never thrown away."""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent import errors
from jupyter_smx.agent.channels import pack_outputs
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from far_side import Agent

OUTAGES = (errno.EROFS, errno.EIO, errno.ESTALE, errno.ETIMEDOUT)

REPLACES_FAIL = """
import errno, os
replace, left = os.replace, {{{names}}}
def replace_later(source, target, **more):
    if left.get(os.path.basename(target), 0):
        left[os.path.basename(target)] -= 1
        raise OSError({number}, os.strerror({number}), target)
    replace(source, target, **more)
os.replace = replace_later
"""
"""Lets the process of a job fail to give files their names as often as ``names`` says."""

FAILS = """
import os
from jupyter_smx.agent.__main__ import main
from jupyter_smx.agent.job import end_record_writer, job
from jupyter_smx.agent.system.resources import disk
write, statvfs = disk._write, os.statvfs
job.DISK_RETRY = end_record_writer.DISK_RETRY = 0.01
def at_the_gate(path, text):
    if os.path.exists({gate!r}):
        raise OSError({number}, os.strerror({number}), path)
    write(path, text)
disk._write = at_the_gate
disk.is_read_only = lambda path: os.path.exists({gate!r} + "-of-starts")
{more}main()
"""


def test_which_errors_pass_and_for_how_long_they_are_waited_for() -> None:
    def passes(number: int, waited: float = 0.0) -> bool:
        return errors.is_temporary(OSError(number, os.strerror(number)), waited)

    assert [passes(number) for number in (errno.ENOSPC, errno.EDQUOT, *OUTAGES)] == [True] * 6
    assert [passes(number) for number in (errno.EACCES, errno.ENOENT, errno.ENOTDIR)] == [False] * 3
    assert [passes(number, 601.0) for number in (errno.ENOSPC, *OUTAGES)] == [True, True, False, False, False]
    wrapped = RuntimeError("a library's")
    wrapped.__cause__ = OSError(errno.EIO, "Input/output error")
    assert errors.is_temporary(wrapped)
    assert not errors.is_temporary(RuntimeError("nothing of a disk"))


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """Name a file; while it is there, no record of an end can be written."""
    return tmp_path / "gate"


def failing(start_agent: Callable[..., Agent], gate: Path, number: int, more: str = "") -> Agent:
    """Start an agent whose disk fails while the gate is there, and that runs the code ``more`` at its start."""
    program = (sys.executable, "-c", FAILS.format(gate=os.fspath(gate), number=number, more=more))
    return start_agent(options={"program": program})


@pytest.mark.parametrize("number", OUTAGES, ids=errno.errorcode.get)
def test_an_end_that_a_disk_refuses_is_told_when_it_is_written_and_the_host_goes_on(
    start_agent: Callable[..., Agent], gate: Path, number: int
) -> None:
    agent = failing(start_agent, gate, number)
    gate.touch()
    job, _ = agent.start("print('ran')")
    agent.client.event("exited", job)
    eventually_blocking(
        lambda: "cannot be written now" in (agent.folder / "agent.log").read_text(), "the agent noticed it"
    )
    assert not (agent.folder / "spool" / job / "end.json").exists()
    gate.unlink()
    record = agent.end_of(job)
    assert (record["cause"], record["exit_code"], record["errors"]) == ("exit", 0, [])
    assert (agent.folder / "spool" / job / "end.json").exists()
    agent.serves()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS], ids=errno.errorcode.get)
def test_an_end_without_a_controller_waits_for_the_disk(
    start_agent: Callable[..., Agent], gate: Path, number: int
) -> None:
    agent = failing(start_agent, gate, number)
    opened = gate.with_name("opened")
    job, _ = agent.start(f"import os, time\nwhile not os.path.exists({os.fspath(opened)!r}): time.sleep(0.01)")
    agent.client.event("first_line", job)
    agent.client.close()
    gate.touch()
    opened.touch()
    log = agent.folder / "agent.log"
    eventually_blocking(lambda: "cannot be written now" in log.read_text(), "the agent noticed it")
    gate.unlink()
    eventually_blocking((agent.folder / "spool" / job / "end.json").exists, "the end is on the disk")
    agent.client = agent.connect()
    told = agent.client.ask("hello", protocol=1, epoch=1)["jobs"][job]
    assert told["phase"] == "ended"
    agent.serves()


def test_a_job_on_a_disk_that_is_read_only_begins_when_it_is_not(start_agent: Callable[..., Agent], gate: Path) -> None:
    agent = failing(start_agent, gate, errno.EROFS)
    starts = gate.with_name("gate-of-starts")
    starts.touch()
    waits, _ = agent.start("print('ran')")
    view = agent.client.ask("hello", protocol=1, epoch=1)["jobs"][waits]
    assert view["phase"] == "staging"
    said = agent.client.event("disk_wait", waits)
    assert said["reason"] == "Its files cannot be written now: Read-only file system."
    starts.unlink()
    assert agent.end_of(waits)["exit_code"] == 0
    news = [frame["reason"] for frame in agent.client.events if frame["event"] == "disk_wait"]
    assert news.count("") == 1, "and it is taken back"
    starts.touch()
    stopped, lease = agent.start("print('never')")
    agent.stop(stopped, lease)
    assert agent.end_of(stopped)["cause"] == "stopped"
    starts.unlink()
    agent.serves()


@pytest.mark.parametrize("number", [errno.EROFS, errno.EIO], ids=errno.errorcode.get)
def test_a_report_that_a_disk_refuses_is_written_after_the_exit_handlers(
    start_agent: Callable[..., Agent], number: int
) -> None:
    agent = start_agent(disk_patience=0.0)
    code = REPLACES_FAIL.format(names="'report.json': 1", number=number)
    closes = "os.closerange(3, 4096)  # else the report is in no file\nimport atexit\n"
    record = agent.run(f"{code}{closes}atexit.register(print, 'handler', left)\nx = 1", receive=["x"])
    assert (record["cause"], record["exit_code"], record["text"]) == (
        "exit",
        0,
        "handler {'report.json': 0}\n",
    )
    assert (list(record["received"]), record["errors"]) == (["x"], [])


@pytest.mark.parametrize("number", [errno.EROFS, errno.EIO], ids=errno.errorcode.get)
def test_variables_are_written_when_the_disk_takes_them(start_agent: Callable[..., Agent], number: int) -> None:
    agent = start_agent(disk_patience=60.0)
    code = REPLACES_FAIL.format(names="'result.pkl': 1", number=number)
    job, _ = agent.start(f"{code}x = 1", receive=["x"])
    said = agent.client.event("disk_wait", job)["reason"]
    assert said == f"Its files cannot be written now: {os.strerror(number)}."
    record = agent.end_of(job)
    assert (record["cause"], record["exit_code"], agent.log(job)) == ("exit", 0, "")
    assert (list(record["received"]), record["errors"]) == (["x"], [])


MODEL_FAILS = """
replace = os.replace
def replace_later(source, target, **more):
    if target.endswith("/model.tar.gz") and not os.path.exists({mark!r}):
        open({mark!r}, "x").close()
        raise OSError({number}, os.strerror({number}), target)
    replace(source, target, **more)
os.replace = replace_later
"""
"""Lets the agent's first try to give the archive of the model its name fail."""


@pytest.mark.parametrize("number", [errno.EROFS, errno.EIO], ids=errno.errorcode.get)
def test_a_model_is_packed_when_the_disk_takes_it(start_agent: Callable[..., Agent], gate: Path, number: int) -> None:
    mark = gate.with_name("tried")
    agent = failing(start_agent, gate, number, MODEL_FAILS.format(mark=os.fspath(mark), number=number))
    job, _ = agent.start("import os\nopen(os.environ['SM_MODEL_DIR'] + '/m', 'w').write('weights')")
    said = agent.client.event("disk_wait", job)["reason"]
    assert said.startswith(f"{os.strerror(number)}: ")
    record = agent.end_of(job)
    assert mark.exists()
    assert (record["cause"], record["exit_code"], record["errors"]) == ("exit", 0, [])
    assert [each["name"] for each in record["artifacts"]] == ["model.tar.gz"]


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT], ids=errno.errorcode.get)
@pytest.mark.parametrize("name", ["model", "model/sub", "model/sub/m"])
def test_what_cannot_be_looked_at_for_a_while_is_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, name: str
) -> None:
    (tmp_path / "ml/model/sub").mkdir(parents=True)
    (tmp_path / "ml/model/sub/m").write_text("weights")
    failing_path = os.fspath(tmp_path / "ml" / name)
    with monkeypatch.context() as patch:
        for function in ("scandir", "stat", "lstat"):
            patch.setattr(os, function, fail_at(failing_path, number, getattr(os, function)))
        patch.setattr(os, "access", lambda path, *_more: path != failing_path)
        assert pack_outputs.has_work(os.fspath(tmp_path / "ml"), [], os.fspath(tmp_path / "job"))
        answer = pack_outputs.stage_out(os.fspath(tmp_path / "ml"), [], os.fspath(tmp_path / "job"), [])
    assert answer == {"later": f"{os.strerror(number)}: {failing_path}.", "is_full": False}
    answer = pack_outputs.stage_out(os.fspath(tmp_path / "ml"), [], os.fspath(tmp_path / "job"), [])
    assert ([each["name"] for each in answer["artifacts"]], answer["errors"]) == (["model.tar.gz"], [])


def fail_at(failing_path: str, number: int, act: Callable[..., Any]) -> Callable[..., Any]:
    """Give what does as ``act`` for all paths but one."""

    def act_elsewhere(path: Any, *args: Any, **more: Any) -> Any:
        if path == failing_path:
            raise OSError(number, os.strerror(number), path)
        return act(path, *args, **more)

    return act_elsewhere
