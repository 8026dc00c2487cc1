from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from msgspec.structs import replace
from nbclient import NotebookClient

from jupyter_smx.kernel.display.card import MIME, card_of
from jupyter_smx.kernel.display.widget_card import WIDGET_VIEW_MIME, WidgetCard
from jupyter_smx.kernel.front_end import uses_widgets
from jupyter_smx.kernel.text.formats import sparkline
from jupyter_smx.model.errors import ResourceInUseError
from jupyter_smx.model.records.job import Job
from jupyter_smx.model.records.summary import summary_of
from jupyter_smx.model.results.progress import Progress
from jupyter_smx.model.results.usage import Usage
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import SecondaryStatus

if TYPE_CHECKING:
    from scripted_controller import ScriptedController

TRAINING = Job(
    id="ab" * 16,
    name="train-<b>-ababab",
    spec=JobSpec(kind="train", source="pass"),
    state=SecondaryStatus.TRAINING,
    created_at=100.0,
)


@pytest.mark.parametrize(
    ("style", "environment", "namespace", "modules", "expected"),
    [
        ("auto", {}, {}, (), False),
        ("auto", {"VSCODE_PID": "7"}, {}, (), True),
        ("auto", {"VSCODE_PID": ""}, {}, (), False),
        ("auto", {}, {"__vsc_ipynb_file__": "/a.ipynb"}, (), True),
        ("auto", {}, {}, ("google.colab",), True),
        ("mime", {"VSCODE_PID": "7"}, {}, (), False),
        ("widget", {}, {}, (), True),
    ],
)
def test_widgets_are_for_front_ends_without_our_extension(
    style: str, environment: dict[str, str], namespace: dict[str, str], modules: tuple[str, ...], *, expected: bool
) -> None:
    assert uses_widgets(style, namespace, environment, modules) is expected


class Desk:
    """Notes what the buttons ask for; the second time it refuses."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def _ask(self, what: str, job_id: str) -> str:
        if (what, job_id) in self.asked:
            raise ResourceInUseError("It is <done>.")
        self.asked.append((what, job_id))
        return "loss < 1\n"

    def stop(self, job_id: str) -> object:
        return self._ask("stop", job_id)

    def log(self, job_id: str) -> str:
        return self._ask("log", job_id)

    def rerun(self, job_id: str) -> object:
        return self._ask("again", job_id)


def walk(widget: Any) -> list[Any]:
    return [widget, *(each for child in getattr(widget, "children", ()) for each in walk(child))]


def shown(card: WidgetCard) -> str:
    return " ".join(str(each.value) for each in walk(card.box) if isinstance(getattr(each, "value", None), str))


def buttons(card: WidgetCard) -> dict[str, Any]:
    found = [each for each in walk(card.box) if hasattr(each, "click")]
    return {each.description: each for each in found if each.layout.display != "none"}


def test_buttons_do_what_they_say_and_a_refusal_is_a_sentence() -> None:
    desk = Desk()
    card = WidgetCard(card_of(TRAINING, 103.0), desk)
    assert set(buttons(card)) == {"Stop", "Log"}
    buttons(card)["Log"].click()
    assert "<pre" in shown(card)
    assert "loss &lt; 1" in shown(card)
    buttons(card)["Stop"].click()
    assert "&lt;done&gt;" not in shown(card)
    buttons(card)["Stop"].click()
    assert "It is &lt;done&gt;." in shown(card)
    assert desk.asked == [("log", TRAINING.id), ("stop", TRAINING.id)]


def test_it_changes_from_another_thread_and_offers_another_run_at_the_end() -> None:
    card = WidgetCard(card_of(TRAINING, 103.0), Desk())
    bar = next(each for each in walk(card.box) if hasattr(each, "bar_style"))
    assert bar.layout.display == "none"
    half = card_of(TRAINING, 104.0)
    summary = replace(half.summary, progress=Progress(fraction=0.5, text="epoch 1/2"))
    draw(card, replace(half, summary=summary))
    assert (bar.value, bar.layout.display) == (0.5, "")
    ended = replace(TRAINING, state=SecondaryStatus.COMPLETED, ended_at=105.0)
    draw(card, card_of(ended, 105.0))
    assert set(buttons(card)) == {"Log", "Rerun"}
    assert "Completed after 5" in shown(card)
    assert "&lt;b&gt;" in shown(card)


def test_it_names_the_engine_once_the_time_of_the_day_and_what_the_job_uses() -> None:
    card = WidgetCard(card_of(TRAINING, 103.0), Desk())
    for percent in (0.0, 50.0, 200.0):
        snapshot = card_of(TRAINING, 104.0)
        usage = Usage(cpu_percent=percent, memory_bytes=1 << 30, gpu_percent=40.0)
        draw(card, replace(snapshot, summary=replace(snapshot.summary, usage=usage)))
    text = shown(card)
    assert "CPU ▁▃█ 200 % · memory 1.0 GiB · GPU 40 %" in text
    assert re.search(r"Still running at \d\d:\d\d\.", text)
    assert text.count("local") == 1
    assert TRAINING.id not in text


def test_at_its_end_it_has_the_most_that_the_job_used() -> None:
    ended = replace(TRAINING, state=SecondaryStatus.COMPLETED, ended_at=105.0, peak=Usage(cpu_percent=186.4))
    assert "peak CPU 186 %" in shown(WidgetCard(card_of(ended, 105.0), Desk()))


def test_what_the_controller_says_of_use_is_on_the_card() -> None:
    news = replace(summary_of(TRAINING), usage=Usage(cpu_percent=12.0))
    assert card_of(TRAINING, 103.0, news=news).summary.usage == Usage(cpu_percent=12.0)


@pytest.mark.parametrize(
    ("values", "bars"), [((0.0, 50.0, 100.0), "▁▅█"), ((100.0, 400.0), "▃█"), ((), ""), ((-1.0,), "▁")]
)
def test_bars_have_a_full_core_or_the_highest_figure_at_their_top(values: tuple[float, ...], bars: str) -> None:
    assert sparkline(values) == bars


def draw(card: WidgetCard, snapshot: Any) -> None:
    thread = threading.Thread(target=card.draw, args=(snapshot,))
    thread.start()
    thread.join()


@pytest.mark.processes
def test_in_a_kernel_the_widgets_are_alive_and_the_saved_notebook_tells_the_truth(
    controller: ScriptedController,
) -> None:
    controller.on_submit = lambda fake, job: (fake.run(job.id), fake.end(job.id))
    cells = ["%load_ext jupyter_smx\n%smx config card=widget", "%%train\npass"]
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(nb, timeout=60, kernel_name="python3", store_widget_state=True).execute()
    (card,) = nb.cells[1].outputs
    assert set(card.data) == {WIDGET_VIEW_MIME, MIME, "text/html", "text/plain"}
    assert "Completed after" in card.data["text/html"]
    state = nb.metadata["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    box = state[card.data[WIDGET_VIEW_MIME]["model_id"]]
    assert box["model_name"] == "VBoxModel"
    assert any("Completed after" in str(model["state"].get("value", "")) for model in state.values())
