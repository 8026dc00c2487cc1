"""The image that hosts are made of, for engines that use images."""

from __future__ import annotations

from msgspec import Struct

_BUILD = "build:"
"""Prefix of the name of an image that is built for a job; a slash follows, so that no registry has such a name."""
_DIGITS = 12
"""Digits of an id that are shown, enough to distinguish two."""


def build_name(path: str) -> str:
    """Return the name of the image that is built from a folder, or from a Dockerfile."""
    return f"{_BUILD}{path}"


def is_build_name(name: str) -> bool:
    """Return True if an image was built for a job, or will be."""
    return name.startswith(f"{_BUILD}/")


class Image(Struct, frozen=True, kw_only=True, eq=False):
    """An image at the submission of a job: its name in the user's words, and its immutable id.

    Two are equal if they are the same image, whatever their names.
    """

    name: str
    id: str
    digest: str = ""
    """Its reference at a registry, as ``train@sha256:…``, which is the same image everywhere; "" if none is known."""
    python_version: str = ""
    """Version of the Python that runs its jobs, as ``3.11``; "" if unknown."""
    user: str = ""
    """Its ``USER``, as its file says it; "" if it is unknown or root's."""
    workdir: str = ""
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    has_train: bool = True
    """False if it is known that no program ``train`` is on its ``PATH``."""

    def __eq__(self, other: object) -> bool:
        """Compare what they are, not what they are called."""
        return self.id == other.id if isinstance(other, Image) else NotImplemented

    def __hash__(self) -> int:
        """Hash what it is."""
        return hash(self.id)

    def reference(self) -> str:
        """Return the reference for an engine: the id, or the name of an image that is not here yet."""
        return self.id or self.name

    def display_name(self) -> str:
        """Format name and id, as ``train:1 (3fa85f645717)``; without the id if it is the name, or unknown."""
        digits = self.id.rpartition(":")[2][:_DIGITS]
        return self.name if self.id in {"", self.name} else f"{self.name} ({digits})"

    def display_name_with_digest(self) -> str:
        """Format name, id and registry for the record: ``train:1 (3fa85f645717), train@sha256:…``."""
        return (
            f"{self.display_name()}, {self.digest}" if self.digest and self.digest != self.name else self.display_name()
        )
