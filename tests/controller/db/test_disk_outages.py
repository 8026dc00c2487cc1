"""A disk that is read-only, fails or is full: jobs wait and lists say so, and a reserve lets ends be written."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.controller import errors, retention
from jupyter_smx.controller.clock import ClockOffset
from jupyter_smx.controller.db import reserve
from jupyter_smx.controller.db.connection import unwritable_error
from jupyter_smx.controller.db.reserve import Reserve
from jupyter_smx.controller.retention import DEFAULT_RETENTION, Retention
from jupyter_smx.controller.transfer import host_spool
from jupyter_smx.controller.transfer.job_folder import StagingError, wrap_disk_errors
from jupyter_smx.engines import untrusted_files
from jupyter_smx.engines.machine.request_validation import not_writable_error
from jupyter_smx.kernel.text.pages import pools_page
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.testing.eventually import eventually
from jupyter_smx.testing.fakes.fake_engine import Fault

if TYPE_CHECKING:
    from jupyter_smx.controller.db.store import Store
    from jupyter_smx.testing.simulation.simulation import Simulation

LONGER = 900.0
"""Seconds; longer than an outage is waited for."""
OUTAGES = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT)
DATA = Path("/data")


def system_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


class DiskFails(Fault):
    """The folder of hosts cannot be written, so an engine of this machine launches nothing."""

    def __init__(self, number: int) -> None:
        self.number = number

    async def before_launch(self) -> None:
        """Refuse."""
        error = system_error(self.number)
        raise not_writable_error(DATA, error) from error


def message_of(sim: Simulation, job: str) -> str:
    (row,) = [row for row in sim.controller.facade.jobs(100, "", None) if row.id == job]
    return row.message


# Launches


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS], ids=errno.errorcode.get)
def test_a_launch_waits_for_a_disk_that_is_full_or_read_only_without_end(sim: Simulation, number: int) -> None:
    sim.set_faults(DiskFails(number))
    job = sim.submit()
    sim.pass_time(LONGER)
    assert (sim.job(job).ended_at, sim.job(job).cluster) == (None, "")
    what = {errno.ENOSPC: "for free disk space", errno.EROFS: "for the file system (Read-only file system)"}
    assert message_of(sim, job) == f"Its launch waits {what[number]}."
    sim.set_faults()
    sim.pass_time(120.0)
    sim.end_job(job)
    assert sim.job(job).state is SecondaryStatus.COMPLETED


@pytest.mark.parametrize("number", OUTAGES, ids=errno.errorcode.get)
def test_a_launch_waits_for_a_disk_that_fails_for_ten_minutes(sim: Simulation, number: int) -> None:
    sim.set_faults(DiskFails(number))
    job = sim.submit()
    sim.pass_time(500.0)
    assert message_of(sim, job) == f"Its launch waits for the file system ({os.strerror(number)})."
    sim.pass_time(LONGER - 500.0)
    ended = sim.job(job)
    assert ended.state is SecondaryStatus.FAILED
    assert ended.failure_reason.startswith("InternalServerError: data_dir: ")
    assert os.strerror(number) in ended.failure_reason


def test_a_disk_that_fails_again_after_it_was_full_is_waited_for_as_long(sim: Simulation) -> None:
    job = sim.submit()
    sim.pass_time(1.0)
    runtime = sim.controller.reconciler.runtimes.get(sim.job(job))
    fails, full = (not_writable_error(DATA, system_error(number)) for number in (errno.EIO, errno.ENOSPC))
    fails.__cause__, full.__cause__ = system_error(errno.EIO), system_error(errno.ENOSPC)
    assert runtime.can_wait_for_disk(fails, 100.0)
    assert runtime.can_wait_for_disk(fails, 400.0)
    assert not runtime.can_wait_for_disk(fails, 700.0)
    assert runtime.can_wait_for_disk(full, 800.0)
    assert runtime.can_wait_for_disk(fails, 900.0)
    sim.end_job(job)


def test_a_failure_long_after_an_outage_begins_another_one(sim: Simulation) -> None:
    job = sim.submit()
    sim.pass_time(1.0)
    runtime = sim.controller.reconciler.runtimes.get(sim.job(job))
    fails = not_writable_error(DATA, system_error(errno.EIO))
    fails.__cause__ = system_error(errno.EIO)
    assert all(runtime.can_wait_for_disk(fails, moment) for moment in (100.0, 130.0, 740.0, 1300.0))
    sim.end_job(job)


@pytest.mark.parametrize("run_seconds", [30.0, LONGER])
def test_a_disk_that_failed_at_the_launch_is_waited_for_again_at_the_end(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch, run_seconds: float
) -> None:
    sim.set_faults(DiskFails(errno.EIO))
    job = sim.submit()
    sim.pass_time(500.0)
    sim.set_faults()
    sim.pass_time(60.0 + run_seconds)
    assert sim.job(job).state is SecondaryStatus.TRAINING
    refuse_outputs(sim, monkeypatch, errno.EIO)
    sim.end_job(job)
    sim.pass_time(120.0)
    assert sim.job(job).ended_at is None
    monkeypatch.undo()
    sim.pass_time(60.0)
    assert sim.job(job).state is SecondaryStatus.COMPLETED


def test_a_network_that_times_out_is_no_disk() -> None:
    away = UnavailableError("The agent is unreachable.", transient=True)
    away.__cause__ = system_error(errno.ETIMEDOUT)
    assert not errors.is_disk_outage(away)
    assert errors.disk_wait(away) == ""


# Ends


def refuse_outputs(sim: Simulation, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let no output be stored."""

    async def refuse(*_: Any) -> Any:
        with wrap_disk_errors(DATA / "jobs"):
            raise system_error(number)

    monkeypatch.setattr(sim.controller.reconciler._finalizer._output_stager, "stage_out", refuse)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS], ids=errno.errorcode.get)
