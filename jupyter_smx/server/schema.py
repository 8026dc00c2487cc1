"""The JSON schema of all data for the browser: ``python -m jupyter_smx.server.schema`` prints it."""

from __future__ import annotations

import json
import sys
from inspect import cleandoc
from typing import Any

import msgspec

from jupyter_smx.model.errors import ErrorBody
from jupyter_smx.model.records.cluster import ShellCommand
from jupyter_smx.model.records.comparison import Comparison
from jupyter_smx.model.records.event import Changes, Event, PoolSummary
from jupyter_smx.model.records.job import Job, JobSummary
from jupyter_smx.model.results.progress import JobMetrics
from jupyter_smx.model.results.reports import Bill, JobAdvice
from jupyter_smx.model.results.usage import JobUsage
from jupyter_smx.model.spec.array import ArraySummary
from jupyter_smx.server.handlers.file_locations import JobFileLocations
from jupyter_smx.server.handlers.log_cursor import LogResponseCursor

_TYPES = (
    JobSummary,
    PoolSummary,
    ArraySummary,
    Event,
    Changes,
    Job,
    Bill,
    JobFileLocations,
    LogResponseCursor,
    Comparison,
    JobMetrics,
    JobUsage,
    JobAdvice,
    ShellCommand,
    ErrorBody,
)


def schema() -> dict[str, Any]:
    """Return one JSON schema with a definition for each struct; the server always sends every field."""
    _, components = msgspec.json.schema_components(_TYPES, ref_template="#/$defs/{name}")
    return {
        "title": "Wire",
        "description": "Not sent: it only holds the definitions together.",
        "type": "object",
        "additionalProperties": False,
        "$defs": {name: _require_all_fields(components[name]) for name in sorted(components)},
    }


def _require_all_fields(component: dict[str, Any]) -> dict[str, Any]:
    # msgspec writes fields with defaults too, so for a reader none of them is optional.
    if component.get("type") != "object" or "properties" not in component:
        return component
    fields = {name: _without_default(field) for name, field in component["properties"].items()}
    return {
        **component,
        "description": cleandoc(component.get("description", "")),
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


def _without_default(field: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in field.items() if key != "default"}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(schema(), indent=2) + "\n")
