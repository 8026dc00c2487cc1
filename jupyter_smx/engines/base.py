"""The engine port: six methods that every engine has, declared capabilities, and methods with a default.

``plan``, ``acquire``, ``find``, ``observe_all``, ``release`` and ``connect`` are the six. The default of each other
method is right for an engine without that capability.

A new engine is one file with one subclass of :class:`Engine`, one entry point in the group
``jupyter_smx.engines``, and a ten-line test that runs :mod:`jupyter_smx.testing.contract`. An engine contains nothing
about jobs and repeats nothing that failed. Its only state is one record per cluster, on a disk: what it launches and
where, a lock, and whether the cluster was released.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Literal

from msgspec import Struct
from traitlets import Float
from traitlets.config import LoggingConfigurable

from jupyter_smx.engines import untrusted_files
from jupyter_smx.model.errors import RefusedError, ResourceNotFoundError
from jupyter_smx.model.spec.image import Image
from jupyter_smx.model.spec.instance import InstanceGroup, InstanceType

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from jupyter_smx.model.records.cluster import Handle, QueueStatus


DEFAULT_OBSERVE_INTERVAL = 5.0
"""Seconds between two looks at an engine, whatever the number of its clusters."""
DOCTOR_TIMEOUT = 15.0
"""Seconds for which a doctor asks the machines of an engine that a user named."""


class Observation(str, Enum):
    """State of a cluster at its platform; only a clear "no such thing" is ``GONE``."""

    RUNNING = "RUNNING"
    GONE = "GONE"
    UNKNOWN = "UNKNOWN"


class ImageMissingError(RefusedError):
    """There is no such image where hosts are made; where a registry has it, it can be brought there (again)."""


class RequirementsError(RefusedError):
    """The requirements of a request cannot be installed where its hosts would be; the jobs that need them fail."""


class Capabilities(Struct, frozen=True, kw_only=True):
    """Features of an engine. Callers test these, never the engine's name.

    ``shared_folder``: files of a host are files of this machine, at the path of :meth:`Engine.spool_path`.
    ``extend``: a keep-alive can be extended after the hosts were acquired.
    """

    shared_folder: bool = False
    extend: bool = True
    bounded_by_machine: bool = False
    """The hosts share this machine, so the controller's capacity traits apply."""
    environments: bool = False
    """The hosts can start an interpreter that lies in the controller's data folder."""
    builds_environments: bool = False
    """``acquire`` installs :attr:`ClusterRequest.requirements` where the hosts are, into an environment for reuse."""
    images: bool = False
    """The hosts are made of an image that the job names; the kernel's Python plays no role there."""
    network_isolation: bool = False
    """Hosts can be had that reach each other and nothing else, where a job asks for that."""
    own_gpus: bool = False
    """A host sees those GPUs of this machine only that it was made with, so each of its jobs has just those."""
    interpreters: Literal["local", "remote"] = "local"
    """Whose interpreter ``--python`` names: this machine's, or the hosts' by :meth:`Engine.resolve_interpreter`."""
    same_paths: bool = False
    """Agents find files of the controller's machine at the same paths; else they are brought, see ``provide_files``."""
    shared_folders: tuple[str, ...] = ()
    """Folders whose files agents find at the same paths, such as a network disk; the configuration names them."""


class HostSpec(Struct, frozen=True, kw_only=True):
    """One requested host: its name in the job (``algo-1``), its group, its share of a machine."""

    host: str
    group: str
    instance_type: str
    vcpus: int
    """As the instance type says; of an engine that this machine bounds, never more than the machine has."""
    gpus: int = 0
    memory: int = 0
    """Bytes; 0 is no limit."""
    devices: tuple[int, ...] = ()
    """Numbers of its GPUs among those that the controller sees, from 0 on; empty if none were assigned."""
    options: dict[str, str] = {}
    """What its instance type says to the engine, by the engine's own names."""


