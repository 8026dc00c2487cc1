"""Requirements of jobs on other machines: nothing is built here, and the engine gets what it has to install there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.testing.fakes.fake_remote_engine import FakeBuildingEngine
from jupyter_smx.testing.simulation.simulation import LIMITS, Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_smx.engines.base import ClusterRequest

HERE = "/home/me/.venv/bin/python"
START = 1.0


@pytest.fixture
def remote() -> Iterator[Simulation]:
    with Simulation(limits=LIMITS, engine=FakeBuildingEngine) as simulation:
        yield simulation
        assert not simulation.bugs, "\n".join(simulation.bugs)


def requests(sim: Simulation) -> list[ClusterRequest]:
    assert isinstance(sim.engine, FakeBuildingEngine)
    return sim.engine.requests


def submit(sim: Simulation, *lines: str, **fields: Any) -> str:
    job = sim.submit(requirements=lines, python=HERE, python_version="3.11", **fields)
    sim.pass_time(START)
    return job


def run(sim: Simulation, *lines: str, **fields: Any) -> str:
    job = submit(sim, *lines, keep_alive=600, **fields)
    sim.end_job(job)
    sim.pass_time(START)
    return job


def test_engine_gets_the_lines_in_their_normal_form_and_nothing_is_built_here(remote: Simulation) -> None:
    job = submit(remote, "Pandas", "numpy >= 1")
    assert remote.job(job).state is SecondaryStatus.TRAINING
    [request] = requests(remote)
    assert (request.python, request.requirements, request.requirements_only) == ("", ("numpy>=1", "pandas"), False)
    assert not remote.world.builder.start_counts
    assert not [*(remote.folder / "environments").glob("*")]


def test_requirements_only_reach_the_engine(remote: Simulation) -> None:
    submit(remote, "numpy", requirements_only=True)
    assert requests(remote)[0].requirements_only


def test_an_engine_that_builds_gets_its_own_interpreter_without_requirements(remote: Simulation) -> None:
    job = remote.submit(python="torch", python_named=True)
    remote.pass_time(START)
    assert remote.job(job).state is SecondaryStatus.TRAINING
    assert [(each.python, each.requirements) for each in requests(remote)] == [("/opt/torch/bin/python", ())]


def test_same_requirements_take_the_warm_pool_whatever_the_kernels_python(remote: Simulation) -> None:
    first = run(remote, "numpy", "pandas")
    second = run(remote, "Pandas", "numpy")
    assert remote.job(second).cluster == remote.job(first).cluster
    third = remote.submit(requirements=("numpy", "pandas"), python="/other/python", python_version="3.12")
    assert remote.start_reason(third).start == "warm"


def test_why_names_the_requirements_of_both_and_where_they_are_installed(remote: Simulation) -> None:
    run(remote, "numpy==1")
    second = submit(remote, "numpy==2")
    why = remote.start_reason(second)
    assert "has environment numpy==1, this job needs numpy==2." in why.sentence
    assert "Its environment (numpy==2) is built once on the machine of its hosts." in why.notes


def test_a_build_that_fails_ends_the_job_as_pip_would_and_with_it_those_that_need_the_same(remote: Simulation) -> None:
    jobs = [remote.submit(requirements=("nosuch",)) for _ in range(4)]
    other = remote.submit(requirements=("numpy",))
    remote.pass_time(START)
    reasons = {remote.job(job).failure_reason for job in jobs}
    words = "--requirements: nosuch cannot be installed. Correct the name."
    assert reasons == {f"AlgorithmError: InstallRequirementsError: {words}"}
    assert remote.job(other).failure_reason == ""


def test_jobs_that_wait_for_a_place_fail_with_the_first_build(remote: Simulation) -> None:
    assert isinstance(remote.engine, FakeBuildingEngine)
    remote.engine.room = 2
    jobs = [remote.submit(requirements=("nosuch",)) for _ in range(20)]
    other = remote.submit(requirements=("numpy",))
    remote.pass_time(3 * START)
    assert {remote.job(job).state for job in jobs} == {SecondaryStatus.FAILED}
    assert [each.requirements for each in requests(remote)] == [("nosuch",), ("nosuch",), ("numpy",)]
    assert remote.job(other).state is SecondaryStatus.TRAINING


def test_a_job_that_comes_after_another_fails_by_its_own_build(remote: Simulation) -> None:
    assert isinstance(remote.engine, FakeBuildingEngine)
    first = remote.submit()
    remote.pass_time(START)
    later = remote.submit(requirements=("nosuch",), after=(first,))
    now = submit(remote, "nosuch")
    assert remote.job(now).state is SecondaryStatus.FAILED
    assert remote.job(later).state is SecondaryStatus.PENDING
    remote.engine.broken_requirements.clear()
    remote.end_job(first)
    remote.pass_time(START)
    assert remote.job(later).state is SecondaryStatus.TRAINING


def test_an_editable_project_is_refused_with_the_way_out(remote: Simulation) -> None:
    with pytest.raises(ValidationError, match=r"editable project /home/me/pkg .*without -e"):
        remote.submit(requirements=("-e /home/me/pkg # content 0123456789ab",))
    submit(remote, "-e git+https://example.org/pkg.git#egg=pkg")


def test_a_new_controller_asks_for_the_same_requirements(remote: Simulation) -> None:
    job = remote.submit(requirements=("numpy",), requirements_only=True)
    remote.kill_controller()
    remote.restart()
    remote.pass_time(START)
    assert {(each.requirements, each.requirements_only) for each in requests(remote)} == {(("numpy",), True)}
    assert remote.job(job).state is SecondaryStatus.TRAINING


def test_a_new_controller_does_not_build_again_what_has_failed_for_it(remote: Simulation) -> None:
    job = remote.submit(requirements=("nosuch",))
    remote.pass_time(START / 10)
    remote.kill_controller()
    remote.restart()
    remote.pass_time(20 * START)
    assert remote.job(job).failure_reason.startswith("AlgorithmError: InstallRequirementsError: ")
    assert len(requests(remote)) == 2, "once for each controller"
