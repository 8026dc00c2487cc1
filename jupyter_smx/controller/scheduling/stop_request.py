"""What the hosts of a job are told in one breath."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_smx.controller.agents.connections import Agents
    from jupyter_smx.model.records.job import Job


def send_stop(agents: Agents, job: Job, hosts: Iterable[str], grace: float, cause: str) -> None:
    """Ask hosts to end their part of a job, politely and after ``grace`` seconds for certain."""
    for host in hosts:
        stream = agents.stream(job.cluster, host)
        stream.send_now("stop", job=job.id, lease=job.lease, grace=grace, cause=cause)