class ClusterRequest(Struct, frozen=True, kw_only=True):
    """Everything an engine needs in order to bring up a cluster, and nothing about the job's code.

    ``idle_limit`` is the number of seconds after which an agent that never got a job ends by itself.
    ``preload_memory`` (0 is no limit) and ``input_hash_limit`` are MiB. ``max_run``, ``keep_alive``, ``spot``, ``role``
    and ``options`` are for platforms that ask for them in advance; an engine may ignore each.
    """

    cluster: str
    hosts: tuple[HostSpec, ...]
    instance_groups: tuple[InstanceGroup, ...]
    python: str
    """The interpreter as :meth:`Engine.resolve_interpreter` gave it, where interpreters are remote; "" is its default.

    It is the word of ``--python`` itself where the engine was unavailable at the submission. Else a path here.
    """
    requirements: tuple[str, ...] = ()
    """What the hosts' Python needs beside the packages of ``python``: lines in pip's format, in a normal form.

    Only where the engine ``builds_environments``. Paths in them are absolute, and of the controller's machine.
    """
    requirements_only: bool = False
    """The hosts' Python has the requirements only, and none of the packages of ``python``."""
    idle_limit: float = 120.0
    keep_uncollected: float = 0.0
    """Seconds for which an agent keeps results after the end of its host, as a small process, until they are read."""
    preload: tuple[str, ...] = ()
    preload_memory: int = 0
    input_hash_limit: int = 1_024
    log_limit: int = 1 << 30
    """Bytes that the log of a job may take on a host's disk; 0 is no limit."""
    image: str = ""
    """What the hosts are made of, where the engine has images; names one that is there, best by its id."""
    network_isolation: bool = False
    """True if the hosts must reach each other and nothing else."""
    max_run: int = 0
    """Seconds for which the first job may run at most; 0 where its job has ended meanwhile."""
    keep_alive: int = 0
    """Seconds for which the hosts are kept after the first job; a later job or the user may extend them."""
    spot: bool = False
    """The platform may take the hosts away while the job runs; the job then begins again."""
    role: str = ""
    """Role of the user, as the job names it; a platform may have an account or a service account of that name."""
    options: dict[str, str] = {}
    """Options of the whole cluster: those of the instance type of its leader, the first host that helps no other."""


class PullProgress(Struct, frozen=True):
    """How far it is to an image, in few words; ``downloads`` says that it comes from elsewhere, which may take long."""

    text: str = ""
    downloads: bool = False


class StoppedAgent(Struct, frozen=True):
    """Why the agent of a host does not run, and how a user continues it.

    ``reason`` is a clause that follows "Host algo-1 does not answer: ", ``cure`` a sentence.
    """

    reason: str
    cure: str


def stopped_process(pid: int, machine: str = "") -> StoppedAgent:
    """Describe an agent that a signal has stopped; ``machine`` has the process if it is another one than this."""
    place = f" on {machine}" if machine else ""
    return StoppedAgent(
        reason=f"its agent, process {pid}{place}, is stopped (SIGSTOP)", cure=f"`kill -CONT {pid}`{place} continues it."
    )


