"""Decide from the end of a log why a program left with another exit code than 0."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from jupyter_smx.agent.contract.log_causes import exit_texts, log_lines, tracebacks
from jupyter_smx.agent.system.named_tuple import NamedTuple

TAIL = 128 * 1024
"""Bytes of a log that are read."""

_UNCAUGHT = 1
"""Exit code of Python after an exception."""
_MAX_BUFFER = 20
"""Lines. Python writes the buffer of its standard output after the traceback that ends it; more lines are of others."""


class LogTail(NamedTuple):
    """The end of a log, and where standard output and standard error were written last.

    All three are offsets in bytes: ``start`` is that of the first byte of ``data``, the others are those after the last
    byte. 0 means that nothing was written there, or that it is unknown.
    """

    data: bytes
    start: int = 0
    stdout_end: int = 0
    stderr_end: int = 0

    def parts(self) -> Tuple[str, str]:
        """Return the text before and after the place where one of both streams ended: the second part is the other's.

        The first part is "" if only one stream was written, or if it is unknown.
        """
        place = max(min(self.stdout_end, self.stderr_end) - self.start, 0)
        return _decode(self.data[:place]), _decode(self.data[place:])

    def stderr_text(self) -> str:
        """Return the text that surely is of standard error: what follows the last line of standard output.

        If standard output was written last, only the last line of standard error is sure.
        """
        if not self.stderr_end:
            return ""
        until = max(self.stderr_end - self.start, 0)
        if self.stdout_end < self.stderr_end:
            return _decode(self.data[max(self.stdout_end - self.start, 0) : until])
        return _decode(self.data[:until].rstrip().rpartition(b"\n")[2])


class Cause(NamedTuple):
    """An exception as in a job's report, or else a sentence; both may be missing."""

    exception: Optional[Dict[str, Any]] = None
    text: str = ""
    killed_by: int = 0
    """Number of the signal that ended a rank; 0 if none is reported."""


def find_cause(tail: LogTail, script: str, exit_code: int = 0) -> Cause:
    """Return the cause of a failure; ``script`` is the path of the user's script, ``exit_code`` 0 if it is unknown."""
    first, last = tail.parts()
    after = log_lines.split_lines(last, is_last=True)
    everything = [*log_lines.split_lines(first), *after]
    sure = _sure_lines(tail, everything)
    lines = log_lines.lines_of_stderr(everything)
    said = exit_texts.usage_sentence(lines)
    if said:
        return Cause(text=said)
    is_buffer = exit_code == _UNCAUGHT and tail.stdout_end > tail.stderr_end and len(after) <= _MAX_BUFFER
    if is_buffer:
        lines = [line for line in lines if not line.is_last] or lines
    exception = tracebacks.find_exception(lines, script)
    if exception is not None:
        return Cause(exception)
    said = exit_texts.parser_sentence(sure)
    if said:
        return Cause(text=said)
    killed = exit_texts.killed_rank(everything)
    if killed is not None:
        return Cause(text=exit_texts.format_killed_rank(*killed), killed_by=killed[1])
    return Cause(text=exit_texts.last_lines(sure))


def _sure_lines(tail: LogTail, everything: List[log_lines.LogLine]) -> List[log_lines.LogLine]:
    marked = [line for line in everything if line.stream == "stderr"]
    return marked or log_lines.split_lines(tail.stderr_text())


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")
