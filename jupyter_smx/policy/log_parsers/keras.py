"""Keras: ``Epoch 3/10`` alone, then ``12/94 ━━━━ 3s 40ms/step - loss: 0.2`` (Keras 2: ``[==>…] - ETA: 3s``)."""

from __future__ import annotations

import re

from jupyter_smx.policy.log_parsers.observations import COUNT, Counter, Epoch, LineObservation, parse_pairs

HINTS = (b"Epoch ", b"/step", b"s/epoch", b"=]", b">.", b"\xe2\x94\x81")

_EPOCH = re.compile(rf"Epoch ({COUNT})/({COUNT})\s*$")
_BAR = re.compile(
    rf"\s*(?P<done>{COUNT})/(?P<total>{COUNT}|Unknown)"
    r"(?:\s+━+\s*(?P<left>\d+:?[\d:]*)s?\s+\d+\S*/step"  # 3, drawn
    r"|\s+\[[=>.]+\](?:\s*-\s*ETA:\s*(?P<eta>\d+[\d:]*)s?)?"  # 2, drawn
    r"|\s+-\s+\d+\S*(?=\s+-\s)(?:\s+-\s+\d+\S*/(?:step|epoch))*)"  # verbose=2: one line for each epoch
    r"(?P<rest>.*)"
)


def read(line: str) -> LineObservation | None:
    """Read one line, or one drawing of the bar."""
    epoch = _EPOCH.match(line)
    if epoch:
        return LineObservation(epoch=Epoch(int(epoch[1]), int(epoch[2]), from_zero=False))
    bar = _BAR.match(line)
    if bar is None:
        return None
    total = None if bar["total"] == "Unknown" else float(bar["total"])
    words = bar["done"] if total is None else f"{bar['done']}/{bar['total']}"
    return LineObservation(
        counter=Counter(done=float(bar["done"]), total=total or None, words=words), values=_values(bar["rest"])
    )


def _values(rest: str) -> tuple[tuple[str, float | None], ...]:
    # Each value stands between dashes, so a name of two words cannot swallow the time before it.
    return tuple(pair for part in rest.split(" - ") for pair in parse_pairs(part))
