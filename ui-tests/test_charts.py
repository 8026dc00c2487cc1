"""Charts of a job as a person uses them: they grow, they are zoomed, they end with the job, they can be read aloud."""

from __future__ import annotations

import re
import statistics
from typing import TYPE_CHECKING

import pytest
from chartworld import ChartWorld, host, metric
from lab import Lab
from playwright.sync_api import expect

if TYPE_CHECKING:
    from gate import Gate
    from labserver import LabServer
    from playwright.sync_api import Browser, Locator

pytestmark = pytest.mark.page("shared")

WAKE = 20_000
"""Milliseconds until a job in the panel follows one on a host, a cold start included."""

FIRST = 60_000
"""Milliseconds until the first picture: Python writes ten megabytes of made-up history first."""

LONGEST_FRAME = 500
"""Milliseconds from a key to the picture with 100,000 points a line; 25 alone, 50 where ten others use two cores."""

TRAINS = """
import os, time
for epoch in range(1, 6):
    until = time.process_time() + 0.5
    while time.process_time() < until: pass
    value = "nan" if epoch == 3 else f"{1 / epoch:.3f}"
    print(f"epoch {epoch}/5 loss={value} val_loss={2 / epoch:.3f} acc={1 - 1 / (1 + epoch):.3f}", flush=True)
"""

COUNT_COLOUR = """
(canvas, name) => {
    const probe = document.createElement("canvas").getContext("2d");
    probe.fillStyle = getComputedStyle(document.body).getPropertyValue(name).trim();
    probe.fillRect(0, 0, 1, 1);
    const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let count = 0;
    for (let i = 0; i < data.length; i += 4) {
        const off = Math.abs(data[i] - r) + Math.abs(data[i + 1] - g) + Math.abs(data[i + 2] - b);
        count += off < 40 && data[i + 3] > 200;
    }
    return count;
}
"""
"""How many pixels of a canvas have the colour of a variable of the theme, but for what a rounded edge changes."""

TIME_A_KEY = """
(area, key) => new Promise(resolve => {
    const began = performance.now();
    area.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    // In the first frame the view is asked to render, in the second one it has drawn.
    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - began))));
})
"""


def view_of(lab: Lab) -> Locator:
    """Find the charts that are open."""
    return lab.page.locator(".jp-smx-charts")


def drawings(lab: Lab) -> Locator:
    """Find what is drawn on."""
    return view_of(lab).locator("canvas")


def show(lab: Lab, job: str) -> Locator:
    """Open the charts of a job."""
    command = "id => void window.jupyterapp.commands.execute('jupyter-smx:open-charts', { id, name: id })"
    lab.page.evaluate(command, job)
    return view_of(lab)


def opened(lab: Lab, world: ChartWorld) -> Locator:
    """Open the charts of a made-up job in a page that has nothing else."""
    lab.open()
    world.answer(lab.page)
    lab.page.evaluate("() => void window.jupyterapp.commands.execute('application:toggle-left-area')")
    view = show(lab, "made-up")
    expect(drawings(lab).first).to_be_visible(timeout=FIRST)
    return view


@pytest.mark.page("own")
def test_charts_grow_while_the_job_runs_and_end_with_it(lab: Lab, server: LabServer, gate: Gate) -> None:
    chunks: list[str] = []
    lab.page.on("request", lambda request: chunks.append(request.url))
    lab.open()
    lab.panel.show()
    job = server.submit("drawn", TRAINS + gate.code)
    gate.wait_for_job()
    expect(lab.panel.running("drawn")).to_be_visible(timeout=WAKE)
    assert not [url for url in chunks if "uPlot" in url], "what draws is not loaded before it is needed"
    view = show(lab, job)
    expect(view.get_by_role("status")).to_have_text("Updating live.", timeout=WAKE)
    expect(view.get_by_role("img", name=re.compile("^Chart of CPU.* average"))).to_be_visible()
    expect(view.get_by_role("img", name=re.compile("^Chart of loss: loss fell from 1 to 0.2"))).to_be_visible()
    expect(view.get_by_role("img", name=re.compile("GPU"))).to_have_count(0)
    assert [url for url in chunks if "uPlot" in url]
    before = view.locator(".jp-smx-charts-summary").inner_text()
    expect(view.locator(".jp-smx-charts-summary")).not_to_have_text(before)
    gate.open()
    expect(view.get_by_role("status")).to_have_text("The job has ended.", timeout=WAKE)
    expect(view.get_by_role("button", name="Pause")).to_have_count(0)
    lab.photograph("charts-of-a-job")


def test_a_part_of_the_time_is_seen_by_dragging_and_with_keys(lab: Lab) -> None:
    world = ChartWorld([host("algo-1", 601)], [metric("loss", 100, every=6)])
    view = opened(lab, world)
    summary, whole = view.locator(".jp-smx-charts-summary"), re.compile("^Over 10 minutes")
    expect(summary).to_have_text(whole)
    place = view.locator(".u-over").first
    box = place.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    lab.page.mouse.move(box["x"] + box["width"] / 4, middle)
    lab.page.mouse.down()
    lab.page.mouse.move(box["x"] + box["width"] / 2, middle, steps=4)
    lab.page.mouse.up()
    expect(summary).to_have_text(re.compile(r"^From 02:(29|30|31)\S* to 0(4:59|5:0)"))
    lab.photograph("charts-zoomed")
    place.dblclick()
    expect(summary).to_have_text(whole)
    view.get_by_role("group", name=re.compile("^Charts of")).focus()
    lab.page.keyboard.press("+")
    expect(summary).to_have_text(re.compile("^From 02:30 to 07:30"))
    lab.page.keyboard.press("ArrowRight")
    expect(summary).to_have_text(re.compile("^From 03:45 to 08:45"))
    lab.page.keyboard.press("Escape")
    expect(summary).to_have_text(whole)
    expect(view.get_by_role("button", name="Reset zoom")).to_be_disabled()


