"""Find, load and configure engines by entry points; engines of third parties work like the included ones.

An unknown name in the configuration is refused: it would be a limit that applies to no job.
"""

from __future__ import annotations

import inspect
import os
import sys
from difflib import get_close_matches
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING

from traitlets import TraitError
from traitlets.config import Application, Config

from jupyter_smx.controller_launch import restart_hint
from jupyter_smx.engines.base import Engine
from jupyter_smx.model.errors import RefusedError, ValidationError, suggest_names

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from traitlets.config import Configurable

GROUP = "jupyter_smx.engines"

RENAMED_METHODS = {
    "survey": "observe_all",
    "pin": "resolve_image",
    "glimpse": "peek_image",
    "recall": "cached_image",
    "bring": "provide_files",
    "remains": "spool_path",
    "obituary": "exit_reason",
    "usual_image": "default_image",
    "isolates_network": "is_network_isolated",
}
"""Methods of the port by their names in earlier versions."""
_OTHER_CONFIG_FILES = {"SmxMagics": "ipython_config.py", "SmxServerExtension": "jupyter_server_config.py"}
"""Sections that another file configures."""
_SIMILARITY_CUTOFF = 0.9
"""Minimum similarity of a name with a typing error. A name with one more word is another name, such as an engine's on
another machine.
"""


def installed_engines() -> Mapping[str, EntryPoint]:
    """List what is installed by name; nothing is imported for that."""
    return _read_entry_points(tuple((path, _changed_at(path)) for path in sys.path))


@lru_cache(maxsize=1)
def _read_entry_points(folders: tuple[tuple[str, int], ...]) -> Mapping[str, EntryPoint]:
    """Read the entry points of all packages, once for all times at which their folders changed: it takes milliseconds.

    ``importlib.metadata`` lists a folder again by the same times.
    """
    del folders
    return MappingProxyType({point.name: point for point in entry_points(group=GROUP)})


def _changed_at(folder: str) -> int:
    try:
        return os.stat(folder or ".").st_mtime_ns  # noqa: PTH116 - for each path of the interpreter
    except OSError:
        return 0


def engine_class_names() -> list[str]:
    """Name the classes of what is installed, which are the sections that configure it; nothing is imported for that."""
    return [point.attr for point in installed_engines().values()]


def engine_class(name: str) -> type[Engine]:
    """Import the engine of that name, and with it the client of its platform. A target after a colon is ignored.

    :raises ValidationError: no installed package offers an engine of that name.
    :raises RefusedError: a package offers it, but a requirement is missing or broken, or its methods are of an old
        port.
    """
    known = installed_engines()
    kind, colon, _ = name.partition(":")
    point = known.get(kind)
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
            name, f"needs the package {missing.name!r}, which is not installed", _install_hint(point, missing)
        ) from missing
    except Exception as problem:  # a declared border: the module is third-party code
        raise _refusal(name, f"cannot be imported ({type(problem).__name__}: {problem})", "") from problem
    if not (isinstance(found, type) and issubclass(found, Engine)):
        raise _refusal(name, f"is {point.value}, which is not a subclass of jupyter_smx.engines.base.Engine", "")
    _check_method_names(name, found)
    if colon and not found.takes_target:
        raise ValidationError(
            f"--engine: {name!r} is not an engine.",
            field="engine",
            value=name,
            rule=f"The engine {kind} is one place, so nothing follows its name.",
            cure=f"Use --engine {kind}.",
        )
    return found


def create(name: str, parent: Configurable | None = None) -> Engine:
    """Create the engine of that name, with traits from ``parent``'s configuration.

    :raises ValidationError: no such engine.
    :raises RefusedError: it is installed only in part, or its configuration is invalid.
    """
    found = engine_class(name)
    for unread, meant in unknown_traits(parent.config, found).items() if parent is not None else ():
        raise _config_error(name, f"{unread} is not one of its options", meant)
    try:
        made = found(parent=parent)
    except TraitError as problem:
        raise _config_error(name, str(problem).rstrip("."), "") from problem
    made.target = name.partition(":")[2]
    made.name = name  # type: ignore[misc]  # of this one engine
    made.check_target()
    return made


def check_config(config: Config, app: type[Configurable], engines: Collection[str]) -> None:
    """Check that each name configures something: its section exists, and the application has a trait of that name.

    ``engines`` names the classes of the installed engines. Their traits are checked when one is imported.

    :raises ValidationError: a name configures nothing; the text has the nearest name that exists.
    """
    known = {app.__name__, *engines}
    for section, names in config.items():
        if not isinstance(names, Config):
            raise _unknown_name_error(f"c.{section}", "it is outside any section", f"Write c.{app.__name__}.{section}.")
        if section in _OTHER_CONFIG_FILES:
            raise _unknown_name_error(
                f"c.{section}", f"{section} is read from {_OTHER_CONFIG_FILES[section]}", "Write it in that file."
            )
        near = get_close_matches(section, known, n=1, cutoff=_SIMILARITY_CUTOFF)
        if near and section not in known:
            raise _unknown_name_error(f"c.{section}", "the name is unknown", f"Did you mean {near[0]}?")
    for name, meant in (unknown_traits(config, app) | unknown_traits(config, app, Application)).items():
        raise _unknown_name_error(name, f"{app.__name__} has no such option", meant)


def unknown_traits(
    config: Config, configured: type[Configurable], parent: type[Configurable] | None = None
) -> dict[str, str]:
    """Find names in the section of a class, or of its ``parent``, that are no traits of the class.

    Returns a hint for each. Sections within a section are skipped: they configure the children of an object.
    """
    section, known = (parent or configured).__name__, configured.class_trait_names(config=True)
    names = [name for name, value in config.get(section, {}).items() if not isinstance(value, Config)]
    return {f"c.{section}.{name}": suggest_names(name, known) for name in names if name not in known}


def _check_method_names(name: str, found: type[Engine]) -> None:
    """Refuse a class that has a port's method by its old name, which no caller would use; runs none of its code."""
    methods = {old: inspect.getattr_static(found, old, None) for old in RENAMED_METHODS}
    old_names = [old for old, method in methods.items() if inspect.isroutine(method)]
    if old_names:
        renamed = ", ".join(f"{old} (now {RENAMED_METHODS[old]})" for old in old_names)
        raise RefusedError(
            f"--engine: {name!r} uses methods of the engine port that were renamed: {renamed}.",
            field="engine",
            value=name,
            rule="An engine must use the current method names.",
            cure="Install a newer version of this engine, or rename its methods.",
        )


def _unknown_name_error(name: str, why: str, cure: str) -> ValidationError:
    return ValidationError(
        f"config: {name} has no effect: {why}.",
        field="config",
        value=name,
        rule="Configuration applies to every job, so no job runs until it is correct.",
        cure=f"{cure} Correct it in one of the folders that `jupyter --paths` lists, or in the command.".strip(),
    )


def _config_error(name: str, what: str, meant: str) -> RefusedError:
    return RefusedError(
        f"--engine: {name!r} has an invalid configuration: {what}.",
        field="engine",
        value=name,
        rule="Engines are configured in jupyter_smx_config.py.",
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
        rule="An engine is imported on first use.",
        cure=cure or "Report it to the author of the engine.",
    )
