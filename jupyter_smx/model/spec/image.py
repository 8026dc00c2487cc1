"""The image that hosts are made of, for engines that use images."""

from __future__ import annotations

from msgspec import Struct

_DIGITS = 12
"""Of an id; enough to tell two apart."""


class Image(Struct, frozen=True, kw_only=True, eq=False):
    """An image as it was when a job was handed in: its name in the user's words, and the id that never means another.

    Two are equal when they are the same image, whatever they are called.
    """

    name: str
    id: str
    digest: str = ""
    """Where a registry has it, as ``train@sha256:…``, which gives the same image everywhere; "" where none is known."""

    def __eq__(self, other: object) -> bool:
        """Compare what they are, not what they are called."""
        return self.id == other.id if isinstance(other, Image) else NotImplemented

    def __hash__(self) -> int:
        """Hash what it is."""
        return hash(self.id)

    def reference(self) -> str:
        """Give what an engine is asked for: the id, or the name of one that is not here yet."""
        return self.id or self.name

    def display_name(self) -> str:
        """Say which it is, as ``train:1 (3fa85f645717)``; an id that is its own name, or not known yet, is not said."""
        digits = self.id.rpartition(":")[2][:_DIGITS]
        return self.name if self.id in {"", self.name} else f"{self.name} ({digits})"

    def display_name_with_digest(self) -> str:
        """Say which it is on the record, and where it can be had: ``train:1 (3fa85f645717), train@sha256:…``."""
        return (
            f"{self.display_name()}, {self.digest}" if self.digest and self.digest != self.name else self.display_name()
        )
