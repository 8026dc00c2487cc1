"""Accept keywords of SageMaker's Python SDK as options; refuse its other keywords with the name of their option here.

The names are those of the option table's column :class:`SageMakerNames`. A keyword is a synonym if its value means the
same in both; for others a sentence names the option with the same effect.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.options.convert import parse_number
from jupyter_smx.model.options.table import ROWS, TABLE
from jupyter_smx.model.text import format_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_OTHER_VALUES = frozenset({"code", "local_path", "network_config", "s3_uri"})
"""Names in the column whose values are of another kind than those of the option, or incomplete alone."""
_METRIC_DEFINITIONS = "metric_definitions"
_VOLUME_SIZES = ("volume_size", "volume_size_in_gb")
_CHANNEL = "Set it for a channel: inputs={'train': smx.Channel(name='train', source='data', mode='FastFile')}."
_OUTPUT = "Use outputs={'model': 'FOLDER'}, the folder or URL that the model is copied to."
_PACKAGES = "The job runs the Python of the kernel. Use python=, requirements= or image= for another one."
_VOLUME = "Hosts use the disk of their machine. Leave it out."
_NETWORK = "Use network_isolation=True for hosts that reach only each other."
_CURES = {
    "algorithm_name": "Use image=.",
    "configuration": "Set the properties of Spark in the script.",
    "container_arguments": "Add them to command= for a training job, and use arguments= for a processing job.",
    "container_version": _PACKAGES,
    "distributed": "Use distribution='torchrun' or distribution='mpi'.",
    "framework_version": _PACKAGES,
    "git_config": "Clone the repository, and pass its folder with source_dir=.",
    "ignore_patterns": "A .gitignore in source_dir= names the files that stay behind; source_ignore='none' sends all.",
    "image_name": "Use image=.",
    "input_data_config": "Use inputs=.",
    "input_mode": _CHANNEL,
    "logs": "Use wait=True, which shows the log.",
    "max_pending_time_in_seconds": "Use max_wait=, with spot=True.",
    "max_parallel_jobs": "Use max_concurrent=, with sweep=True.",
    "model_channel_name": "Use inputs={'model': 'FOLDER'}.",
    "model_uri": "Use inputs={'model': 'FOLDER'}.",
    "output_path": _OUTPUT,
    "py_version": _PACKAGES,
    "pytorch_version": _PACKAGES,
    "retry_strategy": "Use retries=.",
    "script_mode": "Each job runs a script. Leave it out.",
    "security_group_ids": _NETWORK,
    "submit_app": "Use entry_point= with distribution='pyspark'.",
    "subnets": _NETWORK,
    "tensorflow_version": _PACKAGES,
    "training_input_mode": _CHANNEL,
    "transformers_version": _PACKAGES,
    "volume_size": _VOLUME,
    "volume_size_in_gb": _VOLUME,
}
"""Replacements of keywords that the column does not have."""
_NAMES_WITHOUT_COUNTERPART = """
code_location codeartifact_repo_arn compiler_config configuration_location container_log_level
debugger_hook_config dependency_location disable_profiler enable_infra_check
enable_inter_container_traffic_encryption enable_remote_debug enable_sagemaker_metrics
enable_session_tag_chaining encrypt_inter_container_traffic estimator_cls experiment_config input_s3_key_prefix
instance_placement_config kms_key local_container_root model_dir model_package_config output_kms_key
profiler_config rules sagemaker_session spark_event_logs_s3_uri submit_files submit_jars submit_py_files tags
tensorboard_output_config training_image_config training_mode training_plan training_plan_arn
training_repository_access_mode training_repository_credentials_provider_arn volume_kms_key volume_kms_key_id
"""
_WITHOUT_COUNTERPART = frozenset(_NAMES_WITHOUT_COUNTERPART.split())
_SDK_1 = "train_"
"""Prefix of keywords of SDK 1, as ``train_instance_type``."""


class Translation(Struct, frozen=True, kw_only=True):
    """Keywords by the names of the option table, and sentences about those that have no effect here."""

    keywords: dict[str, Any]
    notes: tuple[str, ...] = ()


def translate(keywords: Mapping[str, Any]) -> Translation:
    """Return keywords of ``smx.train`` with those of SageMaker's SDK under the names that they have here.

    None stands for a keyword that is not set. A keyword that is no synonym stays as it is.

    :raises ValidationError: an option is given by two names, or the value of a synonym has another form.
    """
    if all(name in ROWS for name in keywords):
        return Translation(keywords=dict(keywords))
    given = {name: value for name, value in keywords.items() if value is not None or name in ROWS}
    ignored = {name: given.pop(name) for name in _VOLUME_SIZES if name in given and name not in ROWS}
    found: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for name, value in given.items():
        own = name if name in ROWS else SYNONYMS.get(name, name)
        if own in sources and value is not None and found[own] is not None:
            raise _twice_error(own, sources[own], name)
        if found.get(own) is None:
            found[own] = _metrics(value) if own == "metrics" and name != own else value
            sources[own] = name
    return Translation(keywords=found, notes=tuple(_volume_note(name, value) for name, value in ignored.items()))


def cure_of(name: str) -> str:
    """Return the replacement of a keyword of SageMaker's SDK or a field of its API; "" if SageMaker has no such one."""
    snake = _snake_case(name).removeprefix(_SDK_1)
    cure = _CURES.get(name) or _CURES.get(snake)
    if cure:
        return cure
    options = _OBJECTS.get(name) or _OBJECTS.get(snake)
    if options:
        return f"SageMaker's {name} is here {_format_keywords(options)}."
    if name in _WITHOUT_COUNTERPART or snake in _WITHOUT_COUNTERPART:
        return f"SageMaker's {name} has no counterpart here. Leave it out."
    option = SYNONYMS.get(snake) or (snake if snake in ROWS else "")
    return f"SageMaker's {name} is here {option}=." if option and snake != name else ""


