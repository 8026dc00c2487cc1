"""What Slurm's accounting has of a job that ended: its rows, when they are asked for, and where there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fake_slurm import FakeSlurm
from test_slurm_engine import acquire, engine_of

from jupyter_smx.engines.remote.machine import Completed, NoAnswerError
from jupyter_smx.engines.slurm import allocations, parsers
from jupyter_smx.engines.slurm.parsers import Accounted

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
        (ROWS, Accounted(state="COMPLETED", nodes=1, elapsed=3720.0, cpu=2045.0, memory=3 << 29)),
        (COMPONENTS, Accounted(state="CANCELLED by 0", nodes=3, elapsed=61.0, cpu=86_403.5, memory=3 << 20)),
        ("4711|RUNNING|5|00:00:00||1\n", Accounted(state="RUNNING", nodes=1, elapsed=5.0, cpu=0.0)),
        ("", None),
        ("a message of the site\n4711.0|COMPLETED|1|00:00|1K|1\n", None),
    ],
)
def test_rows_of_the_accounting_are_added_up(text: str, expected: Accounted | None) -> None:
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
    slurm.accounting = "RUNNING"
    usage = await engine.platform_usage("f00d")
    assert usage is not None
    assert (usage.state, slurm.calls["sacct"]) == ("RUNNING", 3)


class SlurmWithoutDatabase(FakeSlurm):
    """A scheduler whose accounting gives no answer."""

    def _sacct(self, _command: str, _data: bytes) -> Completed:
        raise NoAnswerError("sacct gave no answer.", transient=True)


async def test_an_accounting_without_an_answer_costs_only_the_figures(tmp_path: Path) -> None:
    slurm = SlurmWithoutDatabase()
    engine = engine_of(slurm, tmp_path)
    await acquire(engine)
    for state, words in (("TIMEOUT", "time limit"), ("CANCELLED", "The Slurm job was cancelled.")):
        slurm.jobs[0].state = state
        reason = await engine.exit_reason("f00d", "algo-1")
        assert words in reason
        assert "It ran for" not in reason