class Engine(LoggingConfigurable):
    """Base of all engines: a name, options (traits with help), capabilities, and the methods of the port."""

    name: ClassVar[str]
    takes_target: ClassVar[bool] = False
    """Whether ``--engine NAME:TARGET`` is this engine for one of its machines."""
    target = ""
    """What follows the colon; ``jupyter_smx.engines.registry.create`` sets it, and ``name`` to all of it."""

    interruptions_per_hour = Float(
        0.0,
        min=0.0,
        help=(
            "Simulated spot interruptions per hour of a running spot job, on average, at random times, to test "
            "a script. 0 disables them."
        ),
    ).tag(config=True)

    observe_interval = Float(
        DEFAULT_OBSERVE_INTERVAL,
        min=1.0,
        help=(
            "Seconds between two looks at the hosts of all clusters. A stream that breaks is looked at at once. "
            "Raise it where each look loads a scheduler that others share."
        ),
    ).tag(config=True)

    @property
    def capabilities(self) -> Capabilities:
        """Declare what this engine can do: a class attribute, or a property where its configuration decides.

        It is read at each decision, so it asks no platform; while hosts live it stays as it is.
        """
        return Capabilities()

    @abstractmethod
    def plan(self, request: ClusterRequest) -> dict[str, object]:
        """Give the printable request that :meth:`acquire` would send; asks no platform and changes nothing.

        What the platform fills in at the launch, such as addresses and nodes, is not in it.
        """

    @abstractmethod
    def acquire(self, request: ClusterRequest) -> AsyncIterator[Handle | QueueStatus]:
        """Bring up all hosts or none, with an agent listening on each.

        Yields a handle whenever something more exists that costs money, one host at a time, the complete one last.
        The first one comes before the launch: from then on :meth:`find` answers, so the engine has written down what
        it is about to launch. Launches at most once per cluster id and host, even when called again from another
        process. It is an asynchronous generator, which the controller closes with ``aclose`` when ``launch_limit`` is
        over: what it began ends then, or is found.

        Yields a :class:`QueueStatus` while the engine's scheduler lets the request wait: at once, and whenever it
        changes. The controller's ``launch_limit`` does not count from there to the next handle, which says that the
        wait is over. The controller ends the wait by closing the generator and :meth:`release`, when the
        job is stopped or its ``--max-wait`` is over. A controller that starts meanwhile calls ``acquire`` again, which
        goes on with the same request.

        :raises ImageMissingError: the image went since it was pinned, before anything was launched.
        :raises RequirementsError: the requirements cannot be installed. Other jobs that need the same fail, too.
        :raises RefusedError: before anything was launched. A ``transient`` one, as where there is no room now, lets the
            job wait in the queue with this reason; it is asked for again until it is stopped. Any other one is its end.
        :raises UnavailableError: a host did not come up, or the engine gave no answer, so that it is not known what
            was launched. The controller then asks :meth:`find`, and acquires the same cluster again.
        """

    @abstractmethod
    async def find(self, cluster: str) -> Handle | None:
        """Find a cluster again from a fresh process; answers from the launch, or the request for it, until `release`.

        None means that the platform has no such cluster now.

        :raises UnavailableError: the platform gives no answer, which does not mean that there is no cluster.
        """

    @abstractmethod
    async def observe_all(self, handles: Sequence[Handle]) -> list[Observation]:
        """Look at many clusters at once, same order; an outage is ``UNKNOWN``; never raises for one cluster.

        Called every five seconds, with no limit. ``GONE`` may come late where the platform notices late: the harness
        of the engine's test declares within how many seconds.
        """

    @abstractmethod
    async def release(self, handle: Handle) -> None:
        """Free what costs, with everything the hosts started; idempotent. Records under :meth:`spool_path` stay."""

    @abstractmethod
    async def connect(self, handle: Handle, host: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a byte stream to the agent on ``host`` over the engine's own authenticated channel.

        Cancelled after ten seconds and called again. What takes longer, as the start of a gateway, is shielded.

        :raises UnavailableError: nothing listens there now.
        """

    def check_target(self) -> None:
        """Check, when the engine has just been made, that it is configured for its target, or without one.

        :raises RefusedError: it is not; the submission is refused.
        """

    def check_installed(self) -> None:
        """Check that what the engine needs on this machine is installed and configured, such as a client program.

        Called at each submission, before anything is recorded, so it asks no platform and reads few files. What does
        not answer now passes: the job waits for it.

        :raises RefusedError: something is missing; the submission is refused.
        """

    def target_names(self) -> Sequence[str]:
        """List names that may follow the colon of ``--engine``, for completion; others may be valid, too.

        Reads the configuration and files of this machine, and asks no network. It is called in a thread, also for
        an engine that :meth:`check_target` refuses. Blocks.
        """
        return ()

    def interpreter_names(self) -> Sequence[str]:
        """List the environments that ``--python`` can name on the hosts, for completion: those of the configuration."""
        return ()

    def slots(self) -> int | None:
        """Give the number of hosts that the engine can have at once; None: it has no limit that is known here.

        A job that does not fit waits in the queue of the engine, and idle warm pools make room for it. Asked at each
        placement, so it answers from the configuration and from memory.
        """
        return None

    def clusters_folder(self) -> Path | None:
        """Give the folder of this machine in which each cluster has its own; None where hosts have none here.

        What lies there of clusters that are long gone is deleted.
        """
        return None

    def is_network_isolated(self) -> bool:
        """Say whether hosts reach each other and nothing else whatever a job asks for, as an administrator chose."""
        return False

    def instance_types(self) -> Sequence[InstanceType]:
        """Give the instance types that this engine brings, beside those of the catalogue, without a request.

        One of a name that the catalogue has replaces that one for this engine. Without a price, no cost is reported.
        """
        return ()

    async def resolve_interpreter(self, word: str) -> str:
        """Name the interpreter of the hosts that ``--python`` means; "" is the engine's default, in and out.

        Called only where ``interpreters`` is ``remote``, for each submission, which waits for it: a configuration
        should be enough. What it gives decides which pools a job may take, and is :attr:`ClusterRequest.python`.

        :raises RefusedError: there is no such interpreter; names the nearest one.
        :raises UnavailableError: not now; then the word itself is in the request, and ``acquire`` has to resolve it.
        """
        return word

    def default_image(self) -> str:
        """Name the image of jobs that name none; "" where each has to name its own, or hosts are made of none."""
        return ""

    async def resolve_image(self, image: str, say: Callable[[PullProgress], None]) -> Image:
        """Resolve the image name of a job to an id that never means another image; pull the image if it is missing.

        Called once for each job, so that a changed name is noticed. ``say`` receives the progress. Cancelled when no
        job needs the image any more.

        :raises RefusedError: there is no such image, or hosts cannot use it; names the field and the cure. A
            ``transient`` one is retried, as when a registry does not respond.
        :raises UnavailableError: the daemon or service does not respond.
        """
        del say
        return Image(name=image, id=image)

    async def peek_image(self, image: str) -> Image | None:
        """Find an image as :meth:`resolve_image` does, and bring nothing here; None where it would be brought first.

        :raises RefusedError, UnavailableError: as :meth:`resolve_image`.
        """
        return await self.resolve_image(image, lambda _step: None)

    async def cached_image(self, image: str) -> Image | None:
        """Return what a name means now if that takes a moment only; None if :meth:`resolve_image` has to be asked.

        Asked before a job is on record, whose submitter waits meanwhile. An engine that is away says None.
        """
        del image
        return None

    async def provide_files(self, handle: Handle, host: str, sources: Sequence[str]) -> Mapping[str, str] | None:
        """Put files and folders of the controller's machine within reach of a host, where it may only read them.

        Gives the path at which the host's agent finds each; what is there already, unchanged, is not brought again.
        None, the default: the engine has no way of its own, and the controller sends them over the agent's stream.
        The controller does not ask where :attr:`Capabilities.same_paths` is true.

        :raises RefusedError: one of them is not there or cannot be read.
        :raises UnavailableError: the host cannot be reached now.
        """
        del handle, host, sources
        return None

    async def shell(self, handle: Handle, host: str) -> list[str] | None:
        """Return a command that opens a shell where the jobs of a host run; None if there is none.

        The user runs it in a terminal on the controller's machine.
        """
        del handle, host
        return None

    def spool_path(self, cluster: str, host: str) -> Path | None:
        """Give the folder of a host's spool when it can be read without the agent, else None."""
        del cluster, host
        return None

    async def read_spool(
        self, cluster: str, host: str, job: str, name: str, offset: int, limit: int
    ) -> tuple[bytes, int] | None:
        """Read a file of a job in a host's spool without the agent: ``limit`` bytes at most from ``offset`` on.

        Gives them and the size of the whole file; by default what lies below :meth:`spool_path`. The controller asks
        when a host is gone, also after :meth:`release`. None: of this host nothing can be read, now or later.

        :raises ResourceNotFoundError: the spool of the host can be read, and has no such file.
        :raises UnavailableError: it cannot be read now.
        """
        spool = self.spool_path(cluster, host)
        return None if spool is None else await asyncio.to_thread(_read_file, spool, f"{job}/{name}", offset, limit)

    def stopped_agent(self, handle: Handle, host: str) -> StoppedAgent | None:
        """Describe a host's agent if it is stopped, as by SIGSTOP or in a paused container; None if not, or unknown.

        The user reads it where the host does not answer. It must not block: an engine whose hosts are elsewhere keeps
        what its last :meth:`observe_all` saw. It is asked again while the host is silent.
        """
        del handle, host
        return None

    async def exit_reason(self, cluster: str, host: str) -> str:
        """Say how a host ended, where the engine has more to say than its agent could; "" where it has not.

        :raises UnavailableError: the engine cannot be reached now; the reason stays unknown then.
        """
        del cluster, host
        return ""

    async def sweep(self, known: Callable[[], Collection[str]]) -> list[str]:
        """End what this controller's clusters left and of which there is no record; name what was ended.

        Called once an hour, and by a user.

        ``known`` gives the clusters that live: whatever else carries this controller's mark is an orphan. It is asked
        after each look at what there is, since a cluster may be born meanwhile, and is known before it is there.

        :raises UnavailableError: the engine cannot be reached now.
        """
        del known
        return []

    async def prune(self, is_needed: Callable[[str], bool]) -> list[str]:
        """Delete what this controller's clusters left on other machines: records, logs, outputs; name the clusters.

        ``is_needed`` says of a cluster's id whether it stays: it lives, or ended lately. Call it in the event loop.
        What lies below :meth:`clusters_folder` the controller deletes by itself.

        :raises UnavailableError: the engine cannot be reached now.
        """
        del is_needed
        return []

    async def doctor(self, timeout: float = DOCTOR_TIMEOUT) -> dict[str, object]:
        """Give what a doctor's page shows of this engine: facts by name, looked at now.

        ``machines`` among them has the facts of each of its machines by name, where it has several. They are asked
        side by side for ``timeout`` seconds; of one that cannot be used the only fact is its ``problem``, a sentence.
        """
        del timeout
        return {}

    async def close(self) -> None:
        """Close what this object has open beside hosts, such as connections, at the orderly end of the controller.

        Called once, when no other method runs or will be called; cancelled after two seconds. Hosts go on.
        """


def _read_file(top: Path, name: str, offset: int, limit: int) -> tuple[bytes, int] | None:
    try:
        with untrusted_files.open_file(top, name) as found:
            found.file.seek(offset)
            return found.file.read(limit), found.size()
    except FileNotFoundError as error:
        raise ResourceNotFoundError(f"{name} is not in the spool.") from error
    except OSError:
        return None
