"""The view of a job in the main area: opened from a row, followed, read, compared, and what it says when it cannot."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from lab import WAKE
from playwright.sync_api import expect
from test_axe import AXE, RUN, THEMES

if TYPE_CHECKING:
    from gate import Gate
    from lab import Lab
    from labserver import LabServer
    from playwright.sync_api import Locator, Response

pytestmark = pytest.mark.page("shared")

MODEL = """from pathlib import Path
Path("/opt/ml/model/weights.txt").write_text("0.5")
print("loss=0.25")
"""


SECTIONS = ("Log", "Charts", "Files", "Code", "Environment", "Events", "Cost", "Compare")


class JobView:
    """The view of one job, found by its label for screen readers."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.page = lab.page
        self.region = lab.page.get_by_role("region", name=re.compile(f"^Job {name}"))
        self.head = self.region.locator(".jp-smx-view-head")

    def tab(self, name: str) -> Locator:
        """Find the tab of a section."""
        return self.region.get_by_role("tab", name=name, exact=True)

    def show(self, name: str) -> Locator:
        """Choose a section and give its content."""
        self.tab(name).click()
        section = self.region.get_by_role("tabpanel", name=name, exact=True)
        expect(section).to_be_visible()
        return section

    def button(self, name: str) -> Locator:
        """Find a button by its whole name."""
        return self.region.get_by_role("button", name=name, exact=True)


def opened(lab: Lab, name: str) -> JobView:
    """Open the newest finished job of that name from its row."""
    lab.panel.show()
    lab.panel.finished(name).first.dblclick(timeout=WAKE)
    view = JobView(lab, name)
    expect(view.head).to_contain_text(name)
    return view


@pytest.mark.core
def test_enter_on_a_row_opens_a_view_that_follows_the_job_and_needs_no_mouse(
    lab: Lab, server: LabServer, gate: Gate
) -> None:
    lab.open()
    lab.panel.show()
    server.submit("viewed", gate.code)
    gate.wait_for_job()
    lab.panel.running("viewed").focus(timeout=WAKE)
    lab.page.keyboard.press("Enter")
    view = JobView(lab, "viewed")
    expect(view.head).to_contain_text("Training", timeout=WAKE)
    expect(view.tab("Log")).to_be_focused()
    expect(view.region.get_by_role("log")).to_contain_text("at the gate", timeout=WAKE)
    lab.photograph("job-running")
    while not view.tab("Events").evaluate("tab => tab === document.activeElement"):
        lab.page.keyboard.press("ArrowRight")
    expect(view.tab("Events")).to_be_focused()
    lab.page.keyboard.press("Enter")
    steps = view.region.get_by_role("region", name=re.compile("^Steps of viewed"))
    expect(steps).to_contain_text("so far")
    gate.open()
    expect(view.head).to_contain_text("Completed", timeout=WAKE)
    expect(steps).to_contain_text("Completed")
    expect(steps).not_to_contain_text("so far")
    expect(view.button("Stop")).to_have_count(0)


def test_the_code_is_compared_with_the_cell_while_it_is_edited(lab: Lab, server: LabServer) -> None:
    cell = "%%train --name edited \\\n  --hp lr=1\nx = 1\nprint(x)"
    server.write_notebook("edited.ipynb", "%load_ext jupyter_smx", cell)
    lab.open("edited.ipynb")
    lab.run_all()
    view = opened(lab, "edited")
    code = view.show("Code")
    expect(code.get_by_role("status")).to_have_text("The cell in edited.ipynb has not changed since the job ran.")
    expect(code.get_by_role("region", name=re.compile("^Code of edited"))).to_contain_text("print(x)")
    lab.photograph("job-code")
    view.button("Go to cell").click()
    found = lab.page.locator(".jp-NotebookPanel .jp-CodeCell").nth(1)
    expect(found).to_have_class(re.compile("jp-mod-active"))
    found.locator(".cm-content").click()
    lab.page.keyboard.press("Control+End")
    lab.page.keyboard.type("\nprint(x + 1)")
    lab.page.get_by_role("tab", name=re.compile("^edited-")).click()
    changes = view.region.get_by_role("region", name=re.compile("^Changes to the code of edited"))
    expect(code.get_by_role("status")).to_have_text("The cell in edited.ipynb has changed since the job ran.")
    expect(changes).to_contain_text("+print(x + 1)")
    lab.photograph("job-diff")
    lab.theme("JupyterLab Dark")
    lab.photograph("job-diff-dark")
    lab.theme("JupyterLab Light")
    view.button("As submitted").click()
    expect(changes).to_have_count(0)


