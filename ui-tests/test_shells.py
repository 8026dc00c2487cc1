"""Shells on hosts, in terminals of JupyterLab: from a row, where the job has its files; and where there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from lab import WAKE
from playwright.sync_api import expect

from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gate import Gate
    from lab import Lab
    from labserver import LabServer

READS = """
with open("/opt/ml/model/seen") as seen:
    print("found", seen.read())
"""


@pytest.fixture
def host(server: LabServer) -> Iterator[LabServer]:
    """Give the server; terminals that a test opened end with it, before its hosts do."""
    yield server
    for terminal in server.ask("GET", "api/terminals"):
        server.ask("DELETE", f"api/terminals/{terminal['name']}")


@pytest.fixture
def mute(server: LabServer) -> Iterator[LabServer]:
    """Give the server without terminals, as an administrator may want it."""
    server.restart(config={"terminals_enabled": False})
    yield server
    server.restore()


def typed(lab: Lab, line: str) -> None:
    """Type a line into the terminal that was just opened, as soon as it has the focus."""
    terminal = lab.page.locator(".jp-Terminal")
    expect(terminal).to_be_visible(timeout=WAKE)
    expect(terminal.locator("textarea")).to_be_focused(timeout=WAKE)
    lab.page.keyboard.type(f"{line}\n")


def wait_for_file(server: LabServer, name: str) -> None:
    """Wait until a host has a file where its jobs have theirs."""
    eventually_blocking(lambda: [*server.folder.glob(f"smx/clusters/*/algo-1/ml/{name}")], f"there is {name}")


def test_a_shell_opens_beside_a_job_that_runs_and_shares_its_files(host: LabServer, lab: Lab, gate: Gate) -> None:
    lab.open()
    lab.panel.show()
    host.submit("looked-at", gate.code + READS)
    gate.wait_for_job()
    expect(lab.panel.running("looked-at")).to_contain_text("Training", timeout=WAKE)
    lab.panel.running("looked-at").click(button="right")
    lab.page.get_by_role("menuitem", name="Open Shell in Job").click()
    typed(lab, "echo from-a-shell > model/seen")
    wait_for_file(host, "model/seen")
    lab.photograph("shell")
    gate.open()
    expect(lab.panel.finished("looked-at")).to_contain_text("Completed", timeout=WAKE)
    lab.panel.finished("looked-at").dblclick()
    expect(lab.page.get_by_role("log").filter(has_text="found from-a-shell")).to_be_visible(timeout=WAKE)


def test_a_shell_opens_on_a_warm_host_that_has_no_job(host: LabServer, lab: Lab) -> None:
    lab.open()
    lab.panel.show()
    host.submit("warmed", "print('done')", keep_alive=600)
    expect(lab.panel.warm).to_contain_text("Available, last job warmed", timeout=WAKE)
    lab.panel.warm.get_by_role("button", name="Open a shell on a host of pool").click()
    typed(lab, "echo between-jobs > here")
    wait_for_file(host, "here")


def test_without_terminals_a_sentence_says_what_to_type_elsewhere(mute: LabServer, lab: Lab, gate: Gate) -> None:
    lab.open()
    lab.panel.show()
    name = mute.submit("closed-door", gate.code)
    gate.wait_for_job()
    expect(lab.panel.running("closed-door")).to_contain_text("Training", timeout=WAKE)
    lab.command("Open Shell in Job")
    expect(lab.toast("Terminals are not available")).to_contain_text(f"jupyter smx shell {name}")
    expect(lab.page.locator(".jp-Terminal")).to_have_count(0)
    gate.open()
