"""Split the end of a log into lines, each with the rank that wrote it, without colours and progress bars."""

from __future__ import annotations

import re
from typing import List

from jupyter_smx.agent.system.named_tuple import NamedTuple

_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""Terminal sequences: colours, cursor moves, titles."""
_RANK = re.compile(
    r"^\[(?:(?P<mpi>\d+,(?:mpirank:)?\d+(?:,[\w.-]+)?)\]<(?P<stream>stdout|stderr)>:|(?P<rank>(?:rank|default)\d+)\]:)"
)
"""Prefixes of mpirun (``[1,mpirank:0,algo-1]<stderr>:``), PyTorch (``[rank0]: ``) and torchrun (``[default0]:``)."""


HEADER = "Traceback (most recent call last):"
MATCHED = 1000
"""Characters of a line that patterns search: a line may be the whole end of a log."""


class LogLine(NamedTuple):
    """A line without its prefix; ``rank`` and ``stream`` are "" where the log does not say them.

    ``is_last``: all lines from this one on are of the same stream.
    """

    text: str
    rank: str = ""
    stream: str = ""
    is_last: bool = False


def split_lines(tail: str, *, is_last: bool = False) -> List[LogLine]:
    """Split text into lines; of a line that was overwritten by carriage returns only the last state remains."""
    return [_parse_line(text, is_last) if text else LogLine("", is_last=is_last) for text in tail.split("\n")]


def _parse_line(text: str, is_last: bool) -> LogLine:
    states = [state for state in _ESCAPE.sub("", text).split("\r") if state.strip()]
    plain = states[-1].rstrip() if states else ""
    found = _RANK.match(plain)
    if found is None:
        return LogLine(plain, is_last=is_last)
    rest = plain[found.end() :]
    if found.group("rank"):
        return LogLine(rest[rest.startswith(" ") :], found.group("rank"), is_last=is_last)
    return LogLine(rest, found.group("mpi"), found.group("stream"), is_last)


def lines_of_stderr(lines: List[LogLine]) -> List[LogLine]:
    """Return the lines that a launcher marked as standard error; all lines if it marked none."""
    marked = [line for line in lines if line.stream == "stderr"]
    return marked or [line for line in lines if line.stream != "stdout"]
