"""JupyterLab in a browser tab as a person uses it: open a notebook, run it, look at the panel and at cards."""

from __future__ import annotations

import itertools
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from labserver import BASE
from playwright.sync_api import expect

if TYPE_CHECKING:
    from labserver import LabServer
    from playwright.sync_api import ConsoleMessage, Locator, Page

THEMES = ["JupyterLab Light", "JupyterLab Dark", "JupyterLab Dark High Contrast"]
SCREENSHOTS = Path(__file__).parent / "screenshots"
KERNEL_LIMIT = 60_000
"""Milliseconds until a kernel is idle: the longest wait here, since others may use the machine too."""

WAKE = 20_000
"""Milliseconds until a job in the panel follows one on a host, a cold start included."""

SHOWN = 15_000
"""Milliseconds until the page shows what the server said already, where a test names no other limit."""

TRIES = 5

VIEWPORT = {"width": 1400, "height": 900}

HAS_SESSIONS = """() =>
  [...window.jupyterapp.shell.widgets('main')].every(widget => widget.sessionContext?.isReady ?? true)"""
"""Whether no notebook waits for its kernel: one that is closed meanwhile complains later."""

CLOSE_TABS = """() => {
  const { shell } = window.jupyterapp;
  const list = area => {
    try {
      return [...shell.widgets(area)];
    } catch {
      return []; // Lab 4.2 does not list what is below
    }
  };
  for (const widget of [...list('main'), ...list('down')]) {
    widget.dispose();
  }
  shell.activateById('filebrowser');
}"""
"""Closes all tabs, without Lab's question about what is not saved, and shows the file browser."""

_workspaces = itertools.count(1)


