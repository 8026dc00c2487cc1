"""Names in the administrator's configuration: one that nobody reads would be a limit that holds for no job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traitlets.config import Config

from jupyter_smx.model.errors import ValidationError, nearest

if TYPE_CHECKING:
    from collections.abc import Collection

    from traitlets.config import Configurable

_ELSEWHERE = {"SmxMagics": "ipython_config.py", "SmxServerExtension": "jupyter_server_config.py"}
"""Sections of ours, and where they are read."""
_ALIKE = 0.8
"""How much alike two names are of which one is a typing error; the parts of somebody's engine may have any name."""


def check(config: Config, app: type[Configurable], engines: Collection[str]) -> None:
    """Refuse what configures nothing: a section of a wrong name, and a name that the application does not have.

    ``engines`` are the classes of those that are installed; what each has is known when it is imported.

    :raises ValidationError: there is such a name; the text says which, and what it may have been meant to be.
    """
    known = {*app.section_names(), *engines}
    for section, names in config.items():
        if not isinstance(names, Config):
            raise _unread(f"c.{section}", "it is in no section", f"Write c.{app.__name__}.{section}.")
        if section in _ELSEWHERE:
            raise _unread(f"c.{section}", f"{section} is read from {_ELSEWHERE[section]}", "Write it there.")
        if section not in known and (meant := nearest(section, known, alike=_ALIKE)):
            raise _unread(f"c.{section}", "nothing is called that", meant)
    for name, meant in unread(config, app).items():
        raise _unread(name, f"{app.__name__} has nothing of that name", meant)


def unread(config: Config, configured: type[Configurable]) -> dict[str, str]:
    """Find names in the section of a class that it does not have, with what each may have been meant to be."""
    section, known = configured.__name__, configured.class_trait_names(config=True)
    return {f"c.{section}.{name}": nearest(name, known) for name in config.get(section, {}) if name not in known}


def _unread(name: str, why: str, cure: str) -> ValidationError:
    return ValidationError(
        f"config: {name} is read by nobody: {why}.",
        field="config",
        value=name,
        rule="What is configured holds for every job, so nothing runs while a part of it does not.",
        cure=f"{cure} Correct it in one of the folders that `jupyter --paths` lists, or in the command.".strip(),
    )
