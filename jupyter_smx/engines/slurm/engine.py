"""The Slurm engine: a warm pool is an allocation, and its hosts are on the nodes of that."""

from __future__ import annotations

import asyncio
import base64
import functools
import os
import time
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.engines.base import DOCTOR_TIMEOUT, Observation
from jupyter_smx.engines.machine import request_validation
from jupyter_smx.engines.machine.addresses import MachineNetwork, host_networks
from jupyter_smx.engines.machine.launch_hosts import launch_all
from jupyter_smx.engines.remote import interpreters, observations
from jupyter_smx.engines.remote.account import DEFAULT_FOLDER, DEFAULT_PYTHON, Account
from jupyter_smx.engines.remote.cluster_register import host_handle
from jupyter_smx.engines.remote.environments import environment_request, provide
from jupyter_smx.engines.remote.machine import NoAnswerError, NotStartedError
from jupyter_smx.engines.remote.record_folder import RecordFolder
from jupyter_smx.engines.slurm import allocations, commands, job_options, node_types, pilot_source, reasons, submission
from jupyter_smx.engines.slurm.allocations import Allocations
from jupyter_smx.engines.slurm.client import SlurmClient
from jupyter_smx.engines.slurm.login import LocalLogin
from jupyter_smx.engines.slurm.node import NodeMachine
from jupyter_smx.engines.slurm.option_values import OptionValues
from jupyter_smx.engines.slurm.partition_store import PartitionStore
from jupyter_smx.engines.slurm.record import AllocationRecord
from jupyter_smx.engines.slurm.ssh_login import SshLogin
from jupyter_smx.engines.slurm.traits import SlurmTraits
from jupyter_smx.engines.ssh.engine import SshEngine
from jupyter_smx.model.errors import RefusedError, ResourceNotFoundError, UnavailableError
from jupyter_smx.model.records.cluster import Handle, HostHandle, QueueStatus

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence

    from jupyter_smx.engines.base import ClusterRequest, HostSpec
    from jupyter_smx.engines.machine.addresses import HostNetwork
    from jupyter_smx.engines.slurm.login import LoginMachine
    from jupyter_smx.engines.slurm.parsers import PartitionRow, QueueRow
    from jupyter_smx.engines.slurm.submission import BatchJob
    from jupyter_smx.model.results.usage import PlatformUsage
    from jupyter_smx.model.spec.instance import InstanceType

_LOOKS = 6
"""Looks that fit into the interval of observations, where streams break: an answer of five seconds before counts."""
_ANSWER_AGE = 5.0
"""Seconds for which an answer of ``squeue`` counts where the next piece of a file or the next cluster needs one."""
_STEP_TIMEOUT = 20.0
"""Seconds for a question to a node."""
_REPEAT_WITHIN = submission.AllocationTime().reserve
"""Seconds within which a launch repeats a request without an answer, while Slurm says that the allocation runs."""
_GPUS_VARIABLE = "SLURM_GPUS_ON_NODE"
"""Variable of a step with the number of GPUs that Slurm granted it; not set without any."""
_FILLED_IN = ("addresses", "interface", "port", "limits", "notice_grace")
"""Fields of ``host.json`` that only the nodes can fill in."""


