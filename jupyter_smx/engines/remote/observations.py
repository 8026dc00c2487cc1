"""Query machines in parallel and conclude the state of a cluster; separate, because the engine is long."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from jupyter_smx.engines.base import Observation, StoppedAgent, stopped_process
from jupyter_smx.engines.remote.cluster_register import place_of

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

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
    """Conclude the state from machines' answers; those of a machine that did not answer are missing. Pure."""
    if intention is None:
        return Observation.GONE
    if not states.keys() >= set(intention.machines()):
        return Observation.UNKNOWN
    found = [states[name].get(handle.cluster, {}).get(host) for host, name in intention.places.items()]
    running = [False if state is None else state["running"] for state in found]
    if None in running or (not handle.hosts and not any(running)):
        return Observation.UNKNOWN  # an acquire may be under way
    return Observation.RUNNING if all(running) else Observation.GONE


class StoppedAgents:
    """Agents that were stopped when their machines answered last."""

    def __init__(self) -> None:
        self._pids: dict[tuple[str, str], dict[str, int]] = {}
        """PIDs by host, by machine and cluster; empty for a cluster whose agents all run."""

    def note(self, answers: Answers) -> None:
        """Store machines' answers to ``observe``; keep the state of clusters that they do not mention."""
        for machine, answer in answers.items():
            for cluster, hosts in answer["hosts"].items():
                self._pids.pop((machine, cluster), None)
                if pids := {host: state["pid"] for host, state in hosts.items() if state.get("stopped")}:
                    self._pids[machine, cluster] = pids

    def find(self, handle: Handle, host: str) -> StoppedAgent | None:
        """Describe the agent of a host if it was stopped."""
        machine = place_of(next((one for one in handle.hosts if one.host == host), None))
        pid = self._pids.get((machine, handle.cluster), {}).get(host)
        return stopped_process(pid, machine) if pid else None
