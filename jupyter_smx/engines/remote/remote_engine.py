"""The engine for hosts on other machines, without the connection to them, which a subclass adds."""

from __future__ import annotations

import asyncio
import base64
import os
import time
from abc import abstractmethod
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.engines.base import DOCTOR_TIMEOUT, ClusterRequest, Observation
from jupyter_smx.engines.machine import agent_zipapp, request_validation
from jupyter_smx.engines.machine.addresses import MachineNetwork, host_networks
from jupyter_smx.engines.machine.launch_hosts import launch_all
from jupyter_smx.engines.remote import facts, interpreters, machine_check, observations
from jupyter_smx.engines.remote.account import DEFAULT_PYTHON, Account
from jupyter_smx.engines.remote.cluster_register import ClusterRegister, Intention, host_handle, place_of
from jupyter_smx.engines.remote.contacts import WAIT, Contacts
from jupyter_smx.engines.remote.environments import environment_request, provide
from jupyter_smx.engines.remote.machine import NoAnswerError, NotStartedError, as_no_room, as_unavailable
from jupyter_smx.engines.remote.placement import MachineRoom, place_hosts
from jupyter_smx.engines.remote.remote_base import RemoteEngineBase
from jupyter_smx.model.errors import RefusedError, ResourceNotFoundError, UnavailableError
from jupyter_smx.model.records.cluster import Handle

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Callable,
        Collection,
        Coroutine,
        Mapping,
        Sequence,
    )

    from jupyter_smx.engines.base import HostSpec, StoppedAgent
    from jupyter_smx.engines.machine.addresses import HostNetwork
    from jupyter_smx.engines.remote.machine import MachineOptions, RemoteMachine
    from jupyter_smx.model.records.cluster import HostHandle, QueueStatus
    from jupyter_smx.model.spec.instance import InstanceType

_OBSERVE_TIMEOUT = 10.0
"""Seconds after which a machine that does not answer is unknown."""
_FACTS_AGE = 30.0
"""Seconds for which a machine has the memory, GPUs and disk that it reported last."""
_FILLED_IN = ("addresses", "interface", "port", "limits")
"""Fields of ``host.json`` that only the machines can fill in."""


