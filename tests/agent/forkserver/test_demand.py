from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.forkserver.prefork_demand import QUIET, SERIES, Demand, free_memory

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("takes", "now", "memory", "wanted"),
    [
        ([], 0.0, 0.5, 1),
        ([0.0], 0.1, 0.5, 1),
        ([0.0, SERIES / 2], 1.0, 0.5, 2),
        ([0.0, SERIES * 2], 3.0, 0.5, 1),
        ([0.0, 0.5, 5.0], 5.1, 0.5, 1),
        ([0.0, SERIES / 2], SERIES / 2 + QUIET, 0.5, 1),
        ([0.0, SERIES / 2], 1.0, 0.01, 0),
    ],
)
def test_one_for_a_person_two_in_a_series_none_without_memory(
    takes: list[float], now: float, memory: float, wanted: int
) -> None:
    moment = [0.0]
    demand = Demand(clock=lambda: moment[0], memory=lambda: memory)
    for moment[0] in takes:
        demand.record_start()
    moment[0] = now
    assert demand.desired_count() == wanted


def test_the_machine_says_how_much_memory_is_free() -> None:
    assert 0.0 < free_memory() <= 1.0


def test_free_memory_is_a_share_and_all_of_it_where_nobody_says_how_much(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    for text, share in {
        "MemTotal: 400 kB\nMemFree: 1 kB\nMemAvailable: 100 kB\nHugePages_Total: 3\n": 0.25,
        "MemTotal: 400 kB\nMemFree: 1 kB\n": 1.0,
        "MemTotal: 0 kB\nMemAvailable: 0 kB\n": 1.0,
        "": 1.0,
    }.items():
        (tmp_path / "proc" / "meminfo").write_text(text)
        assert free_memory(str(tmp_path)) == share
