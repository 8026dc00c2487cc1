"""Declare every option of a job once.

The classes in ``host_options``, ``code_options`` and ``run_options`` hold the options of one topic each. An entry's
name is the keyword in Python, its type is the keyword's type for mypy and editors, and its :class:`Option` is
everything else. These read :data:`TABLE`: the parser of the magics, the command line, the keywords of ``smx.train``,
completion, ``%%train?``, the reference page, configuration, request checks, ``describe``, ``diff`` and ``export``.

To add a plain option, add an entry there and a field to :class:`JobSpec`, run ``make types``, and write a test.
"""

from typing import Any

from msgspec import structs

from jupyter_smx.model.duration import format_option
from jupyter_smx.model.options.code_options import CodeOptions, ScriptOptions
from jupyter_smx.model.options.container_options import ContainerOptions
from jupyter_smx.model.options.host_options import DataOptions, HostOptions
from jupyter_smx.model.options.option import Kind, Option
from jupyter_smx.model.options.run_options import (
    LineOnlyOptions,
    ProcessOnlyOptions,
    RunOptions,
    TrainOnlyOptions,
)
from jupyter_smx.model.spec.job_spec import JobSpec


class RemoteOptions(HostOptions, ContainerOptions, DataOptions, CodeOptions, RunOptions, TrainOnlyOptions, total=False):
    """Keywords of ``smx.remote``: a call runs as a training job."""


class TrainOptions(RemoteOptions, ScriptOptions, total=False):
    """Keywords of ``smx.train``."""


class ProcessOptions(
    HostOptions, ContainerOptions, DataOptions, CodeOptions, RunOptions, ScriptOptions, ProcessOnlyOptions, total=False
):
    """Keywords of ``smx.process``."""


class TableOptions(TrainOptions, ProcessOnlyOptions, LineOnlyOptions, total=False):
    """All options, in the order of the help page."""


def rows_of(options: type[Any]) -> tuple[Option, ...]:
    """Return the rows that a class declares, with their names, types, kinds and defaults."""
    return tuple(_row(name, hint) for name, hint in options.__annotations__.items())


def _row(name: str, hint: Any) -> Option:
    found = next(option for option in hint.__metadata__ if isinstance(option, Option))
    members: dict[Kind, type[Any]] = {"train": TrainOptions, "process": ProcessOptions}
    kinds = tuple(kind for kind, options in members.items() if name in options.__annotations__)
    row = structs.replace(found, name=name, type=hint.__origin__, kinds=kinds)
    if not row.is_plain:
        return row
    default = SPEC_DEFAULTS[row.field]
    text = row.default_text or (format_option(default) if row.value == "duration" and default else "")
    return structs.replace(row, default=default, default_text=text)


SPEC_DEFAULTS = {field.name: field.default for field in structs.fields(JobSpec)}

TABLE = rows_of(TableOptions)
ROWS = {option.name: option for option in TABLE}
SPELLINGS = tuple(spelling for option in TABLE for spelling in option.spellings)
BY_SPELLING = {spelling: option for option in TABLE for spelling in option.spellings}
PLAIN = tuple(option for option in TABLE if option.is_plain)


def names_for(kind: Kind) -> tuple[str, ...]:
    """Return the keywords of one kind of job."""
    return tuple(option.name for option in TABLE if kind in option.kinds)
