"""Where a user gets a shell: on hosts that exist and run no other job, with engines that offer shells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_smx.model.errors import RefusedError, ResourceInUseError, ResourceNotFoundError, ValidationError

if TYPE_CHECKING:
    from jupyter_smx.model.records.cluster import Handle, ShellCommand
    from jupyter_smx.testing.simulation.simulation import Simulation

START = 0.6


async def entered(handle: Handle, host: str) -> list[str]:
    return ["enter", handle.cluster, host]


@pytest.fixture
def doors(sim: Simulation, monkeypatch: pytest.MonkeyPatch) -> Simulation:
    monkeypatch.setattr(sim.engine, "shell", entered)
    return sim


def ask(sim: Simulation, job: str, host: str = "") -> list[str]:
    found: ShellCommand = sim.call(lambda: sim.controller.facade.shell_commands.command_for_job(job, host))
    return [*found.command]


def ask_pool(sim: Simulation, pool: str, host: str = "") -> ShellCommand:
    found: ShellCommand = sim.call(lambda: sim.controller.facade.shell_commands.command_for_pool(pool, host))
    return found


def test_a_shell_opens_on_a_host_of_a_job_that_runs_and_while_its_hosts_are_warm(doors: Simulation) -> None:
    job = doors.submit(hosts=2, keep_alive=600)
    doors.pass_time(START)
    cluster = doors.job(job).cluster
    assert ask(doors, job) == ["enter", cluster, "algo-1"]
    doors.end_job(job)
    assert ask(doors, job, "algo-2") == ["enter", cluster, "algo-2"]
    with pytest.raises(ValidationError, match="has no host 'algo-3'"):
        ask(doors, job, "algo-3")


def test_hosts_that_are_not_there_yet_or_gone_have_none(doors: Simulation) -> None:
    job = doors.submit()
    with pytest.raises(ResourceNotFoundError, match="has no hosts"):
        ask(doors, job)
    doors.pass_time(START)
    doors.end_job(job)
    doors.pass_time(1)
    with pytest.raises(ResourceNotFoundError, match="has no hosts"):
        ask(doors, job)


def test_hosts_that_work_for_another_job_are_named_by_that_one(doors: Simulation) -> None:
    first = doors.run_to_end(keep_alive=600)
    second = doors.submit(keep_alive=600)
    assert doors.job(second).cluster == doors.job(first).cluster
    with pytest.raises(ResourceInUseError, match=f"now run {doors.job(second).name}"):
        ask(doors, first)
    assert ask(doors, second)[0] == "enter"


def test_an_engine_without_shells_says_so(sim: Simulation) -> None:
    job = sim.run_to_end(keep_alive=600)
    with pytest.raises(RefusedError, match="The engine fake does not support shells"):
        ask(sim, job)


def test_hosts_of_a_pool_have_one_between_jobs_and_while_they_have_one(doors: Simulation) -> None:
    first = doors.submit(hosts=2, keep_alive=600)
    doors.pass_time(START)
    cluster = doors.job(first).cluster
    doors.end_job(first)
    (pool,) = doors.controller.facade.pools()
    assert (pool.id, pool.state) == (cluster, "Available")
    found = ask_pool(doors, pool.name)
    assert (found.command, found.hosts) == (("enter", cluster, "algo-1"), ("algo-1", "algo-2"))
    doors.submit(hosts=2, keep_alive=600)
    assert doors.controller.facade.pools()[0].state == "InUse"
    assert ask_pool(doors, cluster, "algo-2").command == ("enter", cluster, "algo-2")
    with pytest.raises(ValidationError, match=f"pool {pool.name} has no host 'algo-9'"):
        ask_pool(doors, cluster, "algo-9")


def test_a_pool_that_is_not_known_or_has_no_hosts_yet_has_none(doors: Simulation) -> None:
    with pytest.raises(ResourceNotFoundError, match="There is no pool 'digits'"):
        ask_pool(doors, "digits")
    doors.submit()
    (pool,) = doors.controller.facade.pools()
    with pytest.raises(ResourceNotFoundError, match=f"Pool {pool.name} is Provisioning"):
        ask_pool(doors, pool.name)


def test_hosts_that_are_going_have_none(doors: Simulation) -> None:
    job = doors.run_to_end(keep_alive=600)
    (pool,) = doors.controller.facade.pools()

    async def asked_while_it_goes() -> None:
        doors.controller.facade.release(pool.id)
        await doors.controller.facade.shell_commands.command_for_pool(pool.id, "")

    with pytest.raises(ResourceNotFoundError, match=f"Pool {pool.name} is Releasing"):
        doors.call(asked_while_it_goes)
    with pytest.raises(ResourceNotFoundError, match="has no hosts"):
        ask(doors, job)
