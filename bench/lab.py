"""JupyterLab in a real browser: 10,000 finished and 200 or 1,000 running jobs in the sidebar, with news of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.log import GIGABYTE, write_log
from bench.place import percentile
from jupyter_smx import controller_launch
from jupyter_smx.kernel.client.client import Client

ROOT = Path(__file__).parent.parent
# The server and the page of the browser tests, and the plugins of both kinds of tests.
sys.path[:0] = [str(ROOT / "ui-tests"), str(ROOT / "tests")]

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from lab import Lab
    from labserver import Installation, LabServer
    from playwright.sync_api import Browser, Page

FINISHED = 10_000
RUNNING = (200, 1_000)
NEWS = 100.0
"""Figures of what jobs use, a second; the controller passes on half of them."""
BRIEF_JOBS = 10.0
"""Jobs a second that come and go."""
WATCHED = 10.0
"""Seconds over which the page is watched."""
ASK_EVERY = 0.02
STARTS = 7

CONNECT = """
import os, sys, time
from bench.crowd import BRIEF, an_id, spec
from jupyter_smx import controller_launch
from jupyter_smx.kernel.client.client import Client
client = Client(controller_launch.socket_path(), lambda: None)
"""
SUBMIT_ALL = """
for number in range(int(sys.argv[1]), int(sys.argv[2])):
    client.submit(an_id(number), spec("crowd"))
"""
SUBMIT_BRIEF = """
while True:
    time.sleep(float(sys.argv[1]))
    client.submit(BRIEF + os.urandom(14).hex()[:27], spec("brief"))
"""
OPENED = """() => new Promise(done => {
  const began = performance.now();
  const rows = () => document.querySelectorAll('#jupyter-smx-panel li').length;
  const look = () => rows() >= 5
    ? requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - began)))
    : requestAnimationFrame(look);
  window.jupyterapp.commands.execute('jupyter-smx:open-panel').then(look);
})"""
"""Opens the panel; gives milliseconds until its rows are painted."""

SCROLLED = """() => new Promise(done => {
  const list = [...document.querySelectorAll('#jupyter-smx-panel *')]
    .filter(node => node.scrollHeight > node.clientHeight + 1000 && getComputedStyle(node).overflowY !== 'visible')
    .sort((a, b) => b.scrollHeight - a.scrollHeight)[0];
  const frames = [];
  const step = now => {
    frames.push(now);
    list.scrollTop += 60;
    if (now - frames[0] < 3000) { requestAnimationFrame(step); } else { done(frames); }
  };
  requestAnimationFrame(step);
})"""
"""Scrolls the longest list for three seconds; gives the moment of every frame."""

WATCH = """() => {
  window.seen = [];
  window.tasks = [];
  new PerformanceObserver(list => window.tasks.push(...list.getEntries().map(entry => entry.duration)))
    .observe({type: 'longtask'});
  const note = () => {
    const at = Date.now() / 1000;
    for (const row of document.querySelectorAll('#jupyter-smx-panel li')) {
      const found = /CPU\\s*([\\d]+)/.exec(row.textContent);
      const name = /crowd-[0-9a-f]{6}/.exec(row.textContent);
      if (found && name && row.dataset.benchSaid !== found[1]) {
        row.dataset.benchSaid = found[1];
        window.seen.push([at, name[0], Number(found[1])]);
      }
    }
    requestAnimationFrame(note);
  };
  requestAnimationFrame(note);
}"""
"""Notes from now on what each row that is drawn says of its CPU, frame by frame, and tasks longer than 50 ms."""


LOG_SHOWN = """id => new Promise(done => {
  const began = performance.now();
  const look = () => document.querySelector('.jp-smx-log-row')
    ? requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - began)))
    : requestAnimationFrame(look);
  window.jupyterapp.commands.execute('jupyter-smx:open-log', {id}).then(look);
})"""
"""Opens the log of a job; gives milliseconds until its last rows are painted."""

RESTORED = """
const looking = setInterval(() => {
  if (window.jupyterapp) {
    clearInterval(looking);
    window.jupyterapp.restored.then(() => { window.restoredAt = performance.now(); });
  }
}, 2);
"""
"""Notes in every page when Lab was restored."""


class Figures(NamedTuple):
    """What one page did; times in milliseconds."""

    opened: float
    frames: list[float]
    tasks: list[float]
    pixels: list[float]
    answers: list[float]
    events: int


def run(options: argparse.Namespace) -> None:
    """Print what the page did, and what loading it costs with and without this extension."""
    del options
    from conftest import ARGUMENTS, browser_path  # noqa: PLC0415 - of the browser tests
    from labserver import THIS_INSTALLATION  # noqa: PLC0415 - of the browser tests
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only wanted here

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=ARGUMENTS)
        for running in RUNNING:
            _say(crowd_figures(browser, running, THIS_INSTALLATION), running)
        _say_log(_log_times(browser))
        _say_starts(_starts(browser))
        browser.close()


def _say(found: Figures, running: int) -> None:
    frames = sorted(found.frames)
    print(f"{FINISHED} finished jobs and {running} that run, of which come {NEWS:.0f} samples a second:")
    print(f"  the panel is there after {found.opened:.0f} ms")
    print(f"  scrolling: {1000 / (sum(frames) / len(frames)):.0f} frames/s, the slowest frame {frames[-1]:.0f} ms")
    longest = max(found.tasks, default=0.0)
    pace = found.events / WATCHED
    print(
        f"  {pace:.0f} events/s for {WATCHED:.0f} s: {len(found.tasks)} tasks over 50 ms, the longest {longest:.0f} ms"
    )
    pixels = found.pixels
    print(
        f"  event to pixel ({len(pixels)}): p50 {percentile(pixels, 0.5):.0f} ms, p95 {percentile(pixels, 0.95):.0f} ms"
    )
    answers = found.answers
    print(f"  /api/status meanwhile ({len(answers)}): p50 {percentile(answers, 0.5):.1f} ms,", end=" ")
    print(f"p99 {percentile(answers, 0.99):.1f} ms")


@contextmanager
def _server(folder: Path, installation: Installation | None = None) -> Iterator[LabServer]:
    from labserver import THIS_INSTALLATION, LabServer  # noqa: PLC0415 - of the browser tests

    server = LabServer(folder, installation=installation or THIS_INSTALLATION)
    try:
        server.wait_ready()
        yield server
    finally:
        server.end()


def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="smx-bench-lab-")


@contextmanager
def _crowd(folder: Path, checkout: Path) -> Iterator[None]:
    """Serve the data folder of a server by a checkout's controller over pretended hosts."""
    os.environ[controller_launch.DATA_DIR_VARIABLE] = str(folder / "smx")
    said = folder / "said"
    command = [sys.executable, "-m", "bench.crowd", str(FINISHED), str(NEWS)]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    with said.open("wb") as out:
        crowd = subprocess.Popen(command, cwd=checkout, env=environment, stdout=out)
    try:
        while not controller_launch.is_listening():
            time.sleep(0.05)
            if crowd.poll() is not None:
                raise SystemExit("The crowd's controller ended.")
        yield
    finally:
        crowd.terminate()
        crowd.wait()