def test_the_end_of_a_job_waits_for_a_disk_that_is_full_or_read_only(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    job = sim.submit()
    sim.pass_time(1.0)
    refuse_outputs(sim, monkeypatch, number)
    sim.end_job(job)
    sim.pass_time(LONGER)
    said = {errno.ENOSPC: "for free disk space", errno.EROFS: "for the file system (Read-only file system)"}[number]
    assert message_of(sim, job) == f"Finalizing waits {said}."
    monkeypatch.undo()
    sim.pass_time(5.0)
    assert sim.job(job).state is SecondaryStatus.COMPLETED


def test_the_end_of_a_job_waits_for_a_disk_that_fails_for_ten_minutes_and_keeps_how_it_ended(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = sim.submit()
    sim.pass_time(1.0)
    refuse_outputs(sim, monkeypatch, errno.ESTALE)
    sim.end_job(job)
    sim.pass_time(500.0)
    assert sim.job(job).ended_at is None
    sim.pass_time(LONGER - 500.0)
    ended = sim.job(job)
    assert ended.failure_reason.startswith("InternalServerError: The outputs could not be collected: ")
    assert [(end.cause, end.exit_code) for end in ended.hosts] == [("exit", 0)]


@pytest.mark.parametrize("number", [errno.EROFS, *OUTAGES], ids=errno.errorcode.get)
async def test_files_of_a_host_that_cannot_be_read_now_are_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(*_: object) -> Any:
        raise system_error(number)

    spool = host_spool.HostSpool(tmp_path / "job")
    assert (await spool.size("log"), await spool.read_whole("end.json")) == (0, None)
    monkeypatch.setattr(untrusted_files, "open_file", fail)
    for ask in (spool.size, spool.read_whole):
        with pytest.raises(UnavailableError, match=os.strerror(number)) as refusal:
            await ask("log")
        assert refusal.value.field == "data_dir"


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE], ids=errno.errorcode.get)
def test_files_of_a_lost_host_that_a_disk_of_this_machine_refuses_are_waited_for_ten_minutes(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(*_: object, **__: object) -> Any:
        raise system_error(number)

    job = sim.submit()
    sim.pass_time(1.0)
    monkeypatch.setattr(untrusted_files, "open_file", fail)
    sim.kill_host(sim.hosts(job)[0])
    sim.pass_time(500.0)
    assert "their files cannot be read now" in message_of(sim, job)
    sim.pass_time(LONGER - 500.0)
    assert sim.job(job).failure_reason.startswith("InternalServerError: Host algo-1 was lost while the job ran")


# Lists


def test_lists_say_that_jobs_and_pools_wait_for_the_disk_of_the_records(sim: Simulation) -> None:
    sim.run_to_end(keep_alive=600)
    running = sim.submit()
    sim.pass_time(1.0)
    before = message_of(sim, running)
    sim.fill_disk()
    sim.end_job(running)
    sim.pass_time(3.0)
    assert message_of(sim, running) == f"{before} Its next step waits for free disk space."
    pools = sim.controller.facade.pools()
    assert {pool.disk_wait for pool in pools} == {"Its next step waits for free disk space."}
    assert "waits for the disk" in pools_page(pools, 0.0)[0]
    sim.free_disk()
    sim.pass_time(3.0)
    assert sim.job(running).state is SecondaryStatus.COMPLETED
    assert not any(pool.disk_wait for pool in sim.controller.facade.pools())


def test_lists_end_to_say_so_when_the_disk_has_room_although_nothing_else_is_written(sim: Simulation) -> None:
    running = sim.submit()
    sim.pass_time(1.0)
    before = message_of(sim, running)
    sim.fill_disk()
    with pytest.raises(UnavailableError):
        sim.submit()
    assert message_of(sim, running).endswith("waits for free disk space.")
    sim.free_disk()
    sim.pass_time(1.5)
    assert message_of(sim, running) == before
    sim.end_job(running)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (sqlite3.OperationalError("database or disk is full"), "for free disk space"),
        (sqlite3.OperationalError("disk I/O error"), "for its records (disk I/O error)"),
        (system_error(errno.EDQUOT), "for free disk space"),
    ],
)
def test_what_records_wait_for_is_said_without_a_path(error: Exception, said: str) -> None:
    told = unwritable_error(DATA / "smx.sqlite", error)
    told.__cause__ = error
    assert errors.disk_wait(told) == said


