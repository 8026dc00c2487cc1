"""The engine with a scheduler in memory: what it asks Slurm, how often, and what it makes of the answers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from contextlib import aclosing
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest
from fake_slurm import END, FakeSlurm
from slurm_requests import host, request

from jupyter_smx.agent.remote import allocation
from jupyter_smx.agent.remote.cluster_store import ClusterStore, HostName
from jupyter_smx.engines.base import Observation
from jupyter_smx.engines.remote.machine import Completed, NoAnswerError
from jupyter_smx.engines.slurm import allocations, commands, lifecycle, submission
from jupyter_smx.engines.slurm import engine as slurm_engine
from jupyter_smx.engines.slurm.engine import SlurmEngine
from jupyter_smx.engines.slurm.login import LocalLogin
from jupyter_smx.engines.slurm.ssh_login import SshLogin
from jupyter_smx.model.errors import RefusedError, UnavailableError
from jupyter_smx.model.records.cluster import Handle, QueueStatus

if TYPE_CHECKING:
    from jupyter_smx.engines.base import ClusterRequest
    from jupyter_smx.engines.slurm.login import LoginMachine


class FakeSlurmEngine(SlurmEngine):
    """The engine with a scheduler of the test's own."""

    name = "slurm"
    slurm: FakeSlurm

    def _make_login(self) -> LoginMachine:
        return self.slurm


def engine_of(slurm: FakeSlurm, folder: Path, **traits: object) -> SlurmEngine:
    kind = type("FakeSlurmEngine", (FakeSlurmEngine,), {"slurm": slurm})
    made: SlurmEngine = kind(data_dir=str(folder), **traits)
    return made


@pytest.fixture
def slurm() -> FakeSlurm:
    return FakeSlurm()


@pytest.fixture
def engine(slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlurmEngine:
    monkeypatch.setattr(allocations, "FIRST_DELAYS", (0.0,) * 10_000)
    return engine_of(slurm, tmp_path)


async def acquire(engine: SlurmEngine, wanted: ClusterRequest | None = None) -> Handle:
    steps = [step async for step in engine.acquire(wanted or request())]
    last = steps[-1]
    assert isinstance(last, Handle)
    return last


async def test_a_cluster_is_one_job_and_its_hosts_are_on_its_nodes(engine: SlurmEngine, slurm: FakeSlurm) -> None:
    handle = await acquire(engine, request(host("algo-1"), host("algo-2")))
    assert slurm.calls["sbatch"] == 1
    assert [(known.host, known.machine, known.data["job"]) for known in handle.hosts] == [
        ("algo-1", "n1", "11"),
        ("algo-2", "n2", "11"),
    ]
    assert handle.allocation_ends_at == END
    assert "pilot" in slurm.jobs[0].script


@pytest.mark.parametrize(("listed", "block"), [("", "10.0.0."), ("n1 \nn2 10.1.0.2\n", "10.0.0."), (None, "10.1.0.")])
async def test_hosts_have_the_addresses_by_which_slurm_reaches_their_nodes_or_else_those_of_the_nodes(
    engine: SlurmEngine, slurm: FakeSlurm, listed: str | None, block: str
) -> None:
    slurm.addresses = slurm.addresses if listed is None else listed
    await acquire(engine, request(host("algo-1"), host("algo-2")))
    expected = {"algo-1": f"{block}1", "algo-2": f"{block}2"}
    assert [each["addresses"] for each in slurm.descriptions.values()] == [expected] * 2


async def test_a_notice_of_slurm_leaves_the_seconds_of_its_configuration(engine: SlurmEngine, slurm: FakeSlurm) -> None:
    engine.notice_grace = 600.0
    await acquire(engine)
    assert slurm.descriptions["algo-1"]["notice_grace"] == 30.0
    assert slurm.descriptions["algo-1"]["signals_jobs"] is True


def write_programs(folder: Path, **lines: str) -> str:
    """Write programs of Slurm, each with lines of a shell; give their folder."""
    folder.mkdir()
    for name, line in lines.items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)
    return str(folder)