def _snake_case(name: str) -> str:
    """Return a field of the API as SDK 3 names it: ``HyperParameters`` is ``hyper_parameters``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _format_keywords(options: Sequence[str]) -> str:
    *head, last = (f"{option}=" for option in options)
    return f"{', '.join(head)} and {last}" if head else last


def _synonyms() -> Iterator[tuple[str, str]]:
    for option in TABLE:
        columns = option.sagemaker
        for name in (columns.estimator, columns.processor, columns.trainer):
            if name and ":" not in name and name not in ROWS and name not in _OTHER_VALUES:
                yield name, option.name
        field = columns.trainer.rpartition(".")[2]
        is_same = columns.flag_words is None and field not in ROWS and field not in _OTHER_VALUES
        if ":" in columns.trainer and is_same:
            yield field, option.name


def _objects() -> dict[str, tuple[str, ...]]:
    """Return the options by the keywords that take an object or a structure of theirs."""
    found: dict[str, dict[str, None]] = {}
    for option in TABLE:
        columns = option.sagemaker
        heads = [columns.trainer.partition(":")[0]] if ":" in columns.trainer else []
        heads += [path.partition(".")[0] for path in (columns.training_api, columns.processing_api) if path]
        heads += [name for name in (columns.estimator, columns.processor) if name in _OTHER_VALUES]
        for head in dict.fromkeys([*heads, *map(_snake_case, heads)]):
            if head not in ROWS:
                found.setdefault(head, {})[option.name] = None
    return {head: tuple(options) for head, options in found.items()}


SYNONYMS = dict(_synonyms())
"""Options by the keywords of SageMaker's SDK with the same meaning."""
_OBJECTS = _objects()


def _metrics(value: Any) -> Any:
    """Return SageMaker's list of metric definitions, or one of them, as a dict of regular expressions by name."""
    if isinstance(value, Mapping):
        definition = _definition(value) if {key.lower() for key in map(str, value)} == {"name", "regex"} else None
        return value if definition is None else dict([definition])
    pairs = [_definition(each) for each in value] if _is_list(value) else [None]
    definitions = [pair for pair in pairs if pair is not None]
    if len(definitions) < len(pairs):
        raise ValidationError(
            f"{_METRIC_DEFINITIONS}={format_value(value)} has the wrong type.",
            field="metrics",
            value=format_value(value),
            rule="It is a list of {'Name': NAME, 'Regex': REGEX}.",
            cure=f"For example metrics={ROWS['metrics'].keyword_example}.",
        )
    names = [name for name, _ in definitions]
    twice = next((name for name in names if names.count(name) > 1), "")
    if twice:
        raise ValidationError(
            f"{_METRIC_DEFINITIONS}: {twice!r} is given twice.",
            field="metrics",
            value=twice,
            rule="A metric has one regular expression.",
            cure="Remove one, or rename it.",
        )
    return dict(definitions)


def _is_list(value: object) -> bool:
    return isinstance(value, Iterable) and hasattr(value, "__len__") and not isinstance(value, str)


def _definition(value: Any) -> tuple[str, str] | None:
    """Return name and regular expression of a definition: a dict of SDK 2, or an object of SDK 3."""
    if isinstance(value, Mapping):
        name, regex = (value.get(key, value.get(key.lower())) for key in ("Name", "Regex"))
    else:
        name, regex = getattr(value, "name", None), getattr(value, "regex", None)
    return (name, regex) if isinstance(name, str) and isinstance(regex, str) else None


def _volume_note(name: str, value: Any) -> str:
    size = parse_number(value, name, "of GiB", 1)
    return f"{name}={size} has no effect here: hosts use the disk of their machine."


def _twice_error(own: str, first: str, second: str) -> ValidationError:
    return ValidationError(
        f"{first}= cannot be combined with {second}=.",
        field=own,
        value=second,
        rule=f"Both mean {own}=." if own not in (first, second) else f"SageMaker's name of {own}= is the other one.",
        cure="Remove one of the two.",
    )
