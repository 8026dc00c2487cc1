"""Rich: ``Working ━━━ 45% 0:00:03``, and Lightning: ``Epoch 0/2 ━━━╺━ 10/12 0:00:00 • 0:00:01 680it/s loss: 0.04``."""

from __future__ import annotations

import re

from jupyter_smx.policy.log_parsers.observations import COUNT, Counter, Epoch, LineObservation, parse_clock, parse_pairs
from jupyter_smx.policy.log_parsers.tqdm import clean_label, is_aside

HINTS = (b"\xe2\x94\x81",)

_BAR = re.compile(
    rf"\s*(?P<label>[^━╸╺]*?)\s*[━╸╺]+\s+(?:(?P<percent>\d{{1,3}})%|(?P<done>{COUNT})/(?P<total>{COUNT}))"
    r"(?:\s+[-\d:]+\s+•)?\s+(?P<left>[-\d:]+)(?:\s+[\d.]+\s?it/s)?(?P<rest>.*)"
)
_EPOCH = re.compile(rf"Epoch ({COUNT})/({COUNT})$")


def read(line: str) -> LineObservation | None:
    """Read one drawing of a bar."""
    bar = _BAR.match(line)
    if bar is None:
        return None
    done, total = (bar["done"], bar["total"]) if bar["total"] else (bar["percent"], "100")
    epoch = _EPOCH.match(bar["label"])
    label = clean_label(bar["label"])
    counter = Counter(
        done=float(done),
        total=float(total) or None,
        words=f"{done}/{total}" if bar["total"] else f"{done} %",
        label=label,
        remaining=parse_clock(bar["left"]),
        aside=is_aside(label),
    )
    # Lightning says the number of its last epoch, which is one less than how many there are.
    said = Epoch(int(epoch[1]), int(epoch[2]) + 1, from_zero=True) if epoch else None
    return LineObservation(counter=counter, epoch=said, values=parse_pairs(bar["rest"]))
