"""Read and fill in the texts of a job request: hyperparameters, and the name of the job in any text.

The value of a hyperparameter is JSON where it is JSON, else text, as SageMaker's toolkit reads it. A text that must
stay text is a JSON string, ``"1.10"``: without the quotes it would be a number.

``{job_name}`` is the name of the job, also of a task and of a rerun. The record keeps the placeholder, so that a rerun
gets folders of its own. Code that sends or shows a text fills it in.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "job_name"
PLACEHOLDER = f"{{{VARIABLE}}}"
FIELDS = ("hyperparameters", "environment", "arguments", "command", "checkpoint", "outputs")
"""Fields of a job request whose texts may have it. A job's inputs are there before its name."""
OUTPUT_FIELDS = ("path", "destination")
"""Fields of an output whose texts may have it."""


def encode_text(text: str) -> str:
    """Return the value by which a script gets this text, whatever it looks like."""
    return json.dumps(text)


def decode_text(value: str) -> str:
    """Return the text of a JSON string; any other value stays as it is."""
    if not value.lstrip().startswith('"'):
        return value
    try:
        found = json.loads(value)
    except ValueError:
        return value
    return found if isinstance(found, str) else value


def format_hyperparameter(value: str) -> str:
    """Write a value for people: a text without quotes, unless it looks like a value of another kind without them."""
    text = decode_text(value)
    return value if text != value and is_json(text) else text


def is_json(text: str) -> bool:
    """Return True if a text is a value in JSON."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def fill_values(values: Mapping[str, str], name: str) -> dict[str, str]:
    """Return values by their keys with the job's name filled in."""
    return {key: value.replace(PLACEHOLDER, name) for key, value in values.items()}


def fill_record(spec: dict[str, Any], name: str) -> dict[str, Any]:
    """Fill in the name in a request as it is in JSON."""
    return {**spec, **{field: fill(spec[field], name) for field in FIELDS if spec.get(field)}}


def fill(value: Any, name: str) -> Any:
    """Fill in the name in the value of one of :data:`FIELDS`, as it is in a request or in its JSON."""
    if isinstance(value, str):
        return value.replace(PLACEHOLDER, name)
    if isinstance(value, (list, tuple)):
        return type(value)(_fill_item(inner, name) for inner in value)
    return fill_values(value, name) if isinstance(value, dict) else value


def _fill_item(item: Any, name: str) -> Any:
    """Fill in the name in an argument or an output."""
    if isinstance(item, dict):
        return {**item, **{field: fill(item[field], name) for field in OUTPUT_FIELDS if field in item}}
    if isinstance(item, Struct):
        return replace(item, **{field: fill(getattr(item, field), name) for field in OUTPUT_FIELDS})
    return fill(item, name)
