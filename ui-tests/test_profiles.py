"""Tests share a browser profile, and each finds it empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labserver import BASE
from profiles import clear_profile

if TYPE_CHECKING:
    from labserver import LabServer
    from playwright.sync_api import BrowserContext, Page

STORE = """async () => {
  localStorage.setItem('left', 'local');
  document.cookie = 'left=cookie; path=/';
  await new Promise(done => { indexedDB.open('left').onsuccess = done; });
}"""
STORED = """async () => [
  localStorage.length, document.cookie, (await indexedDB.databases()).length, Notification.permission === 'granted'
]"""


def opened(profile: BrowserContext, server: LabServer) -> Page:
    """Open a page of the server in a new tab."""
    page = profile.new_page()
    page.goto(f"{server.origin}{BASE}api")
    return page


def test_a_cleared_profile_has_nothing_of_the_pages_before(profile: BrowserContext, server: LabServer) -> None:
    page = opened(profile, server)
    profile.grant_permissions(["notifications"], origin=server.origin)
    page.evaluate(STORE)
    assert page.evaluate(STORED) == [1, "left=cookie", 1, True]
    clear_profile(profile, [server.origin])
    assert page.is_closed()
    again = opened(profile, server)
    stored = again.evaluate(STORED)
    again.close()
    assert stored == [0, "", 0, False]
