"""A Chromium of its own whose tabs are hidden and shown as a person does it; Playwright keeps its own visible."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lab import Lab
from profiles import clear_profile

from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from labserver import LabServer
    from playwright.sync_api import BrowserContext, BrowserType

START_LIMIT = 30.0
WATCHED = """
(() => {
  const Real = window.Notification;
  window.notes = [];
  window.asked = 0;
  window.Notification = class extends Real {
    constructor(title, options) {
      super(title, options);
      window.notes.push({ title, ...options, note: this });
    }
    // A Chromium without a window has answered with no before anybody asks; a test may say otherwise.
    static get permission() {
      return window.answer ?? Real.permission;
    }
    static async requestPermission() {
      window.asked += 1;
      window.answer = window.reply ?? (await Real.requestPermission());
      return window.answer;
    }
  };
  const Socket = window.WebSocket;
  window.lines = [];
  window.refused = false;
  window.WebSocket = class extends Socket {
    constructor(url, ...rest) {
      const isLine = String(url).includes('/api/events/subscribe');
      super(isLine && window.refused ? 'ws://127.0.0.1:9/' : url, ...rest);
      if (isLine) {
        window.lines.push(this);
      }
    }
  };
})();
"""
"""Keeps each desktop notification that a page makes, and its lines to the event bus; all of them are real."""


class Windows:
    """One browser profile with one window; its tabs are those of a person, so only one of them is visible."""

    def __init__(self, context: BrowserContext, server: LabServer) -> None:
        self._server = server
        self._context = context
        context.add_init_script(WATCHED)
        self.blank = context.pages[0]

    def unasked(self, reply: str) -> None:
        """Let the browser have no answer yet, and give this one when it is asked."""
        self._context.add_init_script(f"window.answer = 'default'; window.reply = {reply!r};")

    def allow(self) -> None:
        """Answer the browser's question about notifications beforehand."""
        self._context.grant_permissions(["notifications"], origin=self._server.origin)

    def open(self) -> Lab:
        """Open Lab in a new tab, which is seen then."""
        lab = Lab(self._context.new_page(), self._server)
        lab.open()
        return lab

    def hide(self, lab: Lab) -> None:
        """Look at another tab, and wait until this one knows."""
        self.blank.bring_to_front()
        lab.page.wait_for_function("document.visibilityState === 'hidden'", polling=100)

    def show(self, lab: Lab) -> None:
        """Look at this tab."""
        lab.page.bring_to_front()
        lab.page.wait_for_function("document.visibilityState === 'visible'", polling=100)


@contextmanager
def started(command: list[str], folder: Path) -> Iterator[str]:
    """Start a browser with a new profile, give its address, and end it."""
    told = folder / "DevToolsActivePort"
    process = subprocess.Popen(
        [
            *command,
            "--headless=new",
            "--remote-debugging-port=0",
            f"--user-data-dir={folder}",
            "--window-size=1400,900",
            "about:blank",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually_blocking(
            lambda: told.exists() and told.read_text().strip(), "the browser listens", within=START_LIMIT
        )
        yield f"http://127.0.0.1:{told.read_text().split()[0]}"
    finally:
        process.terminate()
        process.wait()


@contextmanager
def connected(chromium: BrowserType, address: str, server: LabServer) -> Iterator[Windows]:
    """Connect to that browser, and leave it with one empty tab and an empty profile."""
    browser = chromium.connect_over_cdp(address, no_defaults=True)
    profile = browser.contexts[0]
    profile.set_default_timeout(30_000)
    try:
        yield Windows(profile, server)
    finally:
        clear_profile(profile, [server.origin])
        browser.close()  # ends the connection and its scripts for new pages, not the browser
