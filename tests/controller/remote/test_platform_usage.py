"""What a platform accounted for hosts is in the record of their last job, after each kind of end."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.kernel.handles.cost import cost_page
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.records.cluster import Renewal
from jupyter_smx.model.results.usage import PlatformUsage
from jupyter_smx.testing.fakes.fake_remote_engine import FakeRemoteEngine
from jupyter_smx.testing.simulation.simulation import LIMITS, Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator

USAGE = PlatformUsage(name="Slurm job 7", state="COMPLETED", nodes=1, elapsed_seconds=60.0, cpu_seconds=5.0)
SENTENCE = "Slurm job 7: COMPLETED, 1 min, 5 s of CPU time"


class AccountingEngine(FakeRemoteEngine):
    """An engine whose platform keeps accounts of clusters that were released."""

    error: Exception | None = None
    questions = 0
    delay = 0.0
    """Seconds until the platform answers."""

    async def platform_usage(self, cluster: str) -> PlatformUsage | None:
        """Return the figures of a cluster without hosts."""
        assert not [host for host in self.world.live_hosts() if host.cluster == cluster], "asked before the release"
        self.questions += 1
        answered = asyncio.Event()
        asyncio.get_running_loop().call_later(self.delay, answered.set)
        await answered.wait()
        if self.error is not None:
            raise self.error
        return USAGE


@pytest.fixture
def remote() -> Iterator[Simulation]:
    with Simulation(limits=LIMITS, engine=AccountingEngine) as simulation:
        yield simulation
        assert not simulation.bugs, "\n".join(simulation.bugs)


def accounting_engine(sim: Simulation) -> AccountingEngine:
    assert isinstance(sim.engine, AccountingEngine)
    return sim.engine


def figures(sim: Simulation, job: str) -> str:
    return sim.controller.live_state.bill(sim.job(job)).platform_usage


def test_the_last_job_has_the_figures_of_an_allocation_that_no_job_used(remote: Simulation) -> None:
    end = remote.world.clock() + 300.0
    engine = accounting_engine(remote)
    engine.allocation_ends_at, engine.renewal = end, Renewal(at=end - 100.0, seconds=300.0)
    job = remote.run_to_end(keep_alive=500)
    remote.pass_time(190.0)
    engine.allocation_ends_at, engine.renewal = end + 300.0, None
    remote.pass_time(20.0)
    assert figures(remote, job) == SENTENCE
    remote.pass_time(400.0)
    assert not remote.pools()
    assert engine.questions == 2
    assert figures(remote, job) == "Slurm job 7 and Slurm job 7: COMPLETED, 2 min, 10 s of CPU time"


@pytest.mark.parametrize("keep_alive", [0, 600])
def test_the_last_job_has_the_figures_after_its_hosts_have_ended(remote: Simulation, keep_alive: int) -> None:
    first = remote.run_to_end(keep_alive=600)
    last = remote.run_to_end(keep_alive=keep_alive)
    assert figures(remote, last) == "" or not keep_alive
    remote.pass_time(700.0)
    assert not remote.pools()
    assert (figures(remote, first), figures(remote, last)) == ("", SENTENCE)
    page = cost_page("fit", remote.controller.live_state.bill(remote.job(last)))[0]
    assert f"  accounted: {SENTENCE}" in page


def test_the_last_job_of_a_pool_that_was_lost_has_the_figures(remote: Simulation) -> None:
    job = remote.run_to_end(keep_alive=600)
    for host in remote.world.live_hosts():
        host.crash()
    remote.pass_time(30.0)
    assert not remote.pools()
    assert figures(remote, job) == SENTENCE


def test_a_platform_that_does_not_answer_delays_no_end(remote: Simulation) -> None:
    accounting_engine(remote).error = UnavailableError("Slurm does not answer.")
    job = remote.run_to_end(keep_alive=0)
    remote.pass_time(5.0)
    assert not remote.pools()
    assert figures(remote, job) == ""


@pytest.mark.parametrize("delay", [0.0, 5.0])
def test_the_job_whose_allocation_ended_has_the_figures_and_the_one_before_it_has_none(
    remote: Simulation, delay: float
) -> None:
    accounting_engine(remote).delay = delay
    first = remote.run_to_end(keep_alive=600)
    second = remote.submit(keep_alive=600)
    remote.pass_time(1.0)
    assert remote.job(second).cluster == remote.job(first).cluster
    for host in remote.hosts(second):
        remote.kill_host(host)
    remote.pass_time(60.0)
    assert remote.job(second).ended_at is not None
    assert (figures(remote, first), figures(remote, second)) == ("", SENTENCE)


def test_a_slow_platform_delays_neither_the_end_of_a_lost_job_nor_the_next_hosts(remote: Simulation) -> None:
    accounting_engine(remote).delay = 9.0
    job = remote.run_to_end(keep_alive=0)
    remote.pass_time(2.0)
    assert not remote.pools()
    assert figures(remote, job) == ""
    remote.pass_time(9.0)
    assert figures(remote, job) == SENTENCE


def test_a_platform_without_an_answer_in_time_is_one_line_of_the_log(
    remote: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    accounting_engine(remote).delay = 60.0
    with caplog.at_level(logging.INFO, "jupyter_smx"):
        job = remote.run_to_end(keep_alive=0)
        remote.pass_time(70.0)
    assert figures(remote, job) == ""
    lines = [record for record in caplog.records if "platform usage" in record.getMessage()]
    assert [(line.levelno, line.exc_info) for line in lines] == [(logging.INFO, None)]


@pytest.mark.parametrize("is_lost", [False, True])
def test_the_next_controller_reads_the_figures_of_a_pool_whose_controller_ended_first(
    remote: Simulation, is_lost: bool
) -> None:
    accounting_engine(remote).delay = 5.0
    job = remote.submit(keep_alive=0)
    remote.pass_time(1.0)
    if is_lost:
        remote.kill_host(remote.hosts(job)[0])
    else:
        remote.end_job(job)
    remote.pass_time(4.0)
    assert not remote.pools()
    assert accounting_engine(remote).questions == 1
    remote.restart()
    remote.pass_time(6.0)
    assert figures(remote, job) == SENTENCE
    remote.restart()
    remote.pass_time(6.0)
    assert accounting_engine(remote).questions == 2


@pytest.mark.parametrize(("delay", "error"), [(0.0, UnavailableError("Slurm does not answer.")), (60.0, None)])
def test_the_next_controller_asks_once_more_if_the_platform_gave_no_answer(
    remote: Simulation, delay: float, error: Exception | None
) -> None:
    engine = accounting_engine(remote)
    engine.delay, engine.error = delay, error
    job = remote.run_to_end(keep_alive=0)
    remote.pass_time(20.0)
    assert figures(remote, job) == ""
    engine.delay, engine.error = 0.0, None
    remote.restart()
    remote.pass_time(1.0)
    assert (figures(remote, job), engine.questions) == (SENTENCE, 2)


def test_a_platform_without_figures_is_asked_by_one_later_controller_only(remote: Simulation) -> None:
    engine = accounting_engine(remote)
    engine.delay, engine.error = 5.0, UnavailableError("Slurm does not answer.")
    job = remote.run_to_end(keep_alive=0)
    remote.pass_time(2.0)
    for _ in range(3):
        remote.restart()
        remote.pass_time(6.0)
    assert (figures(remote, job), engine.questions) == ("", 2)
