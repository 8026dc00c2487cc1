"""A page of another origin cannot reach the front for clients of AWS: the browser gets a refusal to its preflight."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from labserver import THIS_INSTALLATION

from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

FETCH = """
([url, headers]) => fetch(url, {method: "POST", headers, body: "{}"}).then(() => "answered", error => error.name)
"""
HEADERS = {"X-Amz-Target": "SageMaker.ListTrainingJobs", "Content-Type": "application/x-amz-json-1.1"}


class EmptyPage(http.server.BaseHTTPRequestHandler):
    """Answers each request with an empty page."""

    def do_GET(self) -> None:
        """Answer, whatever the path is."""
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def page_url() -> Iterator[str]:
    """Serve an empty page of an origin of its own."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), EmptyPage) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://localhost:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def front_url(browser: Browser, tmp_path: Path) -> Iterator[str]:
    """Start a front as a shell does; it ends with the test."""
    del browser  # without one nothing needs to start
    environment = THIS_INSTALLATION.environment(os.environ) | {"JUPYTER_SMX_DATA_DIR": str(tmp_path / "smx")}

    def command(*words: str) -> str:
        line = [sys.executable, "-m", "jupyter_smx.cli", "aws", *words]
        return subprocess.run(line, env=environment, check=True, capture_output=True, text=True, timeout=60).stdout

    try:
        yield json.loads(command("env", "--shell", "json"))["AWS_ENDPOINT_URL_SAGEMAKER"]
    finally:
        command("stop")


def test_a_page_of_another_origin_gets_no_further_than_its_preflight(
    browser: Browser, page_url: str, front_url: str
) -> None:
    page = browser.new_page()
    try:
        responses: list[dict[str, Any]] = []
        failures: list[dict[str, Any]] = []
        network = page.context.new_cdp_session(page)
        # Functions, since Playwright writes an attribute to them, which a method of a list has not.
        network.on("Network.responseReceived", lambda about: responses.append(about))  # noqa: PLW0108
        network.on("Network.loadingFailed", lambda about: failures.append(about))  # noqa: PLW0108
        network.send("Network.enable")
        page.goto(page_url)
        assert page.evaluate(FETCH, [front_url, HEADERS]) == "TypeError"
        eventually_blocking(lambda: bool(page.evaluate("1") and failures))  # the browser reports it a moment later
    finally:
        page.close()
    (answer,) = [about for about in responses if about["response"]["url"].startswith(front_url)]
    assert (answer["type"], answer["response"]["status"]) == ("Preflight", 403)
    assert not [name for name in answer["response"]["headers"] if name.lower().startswith("access-control-")]
    assert [about["corsErrorStatus"]["corsError"] for about in failures] == ["PreflightMissingAllowOriginHeader"]
