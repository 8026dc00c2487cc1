"""Check names and types of Python keywords before anything is read from them."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from jupyter_smx.model.errors import SmxError, ValidationError, suggest_names
from jupyter_smx.model.options.convert import other_kind_error
from jupyter_smx.model.options.table import ROWS
from jupyter_smx.model.text import format_value

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from jupyter_smx.model.options.option import Kind, Option

_WORDS = {bool: "True or False", str: "text", Path: "a path"}


@contextmanager
def keyword_spelling() -> Iterator[None]:
    """Spell options in what is raised as keywords: ``keep_alive='x'`` instead of ``--keep-alive: 'x'``."""
    try:
        yield
    except SmxError as error:
        if type(error).__init__ is not SmxError.__init__:
            raise  # the end of a job, which has a record
        from jupyter_smx.model.options.spelling import respell  # noqa: PLC0415 - only errors need it

        raise respell(error, "keyword") from error.__cause__


def translate_keywords(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return keywords with those of SageMaker's SDK under their names here, and print which have no effect.

    :raises ValidationError: an option is given by two names, or the value of a synonym has another form.
    """
    if all(name in ROWS for name in keywords):
        return dict(keywords)
    from jupyter_smx.model.options.synonyms import translate  # noqa: PLC0415 - few calls need it

    found = translate(keywords)
    for note in found.notes:
        print(note, file=sys.stderr)  # noqa: T201 - what the user reads
    return found.keywords


def check_keywords(keywords: Mapping[str, Any], known: Collection[str], kind: Kind, where: str) -> None:
    """Check that keywords exist for this kind of job and have their types; None stands for a keyword that is not set.

    Numbers, durations and jobs are checked where they are converted. ``where`` is the function, as ``smx.train``.

    :raises ValidationError: names the nearest keyword, or the type.
    """
    for name, value in keywords.items():
        if name not in known:
            raise _unknown_keyword_error(name, value, known, kind, where)
        option = ROWS[name]
        if value is None or _is_checked_later(option) or fits(value, option.type):
            continue
        raise ValidationError(
            f"{name}={format_value(value)} has the wrong type.",
            field=name,
            value=format_value(value),
            rule=f"It is {_describe(option.type)}.",
            cure=f"For example {name}={option.keyword_example}.",
        )


def _unknown_keyword_error(name: str, value: Any, known: Collection[str], kind: Kind, where: str) -> ValidationError:
    option = ROWS.get(name)
    if option is not None and option.kinds and kind not in option.kinds:
        return other_kind_error(option, kind, value)
    from jupyter_smx.model.options.docker_options import docker_cure  # noqa: PLC0415 - only errors need it
    from jupyter_smx.model.options.synonyms import cure_of  # noqa: PLC0415

    docker = docker_cure(f"--{name.replace('_', '-')}").replace("--mount SOURCE:TARGET", "mounts=['SOURCE:TARGET']")
    return ValidationError(
        f"{where}: {name} is not an option.",
        field=name,
        value=format_value(value),
        cure=cure_of(name) or docker or suggest_names(name, known) or f"There are {', '.join(known)}.",
    )


def _is_checked_later(option: Option) -> bool:
    members = get_args(option.type)
    return int in members or option.target == "client" or any(get_origin(member) is Iterable for member in members)


def fits(value: Any, hint: Any) -> bool:
    """Return True if a value has the type of a hint, as far as :data:`ROWS` uses hints."""
    origin, members = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(fits(value, member) for member in members)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            isinstance(name, str) and fits(item, members[1]) for name, item in value.items()
        )
    if origin is Sequence:
        # Text would be a list of letters, and a generator can be read only once.
        is_list = isinstance(value, Iterable) and hasattr(value, "__len__") and not isinstance(value, (str, Mapping))
        return is_list and all(fits(item, members[0]) for item in value)
    return isinstance(value, hint)


def _describe(hint: Any) -> str:
    """Format a type in words: ``a dict of text or a path by name``."""
    origin, members = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_describe(member) for member in members if member is not type(None)))
    if origin is Mapping:
        values = "values" if members[1] is Any else _describe(members[1])
        return f"a dict of {values} by name"
    if origin is Sequence:
        return f"a list of {_describe(members[0])}"
    return _WORDS.get(hint) or f"smx.{hint.__name__}"
