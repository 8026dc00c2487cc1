"""Validate ``--metric NAME=REGEX``, SageMaker's ``MetricDefinitions``, before anything is created."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.results.progress import MAX_METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regex import Pattern

MAX_NAME = 255
MAX_REGEX = 500


def check_metrics(definitions: Mapping[str, str]) -> None:
    """Check metric definitions; raise for the first invalid one.

    :raises ValidationError: more than 40, a name or regex of an invalid length, an invalid regex, or one without a
        group.
    """
    if len(definitions) > MAX_METRICS:
        raise ValidationError(
            f"--metric: {len(definitions)} metrics are too many.",
            field="metrics",
            value=len(definitions),
            rule=f"A job has at most {MAX_METRICS}.",
            cure="Remove some; metrics printed by tqdm, Keras and similar libraries need no --metric.",
        )
    for name, pattern in definitions.items():
        if not 1 <= len(name) <= MAX_NAME:
            raise ValidationError(
                f"--metric: the name has {len(name)} characters.",
                field="metrics",
                value=name,
                rule=f"A metric's name has 1 to {MAX_NAME} characters.",
                cure="For example --metric 'loss=loss=([0-9.]+)'.",
            )
        compile_metric(name, pattern)


def compile_metric(name: str, pattern: str) -> Pattern[str]:
    """Compile the regex of a metric.

    :raises ValidationError: its length, its syntax (with the position), or no group to take the value from.
    """
    import regex  # noqa: PLC0415 - most jobs have no metric of their own, and a magic should not wait for it

    if not 1 <= len(pattern) <= MAX_REGEX:
        raise ValidationError(
            f"--metric {name}: the regex has {len(pattern)} characters.",
            field="metrics",
            value=pattern,
            rule=f"A regex has 1 to {MAX_REGEX} characters.",
            cure=f"For example --metric '{name}={name}=([0-9.]+)'.",
        )
    try:
        made = regex.compile(pattern)
    except regex.error as error:
        # Its text ends with "at position 10", counted from 0.
        raise ValidationError(
            f"--metric {name}: {pattern!r} is not a regular expression: {error}.",
            field="metrics",
            value=pattern,
            rule="The regex is searched in each log line, and its first group is the value.",
            cure=f"For example --metric '{name}={name}=([0-9.]+)'.",
        ) from error
    if made.groups < 1:
        raise ValidationError(
            f"--metric {name}: {pattern!r} has no capture group.",
            field="metrics",
            value=pattern,
            rule="The first capture group is the value of the metric.",
            cure=f"For example --metric '{name}={name}=([0-9.]+)'.",
        )
    return made