def crowd_figures(browser: Browser, running: int, installation: Installation) -> Figures:
    """Watch a page of an installation of a checkout, with so many running jobs."""
    from lab import Lab  # noqa: PLC0415 - of the browser tests

    checkout = installation.checkout or ROOT
    with _folder() as folder, _crowd(Path(folder), checkout), _server(Path(folder), installation) as server:
        _hand_in(running, checkout)
        page = browser.new_context(viewport={"width": 1400, "height": 900}).new_page()
        lab: Lab = Lab(page, server)
        lab.open()
        opened = page.evaluate(OPENED)
        moments = page.evaluate(SCROLLED)
        frames = [after - before for before, after in pairwise(moments)]
        page.evaluate("document.querySelector('#jupyter-smx-panel').scrollTop = 0")
        before = _client().controller_info().seq
        page.evaluate(WATCH)
        answers = _ask_meanwhile(server, page, checkout)
        tasks, seen = page.evaluate("[window.tasks, window.seen]")
        told, after = _told(before)
    return Figures(opened, frames, tasks, _delays(told, seen), answers, after - before)


def _client() -> Client:
    return Client(controller_launch.socket_path(), lambda: None)


def _told(since: int) -> tuple[dict[tuple[str, int], float], int]:
    """Read when (seconds since the epoch) the controller said of a job what it uses, and the newest number."""
    found, client = {}, _client()
    while (changes := client.changes(since, 0.0)).events:
        for event in changes.events:
            if event.job is not None and event.job.usage is not None:
                found[event.job.name, int(event.job.usage.cpu_percent or 0)] = event.at
        since = changes.events[-1].seq
    client.close()
    return found, since


