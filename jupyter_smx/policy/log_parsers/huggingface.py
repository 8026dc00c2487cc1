"""Hugging Face's Trainer: ``{'loss': 0.21, 'learning_rate': 5e-05, 'epoch': 1.0}``; version 5 quotes the numbers."""

from __future__ import annotations

import re

from jupyter_smx.policy.log_parsers.observations import NUMBER, LineObservation, parse_number

HINTS = (b"{'",)

_DICT = re.compile(r"\s*\{('[\w/.@ -]+': [^{}]*)\}\s*$")
_ITEM = re.compile(rf"'([\w/.@ -]+)': '?({NUMBER})'?(?=, |$)", re.IGNORECASE)


def read(line: str) -> LineObservation | None:
    """Read one line of the training log; a dictionary without an epoch is somebody else's."""
    match = _DICT.match(line)
    if match is None:
        return None
    found = dict(_ITEM.findall(match[1]))
    if "epoch" not in found:
        return None
    epoch = parse_number(found.pop("epoch"))
    return LineObservation(values=tuple((name, parse_number(text)) for name, text in found.items()), step=epoch)
