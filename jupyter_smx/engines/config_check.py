"""Names in the administrator's configuration: one that nobody reads would be a limit that holds for no job."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from traitlets.config import Application, Config

from jupyter_smx.model.errors import ValidationError, suggest_names

if TYPE_CHECKING:
    from collections.abc import Collection

    from traitlets.config import Configurable

_OTHER_CONFIG_FILES = {"SmxMagics": "ipython_config.py", "SmxServerExtension": "jupyter_server_config.py"}
"""Sections of ours, and where they are read."""
_SIMILARITY_CUTOFF = 0.9
"""How much alike two names are of which one is a typing error: with a word more it is the name of something else, as
of an engine that is installed elsewhere, or of what one is made of."""


def check_config(config: Config, app: type[Configurable], engines: Collection[str]) -> None:
    """Refuse what configures nothing: a section of a wrong name, and a name that the application does not have.

    ``engines`` are the classes of those that are installed; what each has is known when it is imported.

    :raises ValidationError: there is such a name; the text says which, and what it may have been meant to be.
    """
    known = {app.__name__, *engines}
    for section, names in config.items():
        if not isinstance(names, Config):
            raise _unknown_name_error(f"c.{section}", "it is in no section", f"Write c.{app.__name__}.{section}.")
        if section in _OTHER_CONFIG_FILES:
            raise _unknown_name_error(
                f"c.{section}", f"{section} is read from {_OTHER_CONFIG_FILES[section]}", "Write it there."
            )
        near = get_close_matches(section, known, n=1, cutoff=_SIMILARITY_CUTOFF)
        if near and section not in known:
            raise _unknown_name_error(f"c.{section}", "nothing is called that", f"Did you mean {near[0]}?")
    for name, meant in (unknown_traits(config, app) | unknown_traits(config, app, Application)).items():
        raise _unknown_name_error(name, f"{app.__name__} has nothing of that name", meant)


def unknown_traits(
    config: Config, configured: type[Configurable], parent: type[Configurable] | None = None
) -> dict[str, str]:
    """Find names in the section of a class, or of a ``parent`` of it, that it does not have.

    Gives what each may have been meant to be. Sections within a section are for what it is the parent of.
    """
    section, known = (parent or configured).__name__, configured.class_trait_names(config=True)
    names = [name for name, value in config.get(section, {}).items() if not isinstance(value, Config)]
    return {f"c.{section}.{name}": suggest_names(name, known) for name in names if name not in known}


def _unknown_name_error(name: str, why: str, cure: str) -> ValidationError:
    return ValidationError(
        f"config: {name} is read by nobody: {why}.",
        field="config",
        value=name,
        rule="What is configured holds for every job, so nothing runs while a part of it does not.",
        cure=f"{cure} Correct it in one of the folders that `jupyter --paths` lists, or in the command.".strip(),
    )