@contextmanager
def _submitter(code: str, checkout: Path, *words: object) -> Iterator[subprocess.Popen[bytes]]:
    """Submit jobs by a checkout's own code: a controller refuses fields of requests that are newer than itself."""
    command = [sys.executable, "-c", f"{CONNECT}\n{code}", *map(str, words)]
    process = subprocess.Popen(command, cwd=checkout, env={**os.environ, "PYTHONPATH": str(checkout)})
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _hand_in(running: int, checkout: Path) -> None:
    with _submitter(SUBMIT_ALL, checkout, FINISHED, FINISHED + running) as process:
        if process.wait():
            raise SystemExit("The jobs could not be submitted.")
    client = _client()
    while len([job for job in client.jobs(running) if job.started_at]) < running:
        time.sleep(0.1)
    client.close()


def _ask_meanwhile(server: LabServer, page: Page, checkout: Path) -> list[float]:
    """Ask the Jupyter server for its own state while the page is watched; gives milliseconds."""
    over, answers = threading.Event(), []

    def ask() -> None:
        while not over.wait(ASK_EVERY):
            began = time.perf_counter()
            server.ask("GET", "api/status")
            answers.append((time.perf_counter() - began) * 1000)

    thread = threading.Thread(target=ask)
    thread.start()
    with _submitter(SUBMIT_BRIEF, checkout, 1 / BRIEF_JOBS):
        page.evaluate("seconds => new Promise(done => setTimeout(done, seconds * 1000))", WATCHED)
    over.set()
    thread.join()
    return answers


def _delays(told: dict[tuple[str, int], float], seen: list[list[Any]]) -> list[float]:
    """Pair what the page showed with the moment in which it was said; gives milliseconds."""
    return [(at - told[name, percent]) * 1000 for at, name, percent in seen if (name, percent) in told]


def _log_times(browser: Browser) -> list[float]:
    """Open a log of a gigabyte several times in one page, the first time with the code that shows logs."""
    from lab import Lab  # noqa: PLC0415 - of the browser tests

    with _folder() as folder, _server(Path(folder)) as server:
        name = server.submit("long", "print('done')")
        job = next(row["id"] for row in server.ask("GET", "jupyter-smx/jobs")["jobs"] if row["name"] == name)
        log = server.folder / "smx" / "jobs" / job / "logs" / "algo-1.log"
        while server.ask("GET", f"jupyter-smx/jobs/{job}")["summary"]["status"] == "InProgress":
            time.sleep(0.05)
        write_log(log)
        page = browser.new_context(viewport={"width": 1400, "height": 900}).new_page()
        Lab(page, server).open()
        times = []
        for _ in range(STARTS):
            times.append(page.evaluate(LOG_SHOWN, job))
            page.evaluate("window.jupyterapp.shell.currentWidget.close()")
        server.settle()
        server.end_controller()
    return times


def _say_log(times: list[float]) -> None:
    first, *others = times
    print(
        f"a log of {GIGABYTE / 1e9:.2f} GB shows its end after {percentile(others, 0.5):.0f} ms, the first one of a",
        end=" ",
    )
    print(f"page after {first:.0f} ms")


def _starts(browser: Browser) -> dict[str, list[float]]:
    """Load Lab several times with and without this extension, in turns; gives milliseconds until it is restored."""
    found: dict[str, list[float]] = {"with": [], "without": []}
    with _folder() as folder, _server(Path(folder)) as server:
        for turn in range(2 * STARTS):
            which = ("with", "without")[turn % 2]
            _disable(server, disabled=which == "without")
            found[which].append(_start(browser, server))
    return found


def _disable(server: LabServer, *, disabled: bool) -> None:
    path = server.folder / "config" / "labconfig" / "page_config.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"disabledExtensions": {"jupyter-smx": disabled}}))


def _start(browser: Browser, server: LabServer) -> float:
    from lab import Lab  # noqa: PLC0415 - of the browser tests

    context = browser.new_context(viewport={"width": 1400, "height": 900})
    context.add_init_script(RESTORED)
    page = context.new_page()
    Lab(page, server).open()
    took: float = page.evaluate("window.restoredAt")
    context.close()
    return took


def _say_starts(found: dict[str, list[float]]) -> None:
    medians = {which: percentile(times, 0.5) for which, times in found.items()}
    grown = medians["with"] - medians["without"]
    print(f"Lab's start: {medians['with']:.0f} ms with, {medians['without']:.0f} ms without: {grown:+.0f} ms")
