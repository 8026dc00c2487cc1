"""What Slurm's accounting has of a job that ended: its rows, when they are asked for, and where there are none."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from fake_slurm import FakeSlurm
from msgspec.structs import replace
from slurm_requests import host, request
from test_slurm_engine import acquire, engine_of

from jupyter_smx.engines.remote.machine import Completed, NoAnswerError
from jupyter_smx.engines.slurm import allocations, parsers
from jupyter_smx.engines.slurm.parsers import AccountingRow

if TYPE_CHECKING:
    from pathlib import Path

ROWS = """\
4711|COMPLETED|3720|00:34:05||1
4711.batch|COMPLETED|3720|00:05.250|10240K|1
4711.0|COMPLETED|3700|00:34:00|1.5G|1
"""
COMPONENTS = (
    "12+0|CANCELLED by 0|60|1-00:00:01||1\n12+0.0|CANCELLED|59|00:01|3M|1\n12+1|CANCELLED by 0|61|00:02.500||2\n"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ROWS, AccountingRow(state="COMPLETED", nodes=1, elapsed=3720.0, cpu=2045.0, memory=3 << 29)),
        (COMPONENTS, AccountingRow(state="CANCELLED by 0", nodes=3, elapsed=61.0, cpu=86_403.5, memory=3 << 20)),
        ("4711|RUNNING|5|00:00:00||1\n", AccountingRow(state="RUNNING", nodes=1, elapsed=5.0, cpu=0.0)),
        ("", None),
        ("a message of the site\n4711.0|COMPLETED|1|00:00|1K|1\n", None),
    ],
)
def test_rows_of_the_accounting_are_added_up(text: str, expected: AccountingRow | None) -> None:
    assert parsers.parse_accounting(text) == expected


async def test_a_cluster_that_ended_has_its_figures_and_one_without_accounting_has_none(tmp_path: Path) -> None:
    slurm = FakeSlurm()
    engine = engine_of(slurm, tmp_path)
    assert await engine.platform_usage("f00d") is None
    assert slurm.calls["sacct"] == 0
    await acquire(engine)
    assert await engine.platform_usage("f00d") is None
    slurm.accounting = "COMPLETED"
    usage = await engine.platform_usage("f00d")
    assert usage is not None
    assert usage.sentence() == (
        "Slurm job 11: COMPLETED, 2 min on 2 nodes, 1 min 31 s of CPU time, at most 2.0 MiB of memory"
    )


async def test_figures_that_are_not_there_yet_are_waited_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocations, "_ACCOUNTING_DELAYS", (0.0, 0.0))
    slurm = FakeSlurm()
    engine = engine_of(slurm, tmp_path)
    await acquire(engine)
    for number, state in enumerate(("RUNNING", "PENDING", "COMPLETING"), 1):
        slurm.accounting = state
        assert await engine.platform_usage("f00d") is None
        assert slurm.calls["sacct"] == 3 * number


class SlurmWithoutDatabase(FakeSlurm):
    """A scheduler whose accounting gives no answer."""

    def _sacct(self, _command: str, _data: bytes) -> Completed:
        raise NoAnswerError("sacct gave no answer.", transient=True)


@pytest.mark.parametrize(("state", "words"), [("TIMEOUT", "time limit"), ("CANCELLED", "The Slurm job was cancelled.")])
async def test_an_accounting_without_an_answer_costs_only_the_figures(tmp_path: Path, state: str, words: str) -> None:
    slurm = SlurmWithoutDatabase()
    engine = engine_of(slurm, tmp_path)
    await acquire(engine)
    slurm.jobs[0].state = state
    reason = await engine.exit_reason("f00d", "algo-1")
    assert words in reason
    assert "It ran for" not in reason


async def test_the_hosts_of_a_job_share_one_look_at_the_accounting(tmp_path: Path) -> None:
    slurm = FakeSlurm()
    engine = engine_of(slurm, tmp_path)
    await acquire(engine)
    slurm.accounting = slurm.jobs[0].state = "TIMEOUT"
    await asyncio.gather(*(engine.exit_reason("f00d", "algo-1") for _ in range(8)))
    assert "It ran for 2 min" in await engine.exit_reason("f00d", "algo-2")
    assert slurm.calls["sacct"] == 1


class SlurmThatShowsAJob(FakeSlurm):
    """A scheduler whose ``scontrol show job`` prints ``shown``."""

    shown = ""

    def _scontrol(self, command: str, data: bytes) -> Completed:
        return Completed(0, self.shown.encode(), "") if "show job" in command else super()._scontrol(command, data)


async def test_a_notice_is_announced_as_long_before_the_end_as_the_job_planned_it(tmp_path: Path) -> None:
    slurm = SlurmThatShowsAJob()
    engine = engine_of(slurm, tmp_path, notice_time=600.0)
    await acquire(engine, request(host(), options={"time": "10m"}))
    record = engine._records.read("f00d")
    assert record is not None
    assert record.notice == 300.0
    slurm.shown = f"JobState=RUNNING EndTime={time.time() + 500:.0f}"
    assert await engine.exit_reason("f00d", "algo-1") == ""
    slurm.shown = f"JobState=RUNNING EndTime={time.time() + 350:.0f}"
    assert "time limit" in await engine.exit_reason("f00d", "algo-1")


async def test_a_pool_that_was_released_does_not_show_who_cancelled_its_job(tmp_path: Path) -> None:
    slurm = FakeSlurm()
    engine = engine_of(slurm, tmp_path)
    handle = await acquire(engine)
    slurm.accounting = "CANCELLED by 1000"
    usage = await engine.platform_usage("f00d")
    assert usage is not None
    assert usage.sentence().startswith("Slurm job 11: CANCELLED by 1000, 2 min")
    await engine.release(handle)
    usage = await engine.platform_usage("f00d")
    assert usage is not None
    assert usage.sentence().startswith("Slurm job 11: 2 min")
    assert replace(usage, nodes=0, elapsed_seconds=None, cpu_seconds=None, peak_memory_bytes=None).sentence() == (
        "Slurm job 11"
    )
