"""``--sweep``: expand lists of hyperparameters to a grid; each of its points is a task of one array."""

from __future__ import annotations

import itertools
import json
import math
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from jupyter_smx.kernel.options.option_values import encode_hyperparameter
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.options.convert import parse_number
from jupyter_smx.model.redaction import format_hyperparameters
from jupyter_smx.model.spec.array import MAX_TASKS, TaskOverrides

if TYPE_CHECKING:
    from collections.abc import Mapping

_LONGEST_VALUE = 24
"""Characters of a value in a task's label."""


class Grid(Struct, frozen=True, kw_only=True):
    """Common part of all tasks, the tasks in order (the last parameter changes fastest), and a title.

    ``max_concurrent`` of them may run at a time (0: no limit but capacity).
    """

    fixed: dict[str, Any]
    tasks: tuple[TaskOverrides, ...]
    title: str
    max_concurrent: int = 0


def expand_sweep(
    hyperparameters: Mapping[str, Any], limit: int | str | None, *, sweep: bool, keep_text: bool = False
) -> tuple[dict[str, Any], Grid | None]:
    """Return the hyperparameters that all tasks share, and the grid of the others if there is a ``sweep``.

    ``keep_text`` is as for :func:`grid_of`.

    :raises ValidationError: an invalid ``limit``, or one for a single job; else as :func:`grid_of`.
    """
    most = parse_max_concurrent(limit)
    if not sweep:
        _check_limit_without_sweep(limit)
        return dict(hyperparameters), None
    grid = grid_of(hyperparameters, keep_text=keep_text)
    return grid.fixed, replace(grid, max_concurrent=most)


def parse_max_concurrent(limit: int | str | None) -> int:
    """Read how many tasks may run at a time; return 0 for None, which is no limit.

    :raises ValidationError: it is no whole number from 1.
    """
    return 0 if limit is None else parse_number(limit, "--max-concurrent", "of tasks", 1)


def _check_limit_without_sweep(limit: object) -> None:
    if limit is not None:
        raise ValidationError(
            "--max-concurrent is given without --sweep.",
            field="max_concurrent",
            value=limit,
            rule="It limits the tasks of an array that run at a time, but this is a single job.",
            cure="Remove it, or use --sweep and give --hp a list.",
        )


def grid_of(hyperparameters: Mapping[str, Any], *, keep_text: bool = False) -> Grid:
    """Span the grid of all lists among the values; text that is a JSON list, as on a magic's line, is one.

    With ``keep_text`` text is text, and no list.

    :raises ValidationError: no list, an empty one, a value that cannot be a hyperparameter, or too many tasks.
    """
    lists = ((name, _values(value, keep_text=keep_text)) for name, value in hyperparameters.items())
    swept = {name: found for name, found in lists if found is not None}
    _check(swept)
    written = {
        name: [encode_hyperparameter(name, each, keep_text=keep_text) for each in values]
        for name, values in swept.items()
    }
    tasks = []
    for point in itertools.product(*written.values()):
        chosen = dict(zip(written, point, strict=True))
        tasks.append(
            TaskOverrides(
                label=", ".join(f"{name}={_shorten(text)}" for name, text in format_hyperparameters(chosen).items()),
                hyperparameters=chosen,
            )
        )
    fixed = {name: value for name, value in hyperparameters.items() if name not in swept}
    return Grid(fixed=fixed, tasks=tuple(tasks), title=f"sweep {', '.join(swept)}")


def _check(swept: Mapping[str, list[Any]]) -> None:
    if not swept:
        raise ValidationError(
            "--sweep: no hyperparameter has a list of values.",
            field="sweep",
            rule="Each list among the hyperparameters is one dimension of the grid.",
            cure="For example --hp lr=[0.1,0.01] --hp depth=[2,4] --sweep.",
        )
    empty = next((name for name, values in swept.items() if not values), None)
    if empty is not None:
        raise ValidationError(
            f"--hp {empty}: the list has no value to sweep over.",
            field="hyperparameters",
            value=empty,
            rule="Each list among the hyperparameters is one dimension of the grid, with at least one value.",
            cure=f"For example --hp {empty}=[0.1,0.01] --sweep.",
        )
    size = math.prod(len(values) for values in swept.values())
    if size > MAX_TASKS:
        sides = " × ".join(str(len(values)) for values in swept.values())
        raise ValidationError(
            f"--sweep: {sides} = {size} tasks.",
            field="sweep",
            value=size,
            rule=f"An array has at most {MAX_TASKS} tasks.",
            cure="Sweep over fewer values.",
        )


def _values(value: Any, *, keep_text: bool) -> list[Any] | None:
    """Return the values of a list, also of a JSON text or a numpy array; None for anything else."""
    if isinstance(value, str):
        return None if keep_text else _json_list(value)
    if isinstance(value, (list, tuple, range)):
        return list(value)
    if len(getattr(value, "shape", ())) == 1 and hasattr(value, "tolist"):
        found: list[Any] = value.tolist()
        return found
    return None


def _json_list(text: str) -> list[Any] | None:
    if not text.lstrip().startswith("["):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        raise ValidationError(
            f"--hp: {text} is not a list of values for a sweep.",
            field="hyperparameters",
            value=text,
            rule="The list is JSON: numbers without quotes, text in double quotes.",
            cure='For example --hp \'opt=["adam","sgd"]\', or --hp opt={names} with a list from the notebook.',
        ) from None
    return found if isinstance(found, list) else None


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"
