"""Names for Tab completion, the same in a notebook and in a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from jupyter_smx.kernel.client import autostart
from jupyter_smx.kernel.options.option_values import PROPERTY_VALUES
from jupyter_smx.kernel.subcommands.job_subcommands import STATUSES
from jupyter_smx.model.errors import SmxError
from jupyter_smx.model.results.reports import EngineNames
from jupyter_smx.model.spec.distribution import RUNNERS
from jupyter_smx.model.spec.instance import catalogue
from jupyter_smx.model.text import engine_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from jupyter_smx.kernel.client.client import Client
    from jupyter_smx.kernel.subcommands.declaration import Argument
    from jupyter_smx.model.options.option import Option

QUERY_TIMEOUT = 0.3
"""Seconds that a person waits for Tab without noticing."""
ENGINE_GROUP = "jupyter_smx.engines"
"""Entry points of engines; ``engines.registry`` has the same, and this side imports no engine."""
_MAX_JOBS = 100
"""Jobs whose names are offered."""
_DISTRIBUTION_PROPERTIES: dict[str, tuple[str, ...]] = {"processes": (), "groups": ()}
"""The properties that may follow a launcher."""
_Names = TypeVar("_Names")


def complete_argument(argument: Argument, word: str = "") -> Iterable[str]:
    """Return values for an argument; asks a controller that runs, and starts none."""
    if argument.choices:
        return argument.choices
    if argument.completion == "engine":
        return complete_engine(word)
    if argument.completion == "status":
        return STATUSES
    ask = _NAMES_AT_CONTROLLER.get(argument.completion)
    return [] if ask is None else query_names(ask, [])


def complete_option_value(option: Option, word: str, engine: str) -> Iterable[str]:
    """Return values for an option of a job that runs on ``engine``; asks a controller that runs, and starts none."""
    if option.completion == "engine":
        return complete_engine(word)
    if option.completion == "interpreter":
        return _query_engine(engine).interpreters
    if option.completion == "instance_type":
        return _instance_types(engine)
    special = _SPECIAL_VALUES.get(option.name)
    return option.choices if special is None else special(word, engine)


def has_values(option: Option) -> bool:
    """Return True if :func:`complete_option_value` has values for an option."""
    return bool(option.completion or option.choices) or option.name in _SPECIAL_VALUES


def _instance_types(engine: str) -> Iterable[str]:
    return _query_engine(engine).instance_types or sorted(catalogue())


def _complete_group(word: str, engine: str) -> list[str]:
    """Return ``NAME:TYPE:`` for each type, if the name is there and the count is not."""
    name, *more = word.split(":")
    return [f"{name}:{kind}:" for kind in _instance_types(engine)] if len(more) == 1 else []


def _complete_engine_option(word: str, engine: str) -> list[str]:
    """Return ``NAME=`` for each option of the engine, and after it the values that are known, also behind a comma."""
    options = _query_engine(engine).options
    name, equals, value = word.partition("=")
    if not equals:
        return [f"{each}=" for each in options]
    return [f"{name}={each}" for each in _after_commas(options.get(name, ()), value)]


def _after_commas(names: Iterable[str], word: str) -> list[str]:
    """Return names for the last part of a list with commas."""
    kept = word[: word.rfind(",") + 1]
    return [f"{kept}{name}" for name in names]


def _complete_properties(word: str, first: Iterable[str], properties: Mapping[str, Iterable[str]]) -> list[str]:
    """Return what may stand before the first comma, and then the properties, or the values of the last one."""
    before, comma, last = word.rpartition(",")
    name, equals, _ = last.partition("=")
    if not comma:
        return [*first]
    if equals:
        return [f"{before},{name}={value}" for value in properties.get(name, ())]
    return _after_commas((f"{each}=" for each in properties), word)


def complete_engine(word: str) -> list[str]:
    """Return engines that begin with a word; if only one does, or its name is whole, also with its machines.

    Only that engine is imported by the controller. Without a controller the names are those that are installed.
    """
    installed = _query_engine("").engines or _installed_engines()
    engines = [name for name in installed if name.startswith(word)]
    whole = word if ":" in word or word in engines else engines[0] if len(engines) == 1 else ""
    if not whole:
        return engines
    kind = engine_kind(whole)
    machines = [f"{kind}:{target}" for target in _query_engine(kind).targets]
    return [*dict.fromkeys(name for name in (*engines, *machines) if name.startswith(word))]


def query_names(ask: Callable[[Client], _Names], default: _Names) -> _Names:
    """Return names from a running controller; ``default`` if there is none or it is too slow for Tab."""
    client = autostart.client_without_autostart(QUERY_TIMEOUT)
    try:
        return ask(client)
    except SmxError:
        return default
    finally:
        client.close()


def _query_engine(engine: str) -> EngineNames:
    return query_names(lambda client: client.engine_names(engine), EngineNames())


def _installed_engines() -> list[str]:
    from importlib.metadata import entry_points  # noqa: PLC0415 - costs milliseconds, and only a Tab needs it

    return sorted({point.name for point in entry_points(group=ENGINE_GROUP)})


_NAMES_AT_CONTROLLER: dict[str, Callable[[Client], list[str]]] = {
    "pool": lambda client: [pool.name for pool in client.pools()],
    "job": lambda client: [job.name for job in client.jobs(_MAX_JOBS)],
    "live_job": lambda client: [job.name for job in client.jobs(_MAX_JOBS) if not job.ended_at],
}


_SPECIAL_VALUES: Mapping[str, Callable[[str, str], Iterable[str]]] = {
    "after": lambda word, _: _after_commas(query_names(_NAMES_AT_CONTROLLER["job"], []), word),
    "distribution": lambda word, _: _complete_properties(word, RUNNERS, _DISTRIBUTION_PROPERTIES),
    "engine_options": _complete_engine_option,
    "inputs": lambda word, _: _complete_properties(word, (), PROPERTY_VALUES),
    "instance_groups": _complete_group,
}
"""Completers for the values of options with a form of their own, called with the word and the engine."""
