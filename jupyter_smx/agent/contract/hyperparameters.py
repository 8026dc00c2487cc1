"""Convert hyperparameters: strings in a request, values for a script, and command-line arguments."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Tuple

# Names that sagemaker-training keeps for itself; user hyperparameters never have them.
_PRIVATE = ("_tuning_objective_metric", "default_user_module_name")
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


class HyperparameterError(Exception):
    """A hyperparameter of SageMaker has an invalid value; the text is a sentence for the user."""


def dump_json(value: Any) -> str:
    """Write JSON as sagemaker-training does: sorted keys, no spaces, ASCII."""
    return _ENCODER.encode(value)  # json.dumps would make one each time, and a warm start writes thirty values


def decode(text: str) -> Any:
    """Read one hyperparameter: JSON where it is JSON, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def split(hyperparameters: Dict[str, str]) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """Read all hyperparameters: the user's own, and those that begin with ``sagemaker_``."""
    own, framework = {}, {}
    for name, text in hyperparameters.items():
        if name.startswith("sagemaker_"):
            framework[name] = decode(text)
        elif name not in _PRIVATE:
            own[name] = decode(text)
    return own, framework


def _word(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        return ",".join(f"{key}={value[key]}" for key in sorted(value))
    return str(value)


def arguments(own: Dict[str, Any]) -> List[str]:
    """Return the arguments after the script's name: sorted, always a name and a value."""
    words = []
    for name in sorted(own):
        dashes = "--"[: len(name)]  # one for a letter, and none for a name without any
        words += [dashes + name, _word(own[name])]
    return words


def format_variable(value: Any) -> str:
    """Write the value of one variable: text as it is, nothing for None, else JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else dump_json(value)


def format_sdk3_value(value: Any) -> str:
    """Format a value as the drivers of SageMaker's SDK 3, for a variable or an argument: text as it is, else JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def sdk3_arguments(hyperparameters: Dict[str, str]) -> List[str]:
    """Return the arguments that those drivers make of hyperparameters: in the order given, each with two dashes.

    They parse a text twice, into ``SM_HPS`` and out of it, so JSON inside JSON becomes a value.
    """
    words = []
    for name, text in hyperparameters.items():
        value = decode(text)
        words += ["--" + name, format_sdk3_value(decode(value) if isinstance(value, str) else value)]
    return words
