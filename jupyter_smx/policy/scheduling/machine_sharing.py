"""Advise on the capacity of controllers that share one machine, apart from the capacity of one controller."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from jupyter_smx.model.text import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.policy.limits import Limits

_LEAST_MEMORY_GIB = 0.1
"""The minimum of ``ControllerApp.memory_gib``."""


def sharing_advice(limits: Limits, users: Sequence[str], cpus: int, memory_gib: float) -> str:
    """Return what to configure if controllers together may use more than the machine has, else "".

    ``users`` has the user of each other controller. ``cpus`` and ``memory_gib`` are what the whole machine has.
    Assume that the others have the same limits: their configuration belongs to other users.
    """
    controllers = len(users) + 1
    fits = limits.cpus * controllers <= cpus and limits.memory_gib * controllers <= memory_gib
    if not users or fits:
        return ""
    share = max(1, cpus // controllers)
    memory = max(_LEAST_MEMORY_GIB, math.floor(memory_gib / controllers * 10) / 10)
    return (
        f"{format_count(len(users), 'other controller')} on this machine (of {', '.join(sorted(set(users)))}), and no "
        "controller counts the jobs of another. For equal shares, put this line into "
        "/etc/jupyter/jupyter_smx_config.py: "
        f"c.ControllerApp.cpus = {share}; c.ControllerApp.memory_gib = {memory:g}"
    )
