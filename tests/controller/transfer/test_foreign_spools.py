"""What hosts left on a disk of ours is read as it is, and never what a job made its names lead to."""

from __future__ import annotations

import json
import os
import shutil
import threading
from typing import TYPE_CHECKING, Any

import pytest
from records import a_job

from jupyter_smx.controller.agents.connections import Agents
from jupyter_smx.controller.telemetry.log_collector import LogCollector
from jupyter_smx.controller.transfer import host_spool, stage_out
from jupyter_smx.controller.transfer.host_spool import HostSpool
from jupyter_smx.controller.transfer.job_folder import StagingError
from jupyter_smx.controller.transfer.stage_out import HostOutputs, OutputStager, read_record
from jupyter_smx.engines import untrusted_files
from jupyter_smx.model.status import Status

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_smx.testing.simulation.simulation import Simulation

LEAKED = json.dumps({"failure": "what is in the user's own files"})
KINDS = ("a link", "a pipe", "a folder", "a link for its folder", "a link for the job's folder", "a link for the spool")


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """Give files of the user's that have the names of what a host leaves."""
    folder = tmp_path / "home" / "spool" / "job" / "artifacts"
    folder.mkdir(parents=True)
    for path in (folder / "x", folder.parent / "x", folder.parent / "log", folder.parent / "end.json"):
        path.write_text(LEAKED)
    return tmp_path / "home" / "spool" / "job"


@pytest.fixture
def remains(tmp_path: Path) -> Path:
    folder = tmp_path / "host" / "spool" / "job"
    (folder / "artifacts").mkdir(parents=True)
    (folder / "artifacts" / "x").write_text("mine")
    (folder / "log").write_text("mine")
    (folder / "end.json").write_text("{}")
    return folder


def link_or_copy(kind: str, remains: Path, secrets: Path, name: str) -> None:
    """Do what a job may do in the folder of its host."""
    path, goal = remains / name, secrets / name
    if kind == "a link for its folder":
        path, goal = path.parent, goal.parent
    elif kind == "a link for the job's folder":
        path, goal = remains, secrets
    elif kind == "a link for the spool":
        path, goal = remains.parent, secrets.parent
    path.rename(path.with_name("moved"))
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a folder":
        path.mkdir()
    else:
        path.symlink_to(goal)


@pytest.mark.parametrize("kind", KINDS)
async def test_an_artifact_that_is_no_file_of_the_job_is_lost_and_nothing_else_comes_home(
    tmp_path: Path, remains: Path, secrets: Path, kind: str
) -> None:
    link_or_copy(kind, remains, secrets, "artifacts/x")
    desk = OutputStager(tmp_path / "jobs")
    record: dict[str, Any] = {"artifacts": [{"name": "x", "path": "artifacts/x", "size": len(LEAKED)}]}
    with pytest.raises(StagingError, match=r"x of .* is lost: 0 of"):
        await desk.stage_out(a_job(), [HostOutputs("algo-1", record, spool=HostSpool(remains))])


@pytest.mark.parametrize("kind", KINDS)
async def test_a_log_that_is_no_file_of_the_job_ends_where_it_ended(
    tmp_path: Path, remains: Path, secrets: Path, kind: str
) -> None:
    link_or_copy(kind, remains, secrets, "log")
    pump = LogCollector(tmp_path / "jobs", Agents(lambda *_: None, lambda *_: None), lambda _job: None)
    job = a_job(cluster="c1", lease=1)
    await pump.drain(job, "algo-1", 1000, None, HostSpool(remains))
    assert pump.size(job.id, "algo-1") == 0
    await pump.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_record_that_is_no_file_of_the_job_is_none(remains: Path, secrets: Path, kind: str) -> None:
    assert await read_record(HostSpool(remains)) == {}
    link_or_copy(kind, remains, secrets, "end.json")
    assert await read_record(HostSpool(remains)) is None


@pytest.mark.parametrize("content", [b"[" * 100_000, b"\xff\xfe{}", b"[]", b"{torn", b" " * 2000 + b"{}"])
async def test_a_record_that_nobody_can_read_is_none(
    remains: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_spool, "LONGEST_RECORD", 1000 if content.startswith(b" ") else 1 << 20)
    (remains / "end.json").write_bytes(content)
    assert await read_record(HostSpool(remains)) is None


async def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path, remains: Path) -> None:
    record: dict[str, Any] = {"artifacts": [{"name": "a\0b", "path": "artifacts/x", "size": 1}]}
    with pytest.raises(StagingError, match="is outside the job's folder"):
        await OutputStager(tmp_path / "jobs").stage_out(
            a_job(), [HostOutputs("algo-1", record, spool=HostSpool(remains))]
        )


