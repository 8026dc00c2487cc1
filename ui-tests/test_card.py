"""The card under a cell, opened: why and how a job began, what it uses, and the end of its log."""

from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING

import pytest
from gate import Gate
from lab import WAKE
from playwright.sync_api import expect

from jupyter_smx.testing import process_scan
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from lab import Lab
    from labserver import LabServer

pytestmark = pytest.mark.page("shared")

BUSY = """
import threading

over = threading.Event()

def work():
    step = 0
    while not over.is_set():
        step += 1
        sum(range(100_000))
        if step % 100 == 0:
            print(f"step {step} loss={1 / step:.5f}", flush=True)

threading.Thread(target=work).start()
"""


@pytest.mark.core
def test_an_open_card_says_all_of_a_job_while_it_runs_and_when_it_is_over(
    lab: Lab, server: LabServer, gate: Gate
) -> None:
    cell = f"%%train --name busy --metric loss=loss=(\\S+)\n{BUSY}{gate.code}\nover.set()"
    server.write_notebook("busy.ipynb", "%load_ext jupyter_smx", cell)
    lab.open("busy.ipynb")
    lab.panel.show()
    lab.run_all()
    gate.wait_for_job()
    card, row = lab.card("busy"), lab.panel.running("busy")
    expect(row).to_contain_text(re.compile(r"CPU \d+ %"), timeout=WAKE)
    expect(row.locator(".jp-smx-spark rect")).not_to_have_count(0)
    fold = card.get_by_role("button", name="Details of busy")
    fold.focus()
    lab.page.keyboard.press("Enter")
    expect(fold).to_have_attribute("aria-expanded", "true")
    expect(card).to_contain_text(re.compile(r"hosts [\d.]+ m?s · inputs and startup [\d.]+ m?s"))
    expect(card.get_by_role("log")).to_contain_text("loss=")
    figures = card.get_by_role("list", name="Metrics over time").get_by_role("listitem")
    expect(figures.filter(has_text=re.compile(r"CPU [\d.]+ %"))).to_have_count(1, timeout=WAKE)
    expect(figures.filter(has_text=re.compile(r"loss 0\.\d+")).locator("path")).to_have_attribute("d", re.compile("^M"))
    before = card.get_by_role("log").inner_text()
    expect(card.get_by_role("log")).not_to_have_text(before)
    lab.photograph("card-open")
    lab.theme("JupyterLab Dark")
    lab.photograph("card-open-dark")
    gate.open()
    expect(card).to_contain_text("Completed")
    expect(card.get_by_role("log")).to_contain_text("through")
    card.get_by_role("button", name="Outputs").click()
    view = lab.page.get_by_role("region", name=re.compile("^Job busy"))
    expect(view.get_by_role("tab", name="Files")).to_have_attribute("aria-selected", "true")


def test_a_job_of_a_kernel_with_other_records_is_told_on_card_and_panel(
    lab: Lab, server: LabServer, gate: Gate
) -> None:
    environment = f'import os\nos.environ["JUPYTER_SMX_DATA_DIR"] = {str(server.folder / "elsewhere")!r}'
    held = Gate()
    server.write_notebook(
        "elsewhere.ipynb",
        f"{environment}\n%load_ext jupyter_smx",
        f"%%train --name away\n{held.code}",
        f"%%train --name far --wait\n{gate.code}",
    )
    lab.open("elsewhere.ipynb")
    lab.panel.show()
    lab.run_all()
    held.wait_for_job()
    gate.wait_for_job()
    card = lab.card("far")
    expect(card).to_contain_text("This job is not on this Jupyter server")
    expect(card).to_contain_text(re.compile(r"%smx stop far-\w+ stops it"))
    expect(card).to_contain_text("Training")
    expect(card.get_by_role("button")).to_have_count(2)
    away = lab.card("away")
    away.get_by_role("button", name=re.compile("^Log: run %smx logs away-")).click()
    printed = away.get_by_role("log")
    expect(printed).to_contain_text("after its cells")
    notice = lab.page.locator(".jp-smx-elsewhere")
    notice.locator("summary").click()
    expect(notice).to_contain_text("Run %smx jobs in that notebook")
    lab.photograph("card-elsewhere")
    gate.open()
    expect(card).to_contain_text("Completed")
    expect(card).not_to_contain_text("not on this Jupyter server")
    expect(printed).to_contain_text("at the gate", timeout=WAKE)
    lab.photograph("card-elsewhere-log")
    held.close()
    expect(away).to_contain_text("Completed")
    # The fixture ends the controller of the server only.
    pid = int((server.folder / "elsewhere" / "controller.lock").read_text())
    os.kill(pid, signal.SIGTERM)
    eventually_blocking(lambda: process_scan.read_process(pid) is None, "the other controller ended", within=20.0)


@pytest.mark.page("own")
@pytest.mark.core
def test_the_card_of_a_failed_job_opens_once_with_its_cure_and_stays_closed(lab: Lab, server: LabServer) -> None:
    server.write_notebook("cure.ipynb", "%load_ext jupyter_smx", "x = 1", "%%train --name cure\nprint(x)")
    lab.open("cure.ipynb")
    lab.run_all()
    card = lab.card("cure")
    reason = card.get_by_role("group", name="Reason of the failure")
    expect(reason).to_contain_text("name 'x' is not defined", timeout=WAKE)
    expect(card).to_contain_text("Failed: NameError, line 2")
    expect(reason.locator("code")).to_have_text("--send x", timeout=WAKE)
    lab.photograph("card-failed")
    card.get_by_role("button", name=re.compile("^Details of cure")).click()
    expect(reason).to_have_count(0)
    lab.save()
    lab.reload("cure.ipynb")
    expect(card.get_by_role("button", name=re.compile("^Details of cure"))).to_have_attribute("aria-expanded", "false")
