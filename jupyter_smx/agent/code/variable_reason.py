"""Word why a variable did not come back; separate, because the job's process and the agent both say it.

The sentences stand in the errors of a job. ``jupyter_smx.model.records.lost_variables`` reads them with the same
constants, and a test compares these.
"""

from __future__ import annotations

NOT_DEFINED, NOT_PICKLED = "is not defined", "cannot be pickled"
"""How the reasons begin for which a variable is missing by the doing of the code, and not of its host."""
LEFT_EARLY = (
    "the process of the job ended before the end of its code, as os._exit ends it, or went on as another program (exec)"
)
"""Why all variables are missing of a job that wrote no report of its end."""
START = "receive: {name!r} "


def format_reason(name: str, why: str) -> str:
    """Say why a variable did not come back; ``why`` follows its name."""
    return START.format(name=name) + why
