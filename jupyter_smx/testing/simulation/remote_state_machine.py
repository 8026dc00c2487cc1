"""Random histories where hosts share no folder with the controller, and laptops are closed."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from jupyter_smx.model.status import DesiredState, Status
from jupyter_smx.testing.fakes.fake_engine import FakeUnsharedEngine, SpoolUnreadable
from jupyter_smx.testing.simulation.state_machine import ControllerStateMachine, indices


class RemoteStateMachine(ControllerStateMachine):
    """All events, and those of results that only their host has."""

    engine = FakeUnsharedEngine

    @rule(reads=st.booleans(), away=st.booleans())
    def spools_become_readable_or_not(self, reads: bool, away: bool) -> None:
        """From now on the engine reads what hosts kept, or cannot, or cannot for a while."""
        self.sim.engine.reads_spool = reads
        if away:
            self.sim.set_faults(SpoolUnreadable())

    @precondition(lambda self: self.is_alive() and self.sim.world.running_jobs())
    @rule(number=indices, seconds=st.sampled_from([5.0, 70.0, 200.0]))
    def a_laptop_is_closed_while_a_job_ends(self, number: int, seconds: float) -> None:
        """Complete the job on its hosts; its results are there when the laptop is opened again."""
        running = self.sim.world.running_jobs()
        job = running[number % len(running)][1].job
        whole = all(host.alive and job in host.runs for host in self.sim.hosts(job))
        expected = whole and self.sim.job(job).goal is DesiredState.RUN and not self.sim.engine.faults
        self.sim.kill_controller()
        self.sim.end_job(job)
        whole = whole and all((host.runs[job].record or {}).get("exit_code") == 0 for host in self.sim.hosts(job))
        self.sim.pass_time(seconds)
        self.sim.restart()
        self.sim.pass_time(5.0)
        if expected and whole and self.is_alive():
            assert self.sim.job(job).status() is Status.COMPLETED
