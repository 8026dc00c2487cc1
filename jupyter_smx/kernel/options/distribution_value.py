"""Parse the value of ``--distribution``: the form of a line, or the dictionary that SageMaker's estimators take."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from jupyter_smx.model import unsupported
from jupyter_smx.model.errors import ValidationError, suggest_names
from jupyter_smx.model.options.convert import parse_number
from jupyter_smx.model.spec.distribution import RUNNERS, Distribution, Runner
from jupyter_smx.model.text import format_value

_OPTION = "--distribution"
_LINE_PROPERTIES = ("processes", "groups")
_LAUNCHERS: dict[str, Runner] = {
    "torch_distributed": "torchrun",
    "mpi": "mpi",
    "parameter_server": "parameter_server",
    "multi_worker_mirrored_strategy": "multi_worker_mirrored_strategy",
}
"""Launchers by their keys in SageMaker's dictionary."""
_ENABLED, _PROCESSES, _MPI_OPTIONS = "enabled", "processes_per_host", "custom_mpi_options"
_GROUPS = "instance_groups"
_FORM = "The form is {'torch_distributed': {'enabled': True}}, or of another launcher."


class DistributionChoice(Struct, frozen=True, kw_only=True):
    """A distribution, and what a dictionary has besides, as the hyperparameters by which SageMaker's SDK sends it."""

    distribution: Distribution | None = None
    hyperparameters: dict[str, str] = {}


def read_distribution(value: str | Mapping[str, Any]) -> DistributionChoice:
    """Read a distribution in either form; a dictionary may also be text, as JSON or as Python writes it.

    :raises ValidationError: a launcher or a property that does not exist, or that is not supported.
    """
    if isinstance(value, str):
        if not value.lstrip().startswith("{"):
            return DistributionChoice(distribution=parse_distribution(value))
        value = _parse_dictionary(value)
    enabled = {name: options for name, options in value.items() if name != _GROUPS and _is_enabled(name, options)}
    for name in enabled:
        _check_launcher(name)
    if len(enabled) > 1:
        raise _error(
            f"{' and '.join(enabled)} are both enabled", value, "One launcher starts the script.", "Remove one."
        )
    if not enabled:
        return DistributionChoice()
    ((name, options),) = enabled.items()
    return _read_launcher(name, options, _group_names(value.get(_GROUPS) or ()))


def parse_distribution(text: str) -> Distribution | None:
    """Read ``torchrun|mpi[,processes=N][,groups=GROUP]``, a strategy of TensorFlow's, or ``pyspark``; nothing is None.

    :raises ValidationError: another launcher, another property, or a number that is none.
    """
    if not text:
        return None
    runner, *rest = text.split(",")
    found = dict(part.partition("=")[::2] for part in rest)
    wrong = next((name for name in found if name not in _LINE_PROPERTIES), "")
    launcher = RUNNERS.get(runner)
    unsupported.check_launcher(runner)
    if wrong or launcher is None:
        word, words = (runner, tuple(RUNNERS)) if launcher is None else (wrong, _LINE_PROPERTIES)
        raise ValidationError(
            f"{_OPTION}: {word!r} is not known.",
            field="distribution",
            value=text,
            rule="The form is torchrun|mpi[,processes=N][,groups=GROUP], or pyspark, or one of TensorFlow's: "
            "parameter_server|multi_worker_mirrored_strategy[,groups=GROUP].",
            cure=suggest_names(word, words),
        )
    count = found.get("processes")
    own = ",".join([runner, *("processes=1" if part.startswith("processes=") else part for part in rest)])
    cure = f"For example {_OPTION} {own}."
    processes = None if count is None else parse_number(count, f"{_OPTION} processes", "of processes", 1, cure=cure)
    groups = tuple(name for name in found.get("groups", "").split("+") if name)
    return Distribution(runner=launcher, processes=processes, groups=groups)


def _parse_dictionary(text: str) -> Mapping[str, Any]:
    for read in (json.loads, ast.literal_eval):
        try:
            found = read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(found, dict) and all(isinstance(name, str) for name in found):
            return found
    raise _error(
        f"{format_value(text)} is not a dictionary",
        text,
        "A text that begins with a brace is SageMaker's dictionary, as JSON or Python.",
        f"For example {_OPTION} torchrun.",
    )


def _is_enabled(name: str, options: Any) -> bool:
    """Return True if SageMaker would start a launcher; that of ``smdistributed`` has libraries with such options."""
    if not isinstance(options, Mapping):
        raise _error(f"{name} is {format_value(options)}", options, _FORM, "")
    if name in unsupported.LAUNCHERS:
        return bool(options.get(_ENABLED)) or any(
            isinstance(inner, Mapping) and inner.get(_ENABLED) for inner in options.values()
        )
    return bool(options.get(_ENABLED)) or name not in _LAUNCHERS


def _check_launcher(name: str) -> None:
    unsupported.check_launcher(name)
    if name not in _LAUNCHERS:
        raise _error(
            f"{name!r} is not known",
            name,
            f"The launchers of SageMaker's dictionary are {', '.join(_LAUNCHERS)}.",
            suggest_names(name, _LAUNCHERS),
        )


def _read_launcher(name: str, options: Mapping[str, Any], groups: tuple[str, ...]) -> DistributionChoice:
    known = (_ENABLED, _PROCESSES, _MPI_OPTIONS) if name == "mpi" else (_ENABLED,)
    wrong = next((word for word in options if word not in known), "")
    if wrong:
        raise _error(
            f"{name} has no property {wrong!r}",
            wrong,
            f"The properties of {name} are {', '.join(known)}.",
            suggest_names(wrong, known) or "Remove it.",
        )
    count = options.get(_PROCESSES)
    cure = f"For example {{'{name}': {{'{_ENABLED}': True, '{_PROCESSES}': 2}}}}."
    processes = None if count is None else parse_number(count, f"{_OPTION} {_PROCESSES}", "of processes", 1, cure=cure)
    text = options.get(_MPI_OPTIONS) or ""
    return DistributionChoice(
        distribution=Distribution(runner=_LAUNCHERS[name], processes=processes, groups=groups),
        hyperparameters={f"sagemaker_mpi_{_MPI_OPTIONS}": json.dumps(str(text))} if text else {},
    )


def _group_names(groups: Any) -> tuple[str, ...]:
    """Return the names of the groups, which are names, groups of ours, or groups of SageMaker's SDK."""
    if isinstance(groups, str) or not isinstance(groups, Sequence):
        raise _error(f"{_GROUPS} is {format_value(groups)}", groups, "It is a list of groups.", "")
    return tuple(str(_group_name(group)) for group in groups)


def _group_name(group: Any) -> Any:
    return getattr(group, "instance_group_name", None) or getattr(group, "name", None) or group


def _error(sentence: str, value: object, rule: str, cure: str) -> ValidationError:
    return ValidationError(
        f"{_OPTION}: {sentence}.", field="distribution", value=format_value(value).strip("'"), rule=rule, cure=cure
    )
