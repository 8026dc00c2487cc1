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
from jupyter_smx.model.spec.mount import Mount

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from jupyter_smx.model.records.cluster import Handle, QueueStatus
    from jupyter_smx.model.results.usage import PlatformUsage


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
    """The image does not exist where hosts are created; it can be pulled (again) if a registry has it."""


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
    image_settings: bool = False
    """The image's ``USER``, ``ENTRYPOINT`` and ``WORKDIR`` can count; the methods for images take ``settings``."""
    network_isolation: bool = False
    """True if the engine can create hosts that reach only each other, for jobs that request that."""
    mounts: bool = False
    """The hosts can have folders and volumes of their machine at paths of their own, for jobs that request that."""
    shm_size: bool = False
    """The size of ``/dev/shm`` on the hosts can be chosen."""
    builds_images: bool = False
    """:meth:`Engine.build_image` builds an image from a folder with a Dockerfile."""
    own_gpus: bool = False
    """A host sees those GPUs of this machine only that it was made with, so each of its jobs has just those."""
    interpreters: Literal["local", "remote"] = "local"
    """Machine of ``--python``'s interpreter: this one, or the hosts' by :meth:`Engine.resolve_interpreter`."""
    host_addresses: bool = False
    """Programs of jobs on several machines reach each other at the addresses in ``host.json``, at all ports."""
    same_paths: bool = False
    """Agents find files of the controller's machine at the same paths; else they are brought, see ``provide_files``."""
    aws_front: Literal["none", "loopback", "relay", "stream"] = "none"
    """How jobs reach the front for clients of AWS: they do not, at the machine's loopback, or by their agents.

    A relay of an agent leads to the socket in the folder that ``aws_front`` of ``host.json`` names. With ``stream``, an
    agent carries connections over :meth:`Engine.connect`'s stream, and the controller connects them to the front.
    """
    options: tuple[str, ...] = ()
    """Names that ``--engine-option`` may have; the values of a job are in :attr:`HostSpec.options`."""
    shared_folders: tuple[str, ...] = ()
    """Folders whose files agents find at the same paths, such as a network disk; the configuration names them."""


class HostSpec(Struct, frozen=True, kw_only=True):
    """One requested host: its name in the job (``algo-1``), its group, its share of a machine."""

    host: str
    group: str
    instance_type: str
    vcpus: int
    """CPUs of the instance type; for an engine limited by this machine, never more than the machine has."""
    gpus: int = 0
    memory: int = 0
    """Bytes; 0 is no limit."""
    devices: tuple[int, ...] = ()
    """Numbers of its GPUs among those that the controller sees, from 0 on; empty if none were assigned."""
    options: dict[str, str] = {}
    """Options for the engine, by its own names: those of the instance type, replaced by those of the job."""


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
    """Result of :meth:`Engine.resolve_interpreter` if interpreters are remote ("": the default), else a path here.

    It is the text of ``--python`` itself if the engine was unavailable at the submission.
    """
    requirements: tuple[str, ...] = ()
    """Packages that the hosts' Python needs beside those of ``python``: lines in pip's format, normalized.

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
    """Image of the hosts, if the engine has images; names an existing one, best by its id."""
    image_settings: tuple[str, ...] = ()
    """Settings of the image that count for its hosts: ``entrypoint``, ``user``; see :attr:`Capabilities`."""
    network_isolation: bool = False
    """True if the hosts must reach each other and nothing else."""
    mounts: tuple[Mount, ...] = ()
    """Folders and volumes of the machine that the hosts see. Only where the engine declares ``mounts``."""
    shm_size: int = 0
    """Bytes of ``/dev/shm`` on each host; 0 is the engine's choice."""
    max_run: int = 0
    """Seconds for which the first job may run at most; 0 where its job has ended meanwhile."""
    keep_alive: int = 0
    """Seconds for which the hosts are kept after the first job; a later job or the user may extend them."""
    spot: bool = False
    """The platform may take the hosts away while the job runs; the job then begins again."""
    role: str = ""
    """Role of the user, as the job names it; a platform may have an account or a service account of that name."""
    options: dict[str, str] = {}
    """Options of the whole cluster: those of its leader, the first host that helps no other."""
    renewal_of: str = ""
    """Id of the cluster whose pool continues on these hosts, requested without a job; see ``Handle.renewal``."""


