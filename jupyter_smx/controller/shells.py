"""Which command opens a shell on a host of a job, for somebody who sits at the controller's machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.model.cluster import ClusterState
from jupyter_smx.model.errors import RefusedError, ResourceInUseError, ResourceNotFoundError, ValidationError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_smx.controller.books import Books
    from jupyter_smx.engines.base import Engine
    from jupyter_smx.model.cluster import Handle
    from jupyter_smx.model.job import Job

_THERE = (ClusterState.IN_USE, ClusterState.AVAILABLE)


class Shells:
    """Answers for live jobs, and for those whose hosts are still warm and have no other job."""

    def __init__(self, books: Books, engine_of: Callable[[str], Engine]) -> None:
        self._books = books
        self._engine_of = engine_of

    async def command(self, ref: str, host: str) -> list[str]:
        """Give the words of a command; "" is the first host.

        :raises ResourceNotFoundError: there is no such job, or its hosts are gone or not there yet.
        :raises ResourceInUseError: its hosts have another job by now.
        :raises ValidationError: it has no such host.
        :raises RefusedError: nobody gets a shell there.
        """
        job = self._books.job(ref)
        handle = self._handle(job)
        names = [one.host for one in handle.hosts]
        if host and host not in names:
            raise ValidationError(
                f"--host: {job.name} has no host {host!r}.",
                field="host",
                value=host,
                rule=f"Its hosts are {', '.join(names)}.",
                cure=nearest(host, names),
            )
        engine = self._engine_of(handle.engine)
        found = await engine.shell(handle, host or names[0])
        if found is None:
            raise RefusedError(
                f"There is no shell on hosts of the engine {handle.engine}.", field="engine", value=handle.engine
            )
        return found

    def _handle(self, job: Job) -> Handle:
        cluster = self._books.clusters.get(job.cluster)
        if cluster is None or cluster.handle is None or not cluster.handle.hosts or cluster.state not in _THERE:
            raise ResourceNotFoundError(
                f"{job.name} has no hosts now.",
                field="job",
                value=job.name,
                rule="They are there while it runs, and as long as they stay warm after it.",
                cure="Keep them by --keep-alive, and run it again.",
            )
        other = self._books.jobs.get(cluster.job)
        if other is not None and other.id != job.id:
            raise ResourceInUseError(
                f"The hosts of {job.name} work for {other.name} now.",
                field="job",
                value=job.name,
                cure=f"Name {other.name} if you mean its hosts.",
            )
        return cluster.handle
