"""What a platform accounted for hosts is in the record of their last job, after each kind of end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_smx.kernel.handles.cost import cost_page
from jupyter_smx.model.errors import UnavailableError
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

    async def platform_usage(self, cluster: str) -> PlatformUsage | None:
        """Return the figures of a cluster without hosts."""
        assert not [host for host in self.world.live_hosts() if host.cluster == cluster], "asked before the release"
        if self.error is not None:
            raise self.error
        return USAGE


@pytest.fixture
def remote() -> Iterator[Simulation]:
    with Simulation(limits=LIMITS, engine=AccountingEngine) as simulation:
        yield simulation
        assert not simulation.bugs, "\n".join(simulation.bugs)


def accounted(sim: Simulation, job: str) -> str:
    return sim.controller.live_state.bill(sim.job(job)).accounted


@pytest.mark.parametrize("keep_alive", [0, 600])
def test_the_last_job_has_the_figures_after_its_hosts_have_ended(remote: Simulation, keep_alive: int) -> None:
    first = remote.run_to_end(keep_alive=600)
    last = remote.run_to_end(keep_alive=keep_alive)
    assert accounted(remote, last) == "" or not keep_alive
    remote.pass_time(700.0)
    assert not remote.pools()
    assert (accounted(remote, first), accounted(remote, last)) == ("", SENTENCE)
    page = cost_page("fit", remote.controller.live_state.bill(remote.job(last)))[0]
    assert f"  accounted: {SENTENCE}" in page


def test_the_last_job_of_a_pool_that_was_lost_has_the_figures(remote: Simulation) -> None:
    job = remote.run_to_end(keep_alive=600)
    for host in remote.world.live_hosts():
        host.crash()
    remote.pass_time(30.0)
    assert not remote.pools()
    assert accounted(remote, job) == SENTENCE


def test_a_platform_that_does_not_answer_delays_no_end(remote: Simulation) -> None:
    engine = remote.engine
    assert isinstance(engine, AccountingEngine)
    engine.error = UnavailableError("Slurm does not answer.")
    job = remote.run_to_end(keep_alive=0)
    remote.pass_time(5.0)
    assert not remote.pools()
    assert accounted(remote, job) == ""
