"""Find out if containers in the daemon's default network can resolve names as this machine does.

Docker copies the machine's name servers for them. It leaves out those on the loopback, where a container has none, and
takes public ones if no other is left. In separate networks the daemon itself asks the machine's name servers.
"""

from __future__ import annotations

from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_PATHS = ("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf")
"""The machine's configuration, and the one that Docker takes if systemd-resolved is the only name server there."""
_SYSTEMD = "127.0.0.53"


def is_on_loopback(paths: Sequence[str] = _PATHS) -> bool:
    """Return True if this machine has name servers and all of them are on its loopback; False if unknown. Blocks."""
    for path in paths:
        servers = _read_servers(path)
        if servers != [_SYSTEMD]:
            return bool(servers) and all(map(_is_loopback, servers))
    return True


def _read_servers(path: str) -> list[str]:
    with suppress(OSError):
        rows = [line.split() for line in Path(path).read_text(errors="replace").splitlines()]
        return [row[1] for row in rows if row[:1] == ["nameserver"] and len(row) > 1]
    return []


def _is_loopback(server: str) -> bool:
    with suppress(ValueError):
        return ip_address(server.partition("%")[0]).is_loopback
    return False
