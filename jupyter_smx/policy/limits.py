"""The administrator's limits: caps, quotas and the machine's capacity, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from jupyter_smx.model.spec.instance import Catalogue, catalogue
from jupyter_smx.policy.preload import EXCLUDED_PACKAGES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_smx.model.spec.instance import InstanceType

HARD_KEEP_ALIVE = 21_600
"""Seconds; SageMaker's own maximum of ``KeepAlivePeriodInSeconds``, which no administrator can raise."""

_PART = 16
"""Part of the shared memory that each host's preloaded modules may take: with eight hosts, half of the memory."""
_UNKNOWN_MEMORY_MIB = 256
"""MiB for a host whose memory is not reported."""


class Limits(Struct, frozen=True, kw_only=True):
    """The administrator's choices. Durations are seconds, memory is GiB; an empty tuple or None means no limit.

    ``max_hosts, cpus, memory_gib, gpus`` are the capacity of this machine for engines that share it.
    ``warm_pool_quota`` maps an instance type (or ``*``) to the number of instances that a keep-alive may keep warm.
    """

    catalogue: Catalogue = field(default_factory=catalogue)
    instance_types_file: str = ""
    """Source of the catalogue; empty for the one of the package."""
    bounded_by_machine: bool = True
    """True if a host is a share of this machine; else its resources are those of its instance type."""
    allowed_instance_types: tuple[str, ...] = ()
    allowed_engines: tuple[str, ...] = ()
    keep_alive_cap: int = 3_600
    max_keep_alive_chain: int = 28 * 86_400
    max_run_cap: int = 28 * 86_400
    max_jobs_running: int | None = None
    max_jobs_queued: int = 10_000
    warm_pool_quota: dict[str, int] = {}
    max_hosts: int = 8
    cpus: int = 2
    memory_gib: float = 4.0
    gpus: int = 0
    grace: float = 120.0
    """Seconds between SIGTERM and SIGKILL."""
    interruption_grace: float = 120.0
    """The same if the hosts of a spot job are taken away."""
    unreachable_limit: float = 300.0
    """Maximum seconds of an agent's silence while its engine does not report it as gone."""
    keep_uncollected: float = 86_400.0
    """Seconds for which an agent keeps results after the end of its host, where only the agent can give them."""
    launch_limit: float = 300.0
    """Seconds that an engine may take to bring a cluster up."""
    environment_limit: float = 1_800.0
    """Seconds that pip or uv may take to make an environment."""
    environments_kept: int = 20
    """Environments that stay although no job and no pool uses them."""
    installer: str = "auto"
    """Installer of requirements: ``auto`` (uv if it is found, else pip) or ``pip``."""
    preload_memory_mib: int | None = None
    """Maximum memory of the preloads of one host; 0 is no limit, None a part (:func:`preload_memory_mib`)."""
    preload_never: tuple[str, ...] = tuple(sorted(EXCLUDED_PACKAGES))
    """Packages that no host preloads."""
    input_hash_limit_mib: int = 1_024
    """Size of one input channel above which its content is not read for its digest."""
    log_limit_mib: float = 1_024.0
    """Maximum size of a job's log of one host on disk; 0 is no limit."""


def limits_of_engine(limits: Limits, brought: Iterable[InstanceType], *, bounded: bool) -> Limits:
    """Return the limits for the jobs of one engine; its own types replace those of the same name.

    ``bounded`` is True if its hosts share this machine. Its types without a price have none, because the price of
    another platform's type with that name does not apply.
    """
    catalogue = limits.catalogue | {kind.name: kind for kind in brought}
    return replace(limits, catalogue=catalogue, bounded_by_machine=bounded)


def log_limit_bytes(limits: Limits) -> int:
    """Return the maximum bytes of a job's log of one host on disk, 0 for no limit."""
    return int(limits.log_limit_mib * 2**20)


def preload_memory_mib(limits: Limits, memory_gib: float) -> int:
    """Return the maximum MiB of a host's preloads, 0 for no limit: the administrator's number, or a part.

    For a host that is a share of this machine, it is a part of the machine's memory; for any other one, of its own,
    which is ``memory_gib`` (0: not reported).
    """
    if limits.preload_memory_mib is not None:
        return limits.preload_memory_mib
    whole = limits.memory_gib if limits.bounded_by_machine else memory_gib
    return max(1, int(whole * 1024 / _PART)) if whole else _UNKNOWN_MEMORY_MIB
