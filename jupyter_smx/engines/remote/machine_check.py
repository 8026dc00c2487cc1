"""Examine one machine for a doctor's page: how fast it answers, what it has, and what hosts left on its disk."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from jupyter_smx.engines.remote.facts import MachineFacts
from jupyter_smx.model.errors import RefusedError, UnavailableError
from jupyter_smx.model.text import format_precise, format_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_smx.engines.remote.account import Account
    from jupyter_smx.engines.remote.machine import MachineOptions, RemoteMachine

ARCHIVES = "archives"
"""The kind of files that are needed whether hosts run or not."""
_ECHOES = 3
"""Round trips of which the shortest counts."""
_CONTACT_SHARE, _USAGE_SHARE = 2 / 3, 1 / 3
"""Parts of the time limit: for the first contact, and for a machine to count the bytes on its disk."""
_NO_ANSWER_CURE = "Check that it runs, and the network or VPN of this machine."


class MachineCheck(Struct, frozen=True, kw_only=True):
    """Facts of a machine, or the ``problem`` in one sentence with its cure; durations are seconds."""

    facts: MachineFacts = MachineFacts()
    first_contact: float = 0.0
    round_trip: float = 0.0
    problem: str = ""


async def check(account: Account, timeout: float, clock: Callable[[], float]) -> MachineCheck:
    """Check a machine, within ``timeout`` seconds; ``clock`` returns seconds. A failure is part of the answer."""
    try:
        return await asyncio.wait_for(_look(account, timeout, clock), timeout)
    except asyncio.TimeoutError:
        return MachineCheck(problem=f"{account.machine.name} did not answer within {timeout:g} s. {_NO_ANSWER_CURE}")
    except (RefusedError, UnavailableError) as error:
        return MachineCheck(problem=str(error if error.cure else error.with_cure(_NO_ANSWER_CURE)))


async def _look(account: Account, timeout: float, clock: Callable[[], float]) -> MachineCheck:
    began = clock()
    # Less than all of the time: a connection that is not alive is then looked at by the next question.
    await account.machine.run("true", timeout=timeout * _CONTACT_SHARE)
    first_contact = clock() - began
    round_trip = await _shortest_echo(account.machine, clock)
    answer = await account.ask("facts", {"usage_limit": timeout * _USAGE_SHARE}, timeout)
    facts = msgspec.convert(answer, MachineFacts, strict=False)
    return MachineCheck(facts=facts, first_contact=first_contact, round_trip=round_trip)


async def _shortest_echo(machine: RemoteMachine, clock: Callable[[], float]) -> float:
    """Measure a round trip in seconds over one open session."""
    async with machine.open("cat") as process:
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - both are pipes
        found = []
        for _ in range(_ECHOES):
            began = clock()
            process.stdin.write(b"\n")
            await process.stdin.drain()
            if not await process.stdout.readline():
                raise UnavailableError(f"{machine.name} ended a session that was just opened.", transient=True)
            found.append(clock() - began)
    return min(found)


def report(engine: str, options: MachineOptions, found: MachineCheck, silent_since: str) -> dict[str, object]:
    """Write for people what was found. Pure.

    ``engine`` is the name by which a user repeats the check, ``silent_since`` when a launch or a look at hosts first
    had no answer, "" if the last one had.
    """
    if found.problem:
        return {"problem": found.problem, **({"since": silent_since} if silent_since else {})}
    facts = found.facts
    slots = options.slots or facts.cpus
    lines: dict[str, object] = {
        "first_contact": format_precise(found.first_contact),
        "round_trip": format_precise(found.round_trip),
        "host_name": facts.host_name,
        "platform": facts.platform,
        "python": f"{facts.python_version} at {facts.python}",
        "uv": facts.uv or "not found",
        "cpus": facts.cpus,
        "memory": format_size(facts.memory),
        "gpus": _gpus(options, facts),
        "slots": f"{facts.hosts} of {slots} in use",
        "limits_of_jobs": facts.limits,
        "disk": f"{format_size(facts.disk_free)} of {format_size(facts.disk_total)} free",
        "folder": facts.root,
        "files_there": _usage(facts),
    }
    if any(size for kind, size in facts.usage.items() if kind != ARCHIVES):
        lines["to_free_space"] = (
            f"`%smx doctor --fix --engine {engine}` deletes files of clusters that have ended, agents of other "
            "versions, and environments that no job has used for a while."
        )
    return lines


def _gpus(options: MachineOptions, facts: MachineFacts) -> str:
    counts = Counter(gpu.name for gpu in facts.gpus)
    named = ", ".join(f"{count} × {name}" for name, count in counts.items())
    configured = f"{', '.join(options.gpus)} by the configuration" if options.gpus else ""
    return "; ".join(part for part in (named, configured) if part) or "none"


def _usage(facts: MachineFacts) -> str:
    sizes = ", ".join(f"{name} {format_size(size)}" for name, size in facts.usage.items())
    return f"at least {sizes} (not all was counted)" if sizes and facts.is_usage_partial else sizes or "none"