class Lab:
    """One tab with a workspace of its own. What goes wrong in it is collected in ``complaints``."""

    def __init__(self, page: Page, server: LabServer) -> None:
        self.page = page
        self.panel = Panel(page)
        self.complaints: list[str] = []
        self.origin = server.origin
        self._server = server
        self._workspace = f"tab-{next(_workspaces)}"
        self._is_empty = False
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(f"exception: {error.stack or error}"))
        page.on("request", lambda request: self._watch(request.url))

    def open(self, notebook: str = "") -> None:
        """Load Lab, with a notebook when one is named, and wait until it can be used.

        A shared page is loaded already: a notebook opens in it.
        """
        if self._is_empty:
            self._is_empty = False
            self._open_here(notebook)
            return
        tree = f"/tree/{notebook}" if notebook else ""
        url = f"{self._server.origin}{BASE}lab/workspaces/{self._workspace}{tree}?token={self._server.token}"
        self.page.goto(url, wait_until="load")
        self._wait_ready(notebook)
        self._wait_launcher()

    def empty(self) -> None:
        """Close all tabs and undo what a test set in this page, so that the next test finds it like a new one."""
        self.page.unroute_all(behavior="ignoreErrors")
        self.page.set_viewport_size(VIEWPORT)
        self.page.emulate_media(forced_colors="null", reduced_motion="null")
        expect(self.page.get_by_role("dialog")).to_have_count(0)
        if self.panel.region.is_visible() and self.panel.filter.is_visible():
            self.panel.filter.fill("")
        self.page.wait_for_function(HAS_SESSIONS, polling=100)
        self.page.evaluate(CLOSE_TABS)
        self._wait_launcher()
        self._is_empty = True

    def visit(self, path: str) -> None:
        """Load a page that is not Lab's."""
        self.page.goto(f"{self._server.origin}{BASE}{path}?token={self._server.token}", wait_until="load")

    def reload(self, notebook: str = "") -> None:
        """Load the page again, as the browser's button does."""
        self.page.reload(wait_until="load")
        self._wait_ready(notebook)

    def run_all(self) -> None:
        """Run all cells; a kernel that is not idle yet would make Lab ask which one to take."""
        self.execute("notebook:run-all-cells")

    def save(self) -> None:
        """Save the notebook and wait until it is."""
        self.execute("docmanager:save")
        expect(self.page.locator(".lm-DockPanel-tabBar .jp-mod-dirty")).to_have_count(0)

    def command(self, label: str) -> None:
        """Choose a command in the palette, with the keyboard only."""
        # Lab reads its shortcuts after it is shown.
        self.page.wait_for_function(
            "id => window.jupyterapp.commands.keyBindings.some(binding => binding.command === id)",
            arg="apputils:activate-command-palette",
        )
        field = self.page.locator(".lm-CommandPalette-input")
        # Lab may be busy with what it loads when the first keys come; pressed again they do no harm.
        for _ in range(TRIES):
            self.page.keyboard.press("Control+Shift+C")
            with suppress(AssertionError):
                expect(field).to_be_focused(timeout=2_000)
                break
        expect(field).to_be_focused()
        self.page.keyboard.type(label)
        expect(self.page.locator(".lm-CommandPalette-item.lm-mod-active")).to_contain_text(label)
        self.page.keyboard.press("Enter")

    def theme(self, name: str) -> None:
        """Change the colours of Lab and wait until the page has them.

        Lab covers the page meanwhile, and removes its cover twice if another change comes first.
        """
        self.page.evaluate("theme => void window.jupyterapp.commands.execute('apputils:change-theme', {theme})", name)
        expect(self.page.locator(f"body[data-jp-theme-name='{name}']")).to_have_count(1)
        expect(self.page.locator("#jupyterlab-splash")).to_have_count(0)

    def photograph_themes(self, name: str) -> None:
        """Keep a picture of the page in each theme, as ``name-dark``."""
        for theme in THEMES:
            self.theme(theme)
            self.photograph(f"{name}-{theme.removeprefix('JupyterLab ').replace(' ', '-').lower()}")

    def card(self, name: str) -> Locator:
        """Find the card of the newest job with this base name."""
        return self.page.get_by_role("group", name=re.compile(f"^Job {name}")).last

    def toast(self, text: str) -> Locator:
        """Find a notification."""
        return self.page.locator(".Toastify__toast").filter(has_text=text)

    def photograph(self, name: str) -> None:
        """Keep a picture of the page for people to look at."""
        SCREENSHOTS.mkdir(exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", animations="disabled")

    def _open_here(self, notebook: str) -> None:
        if notebook:
            opening = "path => void window.jupyterapp.commands.execute('docmanager:open', { path })"
            self.page.evaluate(opening, notebook)
        self._wait_ready(notebook)

    def _wait_launcher(self) -> None:
        # In a new workspace Lab opens it last, and a panel that was opened before loses the sidebar to it.
        expect(self.page.locator("#filebrowser")).to_be_visible(timeout=KERNEL_LIMIT)
        # A launcher takes the focus when it comes, also from a palette, which closes then.
        expect(self.page.locator("#jp-main-dock-panel .jp-MainAreaWidget").first).to_be_visible(timeout=KERNEL_LIMIT)

    def _wait_ready(self, notebook: str) -> None:
        expect(self.page.locator("#jp-main-dock-panel")).to_be_visible(timeout=KERNEL_LIMIT)
        expect(self.page.locator("#jupyterlab-splash")).to_have_count(0, timeout=KERNEL_LIMIT)
        if notebook:
            expect(self.page.locator(".jp-NotebookPanel").first).to_be_visible(timeout=KERNEL_LIMIT)
            expect(self.page.locator("#jp-main-statusbar")).to_contain_text("Idle", timeout=KERNEL_LIMIT)

    def execute(self, command: str) -> None:
        """Begin a command of the page, and do not wait for its end."""
        # `void`: a promise would be waited for without any limit.
        self.page.evaluate("command => void window.jupyterapp.commands.execute(command)", command)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.complaints.append(f"console: {message.text} at {message.location.get('url', '')}")

    def _watch(self, url: str) -> None:
        if not url.startswith((self._server.origin, "data:", "blob:", self._server.origin.replace("http", "ws"))):
            self.complaints.append(f"request to elsewhere: {url}")


class Panel:
    """The panel "Jobs and pools" of the left sidebar."""

    def __init__(self, page: Page) -> None:
        self.region = page.get_by_role("region", name="Jobs and pools")
        self.warm = self.region.get_by_role("list", name="Warm pools").get_by_role("listitem")
        self.countdown = self.region.get_by_role("timer")
        self.longer = self.region.get_by_role("button", name=re.compile("by 15 minutes"))
        self.release = self.region.get_by_role("button", name=re.compile("^Release pool"))
        self.filter = self.region.get_by_role("searchbox", name="Filter jobs and pools")
        self.tab = page.get_by_role("tab", name="Jobs and pools")

    def show(self) -> None:
        """Open it with its icon, unless it is open."""
        if not self.region.is_visible():
            self.tab.click()
        expect(self.region).to_be_visible()

    def running(self, name: str) -> Locator:
        """Find the row of a running job."""
        return self.region.get_by_role("list", name="Running jobs").get_by_role("listitem").filter(has_text=named(name))

    def finished(self, name: str) -> Locator:
        """Find the row of a finished job."""
        return (
            self.region.get_by_role("list", name="Finished jobs").get_by_role("listitem").filter(has_text=named(name))
        )

    def stop(self, name: str) -> Locator:
        """Find the button that stops a job."""
        return self.region.get_by_role("button", name=re.compile(f"^Stop {name}"))


def named(name: str) -> re.Pattern[str]:
    """Match the text of a row whose job has a name that begins so: "whole", and not "the-whole"."""
    return re.compile(rf"(?<![\w-]){name}")


def clock(row: Locator) -> Locator:
    """Find the time of a row or of a card as it is seen."""
    return row.locator(".jp-smx-time span[aria-hidden]")
