"""A job's log in the main area: as long as it may be, whatever is in it, and whatever happens to the server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from gate import Gate
    from lab import Lab
    from labserver import LabServer
    from playwright.sync_api import Locator, Route

pytestmark = pytest.mark.page("shared")

WAKE = 20_000
"""Milliseconds until a job in the panel follows one on a host, a cold start included."""
GIGABYTE = 2**30
OPENED = 5_000
"""Milliseconds until a log is there: one that was read as a whole takes minutes. The figure is in bench."""
LONGEST_TASK = 3_000
"""Milliseconds that the page may not answer, on a machine that others use, too."""
LINE = "2026-11-21 12:00:00 INFO step {:>12} loss=0.1234 accuracy=0.98 and some more words of a log\n"

PUSH = """button => new Promise(resolve => {
  const lines = button.closest('.jp-smx-log').querySelector('.jp-smx-log-lines');
  button.click();
  requestAnimationFrame(() => requestAnimationFrame(() => {
    lines.scrollTop = lines.scrollHeight / 2;
    lines.addEventListener('scrollend', () => resolve(), { once: true });
  }));
})"""
"""Goes to the beginning, then scrolls by program, as when rows turn out to be taller; there is no user input."""
WATCH = """([id, text]) => {
  const watch = {longest: 0};
  window.logWatch = watch;
  const begin = performance.now();
  new PerformanceObserver(list => {
    for (const task of list.getEntries()) watch.longest = Math.max(watch.longest, task.duration);
  }).observe({entryTypes: ['longtask']});
  const seen = new MutationObserver(() => {
    if (watch.took === undefined && document.querySelector('[role=log]')?.textContent.includes(text)) {
      requestAnimationFrame(() => setTimeout(() => { watch.took = performance.now() - begin; }));
      seen.disconnect();
    }
  });
  seen.observe(document.body, {subtree: true, childList: true, characterData: true});
  void window.jupyterapp.commands.execute('jupyter-smx:open-log', {id, name: 'measured'});
}"""


class Log:
    """The view of a log in the main area."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.view = lab.page.locator(".jp-smx-log")
        self.lines = lab.page.get_by_role("log")
        self.rows = self.view.locator(".jp-smx-log-row")
        self.field = self.view.get_by_role("searchbox", name="Search the full log")
        self.count = self.view.locator(".jp-smx-log-count")
        self.follow = self.view.get_by_role("button", name="Follow")
        self.foot = self.view.locator(".jp-smx-log-foot")
        self.problem = self.view.get_by_role("alert")

    def row(self, text: str) -> Locator:
        """Find the rows that are drawn and have a text."""
        return self.rows.filter(has_text=text)

    def open(self, job: str) -> None:
        """Open it as the panel does."""
        self.lab.page.evaluate(
            "id => void window.jupyterapp.commands.execute('jupyter-smx:open-log', {id, name: 'log'})", job
        )
        expect(self.lines).to_be_visible(timeout=WAKE)


@pytest.fixture
def log(lab: Lab) -> Log:
    lab.open()
    return Log(lab)


@pytest.fixture
def finished(server: LabServer) -> Callable[..., tuple[str, Path]]:
    """Give a function that runs a job and puts another log in the place of its own."""

    def made(name: str) -> tuple[str, Path]:
        job = server.submit(name, "print('done')")
        record = server.ask("GET", f"jupyter-smx/jobs/{job}?wait=30&until=final")
        return record["id"], server.folder / "smx" / "jobs" / record["id"] / "logs" / "algo-1.log"

    return made


