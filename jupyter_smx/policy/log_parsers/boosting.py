"""XGBoost, LightGBM and CatBoost: ``[12]<tab>train-rmse:0.3`` and ``12:<tab>learn: 0.3``, one line for each round."""

from __future__ import annotations

import re

from jupyter_smx.policy.log_parsers.observations import COUNT, NUMBER, Counter, LineObservation, parse_number

HINTS = (b"]\t", b":\tlearn: ")

# On a tracker's host a time stands before it.
_ROUND = re.compile(rf"(?:\[[\d:. -]+\]\s+)?(?:\[({COUNT})\]|({COUNT}):)\t(.*)")
_VALUE = re.compile(rf"([A-Za-z_][\w@./' -]*?):\s*({NUMBER})(?:\s\([^)]*\))?(?:\+[\d.e-]+)?$", re.IGNORECASE)
_LEFT = re.compile(r"(?:(\d{1,6})h )?(?:(\d{1,6})m )?(?:(\d{1,6}(?:\.\d+)?)s)?")


def read(line: str) -> LineObservation | None:
    """Read the line of one round."""
    match = _ROUND.match(line)
    if match is None:
        return None
    number = int(match[1] or match[2])
    found = [_VALUE.match(part.strip()) for part in match[3].split("\t")]
    values = tuple((pair[1].replace("'s ", "-").replace(" ", "_"), parse_number(pair[2])) for pair in found if pair)
    if not values:
        return None
    # LightGBM counts from 1 and puts a blank after the colon, the others count from 0.
    done = number if match[1] and ": " in match[3] else number + 1
    counter = Counter(done=float(done), total=None, words=str(done), label="round", remaining=_remaining(match[3]))
    return LineObservation(counter=counter, values=values, step=float(number))


def _remaining(rest: str) -> float | None:
    _, said, text = rest.partition("remaining: ")
    match = _LEFT.match(text) if said else None
    if match is None or not match[0].strip():
        return None
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds
