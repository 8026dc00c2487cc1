"""The text of what runs on nodes before the first host; separate, because it is the one import of the agent's code."""

from __future__ import annotations

import inspect
from functools import cache

from jupyter_smx.agent.remote import allocation


@cache
def read() -> str:
    """Return the source of :mod:`jupyter_smx.agent.remote.allocation`."""
    return inspect.getsource(allocation)
