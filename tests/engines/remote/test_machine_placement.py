"""Hosts get machines with room, and a cluster that no machine can have is refused at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.engines.base import HostSpec
from jupyter_smx.engines.remote.placement import MACHINE_OPTION, MachineRoom, place_hosts
from jupyter_smx.model.errors import RefusedError, ValidationError


def hosts(count: int, gpus: int = 0, machine: str = "") -> list[HostSpec]:
    options = {MACHINE_OPTION: machine} if machine else {}
    return [
        HostSpec(host=f"algo-{n}", group="all", instance_type="local", vcpus=1, gpus=gpus, options=options)
        for n in range(1, count + 1)
    ]


def room(slots: int, gpus: int = 0, *, used: int = 0, is_reachable: bool = True) -> MachineRoom:
    return MachineRoom(total_slots=slots, slots=slots - used, total_gpus=gpus, gpus=gpus, is_reachable=is_reachable)


rooms = st.dictionaries(
    st.sampled_from("abcd"),
    st.builds(room, st.integers(1, 4), st.integers(0, 4), is_reachable=st.booleans()),
    min_size=1,
)


@given(st.integers(1, 8), st.integers(0, 2), rooms)
def test_no_machine_gets_more_than_it_has(count: int, gpus: int, machines: dict[str, MachineRoom]) -> None:
    try:
        places = place_hosts(hosts(count, gpus), machines)
    except RefusedError:
        return
    for name, its in machines.items():
        taken = sum(place == name for place in places.values())
        assert taken <= (its.slots or 0)
        assert taken * gpus <= (its.gpus or 0)


@given(st.integers(1, 4), rooms)
def test_what_can_be_later_is_refused_for_now_only(count: int, machines: dict[str, MachineRoom]) -> None:
    full = {name: room(its.total_slots or 0, used=its.total_slots or 0) for name, its in machines.items()}
    with pytest.raises(RefusedError) as refused:
        place_hosts(hosts(count), full)
    assert refused.value.transient == (count <= sum(its.total_slots or 0 for its in machines.values()))


def test_hosts_spread_over_machines_with_room() -> None:
    assert place_hosts(hosts(3), {"a": room(2), "b": room(2)}) == {"algo-1": "a", "algo-2": "b", "algo-3": "a"}


def test_a_machine_that_cannot_be_reached_comes_last() -> None:
    machines = {"a": room(4, is_reachable=False), "b": room(1)}
    assert place_hosts(hosts(2), machines) == {"algo-1": "b", "algo-2": "a"}


def test_a_type_of_a_machine_is_placed_there_only() -> None:
    assert place_hosts(hosts(1, machine="b"), {"a": room(4), "b": room(1)}) == {"algo-1": "b"}
    with pytest.raises(ValidationError, match="Did you mean box"):
        place_hosts(hosts(1, machine="bos"), {"box": room(1)})


def test_too_many_gpus_are_refused_for_good() -> None:
    with pytest.raises(RefusedError, match="has not so many in one machine") as refused:
        place_hosts(hosts(1, gpus=2), {"a": room(1, 1), "b": room(1, 1)})
    assert not refused.value.transient