class RemoteEngine(RemoteEngineBase):
    """Runs agents on other machines, each from the agent's archive and a folder of the user's account there."""

    def __init__(self, **traits: object) -> None:
        super().__init__(**traits)
        self._accounts: dict[str, Account] = {}
        self._contacts = Contacts(self._ask_machine, time.monotonic, time.time)
        self._stopped_agents = observations.StoppedAgents()
        self._observer = observations.Observer(self._observe_machine)
        self._facts_at: dict[str, float] = {}
        """When each machine reported its facts last, by the monotonic clock."""
        self._facts = facts.FactsStore(self._folder / "machines")

    @abstractmethod
    def machine_options(self) -> Mapping[str, MachineOptions]:
        """Return the configured machines of this engine by name; sends no request to them."""

    @abstractmethod
    def machine(self, name: str) -> RemoteMachine:
        """Return the connection to a machine, which need not be one of :meth:`machine_options` any more."""

    # The six methods of the port

    def plan(self, request: ClusterRequest) -> dict[str, object]:
        """Return the planned launch; the machine, address and GPUs of each host are chosen at the launch."""
        found = interpreters.interpreter(request.python, self._environments())
        hosts = {}
        for host in request.hosts:
            described = self._description(request, host, None)
            hosts[host.host] = {
                "python": found.path or str(self.python) or DEFAULT_PYTHON,
                "setup": found.setup,
                host_layout.DESCRIPTION: {name: value for name, value in described.items() if name not in _FILLED_IN},
            }
        launch: dict[str, object] = {
            "engine": self.name,
            "machines": [*self.machine_options()],
            "agent": f"{agent_zipapp.file_name()}, 3 MiB, sent where it is missing",
            "hosts": hosts,
        }
        return {**launch, "requirements": [*request.requirements]} if request.requirements else launch

    async def acquire(self, request: ClusterRequest) -> AsyncIterator[Handle | QueueStatus]:
        """Choose a machine for each host, write that down, and launch them there.

        Yields an empty handle before the first launch, and a new handle whenever another host listens. Requirements are
        installed on these machines before, with a :class:`QueueStatus` for each step.

        :raises RefusedError: before anything was launched, or there is no slot or GPU on the machine.
        :raises UnavailableError: a machine cannot be reached, or a host did not come up.
        """
        request_validation.check_names(request)
        interpreters.interpreter(request.python, self._environments())
        register = self._register
        async with register.lock(request.cluster):
            if register.is_released(request.cluster):
                raise request_validation.released_error(request.cluster)
            written = register.read(request.cluster)
            intention = written or await self._place(request)
            networks = await self._networks(request.cluster, intention)
            pythons: dict[str, str] = {}
            async with aclosing(self._provide_environments(request, intention, written is None)) as reports:
                async for report in reports:
                    if isinstance(report, dict):
                        pythons = report
                    else:
                        yield report

            async def launch_host(host: HostSpec) -> HostHandle:
                def launch(place: str) -> Coroutine[Any, Any, HostHandle]:
                    return self._launch_host(request, host, place, networks[host.host], pythons.get(place, ""))

                place = intention.places[host.host]
                if written is not None:  # an earlier launch may have left a host there
                    return await launch(place)
                return await self._launch_where_reached(request, host, place, launch)

            async with aclosing(launch_all(self, request, launch_host)) as handles:
                async for handle in handles:
                    yield handle

    async def find(self, cluster: str) -> Handle | None:
        """Look up the machines of a cluster, and query them.

        :raises UnavailableError: one of them cannot be reached, or the record cannot be read.
        """
        intention = self._register.read(cluster) if request_validation.is_valid_name(cluster) else None
        if intention is None or self._register.is_released(cluster):
            return None
        questions = {name: self._observe_machine(name, [cluster]) for name in intention.machines()}
        states, errors = await observations.gather(questions)
        for error in errors.values():
            raise error
        found = {host: states[name].get(cluster, {}).get(host, {}) for host, name in intention.places.items()}
        hosts = [host_handle(host, intention.places[host], state) for host, state in found.items() if "pid" in state]
        return Handle(engine=self.name, cluster=cluster, hosts=tuple(hosts))

    async def observe_all(self, handles: Sequence[Handle]) -> list[Observation]:
        """Query each machine once for all of its clusters; a silent one delays no observation of others."""
        intentions: dict[str, Intention | None] = {}
        try:
            for handle in handles:
                released = self._register.is_released(handle.cluster)
                intentions[handle.cluster] = None if released else self._intention(handle)
        except UnavailableError:
            return [Observation.UNKNOWN for _ in handles]
        states = await self._observer.observe(observations.clusters_by_machine(intentions))
        return [observations.conclude(handle, intentions[handle.cluster], states) for handle in handles]

    async def release(self, handle: Handle) -> None:
        """End the hosts on the machines that have them, and on no others.

        :raises UnavailableError: one of them cannot be reached or used; the others were called.
        """
        if not request_validation.is_valid_name(handle.cluster):
            return
        intention = self._intention(handle)
        self._register.release(handle.cluster)
        known = [{"host": host.host, **host.data} for host in handle.hosts]
        question = {"cluster": handle.cluster, "hosts": known, "timeout": float(self.release_timeout)}
        timeout = float(self.release_timeout) + _OBSERVE_TIMEOUT
        machines = intention.machines() if intention else []
        answers, errors = await observations.gather(
            {name: self._account(name).ask("release", question, timeout) for name in machines}
        )
        for name, answer in answers.items():
            for left in answer["left"]:
                self.log.warning("cluster=%s machine=%s released: %s", handle.cluster, name, left)
        for error in errors.values():
            raise as_unavailable(error)

    async def connect(self, handle: Handle, host: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a stream to the agent's socket.

        :raises UnavailableError: nothing listens there now.
        """
        found = next((known for known in handle.hosts if known.host == host), None)
        place = place_of(found)
        if found is None or not place:
            raise UnavailableError(f"Host {host} of cluster {handle.cluster} is on no machine yet.", transient=True)
        try:
            return await self.machine(place).connect(str(found.data["socket"]))
        except RefusedError as error:
            raise as_unavailable(error) from error

    # Methods of the port with a default

    def slots(self) -> int | None:
        """Add up the slots of all machines; None where one of them has never been asked."""
        rooms = [self._slots_of(name) for name in self.machine_options()]
        known = [slots for slots in rooms if slots is not None]
        return sum(known) if len(known) == len(rooms) else None

    def stopped_agent(self, handle: Handle, host: str) -> StoppedAgent | None:
        """Describe an agent that was stopped when its machine answered last."""
        return self._stopped_agents.find(handle, host)

    def instance_types(self) -> Sequence[InstanceType]:
        """Return an instance type for each machine of known size: all of it, with its name."""
        types = (
            facts.instance_type(name, options, self._facts.read(name))
            for name, options in self.machine_options().items()
        )
        return [found for found in types if found is not None]

    async def shell(self, handle: Handle, host: str) -> list[str] | None:
        """Enter the namespaces of the agent in a terminal there."""
        place = place_of(next((known for known in handle.hosts if known.host == host), None))
        if not place:
            return None
        account = self._account(place)
        return account.machine.shell_words(account.command("shell", handle.cluster, host))

    async def read_spool(
        self, cluster: str, host: str, job: str, name: str, offset: int, limit: int
    ) -> tuple[bytes, int] | None:
        """Read a file from the machine's disk, also after the end of the host.

        :raises ResourceNotFoundError: there is no such file.
        :raises UnavailableError: the machine cannot be reached.
        """
        intention = self._register.read(cluster)
        if intention is None or host not in intention.places:
            return None
        question = {"cluster": cluster, "host": host, "path": f"{job}/{name}", "offset": offset, "limit": limit}
        answer = await self._account(intention.places[host]).ask("read", question)
        if answer["data"] is None:
            raise ResourceNotFoundError(f"{name} is not in the spool.")
        return base64.b64decode(answer["data"]), int(answer["size"])

    async def exit_reason(self, cluster: str, host: str) -> str:
        """Return that a machine was restarted since the start of a host's agent, or ""."""
        intention = self._register.read(cluster)
        if intention is None or host not in intention.places:
            return ""
        place = intention.places[host]
        answer = await self._account(place).ask("observe", {"clusters": [cluster], "released": True})
        boot = answer["hosts"].get(cluster, {}).get(host, {}).get("boot_id", answer["boot_id"])
        return "" if boot == answer["boot_id"] else f"The machine {place} was restarted."

    async def close(self) -> None:
        """End the questions to machines that are under way."""
        await self._contacts.close()
        await self._observer.close()

    async def sweep(self, known: Callable[[], Collection[str]]) -> list[str]:
        """End what runs on the machines for clusters of this controller that have no record.

        :raises UnavailableError: a machine cannot be reached; the others were looked at.
        """
        answers, errors = await observations.gather(
            {name: self._sweep_machine(name, known) for name in self.machine_options()}
        )
        ended = [f"{cluster} on {name}" for name, answer in answers.items() for cluster in answer["ended"]]
        if errors and not ended:
            raise next(iter(errors.values()))
        return ended

    async def _sweep_machine(self, name: str, known: Callable[[], Collection[str]]) -> dict[str, Any]:
        listed = await self._account(name).ask("list_clusters", {"owner": self._owner})
        orphans = [cluster for cluster in listed["live"] if cluster not in known()]
        for cluster in orphans:
            question = {"cluster": cluster, "timeout": float(self.release_timeout)}
            await self._account(name).ask("release", question, float(self.release_timeout) + _OBSERVE_TIMEOUT)
        return {"ended": orphans}

    async def prune(self, is_needed: Callable[[str], bool]) -> list[str]:
        """Delete folders of old clusters on the machines, and archives of agents that none of their hosts runs.

        :raises UnavailableError: a machine cannot be reached; the others were pruned.
        """
        answers, errors = await observations.gather(
            {name: self._prune_machine(name, is_needed) for name in self.machine_options()}
        )
        deleted = [cluster for answer in answers.values() for cluster in answer["deleted"]]
        if errors and not deleted:
            raise next(iter(errors.values()))
        return deleted

    async def _prune_machine(self, name: str, is_needed: Callable[[str], bool]) -> dict[str, Any]:
        account = self._account(name)
        ended = (await account.ask("list_clusters", {"owner": self._owner}))["ended"]
        question = {"owner": self._owner, "keep": [cluster for cluster in ended if is_needed(cluster)]}
        deleted = await account.ask("delete", question)
        await account.ask("delete_archives", {"archive": agent_zipapp.file_name()})
        await account.ask("delete_environments", {"unused_seconds": float(self.environments_unused)})
        return deleted

    async def doctor(self, timeout: float = DOCTOR_TIMEOUT) -> dict[str, object]:
        """Check each machine in parallel; the result of an unusable machine is a sentence with its cure."""
        options = self.machine_options()
        looks = (machine_check.check(self._account(name), timeout, time.monotonic) for name in options)
        found = dict(zip(options, await asyncio.gather(*looks), strict=True))
        for name, one in found.items():
            if not one.problem:
                self._facts.write(name, one.facts)
                self._contacts.note_answer(name)
        reports = {
            name: machine_check.report(self.name, options[name], one, self._contacts.silent_since(name))
            for name, one in found.items()
        }
        return {"machines": reports}

    # What is below

    @property
    def _register(self) -> ClusterRegister:
        return ClusterRegister(Path(self.data_dir), self._folder / "clusters")

    def _account(self, name: str) -> Account:
        if name not in self._accounts:
            options = self.machine_options().get(name)
            folder, python = (options.folder, options.python) if options else ("", "")
            self._accounts[name] = Account(
                self.machine(name),
                folder or str(self.folder),
                python or str(self.python),
                data_dir=Path(self.data_dir),
            )
        return self._accounts[name]

    def _environments(self) -> dict[str, str]:
        """Merge the environments of the engine with those of its machines."""
        own = super()._environments()
        for options in self.machine_options().values():
            own |= options.environments
        return own

    def _intention(self, handle: Handle) -> Intention | None:
        """Return the machines of a cluster: as recorded, or else from its handle."""
        written = self._register.read(handle.cluster)
        if written is not None:
            return written
        places = {host.host: place_of(host) for host in handle.hosts}
        return Intention({host: place for host, place in places.items() if place}) if any(places.values()) else None

    def _slots_of(self, name: str) -> int | None:
        options = self.machine_options().get(name)
        known = self._facts.read(name)
        return (options.slots if options else 0) or (known.cpus if known else None)

    async def _place(self, request: ClusterRequest) -> Intention:
        """Choose machines for hosts, and record them: one placement at a time for all processes that share the record.

        Machines are called before that, so that a silent one delays no placement on others.
        """
        names = [*self.machine_options()]
        if len(names) > 1 or not self._contacts.has_answered(
            names[0]
        ):  # of a single one the launch is the next question
            await self._contacts.refresh(names)
        register = self._register
        async with register.placement_lock():
            if register.is_released(request.cluster):
                raise request_validation.released_error(request.cluster)
            places = place_hosts(request.hosts, {name: self._room(name) for name in names})
            intention = Intention(places, {host.host: host.gpus for host in request.hosts if host.gpus})
            register.write(request.cluster, intention)
        return intention

    async def _launch_where_reached(
        self,
        request: ClusterRequest,
        host: HostSpec,
        place: str,
        launch: Callable[[str], Coroutine[Any, Any, HostHandle]],
        tried: tuple[str, ...] = (),
    ) -> HostHandle:
        """Launch a host that is nowhere yet; on another machine if its own cannot be reached.

        :raises RefusedError: as :meth:`acquire`, or no machine can be reached now; nothing was launched.
        """
        try:
            return await launch(place)
        except NotStartedError as error:
            self._register.leave_out(request.cluster, host.host)
            self._contacts.note_error(place, error)
            is_alone = len(request.hosts) == 1 and len(self.machine_options()) > 1  # others know its machine's address
            if not is_alone or request.requirements or place in tried or not self._contacts.is_silent(place):
                raise as_no_room(self._contacts.dated(place, error)) from error
        except RefusedError:
            self._register.leave_out(request.cluster, host.host)
            raise
        other = (await self._place(request)).places[host.host]
        return await self._launch_where_reached(request, host, other, launch, (*tried, place))

    async def _ask_machine(self, name: str) -> None:
        """Check that a machine answers, and read its facts if they are old."""
        now = time.monotonic()
        if now - self._facts_at.get(name, -_FACTS_AGE) < _FACTS_AGE:
            await self._account(name).machine.run("true", timeout=WAIT)
            return
        answer = await self._account(name).ask("facts", {})
        self._facts_at[name] = now
        self._facts.write(name, msgspec.convert(answer, facts.MachineFacts, strict=False))

    def _room(self, name: str) -> MachineRoom:
        uses = [found.use_of(name) for found in self._register.live().values()]
        slots, gpus = self._slots_of(name), self._gpus_of(name)
        return MachineRoom(
            total_slots=slots,
            slots=None if slots is None else slots - sum(hosts for hosts, _ in uses),
            total_gpus=gpus,
            gpus=None if gpus is None else gpus - sum(taken for _, taken in uses),
            unreachable=self._contacts.unreachable_reason(name),
        )

    def _gpus_of(self, name: str) -> int | None:
        options = self.machine_options().get(name)
        known = self._facts.read(name)
        return len(options.gpus) if options and options.gpus else (len(known.gpus) if known else None)

    async def _networks(self, cluster: str, intention: Intention) -> dict[str, HostNetwork]:
        machines = {}
        unknown = [name for name in intention.machines() if self._facts.read(name) is None]
        if len(intention.machines()) > 1 and unknown:
            await self._contacts.refresh(unknown)
        for host, name in intention.places.items():
            options, known = self.machine_options().get(name), self._facts.read(name)
            address = (options.address if options else "") or (known.address if known else "")
            machines[host] = MachineNetwork(address if len(intention.machines()) > 1 else "")
        try:
            return host_networks(cluster, machines)
        except ValueError as error:
            raise UnavailableError(
                str(error), cure="Set the address of each machine in c.SshEngine.machines.", transient=True
            ) from error

    async def _provide_environments(
        self, request: ClusterRequest, intention: Intention, is_first: bool
    ) -> AsyncGenerator[Handle | QueueStatus | dict[str, str], None]:
        """Install requirements on the machines of a cluster; yield the interpreter of each last.

        :raises RefusedError: ``is_first`` is True, so nothing was launched, and a machine does not answer.
        """
        found = interpreters.interpreter(request.python, self._environments())
        wanted = environment_request(request, found.path, found.setup, os.environ)
        if wanted is None:
            return
        # From here on the cluster is released when it fails, and holds its slots until then.
        yield Handle(engine=self.name, cluster=request.cluster)
        accounts = {name: (self._account(name), wanted) for name in intention.machines()}
        try:
            async with aclosing(provide(accounts, float(self.environment_limit))) as reports:
                async for report in reports:
                    if isinstance(report, dict):
                        yield {name: environment.python for name, environment in report.items()}
                    else:
                        yield report
        except (NotStartedError, NoAnswerError) as error:
            if not is_first:
                raise
            for host in intention.places:
                self._register.leave_out(request.cluster, host)
            raise as_no_room(error) from error

    async def _launch_host(
        self, request: ClusterRequest, host: HostSpec, name: str, network: HostNetwork, python: str
    ) -> HostHandle:
        options = self.machine_options().get(name)
        found = interpreters.interpreter(request.python, self._environments())
        account = self._account(name)
        question = {
            "owner": self._owner,
            "cluster": request.cluster,
            "host": host.host,
            "description": self._description(request, host, network),
            "slots": options.slots if options else 0,
            "devices": list(options.gpus) if options else [],
            "gpus": host.gpus,
            "cpus": host.vcpus,
            "memory": host.memory,
            "python": python or found.path or (DEFAULT_PYTHON if found.setup else account.python),
            "setup": found.setup,
            "environment": found.environment,
            "timeout": float(self.launch_timeout),
        }
        answer = await account.ask("launch", question, float(self.launch_timeout) + _OBSERVE_TIMEOUT)
        self._contacts.note_answer(name)
        return host_handle(host.host, name, answer)

    async def _observe_machine(self, name: str, clusters: Sequence[str]) -> dict[str, Any]:
        """Query a machine for the states of clusters, by cluster and host; note if it answered."""
        try:
            answer = await self._account(name).ask("observe", {"clusters": [*clusters]}, _OBSERVE_TIMEOUT)
        except UnavailableError as error:
            self._contacts.note_error(name, error)
            raise
        self._contacts.note_answer(name)
        states: dict[str, Any] = answer["hosts"]
        self._stopped_agents.note(name, states)
        return states
