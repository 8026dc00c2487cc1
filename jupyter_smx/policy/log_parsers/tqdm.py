"""Parse tqdm and bars made with it: Hugging Face's Trainer, Lightning's default bar, Optuna, pip."""

from __future__ import annotations

import re

from jupyter_smx.policy.log_parsers.observations import COUNT, Counter, Epoch, LineObservation, parse_clock, parse_pairs

HINTS = (b"it/s", b"/it", b"%|", b" [0", b" [1", b" [2", b" [?")

_AMOUNT = rf"(?:{COUNT}(?:\.\d*)?|\.\d+)[kMGTPEZY]?"
_TIMES = r"(?P<elapsed>\d[\d:]*(?: days?, [\d:]+)?)(?:<(?P<left>[^,\]]*))?"
_TAIL = re.compile(rf"\[{_TIMES},\s*(?P<rate>[^,\]]*/[^,\]]*)(?:, (?P<postfix>[^\]]*))?\]")
_BAR = re.compile(rf"(?:\d+%)?\|[^|]*\|\s*(?P<done>{_AMOUNT})/(?P<total>{_AMOUNT}|\?)\s*$")
_OPEN = re.compile(rf"(?:^|(?<=\s))(?P<done>{_AMOUNT})[^\s\d]*\s*$")
_RATE = re.compile(r"\s*(?:\?|[\d.]+[kMGTPEZY]?)\s*(?P<unit>\S*?)/s|\s*[\d.]+s/(?P<per>\S+)")
_EPOCH = re.compile(rf"\s*epochs?[\s:#\[(]*({COUNT})(?:\s*(?:/|of)\s*({COUNT}))?[\])]?\s*$", re.IGNORECASE)
_ASIDE = re.compile(
    r"load|sav(?:e|ing)|token|\bmap|filter|eval|valid|test|sanity|predict|generat|resolv|fetch|cach|prepar|process|extract",
    re.IGNORECASE,
)
_SIZES = {letter: 1000.0 ** (power + 1) for power, letter in enumerate("kMGTPEZY")}
_LONGEST_LABEL = 40


def read(line: str, ups: int = 0) -> LineObservation | None:
    """Read one drawing of a bar; ``ups`` counts how often the cursor goes back up after it, which is its depth."""
    # Search the end first: the part before it has no pattern that can be found quickly.
    tail = _TAIL.search(line)
    said = _RATE.match(tail["rate"]) if tail else None
    if tail is None or said is None:
        return None
    head = line[: tail.start()]
    bar = _BAR.search(head)
    amount = bar or _OPEN.search(head)
    if amount is None:
        return None
    label = clean_label(head[: amount.start()])
    total = bar["total"] if bar is not None and bar["total"] != "?" else ""
    left = tail["left"]
    counter = Counter(
        done=_amount(amount["done"]),
        total=_amount(total) or None,
        words=_words(amount["done"], total, said["unit"] or said["per"] or ""),
        label=label,
        remaining=parse_clock(left.strip()) if left else None,
        depth=ups,
        aside=is_secondary_work(label),
    )
    return LineObservation(counter=counter, epoch=epoch_of(label), values=parse_pairs(tail["postfix"] or ""))


def epoch_of(label: str) -> Epoch | None:
    """Read ``Epoch 3`` (Lightning counts from 0) and ``Epoch 3/10``, which people write into a bar's description."""
    match = _EPOCH.match(label)
    return Epoch(int(match[1]), int(match[2]) if match[2] else None) if match else None


def is_secondary_work(label: str) -> bool:
    """Return True if a bar's description names something that is not the job's main work."""
    return _ASIDE.search(label) is not None


def clean_label(label: str) -> str:
    """Shorten a bar's description; drop parts that look like a path or an address, which summaries must not contain."""
    label = " ".join(label.split()).removesuffix(":")
    is_path = ("/" in label and not _EPOCH.match(label)) or "\\" in label
    return "" if is_path else label[:_LONGEST_LABEL]


def _words(done: str, total: str, unit: str) -> str:
    if not total and not float(done.rstrip("kMGTPEZY")):
        return ""  # a bar without a known end and without content
    words = f"{done}/{total}" if total else done
    return words if not unit or (total and unit == "it") else f"{words}{'' if words[-1].isalpha() else ' '}{unit}"


def _amount(text: str) -> float:
    number = text.rstrip("kMGTPEZY")
    return float(number or 0) * _SIZES.get(text[len(number) : len(number) + 1], 1.0)
