"""Take the README's picture: JupyterLab with the quickstart and the panel, a job that runs and a pool that is warm.

``make demo`` calls it at its end where a Chromium is; ``make picture`` puts the picture where the README shows it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
SIZE = {"width": 1400, "height": 860}
PATIENCE = 180_000
"""Milliseconds."""

RUNNING = """
import time
import jupyter_smx as smx
job = smx.train('''
import time
for epoch in range(1, 91):
    until = time.monotonic() + 1
    while time.monotonic() < until:
        pass
    print(f"epoch {epoch}/90 loss={1 / epoch:.3f}", flush=True)
''', name="fit-forest", keep_alive="10m", metrics={"loss": r"loss=([0-9.]+)"}, wait=False)
while "epoch" not in job.logs():
    time.sleep(0.1)
smx.train("pass", name="second", keep_alive="10m").wait(60)
"""
"""A job that goes on for a while on the warm pool, and one that leaves another pool behind."""

NO_QUESTIONS = {"fetchNews": "false", "checkForUpdates": False}
"""Lab asks whether it may, over whatever the page shows."""


def browser() -> str | None:
    """Find a Chromium."""
    return os.environ.get("CHROMIUM_PATH") or next(filter(None, map(shutil.which, BROWSERS)), None)


def take(address: str, environment: dict[str, str], picture: Path) -> None:
    """Let a job run, open the notebook and the panel at ``address`` (with its token), and keep what is to be seen.

    :raises SystemExit: the page never shows the job's progress.
    """
    from playwright.sync_api import Error, sync_playwright  # noqa: PLC0415 - of the tests, and not everybody has them

    settings = Path(environment["JUPYTER_CONFIG_DIR"], "lab", "user-settings", "@jupyterlab", "apputils-extension")
    settings.mkdir(parents=True, exist_ok=True)
    (settings / "notification.jupyterlab-settings").write_text(json.dumps(NO_QUESTIONS))
    subprocess.run([sys.executable, "-c", RUNNING], env=environment, stdout=subprocess.DEVNULL, check=True)
    try:
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=browser(), args=ARGUMENTS)
            page = chromium.new_context(viewport=SIZE, device_scale_factor=1).new_page()
            page.set_default_timeout(PATIENCE)
            page.goto(address)
            _arrange(page)
            page.screenshot(path=picture, animations="disabled")
            chromium.close()
    except Error as error:
        raise SystemExit(f"The page did not come to show what the picture is of: {error}") from error


def _arrange(page: Page) -> None:
    # In a new workspace Lab opens it after everything else.
    page.locator("#filebrowser").wait_for()
    page.get_by_role("tab", name="Jobs and pools").click()
    panel = page.get_by_role("region", name="Jobs and pools")
    panel.get_by_role("progressbar").first.wait_for()
    panel.get_by_text("CPU").first.wait_for()
    panel.get_by_role("timer").first.wait_for()
    page.locator(".jp-Notebook .jp-smx-card").first.scroll_into_view_if_needed()
