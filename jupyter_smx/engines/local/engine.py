"""The local engine: hosts are agents on this machine, each in its own session with its own folder."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import msgspec
from traitlets import Bool, Enum, Float, List, Unicode, default

from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.agent.system.isolation import host_traces, opt_ml_links
from jupyter_smx.agent.system.processes import process_table
from jupyter_smx.controller_launch import DATA_DIR_VARIABLE, controller_environment, data_dir, lock_path
from jupyter_smx.engines.base import (
    DOCTOR_TIMEOUT,
    Capabilities,
    ClusterRequest,
    Engine,
    Observation,
    stopped_process,
)
from jupyter_smx.engines.local import agent_ends, namespaces
from jupyter_smx.engines.local.agent_ends import AgentEnds
from jupyter_smx.engines.local.limits import LocalLimits
from jupyter_smx.engines.local.start import (
    CLAIM_LOST,
    OPT_ML_TAKEN,
    AgentStart,
    Children,
    format_exit,
    run_to_end,
)
from jupyter_smx.engines.machine import agent_zipapp, request_validation
from jupyter_smx.engines.machine.cluster_folders import ClusterFolders
from jupyter_smx.engines.machine.host_folder import (
    HostFolder,
    agent_process,
    agent_processes,
    description,
    handle_data,
    host_names,
)
from jupyter_smx.engines.machine.launch_hosts import launch_all
from jupyter_smx.engines.machine.released_hosts import ReleasedHosts
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.records.cluster import Handle, HostHandle
from jupyter_smx.model.text import format_duration

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from jupyter_smx.engines.base import HostSpec, StoppedAgent

_LINUX = sys.platform == "linux"
_EXEC_PATIENCE = 1.0
"""Seconds for which a process that starts may not be recognisable."""
_POLL_INTERVAL = 0.05


class LocalEngine(Engine):
    """Runs agents on this machine, under this user, with the Python that the notebook uses."""

    name: ClassVar[str] = "local"
    capabilities: Capabilities = Capabilities(
        shared_folder=True,
        extend=True,
        bounded_by_machine=True,
        environments=True,
        same_paths=True,
        aws_front="loopback",
    )

    data_dir = Unicode(
        help="Folder that contains one folder per host; empty means Jupyter's data folder, ``smx`` in it."
    ).tag(config=True)
    isolate = Bool(
        default_value=True,
        help="Whether hosts get their own /opt/ml, /tmp and /etc/hosts, if this kernel allows mount namespaces.",
    ).tag(config=True)
    use_machine_opt_ml = Bool(
        default_value=None,
        allow_none=True,
        help="Whether the machine's /opt/ml leads to a host that cannot have its own. By default it leads to one job "
        "at a time, if it exists and this user may write there, and other jobs go without. If True, it leads to one "
        "host at a time, is made if it is missing, and other jobs wait. What a job left there is deleted after it.",
    ).tag(config=True)
    start_method = Enum(
        ("fork", "spawn"), help="How an agent starts jobs, by default fork on Linux and spawn elsewhere."
    ).tag(config=True)
    launch_timeout = Float(60.0, min=0.1, help="Seconds until a started agent must listen.").tag(config=True)
    release_timeout = Float(20.0, min=0.1, help="Seconds until killed processes of a host must be gone.").tag(
        config=True
    )
    grace = Float(
        120.0, min=0.0, help="Seconds between SIGTERM and SIGKILL when a host stops its job without a controller."
    ).tag(config=True)
    notice_grace = Float(
        0.0, min=0.0, help="Seconds that a host has to end its job when its agent receives SIGTERM; 0 ends it at once."
    ).tag(config=True)
    apply_limits = Bool(
        default_value=True,
        help="Whether jobs are limited to the CPU and memory of their instance type, if control groups are available.",
    ).tag(config=True)
    hidden_variables = List(Unicode(), help="Names of environment variables of this process to hide from hosts.").tag(
        config=True
    )

    @default("data_dir")
    def _default_data_dir(self) -> str:
        return os.fspath(data_dir())

    @default("start_method")
    def _default_start_method(self) -> str:
        return "fork" if _LINUX else "spawn"

    def __init__(self, **traits: object) -> None:
        super().__init__(**traits)
        self._children: Children = {}
        self._ends = AgentEnds(self._children)
        self._released: set[str] = set()
        """Clusters that a release killed and could not record yet."""
        off = "" if self.apply_limits else "LocalEngine.apply_limits is off"
        self._limits = LocalLimits(self._folders.clusters, off)
        self._released_hosts = ReleasedHosts(self.log)

    def plan(self, request: ClusterRequest) -> dict[str, object]:
        """Return the command for each host, and the ``host.json`` that it would read; pure."""
        archive = self._root / agent_zipapp.file_name()
        return {
            "engine": self.name,
            "hosts": {
                host.host: {
                    "command": self._command(request.python, archive, self._folder(request.cluster, host.host)),
                    host_layout.DESCRIPTION: self._description(request, host, self._limits.plan(request, host)),
                }
                for host in request.hosts
            },
        }

    async def acquire(self, request: ClusterRequest) -> AsyncIterator[Handle]:
        """Start an agent for each host that no agent has claimed yet.

        Yields an empty handle before the first start, and a new handle whenever another host listens.

        :raises RefusedError: before anything was launched.
        :raises UnavailableError: a host did not come up; the others were released.
        """
        request_validation.check_names(request)
        archive = await run_to_end(self._prepare, request)

        async def launch_host(host: HostSpec) -> HostHandle:
            return await self._launch_host(request, host.host, archive)

        async with aclosing(launch_all(self, request, launch_host)) as handles:
            async for handle in handles:
                yield handle

    async def find(self, cluster: str) -> Handle | None:
        """Read the hosts of a cluster from the disk; None if it never existed or was released.

        :raises UnavailableError: the folder cannot be read, which does not mean that there is no cluster.
        """
        try:
            return await asyncio.to_thread(self._find, cluster)
        except (OSError, msgspec.MsgspecError) as problem:
            raise self._folders.unreadable_error(cluster, problem) from problem

    async def observe_all(self, handles: Sequence[Handle]) -> list[Observation]:
        """Compare each host's process id, start time and boot with the process table."""
        self._ends.reap()
        # A network disk that is away would hold the thread, never the event loop.
        return await asyncio.to_thread(self._observe_handles, handles)

    def _observe_handles(self, handles: Sequence[Handle]) -> list[Observation]:
        oom_kills = agent_ends.read_oom_kills()
        found = [self._observe(handle) for handle in handles]
        if Observation.GONE not in found:
            self._ends.mark_alive(oom_kills)
        return found

    async def release(self, handle: Handle) -> None:
        """Kill the agents' sessions, their descendants and every process with a host's mark.

        :raises UnavailableError: a process is still there after ``release_timeout`` seconds.
        """
        if request_validation.is_valid_name(handle.cluster):
            # A release that has begun continues to its end, even if the caller is cancelled: killing takes a thread.
            await asyncio.to_thread(self._release, handle)

    async def connect(self, handle: Handle, host: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the agent's unix socket.

        :raises UnavailableError: nothing listens there now.
        """
        return await self._folder(handle.cluster, host).dial()

    async def shell(self, handle: Handle, host: str) -> list[str] | None:
        """Enter the namespaces of the agent."""
        folder = self._folder(handle.cluster, host)
        birth = await asyncio.to_thread(folder.read_agent)
        return None if birth is None else namespaces.shell_command(birth.pid, os.fspath(folder.path / host_layout.ML))

    async def doctor(self, timeout: float = DOCTOR_TIMEOUT) -> dict[str, object]:
        """Return the isolation that jobs have on this machine, from a test, and how they are started."""
        del timeout
        archive = await asyncio.to_thread(agent_zipapp.write_archive, self._root)
        if not self.isolate:
            found: dict[str, object] = {"isolation": "variables", "reason": "LocalEngine.isolate is off."}
        else:
            environment = controller_environment(os.environ)
            found = await asyncio.to_thread(namespaces.detect_isolation, archive, environment)
        if found["isolation"] == "variables":
            found["machine_opt_ml"] = self._describe_machine_opt_ml()
        found |= {"start_method": str(self.start_method), "limits_of_jobs": self._limits.parents().description()}
        return {name: fact for name, fact in found.items() if fact}

    async def exit_reason(self, cluster: str, host: str) -> str:
        """Read what was written down when the hosts were released."""
        return await asyncio.to_thread(self._folders.exit_reason, cluster, host)

    def slots(self) -> int | None:
        """Return 1 where all hosts would have the machine's ``/opt/ml``, which leads to one host at a time."""
        return 1 if self.use_machine_opt_ml else None

    def _machine_opt_ml(self) -> str:
        if self.use_machine_opt_ml is None:
            return opt_ml_links.PER_JOB
        return opt_ml_links.PER_HOST if self.use_machine_opt_ml else ""

    def _describe_machine_opt_ml(self) -> str:
        if self.use_machine_opt_ml:
            return "leads to one host at a time"
        return "leads to one job at a time" if self.use_machine_opt_ml is None and opt_ml_links.is_prepared() else ""

    def clusters_folder(self) -> Path:
        """Return the folder in which each cluster has its own."""
        return self._folders.clusters

    def stopped_agent(self, handle: Handle, host: str) -> StoppedAgent | None:
        """Return the state of the agent's process, which the handle names."""
        found = next((one for one in handle.hosts if one.host == host), None)
        with suppress(msgspec.MsgspecError, OSError):
            if found is not None and (agent := agent_process(found)).is_stopped():
                return stopped_process(agent.pid)
        return None

    def spool_path(self, cluster: str, host: str) -> Path:
        """Return the folder with a host's spool; it is read without the agent."""
        return self._folder(cluster, host).path / host_layout.SPOOL

    @property
    def _root(self) -> Path:
        return Path(self.data_dir)

    @property
    def _folders(self) -> ClusterFolders:
        return ClusterFolders(self._root)

    def _folder(self, cluster: str, host: str) -> HostFolder:
        return self._folders.host(cluster, host)

    def _description(self, request: ClusterRequest, plan: HostSpec, limits: dict[str, object]) -> dict[str, object]:
        common = description(
            request,
            plan,
            start_method=str(self.start_method),
            isolate=bool(self.isolate),
            grace=float(self.grace),
            limits=limits,
        )
        return {**common, "machine_opt_ml": self._machine_opt_ml(), "notice_grace": float(self.notice_grace)}

    def _command(self, python: str, archive: Path, folder: HostFolder) -> list[str]:
        return [python, "-I", os.fspath(archive), "serve", os.fspath(folder.path)]

    def _prepare(self, request: ClusterRequest) -> Path:
        """Check what needs a look at the machine and write all that agents will read. Launches nothing. Blocks."""
        request_validation.check_sockets(self._folder(request.cluster, host.host) for host in request.hosts)
        request_validation.check_python(request.python)
        try:
            if self._folders.is_released(request.cluster):
                raise request_validation.released_error(request.cluster)
            self._folders.clusters.mkdir(mode=0o700, parents=True, exist_ok=True)
            archive = agent_zipapp.write_archive(self._root)
            self._limits.sweep()
            for plan in request.hosts:
                self._describe(request, plan)
        except OSError as problem:
            raise request_validation.not_writable_error(self._root, problem) from problem
        return archive

    def _describe(self, request: ClusterRequest, plan: HostSpec) -> None:
        folder = self._folder(request.cluster, plan.host)
        if not folder.make():
            folder.describe(self._description(request, plan, self._limits.make(request, plan)))

    async def _launch_host(self, request: ClusterRequest, host: str, archive: Path) -> HostHandle:
        try:
            return await asyncio.wait_for(self._launch_or_join(request, host, archive), float(self.launch_timeout))
        except asyncio.TimeoutError:
            raise self._start_error(
                request.cluster, host, f"did not report within {format_duration(self.launch_timeout)}"
            ) from None
        except (OSError, msgspec.MsgspecError) as problem:
            raise self._start_error(request.cluster, host, f"could not be started ({problem})") from problem

    async def _launch_or_join(self, request: ClusterRequest, host: str, archive: Path) -> HostHandle:
        folder = self._folder(request.cluster, host)
        if not folder.is_claimed():
            start = AgentStart(self._command(request.python, archive, folder), folder, self._environment(folder))
            code = await start.start_and_wait(self._children)
            request_validation.check_disk(code, self._root)
            if code == OPT_ML_TAKEN:
                raise _opt_ml_taken_error(request.cluster, host)
            if code not in (None, CLAIM_LOST):
                raise self._start_error(request.cluster, host, f"ended with {format_exit(code)}")
        # Either our agent is ready, or another engine's agent has the folder and is as good as ours.
        loop = asyncio.get_running_loop()
        seen = loop.time()
        while True:
            birth = await asyncio.to_thread(folder.read_agent)
            if self._folders.is_released(request.cluster):
                raise self._start_error(request.cluster, host, "was released meanwhile")
            if birth is not None and birth.is_alive():
                return HostHandle(host=host, data=handle_data(birth))
            known = await asyncio.to_thread(process_table.read_table)
            if await asyncio.to_thread(process_table.find_marked, [folder.mark], known):
                seen = loop.time()
            # An agent that becomes itself again by exec carries no mark for a moment.
            if birth is not None or loop.time() - seen > _EXEC_PATIENCE:
                raise self._start_error(request.cluster, host, "died")
            await asyncio.sleep(_POLL_INTERVAL)

    def _environment(self, folder: HostFolder) -> dict[str, str]:
        hidden = {*self.hidden_variables, DATA_DIR_VARIABLE}
        kept = {name: value for name, value in controller_environment(os.environ).items() if name not in hidden}
        name, _, value = folder.mark.partition("=")
        return {**kept, name: value}

    def _start_error(self, cluster: str, host: str, what: str) -> UnavailableError:
        folder = self._folder(cluster, host)
        words = folder.log_tail()
        return UnavailableError(
            f"Host {host} of cluster {cluster} did not start: its agent {what}.",
            field="host",
            value=host,
            rule=f"agent.log ends with: {words}" if words else "agent.log is empty.",
            cure=f"The whole log is {folder.log}.",
            transient=True,
        )

    def _find(self, cluster: str) -> Handle | None:
        folder = self._folders.live_cluster(cluster)
        if folder is None:
            return None
        hosts = (HostFolder(folder / name).handle() for name in host_names(folder))
        return Handle(engine=self.name, cluster=cluster, hosts=tuple(host for host in hosts if host is not None))

    def _observe(self, handle: Handle) -> Observation:
        try:
            folder = self._folders.live_cluster(handle.cluster)
            if folder is None:
                return Observation.GONE
            births = [agent_process(host) for host in handle.hosts] or [
                birth for name in host_names(folder) if (birth := HostFolder(folder / name).read_agent())
            ]
            if not births and time.time() - folder.stat().st_mtime < float(self.launch_timeout):
                return Observation.UNKNOWN  # an acquire may be under way
            alive = bool(births) and all(birth.is_alive() for birth in births)
        except (OSError, msgspec.MsgspecError):
            return Observation.UNKNOWN
        return Observation.RUNNING if alive else Observation.GONE

    def _keep_exit_reasons(self, handle: Handle) -> None:
        """Write down how agents ended by themselves; a release that is repeated finds those that it killed."""
        if handle.cluster in self._released:
            return
        self._released.add(handle.cluster)
        with suppress(OSError, msgspec.MsgspecError):
            if not self._folders.is_released(handle.cluster):
                reasons = {host.host: self._ends.reason(agent_process(host).pid) for host in handle.hosts}
                told = {host: reason for host, reason in reasons.items() if reason}
                self._folders.write_exit_reasons(handle.cluster, told)

    def _release(self, handle: Handle) -> None:
        self._keep_exit_reasons(handle)
        # During an outage of the disk what the handle names is ended all the same.
        folders, _ = self._folders.try_to_close(handle.cluster)
        births = agent_processes(handle, folders)
        boot = process_table.boot_id()
        roots = [(birth.pid, birth.start_time) for birth in births if birth.boot_id == boot]
        marks = [self._folder(handle.cluster, host.host).mark for host in handle.hosts]
        marks += [folder.mark for folder in folders]

        def select(known: process_table.Table) -> set[int]:
            self._ends.reap()
            return process_table.process_tree(roots, known) | process_table.find_marked(marks, known)

        names = self._host_names(handle)
        places = (os.fspath(self._folder(handle.cluster, name).path) for name in names)
        traces = host_traces.read_traces(places, [os.fspath(lock_path())], marks)
        checked: dict[process_table.Identity, bool] = {}

        def select_unmarked(known: process_table.Table) -> set[int]:
            members = self._limits.find_members(handle.cluster, names) & known.keys()
            return members | host_traces.find_unmarked(traces, known, checked)

        # Marked processes first: the others were started by them with a cleaned environment.
        left = process_table.kill_in_turn([select, select_unmarked], float(self.release_timeout))
        self._ends.reap()
        if left:
            raise UnavailableError(
                f"Cluster {handle.cluster}: processes {sorted(left)} still run although they were killed.",
                rule="A process waits for a device or a network disk.",
                cure="The controller repeats the release until they are gone.",
                transient=True,
            )
        # Close them again: an agent may have recreated its folders before its end, if they had been deleted.
        folders, away = self._folders.try_to_close(handle.cluster)
        groups = self._limits.remove(handle.cluster, names)
        if away is not None:
            raise self._folders.release_error(handle.cluster, away) from away
        self._released.discard(handle.cluster)
        if groups:
            self.log.warning("cluster=%s released: %s", handle.cluster, groups)
        self._released_hosts.remove(handle.cluster, folders)

    def _host_names(self, handle: Handle) -> set[str]:
        """Name the hosts of a cluster, as its handle and its folder have them, also on a disk that refuses writes."""
        names = {host.host for host in handle.hosts}
        with suppress(OSError):
            names.update(host_names(self._folders.clusters / handle.cluster))
        return names


def _opt_ml_taken_error(cluster: str, host: str) -> UnavailableError:
    return UnavailableError(
        f"Host {host} of cluster {cluster} did not start: the /opt/ml of this machine leads to another host.",
        field="host",
        value=host,
        rule="One host at a time uses it (LocalEngine.use_machine_opt_ml), and another controller's host has it.",
        cure="Release that host, or turn the option off.",
        transient=True,
    )