def test_a_notebook_that_is_closed_is_compared_as_it_was_saved(lab: Lab, server: LabServer) -> None:
    server.write_notebook("closed.ipynb", "%load_ext jupyter_smx", "%%train --name closed\nx = 1")
    lab.open("closed.ipynb")
    lab.run_all()
    expect(lab.toast("closed")).to_be_visible(timeout=WAKE)
    lab.save()
    lab.page.evaluate("() => void window.jupyterapp.commands.execute('application:close-all')")
    expect(lab.page.locator(".jp-NotebookPanel")).to_have_count(0)
    view = opened(lab, "closed")
    code = view.show("Code")
    expect(code.get_by_role("status")).to_have_text("The cell in closed.ipynb has not changed since the job ran.")
    view.button("Open notebook").click()
    expect(lab.page.locator(".jp-NotebookPanel")).to_be_visible()


def test_what_a_job_left_is_opened_and_downloaded(lab: Lab, server: LabServer) -> None:
    line = "%%train --name made -o model=models --hp epochs=3 --env MY_TOKEN=abc -i data=."
    server.write_notebook("made.ipynb", "%load_ext jupyter_smx", f"{line}\n{MODEL}")
    lab.open("made.ipynb")
    lab.run_all()
    view = opened(lab, "made")
    files = view.show("Files")
    artefacts = files.get_by_role("region", name=re.compile("^Artifacts of made"))
    expect(artefacts).to_contain_text("model.tar.gz")
    with lab.page.expect_download() as download:
        artefacts.get_by_role("link", name="Download model.tar.gz").click()
    path = download.value.path()
    assert path.read_bytes()[:2] == b"\x1f\x8b"
    assert (server.notebooks / "models" / "model.tar.gz").read_bytes() == path.read_bytes()
    lab.photograph("job-files")
    artefacts.get_by_role("button", name="Open models/model.tar.gz in JupyterLab").click()
    expect(lab.page.locator("#filebrowser")).to_contain_text("model.tar.gz")
    environment = view.show("Environment")
    expect(environment).to_contain_text("epochs")
    expect(environment).to_contain_text("MY_TOKEN")
    expect(environment).not_to_contain_text("abc")
    expect(environment).to_contain_text("SHA-256 of the code")
    lab.photograph("job-environment")
    events = view.show("Events")
    expect(events).to_contain_text("Why the start was cold")
    expect(events).to_contain_text("First line ran")
    lab.photograph("job-events")
    cost = view.show("Cost")
    expect(cost).to_contain_text("Instances on this machine are free.")
    lab.photograph("job-cost")


def test_two_jobs_are_compared_from_the_palette(lab: Lab, server: LabServer) -> None:
    lab.open()
    lab.panel.show()
    for value in (1, 2):
        server.submit("twin", f"x = {value}\nprint(x)\n")
        expect(lab.panel.finished("twin")).to_have_count(value, timeout=WAKE)
    view = opened(lab, "twin")
    view.button("Compare…").click()
    answer = view.region.get_by_role("tabpanel", name="Compare", exact=True)
    expect(answer.get_by_role("status")).to_contain_text("No differences except the code", timeout=WAKE)
    expect(answer).to_contain_text("+x = 2")
    expect(answer).to_contain_text("-x = 1")
    lab.photograph("job-compare")


@pytest.mark.page("own")
@pytest.mark.core
def test_an_open_view_is_there_after_the_page_was_loaded_again(lab: Lab, server: LabServer) -> None:
    lab.open()
    name = server.submit("again", "print('once')")
    job = server.ask("GET", f"jupyter-smx/jobs/{name}")["id"]

    def has_the_view(response: Response) -> bool:
        """Say whether Lab just saved a layout with the view in it."""
        if response.request.method != "PUT" or "/api/workspaces/" not in response.url:
            return False
        saved = json.loads(response.request.post_data or "{}")["data"]
        return f"jupyter-smx-job:{job}" in json.dumps(saved.get("layout-restorer:data"))

    with lab.page.expect_response(has_the_view):
        view = opened(lab, "again")
    expect(view.region.get_by_role("log")).to_contain_text("once")
    lab.reload()
    expect(view.region.get_by_role("log")).to_contain_text("once", timeout=WAKE)
    expect(view.head).to_contain_text("Completed")


def test_a_job_that_is_deleted_elsewhere_under_its_view_is_said_to_be_gone(
    lab: Lab, server: LabServer, allowed: list[str]
) -> None:
    allowed.append("404 (Not Found)")
    lab.open()
    name = server.submit("doomed", "print('done')")
    view = opened(lab, "doomed")
    files = view.show("Files")
    server.ask("DELETE", f"jupyter-smx/jobs/{name}")
    expect(view.head.get_by_role("alert")).to_contain_text("This job was deleted", timeout=WAKE)
    expect(files).to_contain_text("This job has no artifacts.")
    lab.photograph("job-deleted")
    view.button("Close this tab").click()
    expect(view.region).to_have_count(0)


