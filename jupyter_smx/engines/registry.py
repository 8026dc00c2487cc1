"""Which engines are installed, found by entry points, so that a third party's engine is used like one of ours."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from traitlets import TraitError

from jupyter_smx.controller_launch import restart_hint
from jupyter_smx.engines import config_check
from jupyter_smx.engines.base import Engine
from jupyter_smx.model.errors import RefusedError, ValidationError, suggest_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traitlets.config import Configurable

GROUP = "jupyter_smx.engines"


def installed_engines() -> Mapping[str, EntryPoint]:
    """List what is installed by name; nothing is imported for that."""
    return {point.name: point for point in entry_points(group=GROUP)}


def engine_class_names() -> list[str]:
    """Name the classes of what is installed, which are the sections that configure it; nothing is imported for that."""
    return [point.attr for point in installed_engines().values()]


def engine_class(name: str) -> type[Engine]:
    """Import the engine of that name, and with it the client of its platform.

    :raises ValidationError: no installed package offers an engine of that name.
    :raises RefusedError: one does, and what it needs is not installed or is broken.
    """
    known = installed_engines()
    point = known.get(name)
    if point is None:
        raise ValidationError(
            f"--engine: {name!r} is not an engine.",
            field="engine",
            value=name,
            rule=f"Installed engines: {', '.join(sorted(known)) or 'none'}.",
            cure=suggest_names(name, known) or f"An engine is a package with an entry point in the group {GROUP}.",
        )
    try:
        found = point.load()
    except ModuleNotFoundError as missing:
        raise _refusal(
            name, f"needs {missing.name!r}, which is not installed", _install_hint(point, missing)
        ) from missing
    except Exception as problem:  # a declared border: the module is somebody else's code
        raise _refusal(name, f"cannot be imported ({type(problem).__name__}: {problem})", "") from problem
    if not (isinstance(found, type) and issubclass(found, Engine)):
        raise _refusal(name, f"is {point.value}, which is no subclass of jupyter_smx.engines.base.Engine", "")
    return found


def create(name: str, parent: Configurable | None = None) -> Engine:
    """Make the engine of that name; its traits are configured as ``parent``'s configuration says.

    :raises ValidationError: no such engine.
    :raises RefusedError: it is installed only in part, or is configured with what it cannot take.
    """
    found = engine_class(name)
    for unread, meant in config_check.unknown_traits(parent.config, found).items() if parent is not None else ():
        raise _config_error(name, f"{unread} is no name of its configuration", meant)
    try:
        return found(parent=parent)
    except TraitError as problem:
        raise _config_error(name, str(problem).rstrip("."), "") from problem


def _config_error(name: str, what: str, meant: str) -> RefusedError:
    return RefusedError(
        f"--engine: {name!r} is configured wrongly: {what}.",
        field="engine",
        value=name,
        rule="The configuration of an engine stands in jupyter_smx_config.py.",
        cure=f"{meant} Correct it in one of the folders that `jupyter --paths` lists. {restart_hint()}".strip(),
    )


def _install_hint(point: EntryPoint, missing: ModuleNotFoundError) -> str:
    package = point.dist.name if point.dist is not None else ""
    wanted = f"{package}[{','.join(point.extras)}]" if package and point.extras else missing.name or package
    return f"Install it with: {sys.executable} -m pip install '{wanted}'"


def _refusal(name: str, what: str, cure: str) -> RefusedError:
    return RefusedError(
        f"--engine: {name!r} {what}.",
        field="engine",
        value=name,
        rule="An engine is imported when it is first used.",
        cure=cure or "Report it to whoever made that engine.",
    )
