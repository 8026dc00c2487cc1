"""Interpreters of the engine: ``--python`` is a word for it, and no path of the submitter's machine reaches a host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from jupyter_smx.model.errors import RefusedError
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.testing.fakes.fake_engine import Outage
from jupyter_smx.testing.fakes.fake_remote_engine import FakeRemoteEngine
from jupyter_smx.testing.simulation.simulation import LIMITS, Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE, OTHER = "/home/me/.venv/bin/python", "/home/me/other/bin/python"
START = 1.0


@pytest.fixture
def remote() -> Iterator[Simulation]:
    with Simulation(limits=LIMITS, engine=FakeRemoteEngine) as simulation:
        yield simulation
        assert not simulation.bugs, "\n".join(simulation.bugs)


def named(word: str) -> dict[str, Any]:
    return {"python": word, "python_named": True}


def pythons(sim: Simulation) -> list[str]:
    assert isinstance(sim.engine, FakeRemoteEngine)
    return [request.python for request in sim.engine.requests]


def run(sim: Simulation, **fields: Any) -> str:
    job = sim.run_to_end(keep_alive=600, **fields)
    sim.pass_time(START)
    return job


def test_the_submitters_own_interpreter_never_reaches_the_engine(remote: Simulation) -> None:
    job = run(remote, python=HERE, python_version="3.11")
    assert pythons(remote) == [""]
    assert (remote.job(job).spec.python, remote.job(job).interpreter) == ("", "")


def test_a_second_kernel_with_another_python_takes_the_same_pool(remote: Simulation) -> None:
    first = run(remote, python=HERE, python_version="3.11")
    second = run(remote, python=OTHER, python_version="3.12")
    assert remote.job(second).cluster == remote.job(first).cluster
    assert remote.start_reason(second).start == "warm"


def test_a_named_interpreter_is_resolved_and_two_names_of_one_take_one_pool(remote: Simulation) -> None:
    first = run(remote, **named("torch"))
    second = run(remote, **named("/opt/torch/bin/python"))
    assert pythons(remote) == ["/opt/torch/bin/python"]
    assert remote.job(second).cluster == remote.job(first).cluster
    assert remote.job(first).spec.python == "torch", "the record has the user's word"


def test_another_interpreter_is_another_pool_and_why_names_both(remote: Simulation) -> None:
    run(remote)
    other = run(remote, **named("torch"))
    assert remote.start_reason(other).sentence.endswith("has python the default, this job needs /opt/torch/bin/python.")


def test_a_name_that_the_engine_has_not_is_refused_with_the_nearest_and_nothing_is_on_record(
    remote: Simulation,
) -> None:
    with pytest.raises(RefusedError, match=r"no environment 'torhc'.*Did you mean torch"):
        remote.submit(**named("torhc"))
    assert not remote.controller.live_state.jobs


def test_an_engine_that_is_away_gets_the_word_and_the_job_waits_for_it(remote: Simulation) -> None:
    remote.set_faults(Outage())
    job = remote.submit(**named("torch"))
    assert remote.job(job).interpreter == "torch"
    remote.set_faults()


def test_a_new_controller_asks_for_the_same_interpreter(remote: Simulation) -> None:
    assert isinstance(remote.engine, FakeRemoteEngine)
    job = remote.submit(**named("torch"))
    remote.kill_controller()
    remote.engine.interpreters["torch"] = "/opt/newer/bin/python"
    remote.restart()
    remote.pass_time(START)
    assert set(pythons(remote)) == {"/opt/torch/bin/python"}
    assert remote.job(job).state is SecondaryStatus.TRAINING


def test_the_same_request_again_is_the_same_job_also_if_the_word_means_something_else_now(remote: Simulation) -> None:
    assert isinstance(remote.engine, FakeRemoteEngine)
    job = remote.submit(**named("torch"))
    remote.engine.interpreters["torch"] = "/opt/newer/bin/python"
    remote.submit(job_id=job, **named("torch"))
    assert remote.job(job).interpreter == "/opt/torch/bin/python"


def test_each_task_of_an_array_has_what_the_word_meant_once(remote: Simulation) -> None:
    facade = remote.controller.facade
    wish = remote.array_request(3, **named("torch"))

    async def submit() -> None:
        facade.arrays.submit(remote.new_id(), wish, await facade.validator.resolve_interpreter(wish.spec))

    remote.call(submit)
    remote.pass_time(START)
    assert set(pythons(remote)) == {"/opt/torch/bin/python"}


def test_the_plan_has_what_the_word_means(remote: Simulation) -> None:
    facade = remote.controller.facade
    spec = remote.spec(**named("torch"))

    async def plan() -> Any:
        return facade.plan(spec, None, await facade.validator.resolve_interpreter(spec))

    run(remote, **named("torch"))
    assert remote.call(plan)["why"]["start"] == "warm"


def test_a_submitter_asks_of_an_engine_whose_interpreters_it_runs(remote: Simulation) -> None:
    assert remote.controller.facade.engine("fake").interpreters == "remote"
    with Simulation(limits=LIMITS) as sim:
        assert sim.controller.facade.engine("fake").interpreters == "local"


def test_an_engine_with_interpreters_of_this_machine_is_not_asked() -> None:
    class Asked(FakeRemoteEngine):
        capabilities = replace(FakeRemoteEngine.capabilities, interpreters="local")

        async def resolve_interpreter(self, word: str) -> str:
            raise AssertionError(word)

    with Simulation(limits=LIMITS, engine=Asked) as sim:
        job = sim.submit(python=HERE)
        sim.pass_time(START)
        assert pythons(sim) == [HERE]
        assert sim.job(job).interpreter is None
        assert not sim.bugs
