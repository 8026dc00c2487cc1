"""Conventions of all subcommands: the name of the command, its help, the end of options, and exit codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.model.errors import UnavailableError, ValidationError
from jupyter_smx.model.records.job import failing_host
from jupyter_smx.model.status import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.model.errors import SmxError
    from jupyter_smx.model.records.job import Job

PROG = "jupyter smx"
HELP = ("-h", "--help")

SUCCESS = 0
FAILURE = 1
USAGE_ERROR = 2
STOPPED = 3
NO_CONTROLLER = 4
INTERRUPTED = 130

BROKEN_PIPE = 141
"""The reader of our output went away; a shell shows the same for a command that SIGPIPE ended."""

_BY_SIGNAL = 128
_BYTE = 0xFF

EXIT_CODES = {
    str(SUCCESS): "done; of run: the job completed",
    str(FAILURE): "refused, or the job failed without an exit code of its own",
    str(USAGE_ERROR): "wrong subcommand, option or value; nothing was started",
    str(STOPPED): "the job was stopped, by a user, or by its maximum run time or wait time",
    str(NO_CONTROLLER): "no controller can be reached or started",
    str(INTERRUPTED): "Ctrl-C; the job continues",
    "N": "the script's own exit code",
    "128+N": "signal N ended the script",
}
"""Meanings of the exit codes, for the manual."""


def words_before_dashes(words: Sequence[str]) -> Sequence[str]:
    """Return the words that may be options: those before ``--``."""
    return words[: words.index("--")] if "--" in words else words


def job_exit_code(job: Job) -> int:
    """Return the exit code for a finished job: the script's own if it has one."""
    if job.status() is Status.COMPLETED:
        return SUCCESS
    if job.status() is Status.STOPPED:
        return STOPPED
    end = failing_host(job.hosts)
    if end is None:
        return FAILURE
    if end.signal:
        return _BY_SIGNAL + end.signal
    return (end.exit_code or 0) & _BYTE or FAILURE


def error_exit_code(error: SmxError) -> int:
    """Return the exit code for one of our errors."""
    if isinstance(error, ValidationError):
        return USAGE_ERROR
    return NO_CONTROLLER if isinstance(error, UnavailableError) else FAILURE
