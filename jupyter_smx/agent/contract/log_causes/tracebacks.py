"""Find the exception of Python that ended a program in the lines of its log.

Several ranks may write into one log. The rank whose last traceback comes first explains the end of all others.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional

from jupyter_smx.agent.contract.log_causes import exit_texts
from jupyter_smx.agent.contract.log_causes.log_lines import HEADER, MATCHED
from jupyter_smx.agent.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jupyter_smx.agent.contract.log_causes.log_lines import LogLine

_GROUP = f"  + Exception Group {HEADER}"
_MARGIN = len("  | ")
_BELOW = "  +-+"
"""Starts the exceptions of a group."""
_EXCEPTION = re.compile(r"^(?P<type>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:: (?P<message>.*)|:?)$")
_FRAME = re.compile(r'^[\s|]+File "(?P<file>[^"]+)", line (?P<line>\d+)')
_LAUNCHERS = {"ChildFailedError", "CalledProcessError", "ProcessExitedException", "ProcessRaisedException"}
"""Exceptions that report the end of another process; the exception of that process explains more."""
_WITHOUT_EFFECT = ("Exception ignored", "--- Logging error ---", "Exception in thread")
"""Lines before a traceback that did not end the program."""
_MAX_LINES_AFTER = 20
"""Lines of the same rank after its traceback; an exception before more output did not end the program."""
_MAX_MESSAGE = 10
"""Lines of a message without indentation after its first one; more are output, so the program went on."""
_MAX_TRACEBACK = 16 * 1024
"""Characters."""


class _Block(NamedTuple):
    """A traceback; ``end`` is the index of the line after it."""

    type: str
    message: str
    lines: List[str]
    end: int
    is_harmless: bool


def find_exception(lines: List[LogLine], script: str) -> Optional[Dict[str, Any]]:
    """Return type, message, traceback and line of the exception that ended the program; None if there is none.

    ``script`` is the path of the user's script, in whose file the line is counted.
    """
    ranks: Dict[str, List[int]] = {}
    for index, line in enumerate(lines):
        ranks.setdefault(line.rank, []).append(index)
    last = [block for indices in ranks.values() for block in _last_block(lines, indices)]
    if not last:
        return None
    first = min(last, key=lambda block: (block.type in _LAUNCHERS, block.end))
    traceback = "\n".join(first.lines) + "\n"
    return {
        "type": first.type,
        "message": first.message,
        "traceback": traceback[-_MAX_TRACEBACK:],
        "line": _line_of(first.lines, script),
    }


def _last_block(lines: List[LogLine], indices: List[int]) -> List[_Block]:
    """Return the traceback that ended the rank with the lines ``indices``: the last, or that before its launcher's."""
    own = [lines[index] for index in indices]
    blocks = [block for block in _iter_blocks(own) if not block.is_harmless]
    while len(blocks) > 1 and blocks[-1].type in _LAUNCHERS:
        blocks.pop()
    if not blocks or _went_on(own, blocks[-1].end):
        return []
    return [blocks[-1]._replace(end=indices[blocks[-1].end - 1])]


def _went_on(own: List[LogLine], start: int) -> bool:
    """Return True if more output follows a traceback, besides noise, later tracebacks and launchers' reports."""
    count = 0
    for line in own[start:]:
        if _is_rule(line.text) or line.text == HEADER:
            return False
        count += bool(line.text.strip())
        if count > _MAX_LINES_AFTER or not (line.text[:1].isspace() or _is_noise(line.text)):
            return True
    return False


def _is_noise(text: str) -> bool:
    return text.startswith(_WITHOUT_EFFECT) or exit_texts.is_about_an_end(text)


def _is_rule(text: str) -> bool:
    """Return True if a line is one of dashes or equal signs, as launchers draw around their reports."""
    return len(text) > len("=" * 20) and not text.strip("=-*")


def _iter_blocks(own: List[LogLine]) -> Iterator[_Block]:
    for start, line in enumerate(own):
        block = None
        if line.text.strip() == HEADER:
            block = _read_block(own, start)
        elif line.text == _GROUP:
            block = _read_group(own, start)
        if block is not None:
            yield block


def _read_group(own: List[LogLine], start: int) -> Optional[_Block]:
    """Read the traceback of an ``ExceptionGroup``, which has a margin and the exceptions of the group below it."""
    end = next((index for index in range(start + 1, len(own)) if not _has_margin(own[index].text)), len(own))
    below = next((index for index in range(start, end) if own[index].text.startswith(_BELOW)), end)
    inner = [line._replace(text=line.text[_MARGIN:]) for line in own[start + 1 : below]]
    heads = [index for index, line in enumerate(inner) if line.text.strip() == HEADER]
    block = _read_block(inner, heads[-1] if heads else -1)
    if block is None:
        return None
    harmless = bool(start) and own[start - 1].text.strip().startswith(_WITHOUT_EFFECT)
    return block._replace(lines=[line.text for line in own[start:end]], end=end, is_harmless=harmless)


def _has_margin(text: str) -> bool:
    return text.startswith("  ") and text.lstrip()[:1] in ("|", "+") and text != _GROUP


def _read_block(own: List[LogLine], start: int) -> Optional[_Block]:
    for index in range(start + 1, len(own)):
        text = own[index].text
        if text.strip() == HEADER:
            return None
        if not text or text[0] in " \t" or text.startswith("[Previous line repeated"):
            continue
        found = _EXCEPTION.match(text[:MATCHED])
        if found is None:
            return None
        kind = found.group("type").rpartition(".")[2]
        before = own[start - 1].text.strip() if start > 0 else ""
        end = _end_of_message(own, index)
        first = "" if found.group("message") is None else text[found.start("message") :]
        message = "\n".join([first, *(line.text for line in own[index + 1 : end])]).strip()
        block = [line.text for line in own[max(start, 0) : end]]
        return _Block(kind, message, block, end, before.startswith(_WITHOUT_EFFECT))
    return None


def _end_of_message(own: List[LogLine], first: int) -> int:
    """Return the index of the line after a message; it has one line where more follow than a message has."""
    end = first + 1
    count = 0
    for index in range(first + 1, len(own)):
        text = own[index].text
        is_other = bool(text.strip()) and (_is_rule(text) or _is_noise(text) or text == _GROUP)
        if is_other or text.strip() == HEADER or own[index].is_last != own[first].is_last:
            break
        if text.strip():
            end = index + 1
            count += not text[0].isspace()
    return end if count <= _MAX_MESSAGE else first + 1


def _line_of(traceback: List[str], script: str) -> Optional[int]:
    """Return the line of the innermost frame in the script, whose path may be relative to a folder above it."""
    below = next((index for index, text in enumerate(traceback) if text.startswith(_BELOW)), len(traceback))
    frames = [found for found in (_FRAME.match(text[:MATCHED]) for text in traceback[:below]) if found is not None]
    numbers = [int(found.group("line")) for found in frames if f"/{script}".endswith(f"/{found.group('file')}")]
    return numbers[-1] if numbers else None
