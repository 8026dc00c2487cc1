"""Hosts that an engine closes in: no way out where a job wants none, GPUs of their own, and what they lack is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from jupyter_smx.controller.scheduling import engine_capabilities
from jupyter_smx.kernel.display.provenance import provenance_page
from jupyter_smx.kernel.text.formats import format_start_reason
from jupyter_smx.model.errors import RefusedError, ValidationError
from jupyter_smx.model.records.cluster import Cluster, Handle
from jupyter_smx.model.spec.instance import InstanceGroup, InstanceType
from jupyter_smx.testing.fakes.fake_engine import FakeEngine
from jupyter_smx.testing.simulation.simulation import LIMITS, Simulation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from jupyter_smx.engines.base import Capabilities, ClusterRequest, Engine
    from jupyter_smx.testing.fakes.fake_world import FakeWorld

KIND = InstanceType(name="lab.gpu", vcpus=1, memory_gib=1.0, gpus=1)
GPUS = (InstanceGroup(instance_type=KIND.name),)


class Closed(FakeEngine):
    """Closes networks, gives each host its own GPUs, and says what ``lacks`` its hosts, by name."""

    capabilities: Capabilities = replace(FakeEngine.capabilities, network_isolation=True, own_gpus=True)

    def __init__(self, world: FakeWorld, **options: Any) -> None:
        super().__init__(world, **options)
        self.lacks: dict[str, tuple[str, ...]] = {}
        self.asked_for: list[ClusterRequest] = []
        self.closes_all = False

    def is_network_isolated(self) -> bool:
        """Say what the administrator chose."""
        return self.closes_all

    def plan(self, request: ClusterRequest) -> dict[str, object]:
        """Give the numbers of the GPUs."""
        return {"gpus": [host.devices for host in request.hosts], "closed": request.network_isolation}

    async def acquire(self, request: ClusterRequest) -> AsyncIterator[Handle]:
        """Keep what was asked for."""
        self.asked_for.append(request)
        async for handle in super().acquire(request):
            yield handle

    def _handle(self, cluster: str, count: int) -> Handle:
        handle = super()._handle(cluster, count)
        hosts = tuple(replace(host, given_up=self.lacks.get(host.host, ())) for host in handle.hosts)
        return replace(handle, hosts=hosts)


@pytest.fixture
def sim() -> Iterator[Simulation]:
    limits = replace(LIMITS, max_hosts=6, cpus=8, gpus=2, catalogue={**LIMITS.catalogue, KIND.name: KIND})
    with Simulation(limits=limits, engine=Closed) as simulation:
        yield simulation
        assert not simulation.bugs, "\n".join(simulation.bugs)


def engine(sim: Simulation) -> Closed:
    assert isinstance(sim.engine, Closed)
    return sim.engine


def submit(sim: Simulation, **fields: Any) -> str:
    job = sim.new_id()
    spec = replace(sim.spec(**fields), instance_groups=GPUS)
    sim.call(lambda: sim.controller.facade.submit(job, spec))
    sim.pass_time(1.0)
    return job


def devices(sim: Simulation) -> list[tuple[int, ...]]:
    return [host.devices for request in engine(sim).asked_for for host in request.hosts]


def told(sim: Simulation, job: str) -> list[int]:
    (host,) = sim.hosts(job)
    given: list[int] = host.runs[job].spec["gpus"]
    return given


def test_two_hosts_are_made_with_a_gpu_each_and_their_jobs_have_all_that_they_see(sim: Simulation) -> None:
    first, second = submit(sim), submit(sim)
    assert devices(sim) == [(0,), (1,)]
    assert told(sim, first) == told(sim, second) == []


def test_an_idle_pool_whose_gpu_was_given_away_is_passed_over_and_why_says_so(sim: Simulation) -> None:
    pools = [submit(sim, keep_alive=600), submit(sim, keep_alive=600, role="other")]
    for job in pools:
        sim.end_job(job)
        sim.pass_time(1.0)
    # Both GPUs are some idle host's: the lowest goes to a third.
    third = submit(sim, role="third")
    assert devices(sim)[-1] == (0,)
    again = submit(sim, keep_alive=600)
    assert sim.start_reason(again).sentence.endswith("has GPUs 0 in use by another job, this job needs free.")
    assert devices(sim)[-1] == (1,), "the one that nobody uses"
    for job in (third, again):
        sim.end_job(job)
        sim.pass_time(1.0)
    last = submit(sim, role="other", keep_alive=600)
    assert sim.start_reason(last).start == "warm"
    assert sim.job(last).cluster == sim.job(pools[1]).cluster
    assert sim.pool(sim.job(last).cluster).gpus == {"algo-1": (1,)}


def test_new_hosts_leave_an_idle_pool_its_gpu_while_there_is_another(sim: Simulation) -> None:
    first = submit(sim, keep_alive=600)
    sim.end_job(first)
    sim.pass_time(1.0)
    other = submit(sim, role="other")
    assert devices(sim) == [(0,), (1,)]
    again = submit(sim, keep_alive=600)
    assert sim.start_reason(again).start == "warm"
    assert sim.job(other).cluster != sim.job(again).cluster


def test_a_plan_says_which_gpus_it_would_be(sim: Simulation) -> None:
    submit(sim)
    spec = replace(sim.spec(network_isolation=True), instance_groups=GPUS)
    asked = sim.call(lambda: sim.controller.facade.plan(spec))["engine_request"]
    assert asked == {"gpus": [(1,)], "closed": True}


def test_network_isolation_reaches_the_engine_and_is_part_of_what_a_pool_is_reused_by(sim: Simulation) -> None:
    sim.run_to_end(keep_alive=600)
    closed = sim.submit(network_isolation=True, keep_alive=600)
    sim.pass_time(1.0)
    assert [request.network_isolation for request in engine(sim).asked_for] == [False, True]
    pool = engine(sim).asked_for[0].cluster
    name = sim.pool(pool).name()
    assert sim.start_reason(closed).sentence == f"Cold: pool {name} has network isolation off, this job needs on."
    sim.end_job(closed)
    sim.pass_time(1.0)
    again = sim.submit(network_isolation=True)
    assert sim.start_reason(again).start == "warm"
    assert sim.job(again).cluster == sim.job(closed).cluster


def test_where_an_administrator_closes_the_network_of_all_hosts_jobs_are_on_record_with_that(sim: Simulation) -> None:
    before = sim.run_to_end(keep_alive=600)
    engine(sim).closes_all = True
    job = sim.submit(keep_alive=600)
    sim.pass_time(1.0)
    assert (sim.start_reason(job).start, sim.job(job).spec.network_isolation) == ("cold", True)
    assert sim.job(job).cluster != sim.job(before).cluster
    with pytest.raises(ValidationError, match="--engine fake isolates the network of all its hosts: its hosts cannot"):
        sim.submit(checkpoint="s3://bucket/kept")


def test_an_engine_that_cannot_close_a_network_says_which_can() -> None:
    with Simulation() as open_one, pytest.raises(ValidationError, match="cannot isolate its hosts") as refused:
        open_one.submit(network_isolation=True)
    assert (refused.value.field, refused.value.cure) == (
        "network_isolation",
        "Remove --network-isolation: no installed engine supports it.",
    )


def test_what_is_given_up_is_in_the_job_from_its_start_on_and_on_its_record(sim: Simulation) -> None:
    engine(sim).lacks = {"algo-1": ("It shares a network.", "It is root."), "algo-2": ("It is root.",)}
    job = sim.submit(hosts=2, keep_alive=600)
    sim.pass_time(1.0)
    notes = ("Limitation on algo-1: It shares a network.", "Limitation: It is root.")
    assert sim.start_reason(job).notes[-2:] == notes
    assert all(f"  {note}\n" in f"{format_start_reason(sim.job(job))}\n" for note in notes)
    sim.restart()
    sim.pass_time(1.0)
    assert [sim.start_reason(job).notes.count(note) for note in notes] == [1, 1]
    sim.end_job(job)
    sim.pass_time(1.0)
    found = sim.job(job).provenance
    assert found is not None
    assert [host.given_up for host in found.hosts] == [engine(sim).lacks["algo-1"], engine(sim).lacks["algo-2"]]
    assert "It shares a network." in provenance_page(sim.job(job))[0]
    warm = sim.submit(hosts=2)
    assert sim.start_reason(warm).start == "warm"
    assert set(notes) <= set(sim.start_reason(warm).notes)


def test_where_nothing_is_given_up_nothing_is_said(sim: Simulation) -> None:
    job = sim.run_to_end()
    assert "Limitation" not in format_start_reason(sim.job(job))
    assert "limitations" not in provenance_page(sim.job(job))[0]


def test_engines_that_are_not_whole_here_can_do_nothing_and_stand_in_nobodys_way() -> None:
    def engine_of(name: str) -> Engine:
        if name == "torn":
            raise RefusedError("It needs a library.")
        return Closed if name == "closed" else FakeEngine  # type: ignore[return-value] - capabilities are the class's

    assert engine_capabilities.isolating_engines(engine_of, ["torn", "closed", "fake"]) == ["closed"]
    pools = [Cluster(id=name, key=sim_key(name)) for name in ("torn", "closed", "fake")]
    mine, others = engine_capabilities.split_by_engine(engine_of, pools, "fake")
    assert ([one.id for one in mine], [one.id for one in others]) == (["fake"], ["closed"])


def sim_key(engine: str) -> Any:
    from jupyter_smx.model.records.cluster import ReuseKey  # noqa: PLC0415 - only here

    return ReuseKey(engine=engine, user="me", role="", instance_groups=GPUS, python="")
