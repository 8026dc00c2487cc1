"""Hosts that are not this machine's: what they have, which instance types there are, and what of it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.testing.fakes.fake_remote_engine import FakeRemoteEngine
from jupyter_smx.testing.simulation.simulation import LIMITS, Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_smx.engines.base import HostSpec

START = 1.0


class BoundedEngine(FakeRemoteEngine):
    """The same types on this machine."""

    capabilities = replace(FakeRemoteEngine.capabilities, bounded_by_machine=True, interpreters="local")


@pytest.fixture
def remote() -> Iterator[Simulation]:
    with Simulation(limits=LIMITS, engine=FakeRemoteEngine) as simulation:
        yield simulation
        assert not simulation.bugs, "\n".join(simulation.bugs)


def submit(sim: Simulation, *kinds: str, **fields: Any) -> str:
    groups = tuple(InstanceGroup(name=f"group{n}", instance_type=kind) for n, kind in enumerate(kinds))
    job = sim.new_id()
    spec = replace(sim.spec(**fields), instance_groups=groups)
    sim.call(lambda: sim.controller.facade.submit(job, spec))
    sim.pass_time(START)
    return job


def asked(sim: Simulation) -> list[HostSpec]:
    assert isinstance(sim.engine, FakeRemoteEngine)
    return [host for request in sim.engine.requests for host in request.hosts]


def test_a_remote_host_has_what_its_type_says_although_the_controller_has_two_cpus(remote: Simulation) -> None:
    job = submit(remote, "ml.p3.2xlarge")
    (host,) = asked(remote)
    assert (host.vcpus, host.gpus, host.memory) == (8, 1, 61 << 30)
    assert not [note for note in remote.start_reason(job).notes if "this machine" in note]


@pytest.mark.parametrize(("kinds", "mib"), [(("lab.gpu",), 16_384), (("lab.gpu", "lab.small"), 256), (("local",), 256)])
def test_imports_of_an_idle_host_take_a_part_of_its_own_memory(
    remote: Simulation, kinds: tuple[str, ...], mib: int
) -> None:
    submit(remote, *kinds)
    assert isinstance(remote.engine, FakeRemoteEngine)
    assert remote.engine.requests[0].preload_memory == mib, "of the smallest host, or a number where nothing is known"


def test_the_types_of_the_engine_are_known_to_it_and_come_before_those_of_the_catalogue(remote: Simulation) -> None:
    job = submit(remote, "lab.gpu", "ml.m5.xlarge", "local")
    assert remote.job(job).state is SecondaryStatus.TRAINING
    assert [(host.vcpus, host.gpus, host.memory >> 30) for host in asked(remote)] == [
        (64, 4, 256),
        (4, 0, 16),
        (1, 0, 0),
    ]


def test_a_type_that_nobody_knows_is_refused_with_the_name_of_the_engine_that_is_near(remote: Simulation) -> None:
    spec = replace(remote.spec(), instance_groups=(InstanceGroup(instance_type="lab.gpus"),))
    with pytest.raises(ValidationError, match=r"'lab.gpus' is not an instance type.*Did you mean lab.gpu"):
        remote.call(lambda: remote.controller.facade.submit(remote.new_id(), spec))


def test_a_type_of_another_engine_is_no_type() -> None:
    with Simulation(limits=LIMITS) as sim:
        spec = replace(sim.spec(), instance_groups=(InstanceGroup(instance_type="lab.gpu"),))
        with pytest.raises(ValidationError, match="is not an instance type"):
            sim.call(lambda: sim.controller.facade.submit(sim.new_id(), spec))


def test_a_type_that_the_engine_brings_without_a_price_costs_an_unknown_sum(remote: Simulation) -> None:
    jobs = [submit(remote, kind) for kind in ("ml.m5.xlarge", "lab.gpu", "lab.small")]
    remote.pass_time(3_600.0)
    costs = [remote.controller.live_state.summary(remote.job(job)).cost for job in jobs]
    assert costs[:2] == [None, None], "AWS's price of ml.m5.xlarge says nothing of this engine"
    assert costs[2] == pytest.approx(0.5, rel=0.01)
    rates = [pool.price_per_hour for pool in remote.controller.facade.pools()]
    assert rates == [None, None, 0.5]
    assert remote.controller.facade.bill(remote.job(jobs[2])).price_per_hour == 0.5


def test_the_doctor_counts_no_remote_host_as_this_machines(remote: Simulation) -> None:
    for _ in range(5):
        submit(remote, "lab.gpu")
    told = remote.call(remote.controller.facade.doctor)
    assert told["capacity"] == {"hosts": [0, 3], "cpus": [0, 2], "memory_gib": [0, 4.0], "gpus": [0, 0]}
    assert told["engines"]["fake"]["instance_types"] == ["lab.gpu", "ml.m5.xlarge", "lab.small"]


def test_a_bounded_engine_gives_of_its_own_types_no_more_than_this_machine_has() -> None:
    with Simulation(limits=LIMITS, engine=BoundedEngine) as sim:
        job = submit(sim, "lab.gpu")
        (host,) = asked(sim)
        assert (host.vcpus, host.gpus, host.memory >> 30) == (2, 0, 4)
        assert "lab.gpu has 64 vCPUs, but this machine provides 2." in sim.start_reason(job).notes
        assert sim.call(sim.controller.facade.doctor)["capacity"]["cpus"] == [2, 2]


def test_a_type_that_the_engine_lost_fails_the_job_that_waits_for_it(remote: Simulation) -> None:
    first = submit(remote, "lab.small")
    waits = submit(remote, "lab.gpu", after=(first,))
    assert isinstance(remote.engine, FakeRemoteEngine)
    remote.engine.types = remote.engine.types[1:]
    remote.end_job(first)
    remote.pass_time(START)
    assert "'lab.gpu' is not an instance type" in remote.job(waits).failure_reason


def test_an_engine_that_cannot_list_its_types_harms_no_job_that_runs(
    remote: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submit(remote, "lab.gpu")

    def broken(_: object) -> None:
        raise KeyError("partition")

    monkeypatch.setattr(FakeRemoteEngine, "instance_types", broken)
    remote.end_job(job)
    remote.pass_time(START)
    assert remote.job(job).state is SecondaryStatus.COMPLETED
    assert "lab.gpu" not in remote.controller.facade.instance_types().names()
    with pytest.raises(ValidationError, match="is not an instance type"):
        submit(remote, "lab.gpu")
    assert all("Listing the instance types of the engine fake failed" in bug for bug in remote.bugs)
    remote.bugs.clear()


def test_the_list_of_types_has_those_of_engines_that_the_administrator_allows(remote: Simulation) -> None:
    listing = remote.controller.facade.instance_types()
    assert [kind.name for kind in listing.engines["fake"]] == ["lab.gpu", "ml.m5.xlarge", "lab.small"]
    assert listing.names().count("ml.m5.xlarge") == 1
    assert "lab.gpu" in listing.names()
    with Simulation(
        limits=replace(LIMITS, allowed_instance_types=("lab.small", "local")), engine=FakeRemoteEngine
    ) as sim:
        assert sim.controller.facade.instance_types().names() == ["local", "lab.small"]