class PullProgress(Struct, frozen=True):
    """Progress of an image in few words; ``downloads`` is True if it is downloaded, which may take long."""

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
    """True if ``--engine NAME:TARGET`` selects one of this engine's machines."""
    target = ""
    """Text after the colon; ``jupyter_smx.engines.registry.create`` sets it, and ``name`` to the whole."""

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
        """Return the printable request that :meth:`acquire` would send; sends no request and changes nothing.

        Values that the platform chooses at the launch, such as addresses and nodes, are not in it.
        """

    @abstractmethod
    def acquire(self, request: ClusterRequest) -> AsyncIterator[Handle | QueueStatus]:
        """Bring up all hosts or none, with an agent listening on each.

        Yields a handle whenever another host, which costs money, exists; the complete one comes last. The first one
        comes before the launch: from then on :meth:`find` answers, so the engine has recorded what it is about to
        launch. Launches at most once per cluster id and host, even when called again from another process. It is an
        asynchronous generator, which the controller closes with ``aclose`` after ``launch_limit`` seconds: hosts whose
        launch has begun are then ended, or :meth:`find` returns them.

        Yields a :class:`QueueStatus` while the request waits in the engine's scheduler: at once, and after each change.
        The controller's ``launch_limit`` does not count until the next handle, which ends the wait. The controller ends
        the wait by closing the generator and :meth:`release`, when the job is stopped or its ``--max-wait`` is over. A
        new controller calls ``acquire`` again, which continues with the same request.

        :raises ImageMissingError: the image was deleted after it was pinned; nothing was launched.
        :raises RequirementsError: the requirements cannot be installed. Other jobs that need the same fail, too.
        :raises RefusedError: nothing was launched. After a ``transient`` one, such as a lack of room, the job waits in
            the queue with this reason, and the controller retries until the job is stopped. Any other one ends the job.
        :raises UnavailableError: a host did not come up, or the engine did not answer, so it is unknown what was
            launched. The controller then calls :meth:`find`, and acquires the same cluster again.
        """

    @abstractmethod
    async def find(self, cluster: str) -> Handle | None:
        """Find a cluster from any process; answers from the launch, or the request for it, until `release`.

        None means that the platform has no such cluster now.

        :raises UnavailableError: the platform does not answer, which does not mean that there is no cluster.
        """

    @abstractmethod
    async def observe_all(self, handles: Sequence[Handle]) -> list[Observation]:
        """Observe many clusters in one call, in the same order; an outage is ``UNKNOWN``; never raises for one cluster.

        Called every five seconds, with no limit. ``GONE`` may come late if the platform notices late: the engine's test
        harness declares the maximum delay in seconds.
        """

    @abstractmethod
    async def release(self, handle: Handle) -> None:
        """Free what costs, with everything the hosts started; idempotent. Records under :meth:`spool_path` stay."""

    @abstractmethod
    async def connect(self, handle: Handle, host: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a byte stream to the agent on ``host`` over the engine's own authenticated channel.

        Cancelled after ten seconds and called again. Shield steps that take longer, such as the start of a gateway.

        :raises UnavailableError: no agent listens there now.
        """

    def check_target(self) -> None:
        """Check, after the engine was created, that it is configured for its target, or without one.

        :raises RefusedError: it is not; the submission is refused.
        """

    def check_installed(self) -> None:
        """Check that what the engine needs on this machine is installed and configured, such as a client program.

        Called at each submission, before anything is recorded, so it asks no platform and reads few files. It ignores
        services that do not answer now: the job waits for them.

        :raises RefusedError: something is missing; the submission is refused.
        """

    def check_mounts(self, mounts: Sequence[Mount]) -> None:
        """Check that the configuration allows the mounts of a job, and that their paths exist.

        Called at each submission with mounts, so it asks no platform. Only where the engine declares ``mounts``.

        :raises RefusedError: it does not; the submission is refused.
        """
        del mounts

    def check_options(self, options: Mapping[str, str]) -> None:
        """Check the values of ``--engine-option``, whose names :attr:`Capabilities.options` has.

        Called at each submission with such options, so it asks no platform.

        :raises RefusedError: an option does not take its value; the submission is refused.
        """
        del options

    async def option_values(self) -> Mapping[str, Sequence[str]]:
        """Return known values of ``--engine-option`` by name, for completion; an option without an entry takes any.

        Called whenever a user presses Tab: answer from memory and files, and ask the platform in the background.
        """
        return {}

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
        """Return the number of hosts that the engine can have at once; None: it has no limit that is known here.

        A job that does not fit waits in the engine's queue, and idle warm pools make room for it. Called at each
        placement, so it answers from the configuration and from memory.
        """
        return None

    def clusters_folder(self) -> Path | None:
        """Return the folder of this machine in which each cluster has its own; None where hosts have none here.

        The controller deletes folders there if their clusters ended long ago.
        """
        return None

    def is_network_isolated(self) -> bool:
        """Return True if an administrator configured that hosts reach only each other, for every job."""
        return False

    def instance_types(self) -> Sequence[InstanceType]:
        """Return the instance types that this engine brings, beside those of the catalogue, without a request.

        They replace types of the catalogue with the same name for this engine. Without a price, no cost is reported.
        """
        return ()

    async def resolve_interpreter(self, word: str) -> str:
        """Return the interpreter of the hosts for ``--python``; "" is the engine's default, in and out.

        Called only if ``interpreters`` is ``remote``, at each submission, which waits for it: read the configuration
        only. The result decides which pools a job may use, and is :attr:`ClusterRequest.python`.

        :raises RefusedError: there is no such interpreter; names the nearest one.
        :raises UnavailableError: not now; then the text itself is in the request, and ``acquire`` has to resolve it.
        """
        return word

    def default_image(self) -> str:
        """Name the image of jobs that name none; "" where each has to name its own, or hosts are made of none."""
        return ""

    def image_defaults(self, image: str) -> Collection[str]:
        """Name the settings of an image that count where a job does not say it: ``entrypoint``, ``user``, ``workdir``.

        Called only if the engine has the capability ``image_settings``, at each submission: read the configuration.
        """
        del image
        return ()

    async def resolve_image(
        self, image: str, say: Callable[[PullProgress], None], *, settings: Sequence[str] = ()
    ) -> Image:
        """Resolve the image name of a job to an id that never means another image; pull the image if it is missing.

        Called once for each job, so that a changed name is noticed. ``say`` receives the progress. ``settings`` are
        those of the image that count for its hosts; passed only if the engine has the capability ``image_settings``.
        Cancelled when no job needs the image any more.

        :raises RefusedError: there is no such image, or hosts cannot use it; names the field and the cure. A
            ``transient`` one is retried, as when a registry does not respond.
        :raises UnavailableError: the daemon or service does not respond.
        """
        del say, settings
        return Image(name=image, id=image)

    async def build_image(
        self, path: str, say: Callable[[PullProgress], None], *, settings: Sequence[str] = ()
    ) -> Image:
        """Build an image from a folder with a Dockerfile, or from a Dockerfile; an engine that ``builds_images`` does.

        Called once for each job or array. ``say`` receives the progress. Cancelled when the job is stopped.

        :raises RefusedError: the build failed; the text ends with the last lines of its log.
        :raises UnavailableError: the daemon or service does not respond.
        """
        del say, settings
        raise RefusedError(
            f"build: the engine {self.name} builds no images.",
            field="build",
            value=path,
            cure="Use --image with a finished image.",
        )

    async def peek_image(self, image: str, *, settings: Sequence[str] = ()) -> Image | None:
        """Find an image as :meth:`resolve_image` does, and bring nothing here; None where it would be brought first.

        :raises RefusedError, UnavailableError: as :meth:`resolve_image`.
        """
        # Engines of others may have no settings.
        followed = {"settings": settings} if settings else {}
        return await self.resolve_image(image, lambda _step: None, **followed)

    async def cached_image(self, image: str, *, settings: Sequence[str] = ()) -> Image | None:
        """Return what a name means now if that takes a moment only; None if :meth:`resolve_image` has to be asked.

        Called before a job is recorded, while its submitter waits. An engine that is unreachable returns None.
        """
        del image, settings
        return None

    async def provide_files(self, handle: Handle, host: str, sources: Sequence[str]) -> Mapping[str, str] | None:
        """Make files and folders of the controller's machine readable on a host, but not writable.

        Return the path for the host's agent for each; unchanged files are not sent again. None, the default: the engine
        has no way of its own, and the controller sends them over the agent's stream. Not called if
        :attr:`Capabilities.same_paths` is true.

        :raises RefusedError: one of them does not exist or cannot be read.
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
        """Return the folder of a host's spool when it can be read without the agent, else None."""
        del cluster, host
        return None

    async def read_spool(
        self, cluster: str, host: str, job: str, name: str, offset: int, limit: int
    ) -> tuple[bytes, int] | None:
        """Read a file of a job in a host's spool without the agent: ``limit`` bytes at most from ``offset`` on.

        Return the bytes and the size of the whole file; by default from :meth:`spool_path`. Called after the end of a
        host, and after :meth:`release`. None: no file of this host can be read, now or later.

        :raises ResourceNotFoundError: the spool of the host can be read, and has no such file.
        :raises UnavailableError: it cannot be read now.
        """
        spool = self.spool_path(cluster, host)
        return None if spool is None else await asyncio.to_thread(_read_file, spool, f"{job}/{name}", offset, limit)

    def stopped_agent(self, handle: Handle, host: str) -> StoppedAgent | None:
        """Describe a host's agent if it is stopped, as by SIGSTOP or in a paused container; None if not, or unknown.

        The user sees it when the host does not answer. It must not block: an engine with hosts elsewhere stores the
        result of its last :meth:`observe_all`. Called repeatedly while the host is silent.
        """
        del handle, host
        return None

    async def exit_reason(self, cluster: str, host: str) -> str:
        """Return how a host ended, if the engine has more details than its agent could report; else "".

        :raises UnavailableError: the engine cannot be reached now; the reason stays unknown then.
        """
        del cluster, host
        return ""

    async def platform_usage(self, cluster: str) -> PlatformUsage | None:
        """Return what the platform accounted for a cluster that has ended; None if it accounts nothing.

        Called after :meth:`release`, and cancelled after ten seconds.

        :raises UnavailableError: the engine cannot be reached now; the figures stay unknown then.
        """
        del cluster
        return None

    async def sweep(self, known: Callable[[], Collection[str]]) -> list[str]:
        """End what this controller's clusters left without a record; return the names.

        Called once an hour, and by a user.

        ``known`` returns the live clusters: anything else with this controller's mark is an orphan. Call it after each
        listing, because a cluster may be created meanwhile, and is recorded before it exists.

        :raises UnavailableError: the engine cannot be reached now.
        """
        del known
        return []

    async def prune(self, is_needed: Callable[[str], bool]) -> list[str]:
        """Delete what this controller's clusters left on other machines: records, logs, outputs; return their names.

        ``is_needed`` returns True if a cluster stays, by its id: it lives, or ended recently. Call it in the event
        loop. The controller itself deletes what lies below :meth:`clusters_folder`.

        :raises UnavailableError: the engine cannot be reached now.
        """
        del is_needed
        return []

    async def doctor(self, timeout: float = DOCTOR_TIMEOUT) -> dict[str, object]:
        """Return the current facts of this engine for the doctor page, by name.

        ``machines`` has the facts of each machine by name, if the engine has several. They are queried in parallel for
        ``timeout`` seconds; an unusable machine has only the fact ``problem``, a sentence.
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
