"""Hosts get machines that answer and have room, and a cluster that no machine can have is refused at once.

Of several machines those that answer are known after three seconds, and a silent one is waited for once. The same holds
for the states of their hosts.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.engines.base import HostSpec, Observation
from jupyter_smx.engines.remote import contacts, observations
from jupyter_smx.engines.remote.cluster_register import Intention
from jupyter_smx.engines.remote.contacts import Contacts
from jupyter_smx.engines.remote.machine import MachineOptions, NoSessionError, NotStartedError
from jupyter_smx.engines.remote.machine_check import MachineCheck, report
from jupyter_smx.engines.remote.observations import Observer, clusters_by_machine, conclude
from jupyter_smx.engines.remote.placement import MACHINE_OPTION, MachineRoom, place_hosts
from jupyter_smx.model.errors import RefusedError, SmxError, UnavailableError, ValidationError
from jupyter_smx.model.records.cluster import Handle, HostHandle
from jupyter_smx.model.text import format_moment
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

MORNING = 1_700_000_000.0
AWAY = NotStartedError("b does not answer.", cure="Turn it on.", transient=True)


def hosts(count: int, gpus: int = 0, machine: str = "") -> list[HostSpec]:
    options = {MACHINE_OPTION: machine} if machine else {}
    return [
        HostSpec(host=f"algo-{n}", group="all", instance_type="local", vcpus=1, gpus=gpus, options=options)
        for n in range(1, count + 1)
    ]


def room(slots: int, gpus: int = 0, *, used: int = 0, unreachable: str = "") -> MachineRoom:
    return MachineRoom(total_slots=slots, slots=slots - used, total_gpus=gpus, gpus=gpus, unreachable=unreachable)


OFF = "b is not reachable since 14:05: b does not answer."
rooms = st.dictionaries(
    st.sampled_from("abcd"),
    st.builds(room, st.integers(1, 4), st.integers(0, 4), unreachable=st.sampled_from(["", OFF])),
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
        assert taken <= (0 if its.unreachable else its.slots or 0)
        assert taken * gpus <= (its.gpus or 0)


@given(st.integers(1, 4), rooms)
def test_what_can_be_later_is_refused_for_now_only(count: int, machines: dict[str, MachineRoom]) -> None:
    full = {name: room(its.total_slots or 0, used=its.total_slots or 0) for name, its in machines.items()}
    with pytest.raises(RefusedError) as refused:
        place_hosts(hosts(count), full)
    assert refused.value.transient == (count <= sum(its.total_slots or 0 for its in machines.values()))


def test_hosts_spread_over_machines_with_room() -> None:
    assert place_hosts(hosts(3), {"a": room(2), "b": room(2)}) == {"algo-1": "a", "algo-2": "b", "algo-3": "a"}


def test_a_silent_machine_gets_no_host_and_is_named_where_the_others_are_full() -> None:
    machines = {"a": room(1), "b": room(4, unreachable=OFF)}
    assert place_hosts(hosts(1), machines) == {"algo-1": "a"}
    with pytest.raises(RefusedError, match="No slot of the 2 machines of this engine is free") as refused:
        place_hosts(hosts(2), machines)
    assert str(refused.value).endswith(f"{OFF} The job starts when another one ends or the machine answers.")
    assert refused.value.transient


@pytest.mark.parametrize("machine", ["", "b"])
def test_where_only_silent_machines_can_have_a_host_their_silence_is_the_reason(machine: str) -> None:
    others = {"a": room(4)} if machine else {}
    with pytest.raises(RefusedError) as refused:
        place_hosts(hosts(1, machine=machine), {**others, "b": room(4, unreachable=OFF)})
    assert str(refused.value) == f"{OFF} The job starts when the machine answers."
    assert refused.value.transient


def test_a_type_of_a_machine_is_placed_there_only() -> None:
    assert place_hosts(hosts(1, machine="b"), {"a": room(4), "b": room(1)}) == {"algo-1": "b"}
    with pytest.raises(ValidationError, match="Did you mean box"):
        place_hosts(hosts(1, machine="bos"), {"box": room(1)})


def test_too_many_gpus_are_refused_for_good() -> None:
    with pytest.raises(RefusedError, match="has not so many in one machine") as refused:
        place_hosts(hosts(1, gpus=2), {"a": room(1, 1), "b": room(1, 1)})
    assert not refused.value.transient


class Machines:
    """Machines that answer at once, raise an error of ``errors``, or wait until ``answer`` if they are ``silent``."""

    def __init__(self) -> None:
        self.errors: dict[str, Exception] = {}
        self.silent: set[str] = set()
        self.asked: list[str] = []
        self.now = 100.0
        self.contacts = Contacts(self.ask, lambda: self.now, lambda: MORNING + self.now)
        self._answers: dict[str, asyncio.Event] = {}

    async def ask(self, machine: str) -> None:
        self.asked.append(machine)
        if machine in self.silent:
            await self._answers.setdefault(machine, asyncio.Event()).wait()
        if machine in self.errors:
            raise self.errors[machine]

    def answer(self, machine: str) -> None:
        """Let a silent machine answer."""
        self.silent.discard(machine)
        self._answers.setdefault(machine, asyncio.Event()).set()

    async def refresh(self, machines: Iterable[str] = "ab") -> list[str]:
        """Ask them; gives which are known to answer."""
        names = [*machines]
        await asyncio.wait_for(self.contacts.refresh(names), 10)
        return [name for name in names if self.contacts.has_answered(name)]


@pytest.fixture
def contacted(monkeypatch: pytest.MonkeyPatch) -> Machines:
    monkeypatch.setattr(contacts, "WAIT", 0.01)
    return Machines()


async def test_machines_are_asked_once_a_second(contacted: Machines) -> None:
    assert await contacted.refresh() == ["a", "b"]
    contacted.now += 0.9
    assert await contacted.refresh() == ["a", "b"]
    assert contacted.asked == ["a", "b"]
    contacted.now += 0.2
    assert await contacted.refresh() == ["a", "b"]
    assert contacted.asked == ["a", "b", "a", "b"]


async def test_a_silent_machine_is_waited_for_once_and_is_there_as_soon_as_it_answers(
    contacted: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    contacted.silent = {"b"}
    assert await contacted.refresh() == ["a"]
    assert contacted.contacts.unreachable_reason("b").endswith("b did not answer within 0.01 s.")
    monkeypatch.setattr(contacts, "WAIT", 1000.0)
    contacted.now += 2
    assert await contacted.refresh() == ["a"]
    assert contacted.asked == ["a", "b", "a"], "the question to b goes on"
    contacted.answer("b")
    contacted.now += 2
    await contacted.refresh("b")
    assert await contacted.refresh() == ["a", "b"]
    assert contacted.contacts.unreachable_reason("b") == ""


async def test_launches_at_the_same_time_share_one_question(contacted: Machines) -> None:
    contacted.silent = {"a", "b"}
    both = asyncio.gather(contacted.refresh(), contacted.refresh())
    await eventually(lambda: len(contacted.asked) == 2, "both are asked")
    contacted.answer("a")
    assert await both == [["a"], ["a"]]
    assert contacted.asked == ["a", "b"]
    await contacted.contacts.close()


async def test_the_silence_of_a_machine_has_its_beginning_and_its_reason(contacted: Machines) -> None:
    contacted.errors = {"b": AWAY}
    await contacted.refresh()
    since = format_moment(MORNING + contacted.now, MORNING)
    contacted.now += 3600
    await contacted.refresh()
    assert contacted.contacts.unreachable_reason("b") == f"b is not reachable since {since}: b does not answer."
    assert contacted.contacts.unreachable_reason("a") == ""
    contacted.errors = {"b": RefusedError("The host key of b is another one.")}
    contacted.now += 2
    await contacted.refresh("b a")
    assert (
        contacted.contacts.unreachable_reason("b")
        == f"b cannot be used since {since}: The host key of b is another one."
    )


async def test_where_none_answers_the_first_error_says_since_when(contacted: Machines) -> None:
    contacted.errors = {"a": UnavailableError("a is away."), "b": AWAY}
    for seconds in (0, 1800):
        contacted.now += seconds
        with pytest.raises(NotStartedError) as away:
            await contacted.refresh("ba")
    assert str(away.value) == f"Not reachable since {format_moment(MORNING + 100, MORNING)}: {AWAY}"
    assert away.value.transient


async def test_where_one_machine_may_be_back_and_the_other_is_refused_the_error_is_that_of_a_wait(
    contacted: Machines,
) -> None:
    contacted.errors = {"a": RefusedError("The host key of a is another one."), "b": AWAY}
    with pytest.raises(UnavailableError, match="b does not answer"):
        await contacted.refresh()
    contacted.errors["b"] = RefusedError("b denied the login.")
    contacted.now += 2
    with pytest.raises(RefusedError, match=r"^The host key of a is another one\.$"):
        await contacted.refresh()


async def test_where_all_were_silent_the_first_that_answers_again_is_waited_for(contacted: Machines) -> None:
    contacted.errors = {"a": AWAY, "b": AWAY}
    with pytest.raises(UnavailableError):
        await contacted.refresh()
    contacted.errors, contacted.silent = {}, {"a", "b"}
    contacted.now += 2
    waiting = asyncio.create_task(contacted.refresh())
    await eventually(lambda: len(contacted.asked) == 4, "both are asked again")
    contacted.answer("b")
    assert await waiting == ["b"]
    await contacted.contacts.close()


@pytest.mark.parametrize("error", [NoSessionError("b opened no session.", transient=True), None])
async def test_a_machine_without_a_free_session_answers(contacted: Machines, error: SmxError | None) -> None:
    contacted.errors = {"b": error} if error else {}
    assert await contacted.refresh() == ["a", "b"]


async def test_a_way_that_fails_unexpectedly_is_a_silent_machine(contacted: Machines) -> None:
    contacted.errors = {"b": ZeroDivisionError("of the way")}
    assert await contacted.refresh() == ["a"]
    assert "b cannot be asked (ZeroDivisionError('of the way'))" in contacted.contacts.unreachable_reason("b")


async def test_a_caller_that_is_cancelled_takes_no_question_from_the_others(contacted: Machines) -> None:
    contacted.silent = {"a"}
    first, second = (asyncio.create_task(contacted.refresh("a")) for _ in range(2))
    await eventually(lambda: contacted.asked, "it is asked")
    first.cancel()
    await asyncio.wait({first})
    contacted.answer("a")
    assert await second == ["a"]
    assert contacted.asked == ["a"]


class Hosts:
    """Machines that say which clusters have a host; each waits before it answers if it has an event in ``slow``."""

    def __init__(self, **running: bool) -> None:
        self.running = running
        self.slow: dict[str, asyncio.Event] = {}
        self.away: set[str] = set()
        self.asked: list[str] = []
        self.observer = Observer(self.ask)

    async def ask(self, machine: str, clusters: Sequence[str]) -> dict[str, Any]:
        self.asked.append(machine)
        if machine in self.slow:
            await self.slow[machine].wait()
        if machine in self.away:
            raise AWAY
        return {cluster: {"algo-1": {"running": self.running[machine]}} for cluster in clusters}

    async def look(self, clusters: str, machines: str = "ab") -> dict[str, Observation]:
        """Observe clusters, each of which has a host on the machine of its letter."""
        places = dict(zip(clusters, map(Intention, ({"algo-1": name} for name in machines)), strict=True))
        handles = {
            cluster: Handle(engine="e", cluster=cluster, hosts=(HostHandle(host="algo-1", data={}),))
            for cluster in places
        }
        states = await asyncio.wait_for(self.observer.observe(clusters_by_machine(places)), 30)
        return {cluster: conclude(handle, places[cluster], states) for cluster, handle in handles.items()}


RUNNING, GONE, UNKNOWN = Observation.RUNNING, Observation.GONE, Observation.UNKNOWN


@pytest.fixture
async def no_wait(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hosts]:
    """Give machines of which a silent one has no time after the first answer."""
    monkeypatch.setattr(observations, "WAIT", 0.0)
    found = Hosts(a=False, b=False)
    yield found
    await found.observer.close()


async def test_the_end_of_a_host_is_known_although_another_machine_is_silent(no_wait: Hosts) -> None:
    no_wait.slow["b"] = asyncio.Event()
    assert await no_wait.look("xy") == {"x": GONE, "y": UNKNOWN}
    assert await no_wait.look("xy") == {"x": GONE, "y": UNKNOWN}
    assert no_wait.asked == ["a", "b", "a"], "a machine whose answer is late is not asked again"


async def test_an_answer_that_comes_late_is_part_of_the_next_result(no_wait: Hosts) -> None:
    no_wait.slow["b"] = asyncio.Event()
    await no_wait.look("xy")
    no_wait.slow.pop("b").set()
    await eventually(lambda: not no_wait.observer._slow, "the late answer is there")
    no_wait.slow["b"] = asyncio.Event()
    assert await no_wait.look("xy") == {"x": GONE, "y": GONE}
    assert await no_wait.look("xz") == {"x": GONE, "z": UNKNOWN}, "it was not asked about this cluster"


async def test_a_machine_has_three_seconds_after_the_first_answer() -> None:
    found = Hosts(a=True, b=True)
    found.slow["b"] = asyncio.Event()
    look = asyncio.create_task(found.look("xy"))
    await eventually(lambda: found.asked == ["a", "b"], "both are asked")
    found.slow["b"].set()
    assert await look == {"x": RUNNING, "y": RUNNING}


async def test_where_no_machine_has_answered_all_are_waited_for(no_wait: Hosts) -> None:
    no_wait.slow = {"a": asyncio.Event(), "b": asyncio.Event()}
    no_wait.away = {"a"}
    look = asyncio.create_task(no_wait.look("xy"))
    await eventually(lambda: no_wait.asked == ["a", "b"], "both are asked")
    no_wait.slow["a"].set()
    await eventually(lambda: len(no_wait.observer._questions) == 1, "the first one is away")
    assert not look.done()
    no_wait.slow["b"].set()
    assert await look == {"x": UNKNOWN, "y": GONE}
    no_wait.away = {"a", "b"}
    assert await no_wait.look("xy") == {"x": UNKNOWN, "y": UNKNOWN}
    no_wait.away = set()
    assert await no_wait.look("xy") == {"x": GONE, "y": GONE}, "after an outage the first look has the answers"


async def test_the_doctor_says_since_when_a_machine_has_not_answered(contacted: Machines) -> None:
    assert contacted.contacts.silent_since("b") == ""
    contacted.errors = {"b": AWAY}
    await contacted.refresh()
    contacted.now += 3600
    since = contacted.contacts.silent_since("b")
    assert since == format_moment(MORNING + 100.0, MORNING)
    problem = MachineCheck(problem="b did not answer within 3 s.")
    assert report("ssh", MachineOptions(), problem, since) == {"problem": problem.problem, "since": since}
    assert report("ssh", MachineOptions(), problem, "") == {"problem": problem.problem}
    contacted.contacts.note_answer("b")
    assert contacted.contacts.silent_since("b") == ""
