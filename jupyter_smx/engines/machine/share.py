"""Shares of hosts on another machine: GPUs by number, and the limits that ``host.json`` reports.

Pure, so that an engine can use it with facts from anywhere: read on this machine, or on the other one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.model.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from jupyter_smx.engines.base import HostSpec

GPU_VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
"""Variables by which CUDA and ROCm limit the GPUs of a process and of all that it starts."""


def assign_devices(
    hosts: Sequence[HostSpec], present: Sequence[str], held: Collection[str], machine: str
) -> dict[str, tuple[str, ...]]:
    """Return for each host GPUs of its machine that no other host has, in the order of the machine.

    ``present`` are the machine's GPUs by number or by name, ``held`` those of hosts of any cluster there. An engine
    that assigns GPUs this way, or whose platform does, declares ``own_gpus``.

    :raises RefusedError: there are not so many (permanent), or not now (transient).
    """
    wanted = sum(host.gpus for host in hosts)
    free = [gpu for gpu in present if gpu not in held]
    if wanted > len(free):
        kind = next(host.instance_type for host in hosts if host.gpus)
        raise RefusedError(
            f"instance_type: {machine} has {len(present)} GPUs, {len(free)} of them are free, and {wanted} are needed.",
            field="instance_type",
            value=kind,
            cure="Wait for other jobs." if wanted <= len(present) else "Use a type with fewer GPUs, or fewer hosts.",
            transient=wanted <= len(present),
        )
    taken = iter(free)
    return {host.host: tuple(next(taken) for _ in range(host.gpus)) for host in hosts}


def device_variables(devices: Sequence[str], inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for an agent whose jobs see only these GPUs, or none.

    GPUs that the platform assigned to the process (``inherited``, as by Slurm) are not changed.
    """
    if any(name in inherited for name in GPU_VARIABLES):
        return {}
    return dict.fromkeys(GPU_VARIABLES, ",".join(devices))


def share_limits(host: HostSpec, enforced: Collection[str], reason: str = "") -> dict[str, object]:
    """Return the limits of a host for ``host.json`` that a platform applies to the host as a whole.

    ``enforced`` has ``cpu`` and ``memory`` if the platform enforces them; ``reason`` explains missing ones. The log of
    a job names resources without a limit.
    """
    wanted = [name for name, size in (("cpu", host.vcpus), ("memory", host.memory)) if size]
    whole = [name for name in wanted if name in enforced]
    found: dict[str, object] = {"cpus": host.vcpus, "memory": host.memory, "whole": whole}
    return found if whole == wanted else {**found, "reason": reason}
