"""Find out if containers in the daemon's default network can resolve names as this machine does.

Docker copies the machine's name servers for them. It omits those on the loopback, where a container has none, and IPv6
ones, which that network seldom reaches. If no other is left, it takes public ones, and otherwise a server may be
missing that answers for private names. In separate networks the daemon itself sends the requests.
"""

from __future__ import annotations

from contextlib import suppress
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_PATHS = ("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf")
"""The machine's configuration, and the one that Docker takes if systemd-resolved is the only name server there."""
_SYSTEMD = "127.0.0.53"


def are_name_servers_reachable(paths: Sequence[str] = _PATHS) -> bool:
    """Return True if containers in the default network get all name servers of this machine; False if unknown.

    Blocks.
    """
    for path in paths:
        servers = _read_servers(path)
        if servers != [_SYSTEMD]:
            return bool(servers) and all(map(_is_copied, servers))
    return False


def _read_servers(path: str) -> list[str]:
    with suppress(OSError):
        rows = [line.split() for line in Path(path).read_text(errors="replace").splitlines()]
        return [row[1] for row in rows if row[:1] == ["nameserver"] and len(row) > 1]
    return []


def _is_copied(server: str) -> bool:
    """Return True if Docker copies a server and it means the same in a container; an invalid address is omitted."""
    with suppress(ValueError):
        address = IPv4Address(server)
        return not (address.is_loopback or address.is_unspecified)
    return False
