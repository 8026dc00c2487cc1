"""A folder or a volume of the machine on hosts; separate, because requests, records and engines have it."""

from __future__ import annotations

from msgspec import Struct


class Mount(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One mount: an absolute path of the machine, or the name of a volume, and the absolute path on the hosts."""

    source: str
    target: str
    writable: bool = False

    def is_volume(self) -> bool:
        """Return True if the source is the name of a volume."""
        return not self.source.startswith("/")

    def option_value(self) -> str:
        """Return the mount as ``--mount`` takes it."""
        return f"{self.source}:{self.target}{':rw' if self.writable else ''}"


def format_mounts(mounts: tuple[Mount, ...]) -> str:
    """Format mounts for people, "" for none."""
    return ", ".join(mount.option_value() for mount in mounts)
