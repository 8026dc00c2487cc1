"""Query machines in parallel and conclude the state of a cluster; separate, because the engine is long."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jupyter_smx.engines.base import Observation, StoppedAgent, stopped_process
from jupyter_smx.engines.remote.cluster_register import place_of
from jupyter_smx.engines.remote.contacts import WAIT
from jupyter_smx.model.errors import SmxError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

    from jupyter_smx.engines.remote.cluster_register import Intention
    from jupyter_smx.model.records.cluster import Handle

Answers = dict[str, dict[str, Any]]
Errors = dict[str, BaseException]


async def gather(questions: Mapping[str, Coroutine[Any, Any, dict[str, Any]]]) -> tuple[Answers, Errors]:
    """Query several machines in parallel; return the answers and the errors, by machine."""
    found = await asyncio.gather(*questions.values(), return_exceptions=True)
    named = dict(zip(questions, found, strict=True))
    answers = {name: answer for name, answer in named.items() if not isinstance(answer, BaseException)}
    return answers, {name: answer for name, answer in named.items() if isinstance(answer, BaseException)}


def conclude(handle: Handle, intention: Intention | None, states: Answers) -> Observation:
    """Conclude the state from machines' answers; a machine that was not asked or did not answer is missing. Pure."""
    if intention is None:
        return Observation.GONE
    if any(handle.cluster not in states.get(name, {}) for name in intention.machines()):
        return Observation.UNKNOWN
    found = [states[name].get(handle.cluster, {}).get(host) for host, name in intention.places.items()]
    running = [False if state is None else state["running"] for state in found]
    if None in running or (not handle.hosts and not any(running)):
        return Observation.UNKNOWN  # an acquire may be under way
    return Observation.RUNNING if all(running) else Observation.GONE


def clusters_by_machine(intentions: Mapping[str, Intention | None]) -> dict[str, list[str]]:
    """Collect for each machine the clusters that have a host there. Pure."""
    found: dict[str, list[str]] = {}
    for cluster, intention in intentions.items():
        for name in intention.machines() if intention is not None else ():
            found.setdefault(name, []).append(cluster)
    return found


class Observer:
    """Asks machines for the states of hosts, and waits for none that is silent while another one has answered.

    ``ask`` returns the states of clusters by host from one machine, or raises.
    """

    def __init__(self, ask: Callable[[str, Sequence[str]], Coroutine[Any, Any, dict[str, Any]]]) -> None:
        self._ask = ask
        self._questions: set[asyncio.Task[None]] = set()
        self._slow: dict[str, asyncio.Task[None]] = {}
        """Questions whose answers were no longer awaited, by machine; their answers go to ``_late``."""
        self._late: Answers = {}

    async def observe(self, clusters: Mapping[str, Sequence[str]]) -> Answers:
        """Ask each machine for its clusters; return the answers, without machines that are silent.

        Wait until one machine has answered, and then for the others until ``WAIT`` seconds after the questions. An
        answer that comes later is part of the next result: agents that have ended do not start again. A machine whose
        answer is late is not asked again before it comes.
        """
        answers: Answers = {name: self._late.pop(name) for name in clusters if name in self._late}
        tasks = {name: self._begin(name, own, answers) for name, own in clusters.items() if name not in self._slow}
        end = asyncio.get_running_loop().time() + WAIT
        await _wait_for_one(tasks.values(), answers)
        pending = [task for task in tasks.values() if not task.done()]
        if pending:
            await asyncio.wait(pending, timeout=max(0.0, end - asyncio.get_running_loop().time()))
        for name, task in tasks.items():
            if not task.done():
                self._slow[name] = task
        return {**answers}

    async def close(self) -> None:
        """End the questions that are under way."""
        questions = [*self._questions]
        for question in questions:
            question.cancel()
        await asyncio.gather(*questions, return_exceptions=True)

    def _begin(self, name: str, clusters: Sequence[str], answers: Answers) -> asyncio.Task[None]:
        task = asyncio.create_task(self._question(name, clusters, answers), name=f"observe {name}")
        self._questions.add(task)
        task.add_done_callback(self._questions.discard)
        return task

    async def _question(self, name: str, clusters: Sequence[str], answers: Answers) -> None:
        try:
            with suppress(SmxError):
                states = await self._ask(name, clusters)
                (self._late if self._is_slow(name) else answers)[name] = states
        finally:
            if self._is_slow(name):
                del self._slow[name]

    def _is_slow(self, name: str) -> bool:
        return self._slow.get(name) is asyncio.current_task()


async def _wait_for_one(tasks: Iterable[asyncio.Task[None]], answers: Answers) -> None:
    """Wait until there is an answer, or all tasks have ended."""
    pending = set(tasks)
    while pending and not answers:
        _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)


class StoppedAgents:
    """Agents that were stopped when their machines answered last."""

    def __init__(self) -> None:
        self._pids: dict[tuple[str, str], dict[str, int]] = {}
        """PIDs by host, by machine and cluster; empty for a cluster whose agents all run."""

    def note(self, machine: str, clusters: Mapping[str, Any]) -> None:
        """Store the states of clusters by host on a machine; keep those of clusters that it was not asked about."""
        for cluster, hosts in clusters.items():
            self._pids.pop((machine, cluster), None)
            if pids := {host: state["pid"] for host, state in hosts.items() if state.get("stopped")}:
                self._pids[machine, cluster] = pids

    def find(self, handle: Handle, host: str) -> StoppedAgent | None:
        """Describe the agent of a host if it was stopped."""
        machine = place_of(next((one for one in handle.hosts if one.host == host), None))
        pid = self._pids.get((machine, handle.cluster), {}).get(host)
        return stopped_process(pid, machine) if pid else None
