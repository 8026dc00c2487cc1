"""Format the reason why a variable did not come back; separate, because the job's process and the agent both use it.

The sentences are part of a job's errors. ``jupyter_smx.model.records.lost_variables`` parses them with the same
constants, and a test compares these.
"""

from __future__ import annotations

NOT_DEFINED, NOT_PICKLED = "is not defined", "cannot be pickled"
"""Beginnings of reasons that the code caused, and not its host."""
LEFT_EARLY = (
    "the process of the job ended before the end of its code, as os._exit ends it, or went on as another program (exec)"
)
"""Reason for all variables of a job that wrote no report of its end."""
START = "receive: {name!r} "


def format_reason(name: str, why: str) -> str:
    """Return why a variable did not come back; ``why`` follows its name."""
    return START.format(name=name) + why
