"""Proxies that ``docker run`` gives to containers: what the user wrote into ``proxies`` of Docker's ``config.json``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docker.utils.config import load_general_config
from docker.utils.proxy import ProxyConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_ALL_PROXY = "allProxy"
_NO_PROXY = ("no_proxy", "NO_PROXY")


def read_proxies(url: str) -> dict[str, str]:
    """Read the variables by which programs learn of the proxies of this daemon's containers; none where none is told.

    Blocks, for as long as it takes to read a small file.
    """
    told = load_general_config()
    table = told.get("proxies") if isinstance(told, dict) else None
    rows = [table.get(name) for name in (url, "default")] if isinstance(table, dict) else []
    row: Any = next((row for row in rows if isinstance(row, dict)), {})
    found: dict[str, Any] = dict(ProxyConfig.from_dict(row).get_environment())
    if row.get(_ALL_PROXY):  # which Docker's own program knows, and its library does not
        found |= dict.fromkeys(("all_proxy", "ALL_PROXY"), row[_ALL_PROXY])
    return {name: str(value) for name, value in found.items()}


def add_no_proxy(proxies: Mapping[str, str], hosts: Iterable[str]) -> dict[str, str]:
    """Let the hosts of one cluster reach each other past the proxies, which do not know them."""
    if not set(proxies).difference(_NO_PROXY):
        return dict(proxies)
    known = proxies.get(_NO_PROXY[0], "")
    return {**proxies, **dict.fromkeys(_NO_PROXY, ",".join(filter(None, [known, *hosts])))}
