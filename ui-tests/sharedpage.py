"""A page that tests of a file use one after the other: JupyterLab's load is most of what a short test costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab import Lab
from profiles import clear_profile

if TYPE_CHECKING:
    from labserver import LabServer
    from playwright.sync_api import BrowserContext


class SharedPage:
    """One page with JupyterLab, which each test finds empty; after a failure the next test gets another."""

    def __init__(self, profile: BrowserContext, server: LabServer) -> None:
        self._profile = profile
        self._server = server
        self._lab: Lab | None = None

    def give(self) -> Lab:
        """Give the page; a new one when there is none, or when a test with pages of its own closed it."""
        if self._lab is None or self._lab.page.is_closed():
            self._profile.set_default_timeout(30_000)
            self._lab = Lab(self._profile.new_page(), self._server)
        self._lab.complaints.clear()
        return self._lab

    def empty(self) -> None:
        """Let the page be like a new one, before the server ends kernels and jobs of the test."""
        if self._lab is not None and not self._lab.page.is_closed():
            self._lab.empty()

    def close(self) -> None:
        """Close the page and remove what it stored."""
        lab, self._lab = self._lab, None
        if lab is not None:
            clear_profile(self._profile, [lab.origin])