def test_a_new_theme_and_a_new_width_are_drawn_anew(lab: Lab) -> None:
    hosts = [host("algo-1", 600, gpus=2), host("algo-2", 580, gpus=2, skew=3)]
    metrics = [metric("loss", 100, every=6), metric("val_loss", 20, every=30, start=2.4), metric("lr", 100, every=6)]
    world = ChartWorld(hosts, metrics)
    view = opened(lab, world)
    for theme in ("Light", "Dark", "Dark High Contrast"):
        lab.theme(f"JupyterLab {theme}")
        for number in range(drawings(lab).count()):
            canvas = drawings(lab).nth(number)
            lab.page.wait_for_function(
                f"([canvas, name]) => ({COUNT_COLOUR})(canvas, name) > 60",
                arg=[canvas.element_handle(), "--jp-brand-color1"],
            )
        lab.photograph(f"charts-{theme.lower().replace(' ', '-')}")
    lab.theme("JupyterLab Light")
    before = drawings(lab).first.bounding_box()
    lab.page.set_viewport_size({"width": 660, "height": 900})
    lab.page.wait_for_function(
        "([canvas, width]) => canvas.clientWidth !== width && canvas.width === canvas.clientWidth",
        arg=[drawings(lab).first.element_handle(), before and before["width"]],
    )
    lab.photograph("charts-narrow")
    view.get_by_role("button", name="Tables").click()
    table = view.get_by_role("region", name="Statistics of the visible time range")
    expect(table.get_by_role("row").filter(has_text="val_loss")).to_contain_text("0.2513")
    table.scroll_into_view_if_needed()
    lab.photograph("charts-tables")
    lab.page.emulate_media(forced_colors="active", reduced_motion="reduce")
    lab.photograph("charts-forced-colours")


def test_a_screen_with_two_pixels_for_one_is_drawn_on_sharply(browser: Browser, server: LabServer) -> None:
    with browser.new_context(viewport={"width": 1400, "height": 900}, device_scale_factor=2) as context:
        lab = Lab(context.new_page(), server)
        world = ChartWorld([host("algo-1", 60)], [])
        opened(lab, world)
        assert drawings(lab).first.evaluate("canvas => canvas.width / canvas.clientWidth") == 2


def test_a_hundred_thousand_points_are_drawn_in_half_a_second(lab: Lab) -> None:
    world = ChartWorld([host("algo-1", 100_000)], [metric("loss", 100_000)])
    view = opened(lab, world)
    expect(view.locator(".jp-smx-charts-summary")).to_have_text(re.compile("^Over 27 hours 46 minutes"))
    area = view.get_by_role("group", name=re.compile("^Charts of"))
    times = [area.evaluate(TIME_A_KEY, key) for key in ("+", "ArrowRight", "-", "0", "+", "ArrowLeft", "0")]
    expect(view.locator(".jp-smx-charts-summary")).to_have_text(re.compile("^Over 27 hours"))
    assert statistics.median(times) < LONGEST_FRAME, f"{drawings(lab).count()} charts took {times} ms"
    lab.photograph("charts-of-100000-points")


def test_one_point_is_a_point_and_what_was_never_a_number_is_said(lab: Lab) -> None:
    never = metric("perplexity", 2) | {"values": [None, None]}
    world = ChartWorld([host("algo-1", 1)], [metric("loss", 1) | {"values": [0.5]}, never])
    view = opened(lab, world)
    expect(view.locator(".jp-smx-charts-summary")).to_contain_text("loss is 0.5; perplexity was never a finite number;")
    canvas = drawings(lab).first
    assert canvas.evaluate(COUNT_COLOUR, "--jp-brand-color1") > 3
    lab.photograph("charts-of-one-point")


def test_a_server_that_does_not_answer_is_told_and_forgiven(lab: Lab, allowed: list[str]) -> None:
    allowed.append("503")
    world = ChartWorld([host("algo-1", 60)], [])
    world.run["is_final"] = False
    view = opened(lab, world)
    expect(view.get_by_role("status")).to_have_text("Updating live.")
    world.status = 503
    expect(view.get_by_role("status")).to_contain_text("Cannot update the charts: No controller runs.", timeout=WAKE)
    expect(drawings(lab).first).to_be_visible()
    world.status = 200
    view.get_by_role("button", name="Try again").click()
    expect(view.get_by_role("status")).to_have_text("Updating live.")
    view.get_by_role("button", name="Pause").click()
    expect(view.get_by_role("status")).to_have_text("Paused. The job keeps running.")
    expect(view.get_by_role("button", name="Pause")).to_have_attribute("aria-pressed", "true")
