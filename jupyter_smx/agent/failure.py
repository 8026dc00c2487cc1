"""What a record says of a failure: the job's own words, else its exception and what this host knows about it."""

from __future__ import annotations

import os
import signal
from typing import Any, Dict, Optional

LIMIT = 1024
"""Characters, as SageMaker reads of ``/opt/ml/output/failure``."""


class RefusalError(Exception):
    """Something cannot be done here; the text is a sentence for the user, and says what to do."""


def own_words(ml: str) -> str:
    """Read what the job wrote of its failure, '' when it wrote nothing."""
    try:
        with open(os.path.join(ml, "output", "failure"), encoding="utf-8", errors="replace") as file:
            return file.read(LIMIT)
    except OSError:
        return ""


def of_exception(exception: Dict[str, Any], remark: str) -> str:
    """Give class and text of an exception; the remark of the host comes after it and is never cut."""
    text = ": ".join(part for part in (exception["type"], exception["message"]) if part)
    if not remark:
        return f"{exception['type']}: {exception['message']}"[:LIMIT]
    ended = text if text.endswith((".", "!", "?")) else text + "."
    return f"{ended[: LIMIT - len(remark) - 1]} {remark}"


def of_signal(status: Optional[int], remark: str) -> str:
    """Say what a death by a signal means, '' when nothing more is known than the signal."""
    if status is None or not os.WIFSIGNALED(status) or not remark:
        return ""
    number = os.WTERMSIG(status)
    return f"The job was ended by signal {number} ({signal.Signals(number).name}). {remark}"


def describe(ml: str, report: Dict[str, Any], status: Optional[int], fate: str) -> str:
    """Choose the sentence that explains most; ``fate`` is what only the host knows, as that memory ran out."""
    text, exception, remark = own_words(ml), report.get("exception"), str(report.get("remark") or "")
    if not text and exception:
        text = of_exception(exception, remark)
    return (text or fate or of_signal(status, remark) or str(report.get("refused") or ""))[:LIMIT]