async def test_the_folder_of_slurms_programs_is_enough_for_steps(tmp_path: Path) -> None:
    programs = write_programs(tmp_path / "it's bin", srun="echo step $MARK", sbatch="echo no cluster >&2; exit 1")
    engine = SlurmEngine(data_dir=str(tmp_path), programs=programs, variables={"MARK": "a b"})
    facts = await engine._client.facts()
    assert (facts.programs, facts.version) == (programs, "")
    machine = engine._node_account("12", None, "n1", in_home=True).machine
    assert (await machine.run("true")).output == b"step a b\n"
    shown = await asyncio.to_thread(subprocess.run, machine.shell_words("true"), stdout=subprocess.PIPE, check=True)
    assert shown.stdout == b"step a b\n"


async def test_a_program_without_an_answer_is_named_without_its_variables(tmp_path: Path) -> None:
    path = write_programs(tmp_path / "bin", squeue="exec sleep 60")
    login = LocalLogin({}, path)
    with pytest.raises(NoAnswerError, match=r"^squeue gave no answer"):
        await login.run(commands.queue(), timeout=0.2)


async def test_a_stream_writes_to_a_socket_and_its_command_ends_with_it(tmp_path: Path) -> None:
    path = write_programs(tmp_path / "bin", srun="printf +; test -S /dev/stdin && printf socket; exec cat")
    login = LocalLogin({}, path)
    reader, writer = await login.relay("srun", "")
    assert await reader.readexactly(6) == b"socket", "a pipe would wake this process for each page of bulk"
    writer.write(b"x" * 1_000_000)
    assert await reader.readexactly(1_000_000) == b"x" * 1_000_000
    writer.close()
    assert await reader.read() == b""
    await login.close()


async def test_a_command_that_connects_to_nothing_is_an_error_with_its_words(tmp_path: Path) -> None:
    path = write_programs(tmp_path / "bin", srun="echo no such file >&2; exit 1")
    with pytest.raises(UnavailableError, match=r"No agent listens there \(no such file\)"):
        await LocalLogin({}, path).relay("srun", "")


async def test_a_job_of_which_scontrol_prints_nothing_is_forgotten(
    engine: SlurmEngine, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "_scontrol", lambda *_: Completed(0, b"\n", ""))
    assert await engine._client.describe("12") == {}


async def test_a_login_machine_without_sbatch_is_refused(tmp_path: Path) -> None:
    path = write_programs(tmp_path / "bin", id="echo 7", sh='exec /bin/sh "$@"')
    engine = SlurmEngine(data_dir=str(tmp_path), variables={"PATH": path})
    with pytest.raises(RefusedError, match="has no sbatch"):
        await engine._client.facts()


async def test_a_login_machine_by_ssh_gets_programs_and_variables_in_a_posix_shell(tmp_path: Path) -> None:
    programs = write_programs(tmp_path / "it's bin", srun="echo step $MARK")
    connection = LocalLogin({})
    lines: list[str] = []
    run = connection.run
    connection.run = lambda command, *words: (lines.append(command), run(command, *words))[1]  # type: ignore[method-assign]
    ssh = SimpleNamespace(machine=lambda _alias: connection, data_dir=str(tmp_path))
    login = SshLogin(ssh, "login", "", commands.environment(programs, {"MARK": "a b"}))  # type: ignore[arg-type]
    assert (await login.run("srun")).output == b"step a b\n"
    assert lines[0].startswith("exec sh -c '")


async def test_another_process_joins_the_same_job(engine: SlurmEngine, slurm: FakeSlurm, tmp_path: Path) -> None:
    first = await acquire(engine)
    again = engine_of(slurm, tmp_path)
    assert await again.find("f00d") == first
    assert await acquire(again) == first
    assert len(slurm.jobs) == 1


async def test_a_wait_is_reported_once_for_each_state_and_keeps_its_job(engine: SlurmEngine, slurm: FakeSlurm) -> None:
    slurm.starts = False
    async with aclosing(engine.acquire(request())) as steps:  # type: ignore[type-var]
        assert isinstance(await anext(steps), Handle)
        waits = await anext(steps)
        assert isinstance(waits, QueueStatus)
        assert waits.reason.startswith("Resources")
        slurm.jobs[0].reason = "Priority"
        waits = await anext(steps)
        assert isinstance(waits, QueueStatus)
        assert waits.reason.startswith("Priority")
        slurm.starts = True
        rest = [step async for step in steps]
    assert all(isinstance(step, Handle) for step in rest)
    assert len(slurm.jobs) == 1