class SlurmEngine(SlurmTraits):
    """Runs hosts on the nodes of an allocation, which Slurm schedules once for each warm pool."""

    name: ClassVar[str] = "slurm"

    def __init__(self, **traits: object) -> None:
        super().__init__(**traits)
        self._login = self._make_login()
        self._client = SlurmClient(self._login, float(self.command_timeout))
        self._partitions = PartitionStore(self._folder / "partitions.json")
        self._options = OptionValues(self._client, self._partitions, self._folder / "options.json", time.monotonic)
        self._allocations = Allocations(self._client, self._partitions, lambda: self._owner, time.monotonic, time.time)

    def _make_login(self) -> LoginMachine:
        if not self.login:
            return LocalLogin(self.variables, str(self.programs))
        settings = {"parent": self.parent} if self.parent is not None else {"config": self.config}
        ssh = SshEngine(data_dir=str(self.data_dir), **settings)
        environment = commands.environment(str(self.programs), self.variables)
        return SshLogin(ssh, str(self.login), str(self.python), environment)

    # The six methods of the port

    def plan(self, request: ClusterRequest) -> dict[str, object]:
        """Return the planned job; Slurm chooses nodes and addresses, and the limit of a partition may shorten it."""
        interpreter = interpreters.interpreter(request.python, self._environments())
        hosts = {}
        for host in request.hosts:
            described = self._description(request, host, None)
            hosts[host.host] = {
                "python": interpreter.path or str(self.python) or DEFAULT_PYTHON,
                "setup": interpreter.setup,
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
            states = self._allocations.wait_for_nodes(
                records, request.cluster, functools.partial(self._job, request), float(self.observe_interval)
            )
            async with aclosing(states):
                async for state in states:
                    yield state
            record = allocations.read(records, request.cluster)
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
                    yield self._with_end(handle, record)

    async def find(self, cluster: str) -> Handle | None:
        """Look up the record of a cluster, and its job at Slurm.

        :raises UnavailableError: Slurm does not answer, or the record cannot be read.
        """
        records = self._records
        record = records.read(cluster) if request_validation.is_valid_name(cluster) else None
        if record is None or records.is_released(cluster):
            return None
        await self._allocations.watch.look(_ANSWER_AGE)  # raises if Slurm does not answer
        return self._with_end(Handle(engine=self.name, cluster=cluster, hosts=record.hosts), record)

    async def observe_all(self, handles: Sequence[Handle]) -> list[Observation]:
        """Ask Slurm once for all; an answer of the last seconds counts."""
        if not handles:
            return []
        try:
            queue = await self._allocations.watch.look(float(self.observe_interval) / _LOOKS)
            return [self._observe(handle, queue) for handle in handles]
        except UnavailableError:
            return [Observation.UNKNOWN for _ in handles]

    async def release(self, handle: Handle) -> None:
        """End the hosts on their nodes, then the job, and wait until Slurm lists it as ended.

        :raises UnavailableError: Slurm does not answer, or the job still ends.
        """
        if not request_validation.is_valid_name(handle.cluster):
            return
        records = self._records
        record = records.read(handle.cluster)
        records.release(handle.cluster)
        if not ((record.submitted_at or record.job_ids()) if record else allocations.jobs_of(handle)):
            return  # nothing was ever submitted
        live = await self._allocations.live_jobs(handle.cluster)
        if not live:
            self._allocations.check_late_submission(record)
            await self._allocations.cancel_unlisted(record, handle)
            return
        if record is not None:
            records.write(handle.cluster, replace(allocations.read(records, handle.cluster), is_cancelled=True))
        await self._release_hosts(handle, record, live)
        await self._allocations.cancel(handle.cluster, live, float(self.release_timeout))
        if record is not None and record.job_per_group:
            self._allocations.check_late_submission(record)  # of the next group

    async def connect(self, handle: Handle, host: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a stream to the agent's socket over a step of the allocation.

        :raises UnavailableError: nothing listens there now.
        """
        launched = next((known for known in handle.hosts if known.host == host), None)
        if launched is None:
            raise UnavailableError(f"Host {host} of cluster {handle.cluster} is on no node yet.", transient=True)
        await self._client.facts()
        return await self._account_of(launched).machine.connect(str(launched.data["socket"]))

    # Methods of the port with a default

    def instance_types(self) -> Sequence[InstanceType]:
        """Return the types of the configuration, and those of partitions as they were in the last answer of Slurm."""
        of_partitions = {kind.name: kind for kind in node_types.partition_types(self._partitions.read())}
        return [*(of_partitions | {kind.name: kind for kind in self.configured_types()}).values()]

    async def option_values(self) -> Mapping[str, Sequence[str]]:
        """Return the last answers, and query Slurm again in the background, over a connection that is open."""
        self._options.refresh_later()
        return self._options.read()

    def check_installed(self) -> None:
        """Check that the login machine's ssh client is installed, where there is one.

        :raises RefusedError: it is not.
        """
        if isinstance(self._login, SshLogin):
            self._login.check_installed()

    async def shell(self, handle: Handle, host: str) -> list[str] | None:
        """Enter the namespaces of the agent in a terminal on the node."""
        launched = next((known for known in handle.hosts if known.host == host), None)
        if launched is None:
            return None
        await self._client.facts()
        account = self._account_of(launched)
        return account.machine.shell_words(account.command("shell", handle.cluster, host))

    async def read_spool(
        self, cluster: str, host: str, job: str, name: str, offset: int, limit: int
    ) -> tuple[bytes, int] | None:
        """Read a file on the host's node while its allocation lives, and then in the home, if nodes and login share it.

        :raises ResourceNotFoundError: there is no such file.
        :raises UnavailableError: the machine gives no answer.
        """
        record = self._records.read(cluster)
        launched = next((known for known in record.hosts if known.host == host), None) if record else None
        if record is None or launched is None:
            return None
        await self._client.facts()
        is_live = bool(await self._allocations.live_jobs(cluster, _ANSWER_AGE))
        if not is_live and not self.shared_home:
            return None
        account = self._account_of(launched) if is_live else self._home_account()
        question = {"cluster": cluster, "host": host, "path": f"{job}/{name}", "offset": offset, "limit": limit}
        answer = await account.ask("read", question)
        if answer["data"] is None:
            raise ResourceNotFoundError(f"{name} is not in the spool.")
        return base64.b64decode(answer["data"]), int(answer["size"])

    async def exit_reason(self, cluster: str, host: str) -> str:
        """Return how Slurm ended the job of a cluster, or is about to end it; "" while it runs on."""
        del host
        record = self._records.read(cluster)
        if record is None:
            return ""
        return await self._allocations.end_reason(record)

    async def platform_usage(self, cluster: str) -> PlatformUsage | None:
        """Return what the accounting of the cluster has of a pool's job; None where there is none.

        :raises UnavailableError: Slurm does not answer.
        """
        record = self._records.read(cluster)
        if record is None or not record.job_ids():
            return None
        usage = await self._allocations.read_accounting(record.job_ids())
        # That this controller cancelled a job which it released is no news for its user.
        if usage is not None and record.is_cancelled and usage.state.startswith("CANCELLED"):
            return replace(usage, state="")
        return usage

    async def sweep(self, known: Callable[[], Collection[str]]) -> list[str]:
        """Cancel jobs of this controller whose clusters have no record.

        :raises UnavailableError: Slurm does not answer.
        """
        return await self._allocations.cancel_orphans(known)

    async def prune(self, is_needed: Callable[[str], bool]) -> list[str]:
        """Delete results of old clusters in the home, where nodes and login machine share it.

        A cluster with a job at Slurm stays: its hosts run on nodes, which the login machine cannot see.

        :raises UnavailableError: Slurm, or the login machine, does not answer.
        """
        if not self.shared_home:
            return []
        account = self._home_account()
        ended = (await account.ask("list_clusters", {"owner": self._owner}))["ended"]
        live = await self._allocations.own_clusters() if ended else {}
        old = [cluster for cluster in ended if cluster not in live and not is_needed(cluster)]
        if not old:
            return []
        deleted: list[str] = (await account.ask("delete", {"owner": self._owner, "clusters": old, "keep": []}))[
            "deleted"
        ]
        return deleted

    async def doctor(self, timeout: float = DOCTOR_TIMEOUT) -> dict[str, object]:
        """Return the version of Slurm, its partitions, and what this controller has there."""
        try:
            return await asyncio.wait_for(self._doctor_report(), timeout)
        except asyncio.TimeoutError:
            return {"problem": f"Slurm did not answer within {timeout:g} s."}
        except (RefusedError, UnavailableError) as error:
            return {"problem": str(error)}

    async def close(self) -> None:
        """End the processes of streams, and the connection to the login machine."""
        await self._options.close()
        await self._login.close()

    # The allocation

    def _job(
        self, request: ClusterRequest, rows: Sequence[PartitionRow], group: int | None = None
    ) -> tuple[BatchJob, str]:
        """Return the job of a request, or of one of its groups, with its script; ``facts`` was called before."""
        name = self._allocations.name_of(request.cluster)
        before = self._records.read(request.renewal_of) if request.renewal_of else None
        time_limits = replace(self.allocation_time(), renewed=before.seconds if before is not None else 0.0)
        planned = submission.plan_submission(request, self.job_options(), time_limits, name, rows)
        planned = planned if group is None else submission.job_of_group(planned, group)
        python, programs = str(self.python) or DEFAULT_PYTHON, self._client.cached_facts().programs
        return planned, submission.script(planned, pilot_source.read(), self._node_folder(), python, programs)

    def _observe(self, handle: Handle, queue: Mapping[str, Mapping[str, list[QueueRow]]]) -> Observation:
        if self._records.is_released(handle.cluster):
            return Observation.GONE
        return self._allocations.observe(self._records.read(handle.cluster), handle, queue)

    def _with_end(self, handle: Handle, record: AllocationRecord) -> Handle:
        """Say when the allocation ends, and when the next one is due."""
        notice = record.notice + reasons.EARLY_NOTICE
        lead, reserve = float(self.renew_before), self.allocation_time().reserve
        renewal = submission.plan_renewal(
            record.ends_at, record.seconds, notice, lead, reserve=reserve, longest=record.longest
        )
        return replace(handle, allocation_ends_at=record.ends_at, renewal=renewal if record.renew else None)

    async def _release_hosts(self, handle: Handle, record: AllocationRecord | None, live: Collection[str]) -> None:
        """End hosts on their nodes, where they leave nothing then; the job's end does the rest where that fails.

        Nodes without a known host are included: a launch that was interrupted may have begun there.
        """
        await self._client.facts()
        timeout = float(self.release_timeout)
        question = {"cluster": handle.cluster, "timeout": timeout}
        known = {host.host: host for host in (*(record.hosts if record else ()), *handle.hosts)}
        accounts = {host.host: self._account_of(host) for host in known.values() if str(host.data["job"]) in live}
        if record is not None:
            begun = [host for host in record.nodes if host not in known and record.job_of(host) in live]
            accounts |= {host: self._account(record, host) for host in begun}
        questions = {
            host: account.ask(
                "release",
                {**question, "hosts": [{"host": host, **known[host].data}] if host in known else []},
                timeout,
            )
            for host, account in accounts.items()
        }
        _, errors = await observations.gather(questions)
        for host, error in errors.items():
            self.log.warning("cluster=%s host=%s not released on its node: %s", handle.cluster, host, error)

    # Hosts

    async def _networks(self, cluster: str, record: AllocationRecord) -> dict[str, HostNetwork]:
        """Find the addresses of the nodes of several hosts.

        :raises UnavailableError: a node has no address, or gives no answer.
        """
        if len(record.nodes) == 1:
            return host_networks(cluster, dict.fromkeys(record.nodes, MachineNetwork("")))
        known = await self._client.node_addresses([*dict.fromkeys(record.nodes.values())])
        if not known.keys() >= {*record.nodes.values()}:
            known = await self._ask_addresses(record)
        try:
            return host_networks(cluster, {host: MachineNetwork(known[node]) for host, node in record.nodes.items()})
        except ValueError as error:
            raise UnavailableError(str(error), cure="Check the network of the nodes.", transient=True) from error

    async def _ask_addresses(self, record: AllocationRecord) -> dict[str, str]:
        """Ask each node for its address, as where names of nodes cannot be looked up on the login machine."""
        answers, errors = await observations.gather(
            {
                host: self._ask_node(record, self._account(record, host), "facts", {}, _STEP_TIMEOUT)
                for host in record.nodes
            }
        )
        for error in errors.values():
            raise error
        return {record.nodes[host]: str(answer["address"]) for host, answer in answers.items()}

    async def _provide_environments(
        self, request: ClusterRequest, record: AllocationRecord
    ) -> AsyncGenerator[QueueStatus | dict[str, str], None]:
        """Install requirements on the nodes, or once for all where they share the home; yield each interpreter last."""
        interpreter = interpreters.interpreter(request.python, self._environments())
        wanted = environment_request(request, interpreter.path, interpreter.setup, os.environ)
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
        record = allocations.read(self._records, request.cluster)
        interpreter = interpreters.interpreter(request.python, self._environments())
        account = self._account(record, host.host)
        question: dict[str, Any] = {
            "owner": self._owner,
            "cluster": request.cluster,
            "host": host.host,
            "description": {
                **self._description(request, host, network),
                "notice_grace": await self._notice_grace(),
            },
            "parent": record.parent_of(host.host),
            "home": DEFAULT_FOLDER,
            "python": python or interpreter.path or (DEFAULT_PYTHON if interpreter.setup else account.python),
            "setup": interpreter.setup,
            "environment": interpreter.environment,
            "timeout": float(self.launch_timeout),
        }
        answer = await self._ask_node(record, account, "launch", question, float(self.launch_timeout) + _STEP_TIMEOUT)
        handle = host_handle(host.host, record.nodes[host.host], answer)
        component = record.component_of(host.host)
        data = {
            **handle.data,
            "job": record.job_of(host.host),
            **({} if component is None else {"component": component}),
        }
        launched = replace(handle, data=data)
        latest = allocations.read(self._records, request.cluster)
        self._records.write(request.cluster, allocations.with_host(latest, launched))
        return launched

    async def _ask_node(
        self, record: AllocationRecord, account: Account, verb: str, question: Mapping[str, Any], timeout: float
    ) -> dict[str, Any]:
        """Ask a node of a launch; repeat a request that got no answer, since the allocation may have waited for hours.

        The request must be one that a node may get twice.

        :raises RefusedError: the node cannot do the request.
        :raises UnavailableError: it gives no answer within the reserve of the allocation, or the allocation has ended.
        """
        end = time.monotonic() + _REPEAT_WITHIN
        for delay in allocations.delays_of(_STEP_TIMEOUT):
            try:
                return await account.ask(verb, question, timeout)
            except (NoAnswerError, NotStartedError) as error:
                if not await self._allocations.may_run(record):
                    raise await self._allocations.launch_error(record, error) from error
                if time.monotonic() >= end:
                    raise
                self.log.warning("job=%s node=%s request repeated: %s", record.name, account.machine.name, error)
            await asyncio.sleep(delay)
        raise AssertionError("the delays have no end")

    def _description(self, request: ClusterRequest, host: HostSpec, network: HostNetwork | None) -> dict[str, object]:
        """Describe a host; one that waits for a reader of its results costs its allocation."""
        held = 0.0 if self.shared_home else min(request.keep_uncollected, float(self.hold_results))
        with_gpus = replace(host, gpus=submission.gpus_of(host, self.job_options()))
        return {
            **super()._description(request, with_gpus, network),
            "gpus_variable": _GPUS_VARIABLE,
            "keep_uncollected": held,
            # Slurm signals all processes of a job, so one may exit before its agent has the notice.
            "signals_jobs": True,
        }

    async def _notice_grace(self) -> float:
        """Return the seconds from a SIGTERM of Slurm to the end; the notice of a pilot has its own seconds."""
        with suppress(RefusedError, UnavailableError):
            return min(float(self.notice_grace), await self._client.kill_wait() or float(self.notice_grace))
        return float(self.notice_grace)

    def _home_account(self) -> Account:
        """Return the account on the login machine, in whose home are environments and results of ended hosts."""
        python, data_dir = str(self.python), Path(self.data_dir)
        return Account(self._login, "", python, python_cure=reasons.PYTHON_CURE, data_dir=data_dir)

    def _account(self, record: AllocationRecord, host: str, *, in_home: bool = False) -> Account:
        return self._node_account(record.job_of(host), record.component_of(host), record.nodes[host], in_home=in_home)

    def _account_of(self, host: HostHandle) -> Account:
        component = host.data.get("component")
        return self._node_account(str(host.data["job"]), None if component is None else int(component), host.machine)

    def _node_account(self, job: str, component: int | None, node: str, *, in_home: bool = False) -> Account:
        machine = NodeMachine(self._login, job, component, node, lambda *words: account.command("relay", *words))
        folder = "" if in_home else self._node_folder()
        account = Account(
            machine,
            folder,
            str(self.python),
            is_checked=not in_home,
            python_cure=reasons.PYTHON_CURE,
            data_dir=Path(self.data_dir),
        )
        return account

    def _node_folder(self) -> str:
        """Return the folder of hosts on a node; ``facts`` was called before."""
        default_folder = f"/tmp/jupyter_smx-{self._client.cached_facts().uid}"  # noqa: S108 - each command there checks its owner
        return str(self.folder) or default_folder

    # Records

    @property
    def _records(self) -> RecordFolder[AllocationRecord]:
        return RecordFolder(AllocationRecord, Path(self.data_dir), self._folder / "clusters")

    def _new_record(self, request: ClusterRequest) -> AllocationRecord:
        """Write down what will be submitted, after a check of the request.

        :raises RefusedError: an option of the instance type is unknown.
        """
        submission.plan_submission(request, self.job_options(), self.allocation_time(), "")
        groups = submission.groups_of(request)
        options = {**self.job_options(), **request.options}
        numbers = {host.host: number for number, hosts in enumerate(groups) for host in hosts}
        return AllocationRecord(
            name=self._allocations.name_of(request.cluster),
            components={host.host: numbers[host.host] for host in request.hosts},
            job_per_group=len(groups) > 1 and not job_options.is_heterogeneous(options),
            renew=job_options.is_renewed(options),
        )

    async def _doctor_report(self) -> dict[str, object]:
        facts = await self._client.facts()
        await self._options.refresh_partitions()
        # Its parts may take longer than a doctor waits, as the database of accounts.
        self._options.refresh_later()
        rows = self._partitions.read()
        return {
            "slurm": f"{facts.version} in {facts.programs}",
            "login": self._login.name,
            "partitions": ", ".join(dict.fromkeys(row.name for row in rows if row.is_up)) or "none",
            "jobs": f"{len(await self._allocations.own_clusters())} of this controller",
        }
