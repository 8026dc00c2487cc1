"""Read the value of a hyperparameter in a job request: JSON where it is JSON, else text, as SageMaker's toolkit does.

A text that must stay text is a JSON string, ``"1.10"``: without the quotes it would be a number.
"""

from __future__ import annotations

import json


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
    return value if text != value and _is_json(text) else text


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
