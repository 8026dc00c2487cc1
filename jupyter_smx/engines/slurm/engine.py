"""The Slurm engine: a warm pool is an allocation, and its hosts are on the nodes of that."""

from __future__ import annotations

import asyncio
import base64
import os
import time
from contextlib import aclosing
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace
from traitlets import default

from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.engines.base import DOCTOR_TIMEOUT, Observation
from jupyter_smx.engines.machine import request_validation
from jupyter_smx.engines.machine.addresses import MachineNetwork, host_networks
from jupyter_smx.engines.machine.launch_hosts import launch_all
from jupyter_smx.engines.remote import interpreters, observations
from jupyter_smx.engines.remote.account import DEFAULT_FOLDER, DEFAULT_PYTHON, Account
from jupyter_smx.engines.remote.cluster_register import host_handle
from jupyter_smx.engines.remote.environments import environment_request, provide
from jupyter_smx.engines.remote.machine import NoAnswerError
from jupyter_smx.engines.remote.record_folder import RecordFolder
from jupyter_smx.engines.slurm import lifecycle, node_types, pilot_source, reasons, submission
from jupyter_smx.engines.slurm.client import SlurmClient
from jupyter_smx.engines.slurm.login import LocalLogin
from jupyter_smx.engines.slurm.node import NodeMachine
from jupyter_smx.engines.slurm.partition_store import PartitionStore
from jupyter_smx.engines.slurm.queue_watch import FIRST_DELAYS, QueueWatch
from jupyter_smx.engines.slurm.record import AllocationRecord
from jupyter_smx.engines.slurm.ssh_login import SshLogin
from jupyter_smx.engines.slurm.traits import SlurmTraits
from jupyter_smx.engines.ssh.engine import SshEngine
from jupyter_smx.model.errors import RefusedError, ResourceNotFoundError, UnavailableError
from jupyter_smx.model.records.cluster import Handle, HostHandle, QueueStatus

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence

    from jupyter_smx.engines.base import ClusterRequest, HostSpec
    from jupyter_smx.engines.machine.addresses import HostNetwork
    from jupyter_smx.engines.slurm.login import Login
    from jupyter_smx.engines.slurm.parsers import PartitionRow, QueueRow
    from jupyter_smx.model.spec.instance import InstanceType

_OBSERVE_INTERVAL = 30.0
"""Seconds between two looks: a scheduler serves many people."""
_STEP_TIMEOUT = 20.0
"""Seconds for a question to a node."""
_END_PAUSE = 0.3
"""Seconds between two looks at a job that ends."""
_FILLED_IN = ("addresses", "interface", "port", "limits", "notice_grace")
"""Fields of ``host.json`` that only the nodes can fill in."""