def a_pipe(spool: Path, job: str) -> None:
    (spool / job / "log").unlink(missing_ok=True)
    os.mkfifo(spool / job / "log")


def a_link_to_nothing(spool: Path, job: str) -> None:
    (spool / job / "log").unlink(missing_ok=True)
    (spool / job / "log").symlink_to("/nowhere")


def a_file_for_the_spool(spool: Path, _job: str) -> None:
    spool.rename(spool.with_name("moved"))
    spool.write_text("x")


def nothing_for_its_log(spool: Path, job: str) -> None:
    (spool / job / "log").unlink(missing_ok=True)


def nothing_for_its_folder(spool: Path, job: str) -> None:
    shutil.rmtree(spool / job)


@pytest.mark.parametrize(
    "tamper", [a_pipe, a_link_to_nothing, a_file_for_the_spool, nothing_for_its_log, nothing_for_its_folder]
)
def test_code_that_touched_its_own_log_ran_and_is_never_run_again(
    sim: Simulation, tamper: Callable[[Path, str], None]
) -> None:
    job = sim.submit()
    sim.pass_time(1)
    host = sim.hosts(job)[0]
    (host.spool / job).mkdir(parents=True, exist_ok=True)
    tamper(host.spool, job)
    sim.kill_host(host)
    sim.pass_time(30)
    assert sim.job(job).status() is Status.FAILED
    assert sum(sim.world.start_counts.values()) == 1
    sim.restart()
    assert sim.job(job).status() is Status.FAILED


async def test_a_disk_that_cannot_be_read_is_no_disk_that_is_full(
    remains: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_found: untrusted_files.OpenFile, _target: Path) -> None:
        raise untrusted_files.UnreadableError("Input/output error")

    monkeypatch.setattr(untrusted_files.OpenFile, "link_or_copy", broken)
    record = {"artifacts": [{"name": "model/x", "path": "artifacts/x", "size": 4}]}
    with pytest.raises(StagingError, match="artifacts/x cannot be read from its host's folder") as told:
        await OutputStager(tmp_path / "jobs").stage_out(
            a_job(), [HostOutputs("algo-1", record, None, HostSpool(remains))]
        )
    assert str(remains) in told.value.cure
    assert "space" not in str(told.value)
    assert not told.value.transient


@pytest.mark.parametrize("odd", ["é", "\udce9"])
async def test_a_long_record_is_read_whole(remains: Path, odd: str) -> None:
    files = [{"name": f"outputs/{odd}{n:09}", "path": f"artifacts/{n:09}", "size": n} for n in range(60_000)]
    record = {"cause": "exit", "exit_code": 0, "artifacts": files}
    (remains / "end.json").write_text(json.dumps(record))
    assert (remains / "end.json").stat().st_size > stage_out._SHORT_RECORD
    open_file = await read_record(HostSpool(remains))
    assert open_file is not None
    assert open_file["artifacts"] == files


def test_what_a_lost_host_left_is_read_while_the_loop_goes_on(sim: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk may be slow, and a record or a log long."""
    read, opened = untrusted_files.read, untrusted_files.open_file
    readers: list[int] = []

    def noted(what: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *where: readers.append(threading.get_ident()) or what(*where)

    monkeypatch.setattr(untrusted_files, "read", noted(read))
    monkeypatch.setattr(untrusted_files, "open_file", noted(opened))
    job = sim.submit()
    sim.pass_time(1)
    sim.kill_host(sim.hosts(job)[0])
    sim.pass_time(30)
    assert sim.job(job).status() is Status.FAILED
    assert readers
    assert threading.get_ident() not in readers


async def test_a_record_beyond_all_bounds_is_none(remains: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (remains / "end.json").write_text(json.dumps({"cause": "exit", "notes": ["x" * 100]}))
    assert await read_record(HostSpool(remains)) is not None
    monkeypatch.setattr(host_spool, "LONGEST_RECORD", 99)
    assert await read_record(HostSpool(remains)) is None


@pytest.mark.parametrize("shortest", [0, 1 << 20])
@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b'"x"', b"nul"])
def test_what_is_no_record_is_none_however_it_is_read(
    content: bytes, shortest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_out, "_SHORT_RECORD", shortest)
    assert stage_out.parse_record(content) is None
    said = {"cause": "exit", "exit_code": 3, "artifacts": [{"name": "日本", "path": "x", "size": 1}]}
    assert stage_out.parse_record(json.dumps(said).encode()) == said
