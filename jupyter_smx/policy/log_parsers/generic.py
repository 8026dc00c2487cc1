"""Parse counts in free text: ``epoch 7/10  loss=0.2``, ``[Step 12/50]``, ``Progress: 45%``; no bare ``3/10``."""

from __future__ import annotations

import re

from jupyter_smx.policy.log_parsers.observations import COUNT, Counter, Epoch, LineObservation, parse_pairs
from jupyter_smx.policy.log_parsers.tqdm import is_secondary_work

HINTS = (
    b"poch", b"POCH", b"step", b"Step", b"STEP", b"iter", b"Iter", b"atch", b"ound", b"rial", b"old", b"rogress",
    b"omplete", b"==",
)  # fmt: skip

_COUNT = re.compile(
    r"\b(?P<noun>epoch|(?:global[ _])?step|iteration|iter|batch|round|trial|fold)s?\b\s*[:=#\[(]{0,2}\s*"
    rf"(?P<done>{COUNT})(?:\s*(?:/|\bof\b)\s*(?P<total>{COUNT}))?(?P<after>[\])]?)(?![\w./%])",
    re.IGNORECASE,
)
_PERCENT = re.compile(
    r"\s*(?:(?:overall |total )?progress\s*[:=]?\s*(?P<said>\d{1,3}(?:\.\d+)?)\s?%\s*(?:complete|done)?"
    r"|(?P<done>\d{1,3}(?:\.\d+)?)\s?% (?:complete|completed|done)"
    r"|\[[=#>.\- ]{5,}\]\s*(?P<drawn>\d{1,3}(?:\.\d+)?)\s?%)[\s.…]*$",
    re.IGNORECASE,
)
_ALL = 100.0
_STEPS = ("step", "global step", "global_step")


def read(line: str) -> LineObservation | None:
    """Read a line that counts epochs, steps and the like out loud."""
    percent = _PERCENT.match(line)
    if percent:
        return _percent_observation(float(next(group for group in percent.groups() if group)))
    counts = {match["noun"].lower(): match for match in _COUNT.finditer(line)}
    if not counts:
        return None
    last = max(match.end() for match in counts.values())
    values = parse_pairs(line[last:])
    epoch = counts.pop("epoch", None)
    counted = next((float(match["done"]) for noun, match in counts.items() if noun in _STEPS), None)
    other = next((match for match in counts.values() if match["total"]), None)
    if (epoch is None or not (epoch["total"] or values)) and other is None:
        # "step 5" alone is prose; with values after it, it is their step.
        steps = [float(match["done"]) for match in counts.values()]
        return LineObservation(values=values, step=steps[0], counted=counted) if steps and values else None
    return LineObservation(
        counter=_counter(other) if other else None,
        epoch=_epoch(epoch, ended=bool(values) and other is None) if epoch else None,
        values=values,
        counted=counted,
    )


def _epoch(match: re.Match[str], *, ended: bool) -> Epoch:
    return Epoch(int(match["done"]), int(match["total"]) if match["total"] else None, ended=ended)


def _counter(match: re.Match[str]) -> Counter | None:
    done, total = float(match["done"]), float(match["total"])
    if not 0 < total >= done:
        return None
    noun = match["noun"].lower()
    return Counter(
        done=done, total=total, words=f"{match['done']}/{match['total']}", label=noun, aside=is_secondary_work(noun)
    )


def _percent_observation(percent: float) -> LineObservation | None:
    if percent > _ALL:
        return None
    return LineObservation(counter=Counter(done=percent, total=_ALL, words=f"{percent:g} %"))
