"""Check the types of Python keywords before anything is read from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.channel import Channel, Output
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.text import format_value

_PATH = (str, Path)


class _Kind(Struct, frozen=True):
    """What a keyword takes: whether a value is that, how people call it, and an example."""

    fits: Callable[[Any], bool]
    rule: str
    example: str


def _is_instance_of(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types)


def _is_list_of(*types: type) -> Callable[[Any], bool]:
    """Say of a value whether it is a row of these; text would be a row of letters, and a generator is read once."""

    def fits(value: Any) -> bool:
        row = isinstance(value, Iterable) and hasattr(value, "__len__") and not isinstance(value, (str, Mapping))
        return row and all(isinstance(each, types) for each in value)

    return fits


def _is_dict_of(*types: type) -> Callable[[Any], bool]:
    """Say of a value whether it is a dict with names; without types its values may be anything."""

    def fits(value: Any) -> bool:
        return isinstance(value, Mapping) and all(
            isinstance(name, str) and (not types or isinstance(each, types)) for name, each in value.items()
        )

    return fits


_NAMES = _is_list_of(str)
_VARIABLES = _is_dict_of()
_BOOLEAN = _Kind(_is_instance_of(bool), "It is True or False.", "True")
_KINDS = {
    "name": _Kind(_is_instance_of(str), "It is text.", "'train-digits'"),
    "instance_type": _Kind(_is_instance_of(str), "It is the name of one type, as text.", "'ml.m5.xlarge'"),
    "instance_groups": _Kind(
        _is_list_of(InstanceGroup),
        "It is a list of groups.",
        "[smx.InstanceGroup(name='data', instance_type='ml.c5.xlarge', instance_count=2)]",
    ),
    "distribution": _Kind(_is_instance_of(str), "It is text.", "'torchrun,processes=2'"),
    "engine": _Kind(_is_instance_of(str), "It is the name of an engine, as text.", "'local'"),
    "image": _Kind(_is_instance_of(str), "It is the name of an image, as text.", "'python:3.11-slim'"),
    "network_isolation": _BOOLEAN,
    "spot": _BOOLEAN,
    "disable_output_compression": _BOOLEAN,
    "contract": _Kind(_is_instance_of(str), "It is text.", "'v3'"),
    "role": _Kind(_is_instance_of(str), "It is text.", "'research'"),
    "hyperparameters": _Kind(_is_dict_of(), "It is a dict of values by name.", "{'epochs': 3}"),
    "arguments": _Kind(_NAMES, "It is a list of words.", "['--split', '0.2']"),
    "environment": _Kind(_is_dict_of(), "It is a dict of values by name.", "{'OMP_NUM_THREADS': 2}"),
    "inputs": _Kind(
        _is_dict_of(*_PATH, Channel), "It is a dict of paths or URLs by channel.", "{'train': 'data/train'}"
    ),
    "outputs": _Kind(_is_dict_of(*_PATH, Output), "It is a dict of folders by name.", "{'model': 'models'}"),
    "metrics": _Kind(_is_dict_of(str), "It is a dict of regular expressions by name.", "{'loss': 'loss=([0-9.]+)'}"),
    "source_dir": _Kind(_is_instance_of(*_PATH), "It is a path.", "'src'"),
    "entry_point": _Kind(_is_instance_of(*_PATH), "It is a path.", "'train.py'"),
    "checkpoint_local_path": _Kind(
        _is_instance_of(str), "It is the path of a folder in the job.", "'/opt/ml/checkpoints/last'"
    ),
    "checkpoint": _Kind(_is_instance_of(*_PATH), "It is a path or a URL.", "'checkpoints'"),
    "python": _Kind(_is_instance_of(*_PATH), "It is text or a path.", "'conda:torch'"),
    "requirements": _Kind(
        lambda value: isinstance(value, _PATH) or _NAMES(value),
        "It is the path of a file, a list of requirements, or 'none'.",
        "['einops', 'pandas>=2']",
    ),
    "send": _Kind(
        lambda value: _NAMES(value) or _VARIABLES(value),
        "It is a list of names of variables, or a dict of values by name.",
        "{'cfg': cfg}",
    ),
    "receive": _Kind(_NAMES, "It is a list of names of variables.", "['model', 'scores']"),
}


def check_types(arguments: Mapping[str, Any]) -> None:
    """Let keywords pass that have the types they are read as; None is what a keyword is when nobody sets it.

    Numbers, durations and jobs are looked at by whoever reads them.

    :raises ValidationError: the first that has another type.
    """
    for name, value in arguments.items():
        kind = _KINDS.get(name)
        if kind is None or value is None or kind.fits(value):
            continue
        raise ValidationError(
            f"{name}: {format_value(value)} is of another kind.",
            field=name,
            value=format_value(value),
            rule=kind.rule,
            cure=f"For example {name}={kind.example}.",
        )
