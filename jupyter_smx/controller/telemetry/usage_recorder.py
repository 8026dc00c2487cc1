"""Record the resource use of jobs: store samples, collect the files of hosts, and read them for clients."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.controller.telemetry.log_collector import LogCollector
from jupyter_smx.controller.transfer.job_folder import JobFolder, StagingError
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.results.usage import HostUsage, JobUsage
from jupyter_smx.policy.accounting.usage import read_host_usage, usage_of
from jupyter_smx.policy.hosts.names import named_hosts
from jupyter_smx.policy.lifecycle.attempts import is_over

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from jupyter_smx.controller.agents.connections import Agents
    from jupyter_smx.controller.agents.stream import AgentStream
    from jupyter_smx.controller.transfer.host_spool import HostSpool
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.results.usage import Usage

_log = logging.getLogger(__name__)

MAX_BACKLOG = 1_024
"""Bytes, some ten samples, that may be on a host only: with many jobs each one would be too many requests."""


class UsageRecorder:
    """The samples of all jobs. The newest figures of a host go to ``on_news(job id, host, figures)``."""

    def __init__(
        self,
        jobs_folder: Path,
        agents: Agents,
        on_figures: Callable[[str, str, Usage], None],
        *,
        is_network: bool = False,
    ) -> None:
        self._jobs_folder = jobs_folder
        self._agents = agents
        self._on_figures = on_figures
        self._collector = LogCollector(
            jobs_folder,
            agents,
            lambda _job: None,
            name=host_layout.SAMPLES,
            path_of=JobFolder.samples,
            is_network=is_network,
        )
        self._remote_sizes: dict[tuple[str, int, str], int] = {}

    def on_sample(self, job: Job, host: str, total: int, now: Mapping[str, Any]) -> None:
        """Note that a host has taken a sample and that its file is ``total`` bytes long."""
        key, missing = (job.id, job.attempt, host), total - self._collector.size(job.id, host, job.attempt)
        if missing > 0:
            self._remote_sizes[key] = total
        else:
            # A host may greet again while its file is collected: without this its entry would stay for good.
            self._remote_sizes.pop(key, None)
        if missing > MAX_BACKLOG:
            self._collector.on_growth(job, host, total)
        figures = usage_of(now)
        # Without a percentage the job has only just begun. Most jobs end before the next sample: save them the event.
        if figures is not None and figures.cpu_percent is not None:
            self._on_figures(job.id, host, figures)

    async def collect(
        self, job: Job, host: str, total: int, stream: AgentStream | None, spool: HostSpool | None
    ) -> None:
        """Wait until all ``total`` bytes of a host's file are here; on a full disk, the rest is left out.

        :raises UnavailableError: the agent does not answer now.
        """
        self._remote_sizes.pop((job.id, job.attempt, host), None)
        try:
            await self._collector.drain(job, host, total, stream, spool)
        except StagingError as error:
            _log.warning("job=%s host=%s resource usage is incomplete: %s", job.name, host, error)

    async def usage(self, job: Job, host: str, attempt: int, since: float) -> JobUsage:
        """Return the history of a run of a job on all of its hosts, or on one (``host``), after a moment.

        For a live run it ends with the newest sample.
        """
        over = is_over(job, attempt)
        names = [each.name for each in named_hosts(job.spec.instance_groups) if host in ("", each.name)]
        if not over:
            await asyncio.gather(*(self._catch_up(job, name) for name in names))
        found = await asyncio.gather(*(asyncio.to_thread(self._read, job, attempt, name, since) for name in names))
        return JobUsage(
            job=job.name,
            hosts=tuple(one for one in found if one is not None),
            peak=job.peak,
            attempt=attempt,
            attempts=job.attempt,
            is_final=over,
        )

    async def close(self) -> None:
        """Stop fetching; a new controller continues at the same byte."""
        await self._collector.close()

    async def _catch_up(self, job: Job, host: str) -> None:
        total = self._remote_sizes.get((job.id, job.attempt, host), 0)
        try:
            if total > self._collector.size(job.id, host, job.attempt):
                await self._collector.drain(job, host, total, self._agents.stream(job.cluster, host))
        except (UnavailableError, StagingError) as error:
            _log.info("job=%s host=%s newest usage samples not collected yet: %s", job.name, host, error)

    def _read(self, job: Job, attempt: int, host: str, since: float) -> HostUsage | None:
        try:
            data = JobFolder(self._jobs_folder, job.id).samples(host, attempt).read_bytes()
        except OSError:
            return None
        return read_host_usage(host, data, since) if data else None
