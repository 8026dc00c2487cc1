"""The estimate of a host's clock: true within half of the round trip, best by the shortest, new when a clock is set."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.policy.hosts.host_clock import RESOLUTION, HostClock, best_host_clock, measure_host_clock

NOW = 1_800_000_000.0
delays = st.floats(0.0, 30.0)
differences = st.floats(-1e7, 1e7)


def measured(ahead: float, there: float, back: float, now: float = NOW) -> HostClock:
    """Measure a clock that is ``ahead`` by a request that took ``there`` seconds, and its answer ``back``."""
    return measure_host_clock(now + there + ahead, now, now + there + back, there + back)


@given(differences, delays, delays)
def test_an_estimate_is_wrong_by_half_of_the_round_trip_at_most(ahead: float, there: float, back: float) -> None:
    found = measured(ahead, there, back)
    assert abs(found.ahead - ahead) <= found.error + 1e-5
    assert found.error <= (there + back) / 2 + RESOLUTION + 1e-5


@given(delays, delays)
def test_equal_clocks_are_taken_as_equal_however_long_an_answer_takes(there: float, back: float) -> None:
    assert measured(0.0, there, back).seconds() == 0.0


@given(differences, st.lists(st.tuples(delays, delays), min_size=1))
def test_the_shortest_round_trip_tells_the_difference(ahead: float, trips: list[tuple[float, float]]) -> None:
    known = None
    for there, back in trips:
        known = best_host_clock(known, measured(ahead, there, back))
    assert known is not None
    assert abs(known.ahead - ahead) <= min(there + back for there, back in trips) / 2 + RESOLUTION


@given(st.floats(100.0, 1e7), delays, delays)
def test_a_clock_that_was_set_is_known_by_the_next_answer(jump: float, there: float, back: float) -> None:
    known = best_host_clock(measured(0.0, 0.001, 0.001), measured(jump, there, back))
    assert abs(known.ahead - jump) <= (there + back) / 2 + 1e-5


@given(st.sampled_from([-3_600.0, 3_600.0]), delays, delays)
def test_a_request_during_which_the_controllers_clock_is_set_makes_no_difference(
    jump: float, there: float, back: float
) -> None:
    """Both clocks are of one machine."""
    for remote in (NOW + there, NOW + there + jump):
        found = measure_host_clock(remote, NOW, NOW + there + back + jump, there + back)
        assert found.seconds() == 0.0
        assert best_host_clock(measured(0.0, 0.001, 0.001), found).seconds() == 0.0


def test_a_request_during_which_the_machine_slept_makes_no_difference() -> None:
    """The clock of the event loop stands still meanwhile."""
    found = measure_host_clock(NOW, NOW, NOW + 3_600.0, 0.01)
    assert found.seconds() == 0.0
    assert best_host_clock(measured(0.0, 0.001, 0.001), found).seconds() == 0.0
