"""Log lines of frameworks: Keras, Rich and Lightning, Hugging Face's Trainer, XGBoost, LightGBM and CatBoost.

``*_HINTS`` are bytes of which each line of a framework contains one. Each ``read_*`` returns None for other lines.
"""

from __future__ import annotations

import re

from jupyter_smx.policy.log_parsers.observations import (
    COUNT,
    NUMBER,
    Counter,
    Epoch,
    LineObservation,
    parse_clock,
    parse_number,
    parse_pairs,
)
from jupyter_smx.policy.log_parsers.tqdm import clean_label, is_secondary_work

KERAS_HINTS = (b"Epoch ", b"/step", b"s/epoch", b"=]", b">.", b"\xe2\x94\x81")
_KERAS_EPOCH = re.compile(rf"Epoch ({COUNT})/({COUNT})\s*$")
_KERAS_BAR = re.compile(
    rf"\s*(?P<done>{COUNT})/(?P<total>{COUNT}|Unknown)"
    r"(?:\s+━+\s*(?P<left>\d+:?[\d:]*)s?\s+\d+\S*/step"  # 3, drawn
    r"|\s+\[[=>.]+\](?:\s*-\s*ETA:\s*(?P<eta>\d+[\d:]*)s?)?"  # 2, drawn
    r"|\s+-\s+\d+\S*(?=\s+-\s)(?:\s+-\s+\d+\S*/(?:step|epoch))*)"  # verbose=2: one line for each epoch
    r"(?P<rest>.*)"
)

RICH_HINTS = (b"\xe2\x94\x81",)
_RICH_BAR = re.compile(
    rf"\s*(?P<label>[^━╸╺]*?)\s*[━╸╺]+\s+(?:(?P<percent>\d{{1,3}})%|(?P<done>{COUNT})/(?P<total>{COUNT}))"
    r"(?:\s+[-\d:]+\s+•)?\s+(?P<left>[-\d:]+)(?:\s+[\d.]+\s?it/s)?(?P<rest>.*)"
)
_RICH_EPOCH = re.compile(rf"Epoch ({COUNT})/({COUNT})$")

HUGGINGFACE_HINTS = (b"{'",)
_DICT = re.compile(r"\s*\{('[\w/.@ -]+': [^{}]*)\}\s*$")
_ITEM = re.compile(rf"'([\w/.@ -]+)': '?({NUMBER})'?(?=, |$)", re.IGNORECASE)

BOOSTING_HINTS = (b"]\t", b":\tlearn: ")
# On a tracker's host a time stands before it.
_ROUND = re.compile(rf"(?:\[[\d:. -]+\]\s+)?(?:\[({COUNT})\]|({COUNT}):)\t(.*)")
_VALUE = re.compile(rf"([A-Za-z_][\w@./' -]*?):\s*({NUMBER})(?:\s\([^)]*\))?(?:\+[\d.e-]+)?$", re.IGNORECASE)
_LEFT = re.compile(r"(?:(\d{1,6})h )?(?:(\d{1,6})m )?(?:(\d{1,6}(?:\.\d+)?)s)?")


def read_keras(line: str) -> LineObservation | None:
    """Read ``Epoch 3/10`` alone, then ``12/94 ━━━━ 3s 40ms/step - loss: 0.2`` (Keras 2: ``[==>…] - ETA: 3s``)."""
    epoch = _KERAS_EPOCH.match(line)
    if epoch:
        return LineObservation(epoch=Epoch(int(epoch[1]), int(epoch[2]), from_zero=False))
    bar = _KERAS_BAR.match(line)
    if bar is None:
        return None
    total = None if bar["total"] == "Unknown" else float(bar["total"])
    words = bar["done"] if total is None else f"{bar['done']}/{bar['total']}"
    return LineObservation(
        counter=Counter(done=float(bar["done"]), total=total or None, words=words), values=_keras_values(bar["rest"])
    )


def _keras_values(rest: str) -> tuple[tuple[str, float | None], ...]:
    # Values are separated by dashes, so a name of two words cannot include the time before it.
    return tuple(pair for part in rest.split(" - ") for pair in parse_pairs(part))


def read_rich(line: str) -> LineObservation | None:
    """Read one drawing of a bar of Rich, or of Lightning.

    These are ``Working ━━━ 45% 0:00:03`` and ``Epoch 0/2 ━━━╺━ 10/12 0:00:00 • 0:00:01 680it/s loss: 0.04``.
    """
    bar = _RICH_BAR.match(line)
    if bar is None:
        return None
    done, total = (bar["done"], bar["total"]) if bar["total"] else (bar["percent"], "100")
    epoch = _RICH_EPOCH.match(bar["label"])
    label = clean_label(bar["label"])
    counter = Counter(
        done=float(done),
        total=float(total) or None,
        words=f"{done}/{total}" if bar["total"] else f"{done} %",
        label=label,
        remaining=parse_clock(bar["left"]),
        aside=is_secondary_work(label),
    )
    # Lightning prints the number of its last epoch, which is one less than their count.
    said = Epoch(int(epoch[1]), int(epoch[2]) + 1, from_zero=True) if epoch else None
    return LineObservation(counter=counter, epoch=said, values=parse_pairs(bar["rest"]))


def read_huggingface(line: str) -> LineObservation | None:
    """Read ``{'loss': 0.21, 'learning_rate': 5e-05, 'epoch': 1.0}``; version 5 of the Trainer quotes the numbers.

    A dictionary without an epoch is not from the Trainer.
    """
    match = _DICT.match(line)
    if match is None:
        return None
    found = dict(_ITEM.findall(match[1]))
    if "epoch" not in found:
        return None
    epoch = parse_number(found.pop("epoch"))
    return LineObservation(values=tuple((name, parse_number(text)) for name, text in found.items()), step=epoch)


def read_boosting(line: str) -> LineObservation | None:
    """Parse the line of one round: ``[12]<tab>train-rmse:0.3`` and ``12:<tab>learn: 0.3``."""
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
    counter = Counter(
        done=float(done), total=None, words=str(done), label="round", remaining=_boosting_remaining(match[3])
    )
    return LineObservation(counter=counter, values=values, step=float(number))


def _boosting_remaining(rest: str) -> float | None:
    _, said, text = rest.partition("remaining: ")
    match = _LEFT.match(text) if said else None
    if match is None or not match[0].strip():
        return None
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds
