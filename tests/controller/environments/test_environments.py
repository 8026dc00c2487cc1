"""Jobs with an environment: it is built once for all of them, other jobs do not wait, and a stop or a crash ends it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from jupyter_smx.agent.code.environment_build import READY
from jupyter_smx.controller.environments.cache import MAX_BUILDS
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.status import SecondaryStatus, Status
from jupyter_smx.testing.simulation.simulation import LIMITS, Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BUILD = 3.0
"""Seconds that the fake builder takes."""
START = 0.6
LONGER = BUILD + 1.5
"""A build, the next reconcile pass, and the start of a host."""


@pytest.fixture
def one_kept() -> Iterator[Simulation]:
    """Provide a world whose administrator keeps one unused environment, and 20 seconds for a build."""
    with Simulation(limits=replace(LIMITS, environments_kept=1, environment_limit=20.0)) as made:
        yield made
        assert not made.bugs, "\n".join(made.bugs)


def notes(sim: Simulation, job: str) -> str:
    return " ".join(sim.start_reason(job).notes)


def message(sim: Simulation, job: str) -> str:
    return sim.controller.live_state.summary(sim.job(job)).message


def folders(sim: Simulation) -> list[Path]:
    return sorted(path for path in (sim.folder / "environments").glob("*") if not path.name.startswith("."))


def test_an_environment_is_built_before_the_job_is_placed_and_the_message_says_how_far_it_is(sim: Simulation) -> None:
    job = sim.submit(requirements=("numpy==2", "torch"))
    assert sim.job(job).state is SecondaryStatus.PENDING
    assert message(sim, job) == "Building the environment."
    assert sim.pools() == []
    sim.pass_time(1.1)
    assert message(sim, job) == "Building the environment: Collecting numpy==2."
    why = sim.start_reason(job)
    assert why.sentence == "Building the environment (numpy==2 and torch): Collecting numpy==2."
    sim.pass_time(1.0)
    assert message(sim, job) == "Building the environment: Collecting torch."
    sim.pass_time(BUILD - 2.1 + START)
    assert sim.job(job).state is SecondaryStatus.TRAINING
    assert notes(sim, job).startswith("Its environment (numpy==2 and torch) was built in 3 s.")
    assert sim.world.unready_pythons == []


def test_the_next_job_with_the_same_requirements_starts_warm_and_builds_nothing(sim: Simulation) -> None:
    first = sim.submit(requirements=("numpy", "pandas"), keep_alive=600)
    sim.pass_time(LONGER)
    sim.end_job(first)
    second = sim.submit(requirements=("Pandas", "numpy"), keep_alive=600)
    assert sim.start_reason(second).start == "warm"
    assert "Its environment (numpy and pandas) was ready." in notes(sim, second)
    assert sum(sim.world.builder.start_counts.values()) == 1


def test_a_pool_with_another_environment_is_left_alone_and_named(sim: Simulation) -> None:
    first = sim.submit(requirements=("scikit-learn==1.5",), keep_alive=600)
    sim.pass_time(LONGER)
    sim.end_job(first)
    second = sim.submit(requirements=("scikit-learn==1.6",))
    sim.pass_time(LONGER)
    why = sim.start_reason(second)
    pool = sim.pool(sim.job(first).cluster).name()
    assert why.sentence == (f"Cold: pool {pool} has environment scikit-learn==1.5, this job needs scikit-learn==1.6.")


def test_jobs_that_want_the_same_share_one_build(sim: Simulation) -> None:
    jobs = [sim.submit(requirements=("numpy",)) for _ in range(3)]
    sim.pass_time(1.0)
    jobs.append(sim.submit(requirements=("numpy",)))
    assert len(sim.world.builder.running_builds) == 1
    sim.pass_time(LONGER)
    assert sum(sim.world.builder.start_counts.values()) == 1
    assert [sim.job(job).state for job in jobs].count(SecondaryStatus.TRAINING) == 2  # as many as there are CPUs
    assert message(sim, jobs[1]).startswith(("Running", "The environment is ready after 3 s"))


def test_two_environments_are_built_at_a_time_and_the_third_says_that_it_waits(sim: Simulation) -> None:
    jobs = [sim.submit(requirements=(name,)) for name in ("a", "b", "c")]
    sim.pass_time(1.1)
    assert len(sim.world.builder.running_builds) == MAX_BUILDS
    assert message(sim, jobs[2]) == "Building the environment: Waiting for other builds."
    sim.stop(jobs[0])
    sim.pass_time(1.0)
    assert message(sim, jobs[2]) == "Building the environment: Collecting c."
    sim.pass_time(LONGER)
    assert sum(sim.world.builder.build_counts.values()) == 2


def test_who_builds_holds_up_nobody_and_comes_back_with_its_age(sim: Simulation) -> None:
    builds = sim.submit(requirements=("numpy",), hosts=2)
    later = sim.submit()
    assert sim.start_reason(later).start == "cold"
    summary = sim.controller.live_state.summary
    assert summary(sim.job(builds)).queue_position is None
    waits = [sim.submit(hosts=2), sim.submit(hosts=2)]
    assert [summary(sim.job(job)).queue_position for job in waits] == [1, 2]
    assert "position 1." in sim.start_reason(waits[0]).sentence
    sim.pass_time(LONGER)
    assert [summary(sim.job(job)).queue_position for job in (builds, *waits)] == [1, 2, 3]
    sim.end_job(later)
    sim.pass_time(START)
    assert sim.job(builds).state is SecondaryStatus.TRAINING


def test_a_failed_build_fails_every_job_that_wanted_it_and_the_next_one_tries_again(sim: Simulation) -> None:
    sim.world.builder.broken_requirements.add("gone")
    jobs = [sim.submit(requirements=("gone",)), sim.submit(requirements=("gone",))]
    sim.pass_time(LONGER)
    for job in jobs:
        assert sim.job(job).status() is Status.FAILED
        assert (
            sim.job(job).failure_reason
            == "AlgorithmError: InstallRequirementsError: --requirements: gone cannot be installed."
        )
        assert (sim.job(job).warm_pool or pytest.fail("no pool")).status.value == "Terminated"
    assert sim.world.launches == {}
    sim.world.builder.broken_requirements.clear()
    again = sim.submit(requirements=("gone",))
    sim.pass_time(LONGER)
    assert sim.job(again).state is SecondaryStatus.TRAINING


def test_a_stop_ends_a_build_that_nobody_else_wants(sim: Simulation) -> None:
    jobs = [sim.submit(requirements=("numpy",)), sim.submit(requirements=("numpy",))]
    sim.pass_time(1.0)
    sim.stop(jobs[0])
    assert sim.job(jobs[0]).status() is Status.STOPPED
    assert len(sim.world.builder.running_builds) == 1
    sim.stop(jobs[1])
    assert sim.job(jobs[1]).status() is Status.STOPPED
    assert sim.world.builder.running_builds == []
    assert folders(sim) == []
    again = sim.submit(requirements=("numpy",))
    sim.pass_time(LONGER)
    assert sim.job(again).state is SecondaryStatus.TRAINING
    assert sim.world.builder.overlaps == []


@pytest.mark.parametrize("seconds", [0.0, 1.0, BUILD - 0.1])
def test_a_controller_that_is_killed_in_a_build_leaves_nothing_that_looks_ready(
    sim: Simulation, seconds: float
) -> None:
    job = sim.submit(requirements=("numpy",))
    sim.pass_time(seconds)
    sim.restart()
    assert not [*sim.folder.glob(f"environments/*/{READY}")]
    assert sim.job(job).state is SecondaryStatus.PENDING
    sim.pass_time(LONGER + 1.0)
    assert sim.job(job).state is SecondaryStatus.TRAINING
    assert sum(sim.world.builder.start_counts.values()) == 2
    assert sum(sim.world.builder.build_counts.values()) == 1


def test_a_controller_that_is_killed_when_the_build_is_written_down_goes_on_with_what_is_ready(
    sim: Simulation,
) -> None:
    job = sim.submit(requirements=("numpy",))
    sim.pass_time(BUILD - 0.5)
    sim.kill_controller_at_write(1, before=True)
    sim.pass_time(1.0)
    assert sim.controller.is_dead
    sim.restart()
    sim.pass_time(1.0 + START + 0.5)
    assert sim.job(job).state is SecondaryStatus.TRAINING
    assert sum(sim.world.builder.start_counts.values()) == 1


def test_a_plan_says_that_an_environment_has_to_be_built_and_builds_none(sim: Simulation) -> None:
    spec = sim.spec(requirements=("numpy",), python_version="3.11")
    plan: dict[str, Any] = sim.call(lambda: sim.controller.facade.plan(spec))
    assert "Its environment (numpy) has to be built first." in plan["why"]["notes"]
    assert sim.world.builder.start_counts == {}


def test_requirements_alone_need_requirements(sim: Simulation) -> None:
    with pytest.raises(ValidationError, match="no packages were given"):
        sim.submit(requirements_only=True)


def test_looking_where_a_job_would_go_makes_no_environment_younger(sim: Simulation) -> None:
    sim.submit(requirements=("numpy",))
    sim.pass_time(LONGER)
    (mark,) = sim.folder.glob(f"environments/*/{READY}")
    os.utime(mark, (1.0, 1.0))
    spec = sim.spec(requirements=("numpy",), python_version="3.11")
    sim.call(lambda: sim.controller.facade.plan(spec))
    assert mark.stat().st_mtime == 1.0
    sim.submit(requirements=("numpy",))
    sim.pass_time(START)
    assert mark.stat().st_mtime > 1.0


def test_an_environment_whose_interpreter_is_gone_is_built_again(sim: Simulation) -> None:
    sim.run_to_end(requirements=("numpy",))
    first = sim.submit(requirements=("numpy",))
    sim.pass_time(LONGER)
    sim.end_job(first)
    (folders(sim)[0] / "venv" / "bin" / "python").unlink()
    second = sim.submit(requirements=("numpy",))
    assert message(sim, second) == "Building the environment."
    sim.pass_time(LONGER)
    assert sim.job(second).state is SecondaryStatus.TRAINING
    assert "was built in 3 s" in notes(sim, second)


def test_a_build_that_takes_too_long_is_ended_and_its_step_is_named(one_kept: Simulation) -> None:
    one_kept.world.builder.seconds = 100.0
    job = one_kept.submit(requirements=("torch",))
    one_kept.pass_time(22.0)
    reason = one_kept.job(job).failure_reason
    assert reason.startswith(
        "AlgorithmError: InstallRequirementsError: "
        "--requirements: building the environment took longer than 20 s while it was collecting torch."
    )
    assert "ControllerApp.environment_limit" in reason
    assert one_kept.world.builder.running_builds == []


def test_the_longest_unused_environments_go_and_those_in_use_stay(one_kept: Simulation) -> None:
    sim, used = one_kept, []
    for number in range(4):
        job = sim.submit(requirements=(f"package{number}",), keep_alive=600 if number == 0 else 0)
        sim.pass_time(LONGER)
        sim.end_job(job)
        used.append(sim.job(job))
    sim.pass_time(2.0)
    assert sim.pool(used[0].cluster).state.value == "Available"
    ready = [sim.controller.reconciler.preparation.is_over(job) for job in used]
    # The pool's one is kept; the oldest was removed when the newest came; one is kept; the newest was in use then.
    assert ready == [True, False, True, True]
    assert len([*(sim.folder / "environments").iterdir()]) == 3
