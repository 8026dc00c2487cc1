"""Processes that a job's own process left: killed at once, or after a grace period if they got SIGTERM, too."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.host.kill_wait import PATIENCE
from jupyter_smx.agent.job import orphans
from jupyter_smx.agent.job.orphans import EXIT_GRACE, Orphans
from jupyter_smx.agent.system.processes import process

if TYPE_CHECKING:
    from collections.abc import Callable

PID = 4_000_000  # above every system's maximum, so that these tests kill no process
NAMED = [f"process {PID} (?) was still running and was killed."]


class Machine:
    """A host with one orphan, which exits at ``leaves_at`` or, if that is infinite, when it is killed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.leaves_at = float("inf")
        self.heeds_kill = True
        self.killed_at: list[float] = []
        self.unusable_reason = ""
        self.ended: list[tuple[float, list[str]]] = []
        self._calls: list[tuple[float, Callable[[], None]]] = []
        self.loop = SimpleNamespace(reap=lambda: None, later=lambda pause, call: self._calls.append((pause, call)))
        monkeypatch.setattr(orphans, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(process, "kill", self._kill)

    def _kill(self, pids: list[int]) -> None:
        if pids:
            self.killed_at.append(self.now)
            self.leaves_at = self.now if self.heeds_kill else self.leaves_at

    def orphan_pids(self) -> list[int]:
        return [PID] if self.now < self.leaves_at else []

    adopted_pids = orphan_pids

    def ends(self, *, were_told: bool) -> tuple[float, list[str]]:
        """Let time pass until all calls were made; return the end's time and its messages."""
        orphans = Orphans(self, pytest.fail, lambda said: self.ended.append((self.now, said)))  # type: ignore[arg-type]
        orphans.terminate(were_told=were_told)
        while self._calls:
            pause, call = self._calls.pop()
            self.now += pause
            call()
        (end,) = self.ended
        return end


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_one_that_was_told_to_end_and_is_leaving_was_not_left_behind(machine: Machine) -> None:
    machine.leaves_at = EXIT_GRACE / 2
    when, sentences = machine.ends(were_told=True)
    assert (sentences, machine.killed_at) == ([], [])
    assert machine.leaves_at <= when < EXIT_GRACE


def test_one_that_was_told_and_stays_is_killed_in_a_moment(machine: Machine) -> None:
    when, sentences = machine.ends(were_told=True)
    assert (sentences, machine.unusable_reason) == (NAMED, "")
    assert machine.killed_at[0] == when == pytest.approx(EXIT_GRACE, abs=0.01)


def test_one_that_nobody_told_is_killed_at_once(machine: Machine) -> None:
    assert machine.ends(were_told=False) == (0.0, NAMED)


def test_one_that_cannot_be_killed_is_said_so(machine: Machine) -> None:
    machine.heeds_kill = False
    when, sentences = machine.ends(were_told=False)
    assert sentences == [*NAMED, f"process {PID} cannot be killed; this host ends."]
    assert machine.unusable_reason == sentences[-1]
    assert when == pytest.approx(PATIENCE, abs=0.1)