def write_gigabyte(path: Path) -> None:
    """Write a log with one line of its own at either end and one in the middle."""
    block = b"".join(LINE.format(number).encode() for number in range(2**23 // len(LINE.format(0))))
    with path.open("wb") as file:
        file.write(b"the very first line\n")
        for number in range(GIGABYTE // len(block)):
            file.write(block)
            if number == GIGABYTE // len(block) // 2:
                file.write(b"Needle in the middle\n")
        file.write(b"the very last line\n")


@pytest.mark.timeout(300)  # writing and searching it, where others use the machine too
def test_a_gigabyte_opens_at_its_end_and_is_searched_and_paged(
    log: Log, finished: Callable[..., tuple[str, Path]]
) -> None:
    job, path = finished("huge")
    write_gigabyte(path)
    log.lab.page.evaluate(WATCH, [job, "the very last line"])
    took = log.lab.page.wait_for_function("() => window.logWatch.took").json_value()
    assert took < OPENED
    log.lab.photograph("log-light")
    log.lab.theme("JupyterLab Dark")
    # Up, page by page, far beyond what was read at first.
    expect(log.follow).to_have_attribute("aria-pressed", "true")
    log.lines.focus()
    for _ in range(100):
        log.lab.page.keyboard.press("PageUp")
    expect(log.follow).to_have_attribute("aria-pressed", "false")
    log.lab.page.keyboard.press("Control+Home")
    expect(log.row("the very first line")).to_be_visible()
    # A line in the middle, which the view has not loaded yet.
    log.lab.page.keyboard.press("Control+F")
    expect(log.field).to_be_focused()
    log.lab.page.keyboard.type("NEEDLE in")
    log.lab.page.keyboard.press("Enter")
    expect(log.count).to_have_text("1 of 1", timeout=60_000)
    current = log.view.locator("[data-current]")
    expect(current).to_have_text("Needle in the middle")
    expect(current.locator("mark")).to_have_text("Needle in")
    log.lab.photograph("log-found-dark")
    log.field.fill("loss")
    expect(log.count).to_contain_text("Last 100,000 matches", timeout=60_000)
    log.lines.focus()
    log.lab.page.keyboard.press("Control+End")
    expect(log.row("the very last line")).to_be_visible()
    assert log.lab.page.evaluate("window.logWatch.longest") < LONGEST_TASK


def test_lines_without_an_end_and_bytes_that_are_no_text(log: Log, finished: Callable[..., tuple[str, Path]]) -> None:
    job, path = finished("wide")
    with path.open("wb") as file:
        for _ in range(100):
            file.write(b"x" * 2**20)
        file.write(b"the end\n\x00\xff\xfe no text\n")
    log.lab.page.evaluate(WATCH, [job, "no text"])
    assert log.lab.page.wait_for_function("() => window.logWatch.took").json_value() < OPENED
    expect(log.foot).to_contain_text("Bytes that are not text")
    expect(log.row("\ufffd\ufffd\ufffd no text")).to_be_visible()
    expect(log.row("long line, continued below").first).to_be_attached()
    log.lab.photograph("log-wide")
    begin = log.view.get_by_role("button", name="Beginning")
    begin.click()
    expect(log.rows.first).to_have_attribute("data-index", "0")
    begin.evaluate(PUSH)
    expect(log.rows.first).to_have_attribute("data-index", "0")
    log.view.get_by_role("button", name="Wrap").click()
    log.lab.photograph("log-wide-unwrapped")
    log.follow.click()
    expect(log.row("no text")).to_be_visible()
    assert log.lab.page.evaluate("window.logWatch.longest") < LONGEST_TASK


def test_a_log_grows_while_it_is_seen_and_stands_still_for_who_reads_above(
    log: Log, server: LabServer, gate: Gate
) -> None:
    source = f"""
import sys, time
print("\\033[31mred\\033[0m and \\033[1;32mgreen\\033[0m")
for i in range(400): print("line", i)
for i in range(20000): sys.stdout.write(f"\\r{{i}} of 20000")
{gate.code}
for i in range(300): print("more", i)
"""
    job = server.submit("grows", source)
    gate.wait_for_job()
    log.open(job)
    expect(log.row("at the gate")).to_be_visible(timeout=WAKE)
    expect(log.row("of 20000")).to_have_count(1)
    expect(log.row("19999 of 20000")).to_be_visible()
    log.lines.hover()
    log.lab.page.mouse.wheel(0, -3_000)
    expect(log.follow).to_have_attribute("aria-pressed", "false")
    first = log.lines.evaluate("node => node.scrollTop")
    gate.open()
    expect(log.foot).to_contain_text("The job has ended.", timeout=WAKE)
    assert log.lines.evaluate("node => node.scrollTop") == first, "it stands still while lines are added"
    expect(log.row("more 299")).to_have_count(0)
    log.follow.click()
    expect(log.row("more 299")).to_be_visible()
    log.view.get_by_role("button", name="Beginning").click()
    expect(log.row("red and green").locator(".ansi-red-fg")).to_have_text("red")
    log.lab.photograph("log-colours")


def test_a_flood_does_not_freeze_the_page(log: Log, server: LabServer, gate: Gate) -> None:
    job = server.submit("flood", f"{gate.code}\nfor i in range(1_000_000): print('a line of a flood', i)\n")
    gate.wait_for_job()
    log.lab.page.evaluate(WATCH, [job, "a line of a flood 999999"])
    expect(log.row("at the gate")).to_be_visible(timeout=WAKE)
    gate.open()
    took = log.lab.page.wait_for_function("() => window.logWatch.took", timeout=60_000)
    assert took.json_value()
    expect(log.row("a line of a flood 999999")).to_be_visible()
    assert log.lab.page.evaluate("window.logWatch.longest") < LONGEST_TASK


def test_an_outage_passes_by_itself(log: Log, server: LabServer, gate: Gate, allowed: list[str]) -> None:
    allowed.append("/logs?")
    job = server.submit("through", f"print('before')\n{gate.code}")
    gate.wait_for_job()
    log.open(job)
    expect(log.row("at the gate")).to_be_visible(timeout=WAKE)
    is_down = True

    def answer(route: Route) -> None:
        route.abort() if is_down else route.continue_()

    log.lab.page.route(re.compile(r"/logs\?"), answer)
    gate.open()
    # The question that waits is answered; the next one is not.
    expect(log.problem).to_contain_text("Retrying automatically.", timeout=WAKE)
    log.lab.photograph("log-outage")
    is_down = False
    expect(log.row("through")).to_be_visible(timeout=WAKE)
    expect(log.problem).to_have_count(0)


def test_what_cannot_be_read_says_what_to_do(
    log: Log, server: LabServer, finished: Callable[..., tuple[str, Path]], allowed: list[str]
) -> None:
    allowed.append("/logs?")
    job, _ = finished("deleted")
    status = 403
    log.lab.page.route(re.compile(r"/logs\?"), lambda route: route.fulfill(status=status, body="{}"))
    log.open(job)
    expect(log.problem).to_contain_text("Log in again")
    log.lab.photograph("log-signed-out")
    log.lab.page.unroute(re.compile(r"/logs\?"))
    log.problem.get_by_role("button", name="Try again").click()
    expect(log.row("done")).to_be_visible()
    server.ask("DELETE", f"jupyter-smx/jobs/{job}")
    other, _ = finished("other")
    server.ask("DELETE", f"jupyter-smx/jobs/{other}")
    log.lab.page.locator(".lm-DockPanel-tabBar .lm-mod-current .lm-TabBar-tabCloseIcon").click()
    expect(log.lines).to_have_count(0)
    log.open(other)
    expect(log.problem).to_contain_text("This job and its log were deleted")


def test_a_download_is_the_whole_log_with_a_name(log: Log, finished: Callable[..., tuple[str, Path]]) -> None:
    job, path = finished("fetched")
    path.write_bytes(b"one\r\n\xff\x00two" * 100_000)
    log.open(job)
    with log.lab.page.expect_download() as download:
        log.view.get_by_role("button", name="Download the full log").click()
    assert re.fullmatch(r"fetched-\w+-algo-1.log", download.value.suggested_filename)
    assert Path(download.value.path()).read_bytes() == path.read_bytes()
