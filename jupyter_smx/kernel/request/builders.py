"""Build a job request from the words of a line, or from the keywords of a function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from jupyter_smx.kernel.options import option_values as values
from jupyter_smx.kernel.options.container_values import parse_mounts
from jupyter_smx.kernel.options.distribution_value import read_distribution
from jupyter_smx.kernel.options.line_syntax import text_of
from jupyter_smx.kernel.request.request import JobRequest
from jupyter_smx.kernel.request.script import absolute_folder, is_archive_or_url
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.options.convert import to_field
from jupyter_smx.model.options.table import PLAIN, ROWS
from jupyter_smx.model.spec.channel import Channel, Output
from jupyter_smx.model.text import format_value

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_smx.kernel.options.line_parser import LineOptions
    from jupyter_smx.kernel.request.source_copy import SourceCopy
    from jupyter_smx.model.options.host_options import Outputs
    from jupyter_smx.model.options.option import Kind


def request_from_options(kind: Kind, options: LineOptions, namespace: Mapping[str, Any], folder: Path) -> JobRequest:
    """Convert the words of a line; look up ``{expr}`` in ``namespace`` and evaluate nothing.

    Options that take one value have none left (:func:`jupyter_smx.kernel.options.line_parser.expand_expressions`).

    :raises ValidationError: an option has an invalid value.
    """

    def texts(name: str) -> tuple[str, ...]:
        return tuple(text_of(word, namespace, ROWS[name].spelling) for word in options.words(name))

    chosen = read_distribution(options.text_or_mapping("distribution"))
    source_dir, source_copy = _source(options.text("source_dir"), folder)
    pairs = (values.parse_pair(text, "--env", "NAME=VALUE") for text in texts("environment"))
    return JobRequest(
        kind=kind,
        fields={
            **plain_fields(options.values, folder),
            "engine_options": values.parse_engine_options(texts("engine_options")),
        },
        name=options.text("name"),
        instance_type=options.text("instance_type") or None,
        instance_count=options.text("instance_count") or None,
        groups=tuple(values.parse_group(text) for text in texts("instance_groups")),
        distribution=chosen.distribution,
        sdk_hyperparameters=chosen.hyperparameters,
        hyperparameters=values.parse_hyperparameters(options.words("hyperparameters"), namespace),
        environment=values.collect_unique(pairs, "--env", "environment"),
        channels=tuple(values.parse_channel(text, folder) for text in texts("inputs")),
        outputs=tuple(
            values.parse_output(text, kind, folder, place) for place, text in enumerate(texts("outputs"), start=1)
        ),
        mounts=parse_mounts(texts("mounts"), folder),
        receive=options.words("receive"),
        source_dir=source_dir,
        source_copy=source_copy,
        dependencies=tuple(absolute_folder(text, folder) for text in texts("dependencies")),
        entry_point=options.text("entry_point"),
        command=values.parse_command(options.text("command")),
        arguments=texts("arguments"),
        python=options.text("python"),
        requirements=options.text("requirements"),
        metrics=values.parse_metrics(options.words("metrics")),
        after=options.words("after"),
    )


def request_from_keywords(kind: Kind, keywords: Mapping[str, Any], after: tuple[str, ...], folder: Path) -> JobRequest:
    """Convert the keywords of a function, whose names and types were checked; ``after`` are ids.

    :raises ValidationError: a value that its keyword does not take.
    """

    def value(name: str) -> Any:
        found = keywords.get(name)
        return ROWS[name].default if found is None else found

    environment = value("environment") or {}
    chosen = read_distribution(value("distribution"))
    source_dir, source_copy = _source(str(value("source_dir")), folder)
    return JobRequest(
        kind=kind,
        fields={
            **plain_fields(keywords, folder),
            "engine_options": values.engine_option_texts(value("engine_options") or {}),
        },
        name=value("name"),
        instance_type=value("instance_type"),
        instance_count=value("instance_count"),
        groups=tuple(value("instance_groups")),
        distribution=chosen.distribution,
        sdk_hyperparameters=chosen.hyperparameters,
        hyperparameters=value("hyperparameters") or {},
        environment={name: values.to_text(text, f"--env {name}") for name, text in environment.items()},
        channels=tuple(_channel(name, source, folder) for name, source in (value("inputs") or {}).items()),
        outputs=_outputs(kind, value("outputs") or {}, folder),
        mounts=parse_mounts(value("mounts"), folder),
        receive=tuple(value("receive")),
        source_dir=source_dir,
        source_copy=source_copy,
        dependencies=tuple(absolute_folder(str(path), folder) for path in value("dependencies")),
        entry_point=str(value("entry_point")),
        command=values.parse_command(value("command")),
        arguments=tuple(value("arguments")),
        python=str(value("python")),
        requirements=value("requirements"),
        metrics=values.check_metric_definitions(value("metrics") or {}),
        spelling="keyword",
        after=after,
    )


def plain_fields(given: Mapping[str, object], folder: Path) -> dict[str, Any]:
    """Convert the plain options among ``given`` to fields of the job request.

    :raises ValidationError: a value that its option does not take.
    """
    fields = {}
    for option in PLAIN:
        if given.get(option.name) is not None:
            value = to_field(option, given[option.name])
            is_path = option.value == "location" and value
            fields[option.field] = values.absolute_path(value, folder) if is_path else value
    return fields


def _source(word: str, folder: Path) -> tuple[str, SourceCopy | None]:
    """Return the absolute path of a source folder ("" for none), and the copy of an archive or a URL that holds it."""
    path = absolute_folder(word, folder)
    if not is_archive_or_url(path):
        return path, None
    from jupyter_smx.kernel.request.source_copy import copy_source  # noqa: PLC0415 - few jobs need it

    found = copy_source(path)
    return found.folder, found


def _channel(name: str, source: str | Path | Channel, folder: Path) -> Channel:
    if isinstance(source, Channel):
        return source
    if isinstance(source, str):
        return values.read_channel(name, source, folder)
    return Channel(name=values.check_channel_name(name), source=values.absolute_path(str(source), folder))


def _outputs(kind: Kind, given: Outputs, folder: Path) -> tuple[Output, ...]:
    if isinstance(given, Mapping):
        return tuple(_output(kind, name, where, folder) for name, where in given.items())
    if kind == "train":
        raise ValidationError(
            f"outputs={format_value(given)} has no names.",
            field="outputs",
            value=format_value(given),
            rule="The outputs of a training job are model and data.",
            cure="For example outputs={'model': 'models'}.",
        )
    return tuple(_unnamed_output(where, place, folder) for place, where in enumerate(given, start=1))


def _unnamed_output(where: str | Path | Output, place: int, folder: Path) -> Output:
    name = values.default_output_name(place)
    if isinstance(where, Output):
        return where if where.name else replace(where, name=name)
    return values.processing_output(name, str(where), folder)


def _output(kind: Kind, name: str, where: str | Path | Output, folder: Path) -> Output:
    if isinstance(where, Output):
        return where if where.name else replace(where, name=name)
    if kind == "train":
        return values.training_output(name, str(where), folder)
    return values.processing_output(name, str(where), folder)
