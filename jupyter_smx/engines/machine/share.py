"""What hosts of a machine that is not this one get of it: GPUs by number, and the limits that ``host.json`` reports.

Pure, so that an engine decides with it wherever it learns what a machine has: here, or on the machine itself.
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
    """Give each host GPUs of its machine that no other host has, the first ones first.

    ``present`` are the machine's GPUs by number or by name, ``held`` those that hosts of any cluster there have.
    An engine that hands GPUs out so, or whose platform does, declares ``own_gpus``.

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
    """Give the variables with which an agent is started, so that its jobs see just these GPUs, or none.

    Where the platform gave the process GPUs (``inherited``, as Slurm does), these stand.
    """
    if any(name in inherited for name in GPU_VARIABLES):
        return {}
    return dict.fromkeys(GPU_VARIABLES, ",".join(devices))


def share_limits(host: HostSpec, enforced: Collection[str], reason: str = "") -> dict[str, object]:
    """Say in ``host.json`` what a platform limits of a host's share as a whole.

    ``enforced`` has ``cpu`` and ``memory`` as far as the platform enforces them; ``reason`` says why not the others.
    The log of a job says what has no limit.
    """
    wanted = [name for name, size in (("cpu", host.vcpus), ("memory", host.memory)) if size]
    whole = [name for name in wanted if name in enforced]
    found: dict[str, object] = {"cpus": host.vcpus, "memory": host.memory, "whole": whole}
    return found if whole == wanted else {**found, "reason": reason}
