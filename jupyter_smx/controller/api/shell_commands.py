"""Find the command that opens a shell on a host, for a user of the controller's machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.model.errors import (
    RefusedError,
    ResourceInUseError,
    ResourceNotFoundError,
    ValidationError,
    suggest_names,
)
from jupyter_smx.model.records.cluster import ClusterState, ShellCommand

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_smx.controller.state.live_state import LiveState
    from jupyter_smx.engines.base import Engine
    from jupyter_smx.model.records.cluster import Cluster, Handle
    from jupyter_smx.model.records.job import Job

_STATES_WITH_HOSTS = (ClusterState.IN_USE, ClusterState.AVAILABLE)


class ShellCommands:
    """Answers for live jobs, for those whose hosts are still warm and have no other job, and for pools."""

    def __init__(self, live_state: LiveState, engine_of: Callable[[str], Engine]) -> None:
        self._live_state = live_state
        self._engine_of = engine_of

    async def command_for_job(self, ref: str, host: str) -> ShellCommand:
        """Return a command for a shell on a host of a job; "" is the first host.

        :raises ResourceNotFoundError: there is no such job, or its hosts are not up or gone.
        :raises ResourceInUseError: its hosts run another job now.
        :raises ValidationError: it has no such host.
        :raises RefusedError: its engine offers no shell.
        """
        job = self._live_state.job(ref)
        return await self._command(job.name, self._handle_of_job(job), host)

    async def command_for_pool(self, ref: str, host: str) -> ShellCommand:
        """Return a command for a shell on a host of a pool, also while a job uses it; "" is the first host.

        :raises ResourceNotFoundError: there is no such pool, or its hosts are not up, or are being released.
        :raises ValidationError: it has no such host.
        :raises RefusedError: its engine offers no shell.
        """
        cluster = self._live_state.pool(ref)
        handle = _handle(cluster)
        if handle is None:
            raise ResourceNotFoundError(
                f"Pool {cluster.name()} is {cluster.state.value}.",
                field="pool",
                value=ref,
                rule="A shell needs a pool that is InUse or Available.",
            )
        return await self._command(f"pool {cluster.name()}", handle, host)

    async def _command(self, whose: str, handle: Handle, host: str) -> ShellCommand:
        names = [one.host for one in handle.hosts]
        if host and host not in names:
            raise ValidationError(
                f"--host: {whose} has no host {host!r}.",
                field="host",
                value=host,
                rule=f"Its hosts are {', '.join(names)}.",
                cure=suggest_names(host, names),
            )
        engine = self._engine_of(handle.engine)
        found = await engine.shell(handle, host or names[0])
        if found is None:
            raise RefusedError(
                f"The engine {handle.engine} does not support shells.",
                field="engine",
                value=handle.engine,
                rule="Shells need an engine that can run commands on its hosts.",
                cure="Use the job's logs and usage, or run it with --engine local or docker.",
            )
        return ShellCommand(command=tuple(found), hosts=tuple(names))

    def _handle_of_job(self, job: Job) -> Handle:
        cluster = self._live_state.clusters.get(job.cluster)
        handle = None if cluster is None else _handle(cluster)
        if cluster is None or handle is None:
            raise ResourceNotFoundError(
                f"{job.name} has no hosts.",
                field="job",
                value=job.name,
                rule="A job has hosts while it runs and while they stay warm afterwards.",
                cure="Run it again with --keep-alive.",
            )
        other = self._live_state.jobs.get(cluster.job)
        if other is not None and other.id != job.id:
            raise ResourceInUseError(
                f"The hosts of {job.name} now run {other.name}.",
                field="job",
                value=job.name,
                cure=f"To open a shell there, use {other.name}.",
            )
        return handle


def _handle(cluster: Cluster) -> Handle | None:
    """Return the handle of the hosts; None while not all of them exist."""
    handle = cluster.handle
    return handle if handle is not None and handle.hosts and cluster.state in _STATES_WITH_HOSTS else None
