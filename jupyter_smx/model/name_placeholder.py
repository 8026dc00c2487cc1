"""``{job_name}`` in the texts of a job request: the name of the job, also of a task and of a rerun.

The record keeps the placeholder, so that a rerun gets a name and folders of its own. Code that sends or shows a text
fills it in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "job_name"
PLACEHOLDER = f"{{{VARIABLE}}}"
FIELDS = ("hyperparameters", "environment", "arguments", "checkpoint", "outputs")
"""Fields of a job request whose texts may have it. A job's inputs are there before its name."""


def fill_values(values: Mapping[str, str], name: str) -> dict[str, str]:
    """Return values by their keys with the job's name filled in."""
    return {key: value.replace(PLACEHOLDER, name) for key, value in values.items()}


def fill_record(spec: dict[str, Any], name: str) -> dict[str, Any]:
    """Fill in the name in a request as it is in JSON."""
    return {**spec, **{field: _fill(spec[field], name) for field in FIELDS if spec.get(field)}}


def _fill(value: Any, name: str) -> Any:
    if isinstance(value, str):
        return value.replace(PLACEHOLDER, name)
    if isinstance(value, dict):
        return {key: _fill(inner, name) for key, inner in value.items()}
    return [_fill(inner, name) for inner in value] if isinstance(value, (list, tuple)) else value
