from __future__ import annotations

import pytest

from jupyter_smx.agent.demand import QUIET, SERIES, Demand, free_memory


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
        demand.taken()
    moment[0] = now
    assert demand.wanted() == wanted


def test_the_machine_says_how_much_memory_is_free() -> None:
    assert 0.0 < free_memory() <= 1.0