class SlurmEngine(SlurmTraits):
    """Runs hosts on the nodes of an allocation, which Slurm schedules once for each warm pool."""

    name: ClassVar[str] = "slurm"

    @default("observe_interval")
    def _default_observe_interval(self) -> float:
        return _OBSERVE_INTERVAL

    def __init__(self, **traits: object) -> None:
        super().__init__(**traits)
        self._login = self._make_login()
        self._client = SlurmClient(self._login, str(self.programs), float(self.command_timeout))
        self._watch = QueueWatch(self._client.queue, time.monotonic)
        self._partitions = PartitionStore(self._folder / "partitions.json")
        self._node_counts: dict[str, int] = {}

    def _make_login(self) -> Login:
        if not self.login:
            return LocalLogin(self.variables)
        given = {"parent": self.parent} if self.parent is not None else {"config": self.config}
        return SshLogin(SshEngine(data_dir=str(self.data_dir), **given), str(self.login), str(self.python))

    # The six methods of the port

    def plan(self, request: ClusterRequest) -> dict[str, object]:
        """Return the planned job; Slurm chooses nodes and addresses, and the limit of a partition may shorten it."""
        found = interpreters.interpreter(request.python, self._environments())
        hosts = {}
        for host in request.hosts:
            described = self._description(request, host, None)
            hosts[host.host] = {
                "python": found.path or str(self.python) or DEFAULT_PYTHON,
                "setup": found.setup,
                host_layout.DESCRIPTION: {name: value for name, value in described.items() if name not in _FILLED_IN},
            }
        planned = submission.plan_submission(request, self.job_options(), self.allocation_time(), "")
        return {
            "engine": self.name,
            "login": str(self.login) or "this machine",
            "submit": [list(group.words) for group in planned.groups],
            "seconds": planned.seconds,
            "hosts": hosts,
            **({"requirements": [*request.requirements]} if request.requirements else {}),
        }

    async def acquire(self, request: ClusterRequest) -> AsyncIterator[Handle | QueueStatus]:
        """Submit a job, wait until it has its nodes, and launch the hosts there.

        :raises RefusedError: Slurm accepts no such job, or can never start it.
        :raises UnavailableError: Slurm gives no answer, the job ended, or a host did not come up.
        """
        request_validation.check_names(request)
        interpreters.interpreter(request.python, self._environments())
        records = self._records
        async with records.lock(request.cluster):
            if records.is_released(request.cluster):
                raise request_validation.released_error(request.cluster)
            await self._client.facts()
            if records.read(request.cluster) is None:
                records.write(request.cluster, self._new_record(request))
            yield Handle(engine=self.name, cluster=request.cluster)
            async with aclosing(self._wait_for_nodes(request)) as states:
                async for state in states:
                    yield state
            record = self._record(request.cluster)
            pythons: dict[str, str] = {}
            async with aclosing(self._provide_environments(request, record)) as reports:
                async for report in reports:
                    if isinstance(report, dict):
                        pythons = report
                    else:
                        yield report
            networks = await self._networks(request.cluster, record)

            async def launch_host(host: HostSpec) -> HostHandle:
                return await self._launch_host(request, host, networks[host.host], pythons.get(host.host, ""))

            async with aclosing(launch_all(self, request, launch_host)) as handles:
                async for handle in handles:
                    yield replace(handle, allocation_ends_at=record.ends_at)

    async def find(self, cluster: str) -> Handle | None:
        """Look up the record of a cluster, and its job at Slurm.

        :raises UnavailableError: Slurm does not answer, or the record cannot be read.
        """
        records = self._records
        record = records.read(cluster) if request_validation.is_valid_name(cluster) else None
        if record is None or records.is_released(cluster):
            return None
        await self._watch.look()
        return Handle(engine=self.name, cluster=cluster, hosts=record.hosts, allocation_ends_at=record.ends_at)

    async def observe_all(self, handles: Sequence[Handle]) -> list[Observation]:
        """Ask Slurm once for all; an answer of the last seconds counts."""
        if not handles:
            return []
        try:
            queue = await self._watch.look(float(self.observe_interval) / 6)
            return [self._observe(handle, queue) for handle in handles]
        except UnavailableError:
            return [Observation.UNKNOWN for _ in handles]

    async def release(self, handle: Handle) -> None:
        """End the hosts on their nodes, then the job, and wait until Slurm says that it has ended.

        :raises UnavailableError: Slurm does not answer, or the job still ends.
        """
        if not request_validation.is_valid_name(handle.cluster):
            return
        records = self._records
        record, known = records.read(handle.cluster), _job_of(handle)
        records.release(handle.cluster)
        if record is None and not known:
            return
        if record is not None and not record.submitted_at:
            return  # nothing was ever submitted
        name = submission.job_name(self._owner, handle.cluster)
        live = _live_jobs((await self._watch.look()).get(name, {}))
        if not live:
            self._check_late_submission(record)
            return
        hosts = handle.hosts or (record.hosts if record else ())
        await self._release_hosts(handle.cluster, hosts, live)
        await self._client.cancel(live)
        await self._wait_ended(name, live)

    async def connect(self, handle: Handle, host: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a stream to the agent's socket over a step of the allocation.

        :raises UnavailableError: nothing listens there now.
        """
        found = next((known for known in handle.hosts if known.host == host), None)
        if found is None:
            raise UnavailableError(f"Host {host} of cluster {handle.cluster} is on no node yet.", transient=True)
        await self._client.facts()
        return await self._account_of(found).machine.connect(str(found.data["socket"]))

    # Methods of the port with a default

    def instance_types(self) -> Sequence[InstanceType]:
        """Return the types of the configuration, and those of partitions as they were when Slurm was asked last."""
        own = {kind.name: kind for kind in node_types.partition_types(self._partitions.read())}
        return [*(own | {kind.name: kind for kind in self.configured_types()}).values()]

    def check_installed(self) -> None:
        """Check that the login machine's ssh client is installed, where there is one.

        :raises RefusedError: it is not.
        """
        if isinstance(self._login, SshLogin):
            self._login.check_installed()

    async def shell(self, handle: Handle, host: str) -> list[str] | None:
        """Enter the namespaces of the agent in a terminal on the node."""
        found = next((known for known in handle.hosts if known.host == host), None)
        if found is None:
            return None
        await self._client.facts()
        account = self._account_of(found)
        return account.machine.shell_words(account.command("shell", handle.cluster, host))

    async def read_spool(
        self, cluster: str, host: str, job: str, name: str, offset: int, limit: int
    ) -> tuple[bytes, int] | None:
        """Read a file on the host's node while its allocation lives, and then in the home, if nodes and login share it.

        :raises ResourceNotFoundError: there is no such file.
        :raises UnavailableError: the machine gives no answer.
        """
        record = self._records.read(cluster)
        found = next((known for known in record.hosts if known.host == host), None) if record else None
        if record is None or found is None:
            return None
        await self._client.facts()
        is_live = bool(_live_jobs((await self._watch.look()).get(record.name, {})))
        if not is_live and not self.shared_home:
            return None
        account = self._account_of(found) if is_live else Account(self._login, "", str(self.python))
        question = {"cluster": cluster, "host": host, "path": f"{job}/{name}", "offset": offset, "limit": limit}
        answer = await account.ask("read", question)
        if answer["data"] is None:
            raise ResourceNotFoundError(f"{name} is not in the spool.")
        return base64.b64decode(answer["data"]), int(answer["size"])

    async def exit_reason(self, cluster: str, host: str) -> str:
        """Return how Slurm ended the job of a cluster, or "" while it runs."""
        del host
        record = self._records.read(cluster)
        if record is None or not record.job:
            return ""
        details = await self._client.describe(record.job)
        state = details.get("JobState", "")
        if state in (*reasons.PENDING, *reasons.RUNNING):
            return ""
        if state in ("", "CANCELLED"):  # Slurm forgets soon, and only its accounting has who cancelled a job
            state = await self._client.accounted_state(record.job) or state
        return reasons.end_sentence(state, details)

    async def sweep(self, known: Callable[[], Collection[str]]) -> list[str]:
        """Cancel jobs of this controller whose clusters have no record.

        :raises UnavailableError: Slurm does not answer.
        """
        queue = await self._watch.look()
        clusters = {submission.cluster_of(self._owner, name): jobs for name, jobs in queue.items()}
        orphans = {cluster: _live_jobs(jobs) for cluster, jobs in clusters.items() if cluster}
        ended = {cluster: jobs for cluster, jobs in orphans.items() if jobs and cluster not in known()}
        if ended:
            await self._client.cancel([*chain.from_iterable(ended.values())])
        return [*ended]

    async def doctor(self, timeout: float = DOCTOR_TIMEOUT) -> dict[str, object]:
        """Return the version of Slurm, its partitions, and what this controller has there."""
        try:
            return await asyncio.wait_for(self._facts_for_people(), timeout)
        except asyncio.TimeoutError:
            return {"problem": f"Slurm did not answer within {timeout:g} s."}
        except (RefusedError, UnavailableError) as error:
            return {"problem": str(error)}

    async def close(self) -> None:
        """End the processes of streams, and the connection to the login machine."""
        await self._login.close()

    # The allocation

    async def _wait_for_nodes(self, request: ClusterRequest) -> AsyncGenerator[QueueStatus, None]:
        """Do one step after the other until the job has its nodes, which are then on record.

        :raises RefusedError, UnavailableError: as :meth:`acquire`.
        """
        delays, shown = _delays(float(self.observe_interval)), None
        while True:
            record = self._record(request.cluster)
            jobs = (await self._watch.look()).get(record.name, {}) if record.submitted_at else {}
            step = lifecycle.next_step(record, jobs, time.time(), self._node_counts)
            if isinstance(step, lifecycle.Launch):
                self._records.write(request.cluster, _with_nodes(record, step.rows))
                return
            if isinstance(step, lifecycle.Wait):
                if step.status != shown:
                    shown = step.status
                    yield step.status
                if not record.job and not record.missed_since:
                    self._records.write(request.cluster, replace(record, missed_since=time.time()))
                await asyncio.sleep(next(delays))
            else:
                await self._do(step, request, record)

    async def _do(self, step: lifecycle.Step, request: ClusterRequest, record: AllocationRecord) -> None:
        if isinstance(step, lifecycle.Submit):
            await self._submit(request, record)
        elif isinstance(step, lifecycle.Adopt):
            self._records.write(request.cluster, replace(record, job=step.job))
            if step.cancel:
                await self._client.cancel(step.cancel)
        elif isinstance(step, lifecycle.Refuse):
            await self._client.cancel([step.job])
            raise step.error
        elif isinstance(step, lifecycle.Fail):
            details = await self._client.describe(step.job)
            self._records.release(request.cluster)  # its hosts cannot come any more
            raise lifecycle.end_error(step.job, step.state or details.get("JobState", ""), details)

    async def _submit(self, request: ClusterRequest, record: AllocationRecord) -> None:
        """Submit the job; what was accepted without an answer is found by its name later.

        :raises RefusedError, UnavailableError: as :meth:`SlurmClient.submit`.
        """
        facts = await self._client.facts()
        rows = self._note_partitions(await self._client.partitions())
        planned = submission.plan_submission(request, self.job_options(), self.allocation_time(), record.name, rows)
        script = submission.script(
            planned,
            pilot_source.read(),
            self._node_folder(facts.uid),
            str(self.python) or DEFAULT_PYTHON,
            facts.programs,
        )
        self._records.write(request.cluster, replace(record, submitted_at=time.time(), missed_since=0.0))
        try:
            job = await self._client.submit(planned, script)
        except NoAnswerError:
            raise
        except (RefusedError, UnavailableError):
            self._records.write(request.cluster, replace(record, submitted_at=0.0))
            raise
        self._records.write(request.cluster, replace(record, submitted_at=time.time(), job=job))

    def _observe(self, handle: Handle, queue: Mapping[str, Mapping[str, list[QueueRow]]]) -> Observation:
        if self._records.is_released(handle.cluster):
            return Observation.GONE
        record = self._records.read(handle.cluster)
        job = (record.job if record else "") or _job_of(handle)
        jobs = queue.get(submission.job_name(self._owner, handle.cluster), {})
        return lifecycle.observe(record, job, jobs, time.time(), has_hosts=bool(handle.hosts))

    def _check_late_submission(self, record: AllocationRecord | None) -> None:
        """Raise while a submission without an answer may still arrive.

        :raises UnavailableError: it may.
        """
        if record is None or record.job:
            return
        if time.time() - record.submitted_at < lifecycle.LATE_SUBMISSION:
            raise UnavailableError("Slurm gave no answer to the submission, which may still arrive.", transient=True)

    async def _release_hosts(self, cluster: str, hosts: Sequence[HostHandle], live: Sequence[str]) -> None:
        """End hosts on their nodes, where they leave nothing then; the job's end does the rest where that fails."""
        await self._client.facts()
        question = {"cluster": cluster, "timeout": float(self.release_timeout)}
        reached = [host for host in hosts if str(host.data["job"]) in live]
        _, errors = await observations.gather(
            {
                host.host: self._account_of(host).ask(
                    "release", {**question, "hosts": [{"host": host.host, **host.data}]}, float(self.release_timeout)
                )
                for host in reached
            }
        )
        for host, error in errors.items():
            self.log.warning("cluster=%s host=%s not released on its node: %s", cluster, host, error)

    async def _wait_ended(self, name: str, jobs: Sequence[str]) -> None:
        """Wait until Slurm has ended all processes of jobs; use force after half of the time.

        :raises UnavailableError: they still end.
        """
        loop = asyncio.get_running_loop()
        begin, is_forced = loop.time(), False
        while loop.time() - begin < float(self.release_timeout):
            rows = (await self._watch.look()).get(name, {})
            left = [job for job in jobs if not lifecycle.is_ended(rows.get(job, []))]
            if not left:
                return
            if not is_forced and loop.time() - begin > float(self.release_timeout) / 2:
                is_forced = True
                await self._client.cancel(left, force=True)
            await asyncio.sleep(_END_PAUSE)
        raise UnavailableError(f"Slurm still ends the job {', '.join(jobs)}.", transient=True)

    # Hosts

    async def _networks(self, cluster: str, record: AllocationRecord) -> dict[str, HostNetwork]:
        """Ask the nodes of several hosts for their addresses.

        :raises UnavailableError: a node gives no answer, or has no address.
        """
        if len(record.nodes) == 1:
            return host_networks(cluster, dict.fromkeys(record.nodes, MachineNetwork("")))
        answers, errors = await observations.gather(
            {host: self._account(record, host).ask("facts", {}, _STEP_TIMEOUT) for host in record.nodes}
        )
        for error in errors.values():
            raise error
        try:
            return host_networks(
                cluster, {host: MachineNetwork(str(answers[host]["address"])) for host in record.nodes}
            )
        except ValueError as error:
            raise UnavailableError(str(error), cure="Check the network of the nodes.", transient=True) from error

    async def _provide_environments(
        self, request: ClusterRequest, record: AllocationRecord
    ) -> AsyncGenerator[QueueStatus | dict[str, str], None]:
        """Install requirements on the nodes, or once for all where they share the home; yield each interpreter last."""
        found = interpreters.interpreter(request.python, self._environments())
        wanted = environment_request(request, found.path, found.setup, os.environ)
        if wanted is None:
            return
        hosts = [*record.nodes][:1] if self.shared_home else [*record.nodes]
        accounts = {host: (self._account(record, host, in_home=True), wanted) for host in hosts}
        async with aclosing(provide(accounts, float(self.environment_limit))) as reports:
            async for report in reports:
                if isinstance(report, dict):
                    first = next(iter(report.values())).python
                    yield {host: report[host].python if host in report else first for host in record.nodes}
                else:
                    yield report

    async def _launch_host(
        self, request: ClusterRequest, host: HostSpec, network: HostNetwork, python: str
    ) -> HostHandle:
        record = self._record(request.cluster)
        found = interpreters.interpreter(request.python, self._environments())
        account = self._account(record, host.host)
        question: dict[str, Any] = {
            "owner": self._owner,
            "cluster": request.cluster,
            "host": host.host,
            "description": {
                **self._description(request, host, network),
                "notice_grace": await self._notice_grace(),
            },
            "parent": record.job,
            "home": DEFAULT_FOLDER,
            "python": python or found.path or (DEFAULT_PYTHON if found.setup else account.python),
            "setup": found.setup,
            "environment": found.environment,
            "timeout": float(self.launch_timeout),
        }
        answer = await account.ask("launch", question, float(self.launch_timeout) + _STEP_TIMEOUT)
        made = host_handle(host.host, record.nodes[host.host], answer)
        component = record.component_of(host.host)
        data = {**made.data, "job": record.job, **({} if component is None else {"component": component})}
        launched = replace(made, data=data)
        self._note_host(request.cluster, launched)
        return launched

    def _description(self, request: ClusterRequest, host: HostSpec, network: HostNetwork | None) -> dict[str, object]:
        """Describe a host; one that waits for a reader of its results costs its allocation."""
        held = 0.0 if self.shared_home else min(request.keep_uncollected, float(self.hold_results))
        return {**super()._description(request, host, network), "keep_uncollected": held}

    async def _notice_grace(self) -> float:
        """Return the seconds from a SIGTERM of Slurm to the end; a notice of the pilot tells its own."""
        return min(float(self.notice_grace), await self._client.kill_wait() or float(self.notice_grace))

    def _note_host(self, cluster: str, launched: HostHandle) -> None:
        """Record a host that listens, in the job's order."""
        record = self._record(cluster)
        hosts = {host.host: host for host in (*record.hosts, launched)}
        ordered = tuple(hosts[name] for name in record.components if name in hosts)
        self._records.write(cluster, replace(record, hosts=ordered))

    def _account(self, record: AllocationRecord, host: str, *, in_home: bool = False) -> Account:
        return self._node_account(record.job, record.component_of(host), record.nodes[host], in_home=in_home)

    def _account_of(self, host: HostHandle) -> Account:
        component = host.data.get("component")
        return self._node_account(str(host.data["job"]), None if component is None else int(component), host.machine)

    def _node_account(self, job: str, component: int | None, node: str, *, in_home: bool = False) -> Account:
        machine = NodeMachine(self._login, job, component, node, lambda *words: account.command("relay", *words))
        account = Account(machine, "" if in_home else self._node_folder(), str(self.python))
        return account

    def _node_folder(self, uid: int | None = None) -> str:
        """Return the folder of hosts on a node; ``facts`` of the login machine were asked before."""
        known = self._client.known_uid() if uid is None else uid
        return str(self.folder) or f"/tmp/jupyter_smx-{known}"  # noqa: S108 - the step parent checks its owner

    # Records

    def _note_partitions(self, rows: list[PartitionRow]) -> list[PartitionRow]:
        """Keep what Slurm said of its partitions, for instance types and for reasons of jobs that wait."""
        self._partitions.write(rows)
        self._node_counts = dict.fromkeys((row.name for row in rows), 0)
        for row in rows:
            self._node_counts[row.name] += row.nodes
        return rows

    @property
    def _records(self) -> RecordFolder[AllocationRecord]:
        return RecordFolder(AllocationRecord, Path(self.data_dir), self._folder / "clusters")

    def _record(self, cluster: str) -> AllocationRecord:
        record = self._records.read(cluster)
        if record is None:
            raise UnavailableError(f"The record of cluster {cluster} was deleted.", transient=True)
        return record

    def _new_record(self, request: ClusterRequest) -> AllocationRecord:
        """Write down what will be submitted, after a check of the request.

        :raises RefusedError: an option of the instance type is unknown.
        """
        submission.plan_submission(request, self.job_options(), self.allocation_time(), "")
        groups = submission.groups_of(request)
        numbers = {host.host: number for number, hosts in enumerate(groups) for host in hosts}
        return AllocationRecord(
            name=submission.job_name(self._owner, request.cluster),
            components={host.host: numbers[host.host] for host in request.hosts},
        )

    async def _facts_for_people(self) -> dict[str, object]:
        facts = await self._client.facts()
        rows = self._note_partitions(await self._client.partitions())
        queue = await self._watch.look()
        own = [name for name, jobs in queue.items() if submission.cluster_of(self._owner, name) and _live_jobs(jobs)]
        return {
            "slurm": f"{facts.version} in {facts.programs}",
            "login": self._login.name,
            "partitions": ", ".join(dict.fromkeys(row.name for row in rows if row.is_up)) or "none",
            "jobs": f"{len(own)} of this controller",
        }


def _delays(usual: float) -> Iterator[float]:
    return chain(FIRST_DELAYS, repeat(usual))


def _job_of(handle: Handle) -> str:
    return next((str(host.data["job"]) for host in handle.hosts if "job" in host.data), "")


def _live_jobs(jobs: Mapping[str, Sequence[QueueRow]]) -> list[str]:
    return [job for job, rows in jobs.items() if not lifecycle.is_ended(rows)]


def _with_nodes(record: AllocationRecord, rows: Sequence[QueueRow]) -> AllocationRecord:
    """Give each host a node of its component, in the order of both. Pure."""
    left = {row.component: [*row.nodes] for row in rows}
    nodes = {host: left[component].pop(0) for host, component in record.components.items()}
    ends = [row.end for row in rows if row.end is not None]
    return replace(record, nodes=record.nodes or nodes, ends_at=record.ends_at or min(ends, default=None))