def test_a_view_of_a_controller_that_has_left_starts_another_one(
    lab: Lab, server: LabServer, allowed: list[str]
) -> None:
    allowed.append("503 (Service Unavailable)")
    lab.open()
    server.submit("asleep", "print('done')")
    view = opened(lab, "asleep")
    expect(view.region.get_by_role("log")).to_contain_text("done")
    server.end_controller()
    lab.command("New Launcher")
    lab.page.get_by_role("tab", name=re.compile("^asleep-")).click()
    alert = view.head.get_by_role("alert")
    expect(alert).to_contain_text("The controller that has this job is idle", timeout=WAKE)
    expect(view.head).to_contain_text("Completed")
    view.button("Start the controller").click()
    expect(alert).to_have_count(0, timeout=WAKE)
    assert server.is_running()


def test_a_view_says_why_it_cannot_read_and_goes_on_by_itself(lab: Lab, server: LabServer, allowed: list[str]) -> None:
    allowed += ["403 (Forbidden)", "502 (Bad Gateway)"]
    lab.open()
    server.submit("barred", "print('done')")
    view = opened(lab, "barred")
    record = re.compile(r"/jupyter-smx/jobs/[^/]+$")
    lab.page.route(record, lambda route: route.fulfill(status=403, body="{}"))
    lab.command("New Launcher")
    tab = lab.page.get_by_role("tab", name=re.compile("^barred-"))
    tab.click()
    alert = view.head.get_by_role("alert")
    expect(alert).to_contain_text("Log in again in another tab")
    lab.page.unroute(record)
    view.button("Try again").click()
    expect(alert).to_have_count(0)
    lab.page.route(record, lambda route: route.fulfill(status=502, body="<html>"))
    lab.command("New Launcher")
    tab.click()
    expect(alert).to_contain_text("Cannot load this job")
    lab.page.unroute(record)
    expect(alert).to_have_count(0, timeout=WAKE)
    expect(view.head).to_contain_text("Completed")


def test_a_toast_leads_to_the_job_that_it_is_about(lab: Lab, server: LabServer) -> None:
    lab.open()
    server.submit("told", "print('so far')\n1 / 0\n")
    lab.toast("told").get_by_role("button", name="Open job").click(timeout=WAKE)
    view = JobView(lab, "told")
    expect(view.head).to_contain_text("Failed: ZeroDivisionError, line 2")
    expect(view.show("Events").get_by_role("region", name="Traceback on algo-1")).to_contain_text("division by zero")
    lab.photograph("job-failed")


def test_axe_finds_nothing_in_any_section_of_any_theme(lab: Lab, server: LabServer, gate: Gate) -> None:
    cell = f"%%train --name seen --hp lr=1 --send cfg --receive model\nmodel = cfg\n{gate.code}"
    server.write_notebook("axe-job.ipynb", "%load_ext jupyter_smx", "cfg = 1", cell)
    lab.open("axe-job.ipynb")
    lab.run_all()
    gate.wait_for_job()
    lab.panel.show()
    lab.panel.running("seen").dblclick(timeout=WAKE)
    view = JobView(lab, "seen")
    lab.page.evaluate(AXE.read_text(encoding="utf-8"))
    for theme in THEMES:
        lab.theme(theme)
        for name in SECTIONS:
            view.show(name)
            seen = lab.page.evaluate(RUN, [".jp-smx-view"])
            assert seen["there"] == [".jp-smx-view"]
            assert seen["found"] == [], f"{name} in {theme}"
        lab.photograph(f"job-{theme.removeprefix('JupyterLab ').replace(' ', '-').lower()}")
    lab.theme(THEMES[0])
    gate.open()


def test_a_narrow_view_scrolls_instead_of_losing_something(lab: Lab, server: LabServer) -> None:
    lab.page.set_viewport_size({"width": 620, "height": 700})
    lab.open()
    server.submit("narrow-name-that-is-quite-long", "print('done')")
    view = opened(lab, "narrow")
    for name in SECTIONS:
        view.show(name)
        body = view.region.locator(".jp-smx-view-body:not(.lm-mod-hidden)")
        assert body.evaluate("each => each.clientWidth <= each.parentElement.clientWidth")
    view.show("Events")
    lab.photograph("job-narrow")
    assert view.region.evaluate("each => each.scrollWidth <= each.clientWidth")


def test_the_charts_of_a_job_are_drawn_in_its_view(lab: Lab, server: LabServer) -> None:
    lab.open()
    server.submit("drawn", "for i in range(5):\n    print(f'epoch {i} loss={1 / (i + 1)}')\n")
    view = opened(lab, "drawn")
    charts = view.show("Charts")
    expect(charts).to_contain_text("loss", timeout=WAKE)
    lab.photograph("job-charts")
