"""How somebody who sits at the controller's machine opens a shell on a host."""

from __future__ import annotations

from msgspec import Struct


class ShellCommand(Struct, frozen=True, kw_only=True):
    """The words of a command for a terminal, and all hosts of which one could have been named."""

    command: tuple[str, ...]
    hosts: tuple[str, ...]
