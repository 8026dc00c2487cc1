"""Write the plain options of a job under the names that SageMaker's API and SDKs have for them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jupyter_smx.model.options.table import PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_smx.model.options.option import Option, SageMakerNames
    from jupyter_smx.model.spec.job_spec import JobSpec


def api_fields(spec: JobSpec, name_of: Callable[[SageMakerNames], str], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain options by their paths in the API, as ``StoppingCondition.MaxRuntimeInSeconds``.

    A flag always has a value, anything else only if it is set. ``own`` has the values of options that need code of
    their own, by option; None leaves one out.
    """
    fields = {}
    for option in PLAIN:
        path = name_of(option.sagemaker)
        value = own[option.name] if option.name in own else _api_value(option, getattr(spec, option.field))
        if path and value is not None:
            fields[path] = value
    return fields


def _api_value(option: Option, value: Any) -> Any:
    if option.is_flag:
        words = option.sagemaker.flag_words
        return value if words is None else words[bool(value)]
    return value or None


def merge_fields(answer: dict[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Put fields into the nested dicts of an answer by their paths."""
    for path, value in fields.items():
        *parents, name = path.split(".")
        target = answer
        for parent in parents:
            target[parent] = target.get(parent) or {}
            target = target[parent]
        target[name] = value
    return answer


def sdk_arguments(
    spec: JobSpec, name_of: Callable[[SageMakerNames], str], own: Mapping[str, str | None]
) -> list[tuple[str, str]]:
    """Return the plain options that are set as keywords of SDK 2, with their values as Python.

    ``own`` has the values of options that need code of their own, by option; None leaves one out.
    """
    arguments = []
    for option in PLAIN:
        name = name_of(option.sagemaker)
        text = own[option.name] if option.name in own else _literal(option, getattr(spec, option.field), words=False)
        if name and text is not None:
            arguments.append((name, text))
    return arguments


def trainer_objects(spec: JobSpec, own: Mapping[str, str | None]) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """Return the plain options that are set as fields of the objects that ``ModelTrainer`` of SDK 3 takes.

    Keys are keyword and class, as ``("stopping_condition", "StoppingCondition")``; ``own`` as for
    :func:`sdk_arguments`.
    """
    objects: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for option in PLAIN:
        keyword, _, path = option.sagemaker.trainer.partition(":")
        text = own[option.name] if option.name in own else _literal(option, getattr(spec, option.field), words=True)
        if path and text is not None:
            name, _, field = path.partition(".")
            objects.setdefault((keyword, name), []).append((field, text))
    return objects


def _literal(option: Option, value: Any, *, words: bool) -> str | None:
    """Write a value as Python; with ``words`` a flag by the words of the API, where it has such words."""
    if value == option.default:
        return None
    if option.is_flag:
        names = option.sagemaker.flag_words if words else None
        return repr(value) if names is None else json.dumps(names[bool(value)])
    return str(value) if isinstance(value, int) else json.dumps(value, ensure_ascii=False)
