"""Find the message with which a program exited: of an argument parser, a launcher, or its last lines of stderr."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING, List, Optional, Tuple

from jupyter_smx.agent.contract.log_causes.log_lines import HEADER, MATCHED

if TYPE_CHECKING:
    from jupyter_smx.agent.contract.log_causes.log_lines import LogLine

_PARSER = re.compile(r"^(?:\S.*: )?error: \S", re.IGNORECASE)
"""Lines of argparse (``train.py: error: …``), click (``Error: …``), compilers and many programs."""
_ERROR = re.compile(
    r"^\W*(?:error|fatal|critical|e\d{4}|exception in thread|caused by)\b|\b(?:error|fatal|exception)\b ?[:\]]"
    r"|Exception: |panicked at|command not found|no such file|permission denied",
    re.IGNORECASE,
)
"""First words of a failure from programs, shells, and the runtimes of R, Java, Rust and others."""
_NOISE = re.compile(
    r"^\+ |\d%\||\b(?:INFO|DEBUG)\b|\b\w*Warning: |^warnings\.warn\(|^[=-]+$|^$|^(?:real|user|sys)\s|resource_tracker"
    r"|^at \S+\("
)
"""Lines that explain no end: traces of a shell, frames of Java, progress bars, lower levels, warnings, rules, times."""
_KILLED_RANK = re.compile(r"process rank (\d+) .*exited on signal (\d+)")
"""Line of mpirun."""
_REPORT = re.compile(
    r"\bexit(?:ed|ing|s)?[ _-]?(?:code|status|with)?\b[^\d]*\d|non-?zero|(?:core dumped|Killed|Aborted|Terminated)\)?$"
    r"|^(?:make(?:\[\d+\])?|ninja|npm|srun|slurmstepd|mpirun|mpiexec|prterun|wandb|ERROR conda\.\S+): "
    r"|torch[./]distributed|closing signal|^\d{4}-\d\d-\d\d[ T].*\b(?:WARNING|ERROR|CRITICAL)\b",
    re.IGNORECASE,
)
"""Lines of launchers, shells and tools after a failure of a program that they started."""
_SEARCHED = 20
"""Lines from the end."""
_PARSER_LINES = 3
"""An argument parser's sentence is the last line, or a hint follows it."""
_MAX_LINES = 5
_MAX_TEXT = 500
"""Characters."""


def parser_sentence(lines: List[LogLine]) -> str:
    """Return the sentence of an argument parser, "" if the log does not end with one."""
    texts = [line.text for line in lines if line.text.strip()][-_PARSER_LINES:]
    return next((text.strip()[:_MAX_TEXT] for text in reversed(texts) if _PARSER.match(text[:MATCHED])), "")


def usage_sentence(lines: List[LogLine]) -> str:
    """Return the sentence of an argument parser that printed its usage before; "" if there is none."""
    texts = [line.text for line in lines]
    usages = [index for index, text in enumerate(texts) if text[:6].lower() == "usage:"]
    if not usages or HEADER in texts[usages[-1] :]:
        return ""
    return parser_sentence(lines[usages[-1] :])


def is_about_an_end(text: str) -> bool:
    """Return True if a line does not explain an exit, or only reports one that an earlier line explains."""
    head = text.strip()[:MATCHED]
    return any(pattern.search(head) for pattern in (_NOISE, _REPORT, _PARSER))


def killed_rank(lines: List[LogLine]) -> Optional[Tuple[int, int]]:
    """Return a rank and the number of the signal that ended it; None if mpirun reports none."""
    found = next(filter(None, (_KILLED_RANK.search(line.text[:MATCHED]) for line in lines)), None)
    return None if found is None else (int(found.group(1)), int(found.group(2)))


def format_killed_rank(rank: int, number: int) -> str:
    """Return the message that a signal ended a rank."""
    return f"Rank {rank} was ended by signal {number} ({signal_name(number)})."


def signal_name(number: int) -> str:
    """Name a signal, as ``SIGKILL``."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def last_lines(lines: List[LogLine]) -> str:
    """Return the last lines that may explain an end: from the first that reports an error, else the very last ones."""
    texts = [line.text.strip()[:MATCHED] for line in lines][-_SEARCHED:]
    telling = [text for text in texts if not _NOISE.search(text)]
    start = next((index for index, text in enumerate(telling) if _ERROR.search(text)), max(len(telling) - 3, 0))
    return "\n".join(telling[start:][:_MAX_LINES])[:_MAX_TEXT]