def test_a_file_that_no_disk_will_ever_take_is_not_waited_for() -> None:
    with pytest.raises(StagingError) as refusal, wrap_disk_errors(DATA):
        raise system_error(errno.EACCES)
    assert not refusal.value.transient
    assert errors.disk_wait(refusal.value) == ""


# The reserve


@pytest.fixture
def scarce(sim: Simulation, monkeypatch: pytest.MonkeyPatch) -> Reserve:
    """Give a reserve without which no record can be written while it exists."""
    kept = sim.controller.store.reserve
    kept.restore()
    path, write = kept._path, sim.controller.store.write

    def write_without(*what: Any, **more: Any) -> Any:
        if path.exists():
            full = system_error(errno.ENOSPC)
            raise unwritable_error(sim.controller.store.path, full) from full
        return write(*what, **more)

    monkeypatch.setattr(sim.controller.store, "write", write_without)
    return kept


def test_the_reserve_is_for_the_ends_of_jobs_and_not_for_new_ones(sim: Simulation, scarce: Reserve) -> None:
    scarce.release()
    job = sim.submit()
    sim.pass_time(1.0)
    scarce.restore()
    with pytest.raises(UnavailableError):
        sim.submit()
    assert scarce._path.exists()
    sim.end_job(job)
    sim.pass_time(3.0)
    assert sim.job(job).state is SecondaryStatus.COMPLETED
    assert not scarce._path.exists()


