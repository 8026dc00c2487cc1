"""Progress of a job, folded from its log lines: epochs, nested bars, and bars of side tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from jupyter_smx.model.results.progress import Progress
from jupyter_smx.policy.log_parsers.observations import AnnouncedTotals, Counter, Epoch

if TYPE_CHECKING:
    from jupyter_smx.policy.log_parsers.observations import LineObservation

_DEEPEST = 4
_LONGEST_TEXT = 80
_MIN_FRACTION = 0.01
"""Minimum progress for an estimate of the pace."""


class ProgressState(Struct, frozen=True):
    """Current progress of a job; small, and complete enough for a new process to continue.

    ``bars`` are drawn under each other, the outermost first. ``first`` is the number of the first epoch, which shows if
    the job counts from 0. ``reached`` is the highest fraction, so that a redrawn bar does not reduce it; ``root`` is
    the bar or count of that fraction, and ``began`` its first time and value.
    """

    epoch: Epoch | None = None
    first: int = 1
    bars: tuple[Counter, ...] = ()
    aside: Counter | None = None
    reached: float = 0.0
    root: str = ""
    began: tuple[float, float] = (0.0, 0.0)
    told_at: float = 0.0


def apply_observation(
    state: ProgressState, found: LineObservation, announced: AnnouncedTotals, at: float
) -> ProgressState:
    """Add the content of a line that came ``at`` this time."""
    after = state
    if found.epoch is not None:
        after = _new_epoch(after, found.epoch)
    if found.counter is not None:
        after = _apply_counter(after, _with_announced_total(found.counter, announced), in_epoch=found.epoch is not None)
    if after is state:
        return state
    root, fraction = _root(after), _fraction(after, announced.epochs)
    begins = root != state.root or (after.epoch is not None and _is_restart(state.epoch, after.epoch))
    reached = max(0.0 if begins else state.reached, fraction or 0.0)
    began = (at, reached) if begins or not state.told_at else state.began
    return replace(after, root=root, reached=reached, began=began, told_at=at)


def apply_partial_line(
    state: ProgressState, found: LineObservation, announced: AnnouncedTotals, at: float
) -> ProgressState:
    """Add an unfinished bar; its depth follows after it, so only known bars are used."""
    counter = found.counter
    if counter is None:
        return state
    kind = ("" if found.epoch is not None else counter.label, counter.total)
    depths = [depth for depth, bar in enumerate(state.bars) if (bar.label, bar.total) == kind]
    if not (depths or counter.aside or not state.bars):
        return state
    deeper = replace(found, counter=replace(counter, depth=depths[0] if depths else counter.depth))
    return apply_observation(state, deeper, announced, at)


def progress_of(state: ProgressState, announced: AnnouncedTotals) -> Progress | None:
    """Return the progress; None if no line had any."""
    if not state.told_at:
        return None
    told = _fraction(state, announced.epochs)
    fraction = None if told is None else round(max(told, state.reached), 4)
    return Progress(
        fraction=fraction,
        text=_text(state, announced.epochs)[:_LONGEST_TEXT],
        remaining_seconds=_remaining(state, fraction),
        at=state.told_at,
    )


def step_of(state: ProgressState) -> float | None:
    """Return the step for a value that was printed now: completed epochs, else the count of the outermost bar."""
    if state.epoch is not None:
        return round(_epochs_done(state, state.epoch), 4)
    return state.bars[0].done if state.bars else None


def _new_epoch(state: ProgressState, epoch: Epoch) -> ProgressState:
    old = state.epoch
    if old is not None and (old.number, old.total) == (epoch.number, epoch.total):
        return replace(state, epoch=epoch) if epoch.ended and not old.ended else state
    first = state.first
    if old is None or _is_restart(old, epoch):
        first = min(epoch.number, 1) if epoch.from_zero is None else 1 - epoch.from_zero
    return replace(state, epoch=epoch, first=first, bars=(), aside=None)


def _is_restart(old: Epoch | None, new: Epoch) -> bool:
    return old is not None and (new.number < old.number or (old.total is not None and new.total != old.total))


def _apply_counter(state: ProgressState, counter: Counter, *, in_epoch: bool) -> ProgressState:
    if counter.aside:
        over = counter.total is not None and counter.done >= counter.total
        return replace(state, aside=None if over and _root(state) else counter)
    if in_epoch:
        counter = replace(counter, label="")  # the epoch is included already
    bars = (*state.bars[: min(counter.depth, _DEEPEST - 1)], counter)
    epoch = state.epoch
    if epoch is not None and epoch.ended and (epoch.total is None or epoch.number < epoch.total):
        # Its line was printed at its end, so what counts now belongs to the next one.
        epoch = replace(epoch, number=epoch.number + 1, ended=False)
    return replace(state, epoch=epoch, bars=bars, aside=None)


def _with_announced_total(counter: Counter, announced: AnnouncedTotals) -> Counter:
    rounds = announced.rounds
    if counter.label != "round" or counter.total is not None or not rounds or counter.done > rounds:
        return counter
    return replace(counter, total=float(rounds), words=f"{counter.words}/{rounds}")


def _root(state: ProgressState) -> str:
    if state.epoch is not None:
        return "epoch"
    return f"{state.bars[0].label} of {state.bars[0].total}" if state.bars else ""


def _fraction(state: ProgressState, epochs: int | None) -> float | None:
    if state.epoch is not None:
        total = state.epoch.total or epochs
        return min(1.0, _epochs_done(state, state.epoch) / total) if total else None
    if state.bars:
        return _bars_fraction(state.bars)
    return _bars_fraction((state.aside,)) if state.aside is not None else None


def _bars_fraction(bars: tuple[Counter, ...]) -> float | None:
    inner: float | None = None
    for bar in reversed(bars):
        if bar.total is None:
            inner = None
            continue
        begun = inner if inner is not None and inner < 1 else 0.0
        inner = min(1.0, (bar.done + begun) / bar.total)
    return inner if bars and bars[0].total is not None else None


def _epochs_done(state: ProgressState, epoch: Epoch) -> float:
    within = 1.0 if epoch.ended else _bars_fraction(state.bars) or 0.0
    return max(0, epoch.number - state.first) + within


def _text(state: ProgressState, epochs: int | None) -> str:
    parts = []
    epoch = state.epoch
    if epoch is not None:
        total = epoch.total or epochs
        number = max(1, epoch.number - state.first + 1)
        parts.append(f"epoch {number}/{max(number, total)}" if total else f"epoch {number}")
    shown = state.bars if epoch is None or not epoch.ended else ()
    parts += [f"{bar.label} {bar.words}".strip() for bar in (*shown, state.aside) if bar is not None]
    return " · ".join(parts)


def _remaining(state: ProgressState, fraction: float | None) -> float | None:
    """Return the bar's own estimate if it covers everything, else one by the pace so far."""
    alone = state.epoch is None and len(state.bars) == 1 and state.aside is None
    if alone and state.bars[0].remaining is not None:
        return state.bars[0].remaining
    began, first = state.began
    if (
        fraction is None
        or fraction - first < _MIN_FRACTION
        or state.told_at <= began
        or not (state.epoch or state.bars)
    ):
        return None
    return round((state.told_at - began) * (1.0 - fraction) / (fraction - first), 3)
