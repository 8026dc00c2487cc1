"""The record of a cluster: hosts from an engine, what makes them reusable, and how long they are kept."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from jupyter_smx.model.results.provenance import HostLimits, Machine
from jupyter_smx.model.results.usage import PlatformUsage
from jupyter_smx.model.spec.image import Image
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import PythonEnvironment
from jupyter_smx.model.spec.mount import Mount


class ClusterState(str, Enum):
    """``Provisioning → InUse ⇄ Available → Releasing → Terminated``."""

    PROVISIONING = "Provisioning"
    IN_USE = "InUse"
    AVAILABLE = "Available"
    RELEASING = "Releasing"
    TERMINATED = "Terminated"


class WarmPoolStatus(str, Enum):
    """State of the pool that a job left, in the *job's record* (SageMaker's ``WarmPoolStatus``)."""

    AVAILABLE = "Available"
    IN_USE = "InUse"
    REUSED = "Reused"
    TERMINATED = "Terminated"


class WarmPool(Struct, frozen=True, kw_only=True):
    """``WarmPoolStatus`` of a job: status, the job that took the pool over, idle seconds that are billed, and why."""

    status: WarmPoolStatus
    reused_by_job: str = ""
    resource_retained_billable_seconds: int = 0
    reason: str = ""
    platform_usage: PlatformUsage | None = None
    """What the platform accounted for the hosts, once they have ended; of the last job of the pool."""


class ReuseKey(Struct, frozen=True, kw_only=True):
    """Everything in which a job and a warm pool must be equal (SageMaker's criteria, the interpreter, its packages).

    Code, hyperparameters, environment variables and data are not in it. ``python`` is the requested interpreter; with
    an ``environment``, hosts run the one that was built over it. Hosts with an ``image`` run the image's interpreter,
    and ``python`` is "".
    """

    engine: str
    user: str
    role: str
    instance_groups: tuple[InstanceGroup, ...]
    python: str
    environment: PythonEnvironment | None = None
    image: Image | None = None
    network_isolation: bool = False
    image_settings: tuple[str, ...] = ()
    """Settings of the image that count for the hosts, as ``user``; see :meth:`JobSpec.image_settings`."""
    mounts: tuple[Mount, ...] = ()
    shm_size: int = 0
    engine_options: dict[str, str] = {}


class HostHandle(Struct, frozen=True, kw_only=True):
    """Data to find one host again, from any process: its name in the job (``algo-1``) and the engine's own data.

    ``missing_isolation`` are sentences for people: what of its isolation could not be had here.
    """

    host: str
    data: dict[str, str | int | float]
    given_up: tuple[str, ...] = ()
    machine: str = ""
    """Name of the other machine that the host is on, for people; "" if the engine's name includes it."""


class Renewal(Struct, frozen=True, kw_only=True):
    """The next allocation of a pool: when it is requested, seconds since the epoch, and how many seconds it lasts."""

    at: float
    seconds: float
    max_run: float | None = None
    """Seconds for which its first job can run; None: that is not known, and any job may take it."""
    longest_run: float | None = None
    """Seconds for which a job can run at most in an allocation that is requested for it; None: there is no limit."""


class Handle(Struct, frozen=True, kw_only=True):
    """Data to find a cluster again at its engine; an acquire that is not done yet has fewer hosts.

    ``allocation_ends_at`` is when the platform ends the hosts by itself, seconds since the epoch, as at the time limit
    of an allocation; None if it does not, or if the end is not known. With a ``renewal`` the controller requests
    another cluster before that end, if the pool is kept longer.
    """

    engine: str
    cluster: str
    hosts: tuple[HostHandle, ...] = ()
    allocation_ends_at: float | None = None
    renewal: Renewal | None = None


class QueueStatus(Struct, frozen=True):
    """State of a request in the queue of its engine's scheduler, before the cluster has hosts.

    ``reason`` is the scheduler's own word for people, as ``Resources``. ``position`` counts from 1, None if unknown.
    ``expected_start`` is the scheduler's estimate, seconds since the epoch; None if it has none.
    """

    reason: str
    position: int | None = None
    expected_start: float | None = None


class PreloadCost(Struct, frozen=True, kw_only=True):
    """Cost of one preload when the host tried it: seconds, bytes of its own memory, and the preloads it builds on."""

    seconds: float = 0.0
    bytes: int = 0
    needs: tuple[str, ...] = ()


class Host(Struct, frozen=True, kw_only=True):
    """One host, as its agent described itself in the answer to ``hello``."""

    name: str
    group: str
    instance_type: str
    isolation: str = ""
    isolation_reason: str = ""
    given_up: tuple[str, ...] = ()
    """Parts of its isolation that its engine could not provide, in sentences."""
    limits: HostLimits = HostLimits()
    python_version: str = ""
    agent_version: str = ""
    preloaded: tuple[str, ...] = ()
    preload_failures: dict[str, str] = {}
    preload_costs: dict[str, PreloadCost] = {}
    machine: Machine = Machine()


class Cluster(Struct, frozen=True, kw_only=True):
    """The record of a cluster; while ``AVAILABLE`` it is a warm pool and nothing else.

    Times are seconds since the epoch. ``lease`` grows by one each time a job takes the cluster; every message and
    every write for that job carries it.
    """

    id: str
    key: ReuseKey
    state: ClusterState = ClusterState.PROVISIONING
    handle: Handle | None = None
    waiting: QueueStatus | None = None
    """The engine's last report while the cluster waits for hosts there; None if it does not wait."""
    hosts: tuple[Host, ...] = ()
    lease: int = 0
    job: str = ""
    last_job: str = ""
    created_at: float = 0.0
    available_since: float | None = None
    expires_at: float | None = None
    keep_alive: int | None = None
    """Seconds that its hosts stay after a job that names no keep-alive; None in records of earlier versions."""
    ended_at: float | None = None
    jobs_served: int = 0
    had_root_job: bool = False
    """True if a job that SageMaker starts in ``/`` has had its hosts: later ones get no note about the folder."""
    cold_start_seconds: float | None = None
    """Seconds from the launch until all hosts could take a job; a warm start saves them. None: not measured."""
    retained_seconds: float = 0.0
    gpus: dict[str, tuple[int, ...]] = {}
    """Numbers of the GPUs of this machine that its last job's hosts were given, by host."""
    renewal_of: str = ""
    """Id of the cluster whose pool continues on these hosts when its allocation ends; it may be gone already."""
    renewal: Renewal | None = None
    """The allocation that was requested for it, if it continues a pool."""
    renewed_by: str = ""
    """Id of the cluster that was requested to continue this pool."""
    kept_for: str = ""
    """Id of the array for whose next task the hosts are kept, if no keep-alive keeps them."""
    platform_usage: PlatformUsage | None = None
    """What the platform accounted for the hosts, once they have ended; None if it accounts nothing."""
    usage_job: str | None = None
    """Id or name of the last job while the figures of the platform are still to be read; None before and after that."""
    reason: str = ""

    def is_live(self) -> bool:
        """Return True if it still occupies hosts."""
        return self.state is not ClusterState.TERMINATED

    def is_busy(self) -> bool:
        """Return True if a job has its hosts, or gets them as soon as they exist."""
        return self.state in (ClusterState.PROVISIONING, ClusterState.IN_USE)

    def saved_seconds(self) -> float:
        """Return what its warm jobs saved: the seconds of the launch of its hosts, for each job after the first."""
        return (self.cold_start_seconds or 0.0) * max(0, self.jobs_served - 1)

    def name(self) -> str:
        """Return the user's name of the pool: the short instance type and the first digits of the id."""
        kind = self.key.instance_groups[0].instance_type.removeprefix("ml.").split(".")[0]
        return f"{kind}-{self.id[:6]}"


class ShellCommand(Struct, frozen=True, kw_only=True):
    """Arguments of a command for a terminal, and all hosts that the request could have named."""

    command: tuple[str, ...]
    hosts: tuple[str, ...]