def test_the_reserve_takes_room_and_is_made_again_only_where_there_is_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Reserve(tmp_path)
    kept.restore()
    assert (tmp_path / reserve.NAME).stat().st_blocks * 512 >= reserve.SIZE
    assert (tmp_path / reserve.NAME).stat().st_mode & 0o777 == 0o600
    assert (kept.release(), kept.release()) == (True, False)
    monkeypatch.setattr(reserve, "_ROOM", 1 << 62)
    kept.restore()
    assert not (tmp_path / reserve.NAME).exists()


def test_a_reserve_that_is_refused_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise system_error(errno.ENOSPC)

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    Reserve(tmp_path).restore()
    assert [*tmp_path.iterdir()] == []
    Reserve(tmp_path / "gone").restore()


# The write-ahead log


def test_the_write_ahead_log_is_short_after_a_checkpoint(store: Store) -> None:
    log = Path(f"{store.path}-wal")
    for number in range(600):
        store.write(clock=ClockOffset("boot", float(number)))
    assert log.stat().st_size > 2 << 20
    assert store.checkpoint()
    store.write(clock=ClockOffset("boot", 0.0))
    assert log.stat().st_size <= 1 << 20


async def test_a_long_log_of_killed_controllers_is_moved_although_writes_go_on(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them was killed within seconds, so that the log grew by all that they wrote."""
    monkeypatch.setattr(retention, "LONG_LOG", 64 << 10)
    monkeypatch.setattr(retention, "MANY_WRITES", 10**9)
    live_state: Any = SimpleNamespace(store=store, clusters={}, monotonic=lambda: 0.0)

    def keeper() -> Retention:
        return Retention(live_state, tmp_path, DEFAULT_RETENTION, lambda: 0.0, lambda _name: None)  # type: ignore[arg-type, return-value]

    def write_and_tick(chores: Retention) -> None:
        store.write(clock=ClockOffset("boot", 1.0))
        chores.tick()

    moves: list[bool] = []
    move = store.checkpoint
    monkeypatch.setattr(store, "checkpoint", lambda: moves.append(move()) or moves[-1])
    early = keeper()
    for _ in range(50):
        write_and_tick(early)
    assert moves == [], "between its own writes it moves nothing"
    assert store.log_size() > retention.LONG_LOG
    later = keeper()
    await eventually(lambda: write_and_tick(later) or moves, "the log is moved")
    await early.close()
    await later.close()
    assert all(moves), "on a busy machine one more may have begun"


async def test_on_a_full_disk_the_log_is_moved_with_the_room_of_the_reserve_before_anything_is_written(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_state = SimpleNamespace(store=store, clusters={}, monotonic=lambda: 0.0)
    keeper = Retention(live_state, tmp_path, DEFAULT_RETENTION, lambda: 0.0, lambda _name: None)  # type: ignore[arg-type]
    move, prune, moved = store.checkpoint, store.prune_events, threading.Event()
    full = system_error(errno.ENOSPC)

    def checkpoint() -> bool:
        if store.reserve._path.exists():
            raise unwritable_error(store.path, full) from full
        moved.set()
        return move()

    def prune_events(keep: int) -> None:
        if not moved.is_set():
            raise unwritable_error(store.path, full) from full
        prune(keep)

    monkeypatch.setattr(store, "checkpoint", checkpoint)
    monkeypatch.setattr(store, "prune_events", prune_events)
    monkeypatch.setattr(retention, "LONG_LOG", 1 << 10)
    store.reserve.restore()
    monkeypatch.setattr(store.reserve, "restore", lambda: None)  # as on a disk that is full
    store.write(clock=ClockOffset("boot", 1.0))
    keeper.tick()
    await eventually(lambda: keeper.tick() or moved.is_set(), "the log is moved")
    await keeper.close()
