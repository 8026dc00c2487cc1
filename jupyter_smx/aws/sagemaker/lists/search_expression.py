"""Apply the filters of Search to training jobs: by name, status and creation time. Pure."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from jupyter_smx.aws.sagemaker.errors import unsupported_error, validation_error
from jupyter_smx.aws.service import WAY_BACK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_smx.aws.sagemaker.lists.listing import JobRow

Values = dict[str, str | float]
_REASON = "jobs are found by name, status and times only."
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "Equals": lambda own, value: own == value,
    "NotEquals": lambda own, value: own != value,
    "Contains": lambda own, value: str(value).lower() in str(own).lower(),
    "GreaterThan": lambda own, value: own > value,
    "GreaterThanOrEqualTo": lambda own, value: own >= value,
    "LessThan": lambda own, value: own < value,
    "LessThanOrEqualTo": lambda own, value: own <= value,
}


def field_values(row: JobRow) -> Values:
    """Return the properties of a job that filters may name."""
    return {
        "TrainingJobName": row.name,
        "TrainingJobStatus": row.status,
        "CreationTime": row.created_at,
        "LastModifiedTime": row.modified_at,
    }


def matches(expression: Mapping[str, Any], values: Values) -> bool:
    """Return True if a job has what an expression asks for.

    :raises AwsError: a filter that is not known here.
    """
    if expression.get("NestedFilters"):
        raise unsupported_error("NestedFilters", _REASON, WAY_BACK)
    found = [_matches_filter(each, values) for each in expression.get("Filters") or ()]
    found += [matches(each, values) for each in expression.get("SubExpressions") or ()]
    return (any(found) if expression.get("Operator") == "Or" else all(found)) if found else True


def _matches_filter(wanted: Mapping[str, Any], values: Values) -> bool:
    name, operator = wanted["Name"], wanted.get("Operator") or "Equals"
    if operator == "Exists":
        return name in values
    if operator == "NotExists":
        return name not in values
    if name not in values:
        raise unsupported_error(f"Filter {name}", _REASON, WAY_BACK)
    own, text = values[name], wanted.get("Value", "")
    if operator == "In":
        return str(own) in [word.strip() for word in text.split(",")]
    return _COMPARISONS[operator](own, _moment(name, text) if isinstance(own, float) else text)


def _moment(name: str, text: str) -> float:
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise validation_error(f"Filter {name}: {text!r} is not a time, for example 2026-01-31T12:00:00Z.") from None
    return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp()
