"""A browser profile that one test after the other uses: each finds it empty, but for the scripts in the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from playwright.sync_api import BrowserContext


def clear_profile(profile: BrowserContext, origins: Iterable[str]) -> None:
    """Close all tabs but the first one, and remove permissions, cookies and what pages of the origins stored."""
    first, *others = profile.pages
    for page in others:
        page.close()
    profile.clear_cookies()
    profile.clear_permissions()
    session = profile.new_cdp_session(first)
    for origin in origins:
        # The cache of HTTP and the compiled scripts stay.
        session.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
    session.detach()