async def test_what_can_never_run_is_cancelled_and_refused_with_slurms_word(
    engine: SlurmEngine, slurm: FakeSlurm
) -> None:
    slurm.starts, slurm.usual_reason = False, "BadConstraints"
    with pytest.raises(RefusedError, match="BadConstraints"):
        await acquire(engine)
    assert slurm.jobs[0].state == "CANCELLED"


async def test_a_submission_that_slurm_refuses_leaves_no_job(engine: SlurmEngine, slurm: FakeSlurm) -> None:
    slurm.refusal = "Requested node configuration is not available"
    with pytest.raises(RefusedError, match="not available"):
        await acquire(engine)
    await engine.release(Handle(engine="slurm", cluster="f00d"))
    assert slurm.calls["scancel"] == 0


async def test_a_refusal_stands_where_the_accounts_cannot_be_read(
    engine: SlurmEngine, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.refusal = "Invalid account or account/partition combination specified"
    monkeypatch.setattr(slurm, "_sacctmgr", Mock(side_effect=NoAnswerError("none", transient=True)))
    with pytest.raises(RefusedError, match="Invalid account"):
        await acquire(engine)


async def test_a_submission_whose_answer_was_lost_is_found_by_its_name(engine: SlurmEngine, slurm: FakeSlurm) -> None:
    slurm.loses_next_answer = True
    with pytest.raises(UnavailableError):
        await acquire(engine)
    assert await engine.find("f00d") is not None
    handle = await acquire(engine)
    assert handle.hosts[0].data["job"] == "11"
    assert len(slurm.jobs) == 1


async def test_a_submission_that_never_came_is_made_again(
    engine: SlurmEngine, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.loses_next_answer = True
    with pytest.raises(UnavailableError):
        await acquire(engine)
    slurm.jobs.clear()
    monkeypatch.setattr(lifecycle, "LATE_SUBMISSION", 0.05)
    await acquire(engine)
    assert (len(slurm.jobs), slurm.calls["sbatch"]) == (1, 2)


async def test_a_release_cancels_the_job_and_frees_the_nodes_first(engine: SlurmEngine, slurm: FakeSlurm) -> None:
    handle = await acquire(engine)
    await engine.release(handle)
    assert slurm.released == ["f00d"]
    assert slurm.jobs[0].state == "CANCELLED"
    assert await engine.find("f00d") is None
    assert await engine.observe_all([handle]) == [Observation.GONE]
    with pytest.raises(RefusedError, match="released"):
        await acquire(engine)


async def test_a_job_that_squeue_does_not_list_is_cancelled(engine: SlurmEngine, slurm: FakeSlurm) -> None:
    slurm.lists_jobs = False
    with pytest.raises(UnavailableError, match="ended before"):
        await acquire(engine)
    assert slurm.jobs[0].state == "CANCELLED"


async def test_a_release_cancels_a_job_that_squeue_does_not_list(engine: SlurmEngine, slurm: FakeSlurm) -> None:
    handle = await acquire(engine)
    slurm.lists_jobs = False
    await engine.release(handle)
    assert slurm.jobs[0].state == "CANCELLED"


async def test_a_release_before_the_submission_leaves_no_job(
    engine: SlurmEngine, slurm: FakeSlurm, tmp_path: Path
) -> None:
    async with aclosing(engine.acquire(request())) as steps:  # type: ignore[type-var]
        first = await anext(steps)
        assert isinstance(first, Handle)
        await engine_of(slurm, tmp_path).release(first)
        with pytest.raises(RefusedError, match="released"):
            await anext(steps)
    assert slurm.jobs == []


async def test_a_release_during_the_submission_leaves_no_job(engine: SlurmEngine, slurm: FakeSlurm) -> None:
    slurm.before_submission = lambda: engine._records.release("f00d")
    with pytest.raises(RefusedError, match="released"):
        await acquire(engine)
    assert [job.state for job in slurm.jobs] == ["CANCELLED"]


async def test_a_launch_is_repeated_while_its_allocation_runs(engine: SlurmEngine, slurm: FakeSlurm) -> None:
    slurm.lost_launches = 3
    handle = await acquire(engine)
    assert slurm.launched == [("f00d", "algo-1")]
    assert (handle.hosts[0].data["job"], slurm.calls["sbatch"]) == ("11", 1)


async def test_a_launch_ends_with_its_allocation(
    engine: SlurmEngine, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "_answer", Mock(side_effect=lambda *_: end_jobs(slurm)))
    with pytest.raises(UnavailableError, match="A node of the allocation failed"):
        await acquire(engine)
    assert slurm.calls["srun"] == 1


@pytest.mark.parametrize(
    ("code", "words", "cure"),
    [
        (submission.EXIT_NO_PYTHON, "does not have the configured Python", "SlurmEngine.python"),
        (submission.EXIT_OLD_PYTHON, "older than 3.8", "SlurmEngine.python"),
        (allocation.EXIT_FOLDER, "folder of hosts", "SlurmEngine.folder"),
    ],
)
async def test_a_pilot_that_ended_is_a_refusal_with_its_reason_and_a_cure(
    engine: SlurmEngine, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, code: int, words: str, cure: str
) -> None:
    slurm.exit_code = code
    monkeypatch.setattr(slurm, "_answer", Mock(side_effect=lambda *_: end_jobs(slurm)))
    with pytest.raises(RefusedError, match=words) as error:
        await acquire(engine)
    assert cure in (error.value.cure or "")
    assert words in await engine.exit_reason("f00d", "algo-1")


def test_an_older_job_of_the_name_is_waited_for() -> None:
    assert submission.EXIT_OLDER_JOB == allocation.EXIT_OLDER_JOB
    error = lifecycle.end_error("12", "FAILED", {"ExitCode": f"{allocation.EXIT_OLDER_JOB}:0"})
    assert isinstance(error, UnavailableError)
    assert "older Slurm job" in error.message


def end_jobs(slurm: FakeSlurm) -> None:
    slurm.jobs[0].state = "NODE_FAIL" if slurm.exit_code == 1 else "FAILED"
    raise NoAnswerError("no answer", transient=True)


async def test_the_grace_of_a_notice_is_the_configured_one_where_slurm_does_not_answer(
    engine: SlurmEngine, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.notice_grace = 600.0
    monkeypatch.setattr(slurm, "_scontrol", Mock(side_effect=NoAnswerError("no answer", transient=True)))
    await acquire(engine)
    assert slurm.descriptions["algo-1"]["notice_grace"] == 600.0


async def test_a_release_reaches_nodes_on_which_a_launch_was_interrupted(
    engine: SlurmEngine, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_engine, "_REPEAT_WITHIN", 0.0)
    slurm.no_launch_on = "n2"
    with pytest.raises(UnavailableError):
        await acquire(engine, request(host("algo-1"), host("algo-2")))
    assert {*slurm.released_on} == {"n1", "n2"}


async def test_a_release_during_an_outage_is_repeated(engine: SlurmEngine, slurm: FakeSlurm) -> None:
    handle = await acquire(engine)
    slurm.is_away = True
    with pytest.raises(UnavailableError):
        await engine.release(handle)
    slurm.is_away = False
    await engine.release(handle)
    assert slurm.jobs[0].state == "CANCELLED"


async def test_an_outage_is_unknown(engine: SlurmEngine, slurm: FakeSlurm) -> None:
    handle = await acquire(engine)
    slurm.is_away = True
    engine._allocations.watch._began_at = float("-inf")
    assert await engine.observe_all([handle]) == [Observation.UNKNOWN]
    with pytest.raises(UnavailableError):
        await engine.find("f00d")


async def test_a_hundred_clusters_are_one_question(engine: SlurmEngine, slurm: FakeSlurm) -> None:
    handles = [
        Handle(engine="slurm", cluster=f"c{number}", hosts=(await acquire(engine)).hosts) for number in range(100)
    ]
    before = slurm.calls["squeue"]
    engine._allocations.watch._began_at = float("-inf")
    await asyncio.gather(*(engine.observe_all(handles) for _ in range(20)))
    assert slurm.calls["squeue"] == before + 1


async def test_pieces_of_a_file_are_read_with_one_question_to_the_scheduler(
    engine: SlurmEngine, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    await acquire(engine)
    before = slurm.calls["squeue"]
    monkeypatch.setattr(slurm, "_answer", lambda *_: {"data": "YWJj", "size": 3})
    for _ in range(5):
        assert await engine.read_spool("f00d", "algo-1", "j", "end.json", 0, 3) == (b"abc", 3)
        assert await engine.find("f00d") is not None
    assert slurm.calls["squeue"] <= before + 1


async def test_hosts_of_one_launch_share_a_look_at_the_configuration(engine: SlurmEngine, slurm: FakeSlurm) -> None:
    await acquire(engine, request(host("algo-1"), host("algo-2"), host("algo-3")))
    assert slurm.calls["scontrol"] == 2, "addresses of nodes, and the configuration"


async def test_a_connection_asks_the_scheduler_nothing(engine: SlurmEngine, slurm: FakeSlurm) -> None:
    handle = await acquire(engine)
    before = dict(slurm.calls)
    with pytest.raises(UnavailableError):
        await engine.connect(handle, "algo-1")
    assert dict(slurm.calls) == {**before, "relay": 1}


async def test_jobs_without_a_record_are_swept_and_others_are_not(engine: SlurmEngine, slurm: FakeSlurm) -> None:
    await acquire(engine)
    slurm.jobs.append(slurm.jobs[0].__copy__())
    slurm.jobs[-1].id, slurm.jobs[-1].name = 99, "smx-ffffffff-f00d"
    assert await engine.sweep(lambda: {"f00d"}) == []
    assert await engine.sweep(set) == ["f00d"]
    assert [job.state for job in slurm.jobs] == ["CANCELLED", "RUNNING"]


async def test_a_cancelled_job_names_who_cancelled_it_where_slurm_keeps_accounts(
    engine: SlurmEngine, slurm: FakeSlurm
) -> None:
    await acquire(engine)
    slurm.jobs[0].state = "CANCELLED"
    assert await engine.exit_reason("f00d", "algo-1") == "The Slurm job was cancelled."
    slurm.accounting = "CANCELLED by 0"
    assert await engine.exit_reason("f00d", "algo-1") == (
        "The Slurm job was cancelled by user 0. It ran for 2 min on 2 nodes, 1 min 31 s of CPU time, at most 2.0 MiB "
        "of memory."
    )


@pytest.mark.parametrize(("state", "words"), [("TIMEOUT", "time limit"), ("RUNNING", "")])
async def test_the_end_of_a_host_has_slurms_reason(
    engine: SlurmEngine, slurm: FakeSlurm, state: str, words: str
) -> None:
    await acquire(engine)
    slurm.jobs[0].state = state
    said = await engine.exit_reason("f00d", "algo-1")
    assert words in said
    assert bool(said) == bool(words)


def leave_results(slurm: FakeSlurm, cluster: str, owner: str) -> None:
    """Leave in the home what a node copied there an hour ago."""
    store = ClusterStore(slurm.home)
    store.describe(HostName(cluster, "algo-1"), {"owner": owner})
    hour_ago = time.time() - 3_600
    os.utime(Path(store.clusters, cluster, "algo-1.json"), (hour_ago, hour_ago))


async def test_results_of_old_clusters_in_a_shared_home_are_deleted(slurm: FakeSlurm, tmp_path: Path) -> None:
    slurm.home = os.fspath(tmp_path / "home")
    engine = engine_of(slurm, tmp_path, shared_home=True)
    await acquire(engine)
    for cluster in ("f00d", "old", "needed"):
        leave_results(slurm, cluster, engine._owner)
    leave_results(slurm, "other", "another data folder")
    assert await engine.prune(lambda cluster: cluster == "needed") == ["old"]
    assert sorted(ClusterStore(slurm.home).cluster_names()) == ["f00d", "needed", "other"]
    slurm.jobs[0].state = "COMPLETED"
    assert await engine.prune(lambda cluster: cluster == "needed") == ["f00d"]


async def test_nothing_is_deleted_in_a_home_while_slurm_does_not_answer(
    slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.home = os.fspath(tmp_path / "home")
    engine = engine_of(slurm, tmp_path, shared_home=True)
    leave_results(slurm, "old", engine._owner)
    monkeypatch.setattr(slurm, "_squeue", Mock(side_effect=NoAnswerError("none", transient=True)))
    with pytest.raises(UnavailableError):
        await engine.prune(lambda _: False)
    assert ClusterStore(slurm.home).cluster_names() == ["old"]
    assert await engine_of(slurm, tmp_path).prune(lambda _: False) == [], "no home is shared"
