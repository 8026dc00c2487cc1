"""The end record of a job: its cause in one word, in a form that can be written, sent and read."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple, cast

from jupyter_smx.agent import wire
from jupyter_smx.agent.system.resources import memory

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import EndRecord

MAX_EVENT_BYTES = 8 << 20
"""Maximum bytes of a record inside its event, half of the largest frame; for a longer one, the event has its length."""
_BRIEF = (
    *("job", "lease", "host", "cause", "exit_code", "signal", "failure", "reason", "message"),
    *("at", "log", "samples", "usage", "hash_seed"),
)
"""Fields of a record whose lists are too long; each of these fields is no longer than a page."""


_KILLED = 128 + signal.SIGKILL
"""Exit code of a shell, mpirun or a container whose program was killed."""


def cause_of(status: Optional[int], asked: str, *, refused: bool, oom: bool, killed: bool = False) -> str:
    """Return the cause of a job's end: the one of a stop request, else what its process did.

    ``oom`` means that the system ended a process for lack of memory, ``killed`` that SIGKILL ended one of its ranks.
    """
    if asked:
        return asked
    if refused or status is None:
        return "refused"
    if os.WIFSIGNALED(status):
        return "memory" if oom and os.WTERMSIG(status) == signal.SIGKILL else "signal"
    return "memory" if oom and (killed or os.WEXITSTATUS(status) == _KILLED) else "exit"


def fit_event(record: EndRecord) -> Tuple[str, Dict[str, Any]]:
    """Return the text of a record, and its part of the event of the end: the record, or the length of a long one."""
    text = json.dumps(record)
    if len(text) <= MAX_EVENT_BYTES:
        return text, {"record": record}
    # A path follows from its name, and a long record is mostly these.
    named = [{"name": one["name"], "size": one["size"]} for one in record["artifacts"]]
    text = json.dumps(dict(record, artifacts=named))
    if len(text) <= wire.MAX_RECORD:
        return text, {"kept": len(text)}
    record = _without_lists(
        record,
        f"host: the end record of this job has {memory.format_size(len(text))}, because it names {len(named)} files "
        f"and {len(record['errors'])} errors. The maximum is {memory.format_size(wire.MAX_RECORD)}. "
        "Let the job write fewer files, or put them into an archive.",
    )
    return json.dumps(record), {"record": record}


def unwritten_event(record: EndRecord, why: str) -> Dict[str, Any]:
    """Return the event's part for a record that could not be written, and so cannot be read later."""
    return {"record": record if len(json.dumps(record)) <= MAX_EVENT_BYTES else _without_lists(record, why)}


def _without_lists(record: EndRecord, why: str) -> EndRecord:
    brief = {name: value for name, value in record.items() if name in _BRIEF}
    if record["cause"] == "exit" and record["exit_code"] == 0:
        # The code completed, but its outputs are lost: that is no success.
        brief.update(cause="refused", exit_code=None, failure=why)
    return cast("EndRecord", dict(brief, artifacts=[], errors=[why]))
