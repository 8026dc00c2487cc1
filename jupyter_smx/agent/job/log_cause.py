"""Add the cause of a failure from the job's log to its report, if the report has none."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Tuple

from jupyter_smx.agent.contract import failure, script
from jupyter_smx.agent.system.files import safe_open

if TYPE_CHECKING:
    from jupyter_smx.agent.contract.log_causes.causes import LogTail

_EXPLAINED = ("exception", "failure", "refused", "exit_text")
"""Entries of a report that explain an end."""


def add_log_cause(facts: failure.Facts, log: str, output_ends: Tuple[int, int]) -> None:
    """Read the end of the file ``log`` and add an exception or a sentence to the report.

    ``output_ends`` are the offsets after the last byte of stdout and of stderr. Does nothing where the code left with 0
    or by a signal, or where something else explains its end.
    """
    status, report = facts.status, facts.report
    if status is None or not os.WIFEXITED(status) or not os.WEXITSTATUS(status):
        return
    if any(report.get(name) for name in _EXPLAINED) or failure.read_failure_file(facts.ml):
        return
    from jupyter_smx.agent.contract.log_causes import causes  # noqa: PLC0415 - only a failure waits for it

    try:
        tail = _read_tail(log, causes.TAIL, output_ends)
    except OSError:
        return
    folder = script.code_folder(facts.spec, facts.place)
    path = os.path.join(folder, script.script_name(facts.spec))
    cause = causes.find_cause(tail, path, os.WEXITSTATUS(status))
    report["exit_text"], report["killed"] = cause.text, cause.killed_by
    if cause.exception is not None:
        report["exception"] = dict(cause.exception)
        report["traceback"] = cause.exception["traceback"]
        report["exception"]["traceback"] = _rename_files(cause.exception["traceback"], facts, folder, path)


def _read_tail(log: str, size: int, output_ends: Tuple[int, int]) -> LogTail:
    from jupyter_smx.agent.contract.log_causes.causes import LogTail  # noqa: PLC0415 - as above

    with safe_open.open_to_read(log) as file:
        start = max(os.fstat(file.fileno()).st_size - size, 0)
        file.seek(start)
        return LogTail(file.read(size), start, *output_ends)


def _rename_files(traceback: str, facts: failure.Facts, folder: str, path: str) -> str:
    """Rename files in a traceback to the user's own, or to the cell, as in the report of the job's process."""
    if not facts.spec["entry_point"]:
        return traceback.replace(f'File "{path}", line ', f'File "{facts.spec["filename"]}", line ')
    theirs = facts.spec["folder"]
    return traceback.replace(f'File "{folder}/', f'File "{theirs}/') if theirs else traceback
