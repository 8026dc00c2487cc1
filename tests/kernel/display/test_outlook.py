"""How far a job is and what it measures, on cards and in lists."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from jupyter_smx.kernel.api import session, watcher
from jupyter_smx.kernel.display.card import card_of
from jupyter_smx.kernel.handles.metrics import Metrics, Point
from jupyter_smx.kernel.text.formats import format_progress
from jupyter_smx.kernel.text.pages import jobs_page
from jupyter_smx.model.records.job import Job, JobSummary
from jupyter_smx.model.records.summary import summary_of
from jupyter_smx.model.results.progress import Expectation, JobMetrics, MetricSeries, MetricValue, Progress
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import SecondaryStatus, Status
from jupyter_smx.model.text import format_estimate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from IPython.core.interactiveshell import InteractiveShell
    from scripted_controller import ScriptedController

HALF = Progress(fraction=0.745, text="epoch 7/10", at=100.0)
THREE_MINUTES = Expectation(seconds=176.0, low=170.0, high=190.0, basis="history", runs=4)


def a_record(**fields: Any) -> Job:
    spec = JobSpec(kind="train", source="pass", base_name="train", submitted_at=100.0)
    made = {
        "id": "ab" * 8,
        "name": "train-ababab",
        "spec": spec,
        "created_at": 100.0,
        "state": SecondaryStatus.TRAINING,
    }
    return Job(**made | fields)


def a_row(job: Job | None = None, **fields: Any) -> JobSummary:
    return replace(summary_of(job or a_record()), **fields)


RUNNING = a_row(progress=HALF, expectation=THREE_MINUTES, metrics={"loss": 0.21341, "acc": None})


@pytest.mark.parametrize("percent", range(101))
def test_a_whole_percent_is_said_as_it_was_measured(percent: int) -> None:
    assert format_progress(a_row(progress=Progress(fraction=percent / 100, at=100.0))) == f"{percent} %"


def test_the_card_of_a_running_job_says_how_far_it_is_and_how_long_it_will_take() -> None:
    card = card_of(a_record(), 234.0, news=RUNNING)
    assert card.line().startswith(
        "● train-ababab · Training for 2 min 14 s of ~3 min · ▮▮▮▮▮▮▯▯ epoch 7/10, 74 % · loss 0.2134, acc nan · local"
    )
    assert "▮▮▮▮▮▮▯▯ epoch 7/10, 74 % · loss 0.2134, acc nan" in card.html()


def test_the_card_of_a_finished_job_keeps_its_metrics_and_what_it_had_reached() -> None:
    values = (MetricValue(name="loss", value=0.5, at=1.0),)
    done = a_record(state=SecondaryStatus.COMPLETED, ended_at=130.0, metrics=values, progress=HALF)
    assert card_of(done, 200.0, news=RUNNING).line().startswith("✓ train-ababab · Completed after 30 s · loss 0.5 ·")
    stopped = replace(done, state=SecondaryStatus.STOPPED)
    assert "epoch 7/10, 74 % · loss 0.5" in card_of(stopped, 200.0).line()


def test_the_list_shows_progress_expected_time_and_values() -> None:
    text, _ = jobs_page([RUNNING], 234.0)
    assert "2 min 14 s of ~3 min" in text
    assert "epoch 7/10, 74 % · loss 0.2134, acc nan" in text
    waiting = a_row(a_record(state=SecondaryStatus.PENDING), queue_position=2, expected_start_at=274.0)
    assert "queue position 2, ~40 s" in jobs_page([waiting], 234.0)[0]
    assert "queue position 2\n" in jobs_page([replace(waiting, expected_start_at=None)], 234.0)[0] + "\n"
    failed = a_row(status=Status.FAILED, failure_type="KeyError", failure_line=14, ended_at=150.0, progress=HALF)
    assert "KeyError, line 14 · epoch 7/10, 74 %" in jobs_page([failed], 234.0)[0]


def test_nothing_known_is_nothing_shown() -> None:
    assert card_of(a_record(), 110.0).line() == "● train-ababab · Training for 10 s · local × 1"


def test_a_description_from_the_log_never_becomes_a_tag() -> None:
    evil = replace(RUNNING, progress=Progress(text="<img src=x>", fraction=0.5), metrics={"<b>x</b>": 1.0})
    html = card_of(a_record(), 110.0, news=evil).html()
    assert "<img" not in html
    assert "<b>x" not in html


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "1 s"), (4.4, "4 s"), (12, "10 s"), (58, "1 min"), (170, "3 min"), (5_300, "88 min"), (5_500, "1.5 h"),
        (100_000, "28 h"), (200_000, "2.5 d"),
    ],
)  # fmt: skip
def test_an_estimate_has_no_more_digits_than_it_deserves(seconds: float, words: str) -> None:
    assert format_estimate(seconds) == words


@given(st.floats(0, 1e7))
def test_an_estimate_in_words_is_near(seconds: float) -> None:
    number, unit = format_estimate(seconds).split()
    said = float(number) * {"s": 1, "min": 60, "h": 3_600, "d": 86_400}[unit]
    assert abs(said - seconds) <= max(1.0, 0.26 * seconds)


METRICS = JobMetrics(
    job="train-ababab",
    progress=HALF,
    series=(
        MetricSeries(name="loss", host="algo-1", steps=(1.0, 2.0), at=(5.0, 6.0), values=(0.5, None), count=2),
        MetricSeries(name="loss", host="algo-2", steps=(1.0,), at=(5.0,), values=(0.75,), count=1),
        MetricSeries(name="mine", host="algo-2", steps=(None,), at=(7.0,), values=(3.0,), count=1),
    ),
    notes=("The regex of metric evil took too long.",),
)


def test_metrics_are_the_newest_values_by_name_with_their_histories() -> None:
    found: Mapping[str, float] = Metrics(METRICS)
    assert list(found) == ["loss", "mine"]
    assert math.isnan(found["loss"])
    assert found["mine"] == 3.0
    metrics = Metrics(METRICS)
    assert metrics.history("loss")[0] == Point(1.0, 0.5, 5.0)
    assert metrics.history("loss", host="algo-2") == [Point(1.0, 0.75, 5.0)]
    assert metrics.hosts("loss")["algo-2"] == 0.75
    assert metrics.notes == METRICS.notes
    assert repr(metrics) == "<Metrics of train-ababab: loss=nan, mine=3>"
    with pytest.raises(KeyError, match="Did you mean loss"):
        metrics["los"]
    with pytest.raises(KeyError, match="Hosts with it: algo-2"):
        metrics.history("mine", host="algo-1")


@pytest.mark.usefixtures("front_end")
def test_a_handle_asks_for_metrics_and_progress(shell: InteractiveShell, controller: ScriptedController) -> None:
    shell.run_cell("%%train --as job --metric 'loss=loss=([0-9]{1,3})' --metric at=at:(\\d{2})\npass").raise_error()
    (job,) = controller.jobs.values()
    assert job.spec.metrics == {"loss": "loss=([0-9]{1,3})", "at": r"at:(\d{2})"}
    controller.metrics[job.id] = METRICS
    handle = shell.user_ns["job"]
    assert handle.metrics["mine"] == 3.0
    assert handle.progress == HALF


def test_a_regex_that_is_none_is_refused_in_the_cell(
    shell: InteractiveShell, controller: ScriptedController, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_cell("%%train --metric loss=loss=([0-9\npass")
    shell.run_cell("%%train --metric loss=(a) --metric loss=(b)\npass")
    shell.run_cell("%%train --metric loss\npass")
    said = capsys.readouterr()
    text = said.out + said.err
    assert "unterminated character set at position 10" in text
    assert "loss is given twice" in text
    assert "NAME=REGEX" in text
    assert controller.jobs == {}


def test_progress_alone_draws_the_card_anew_without_asking_for_the_record(
    shell: InteractiveShell,
    controller: ScriptedController,
    front_end: Any,
    eventually_blocking: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watcher, "_REDRAW", 0.0)
    shell.run_cell("%%train --as job\npass").raise_error()
    (job_id,) = controller.jobs
    job = controller.run(job_id)

    def shows(text: str) -> bool:
        return text in front_end.shown[-1]["data"]["text/plain"]

    eventually_blocking(lambda: shows("Training"), "the card of the running job")
    controller.tell(replace(summary_of(job), progress=HALF))
    eventually_blocking(lambda: shows("74 %"), "its progress")
    asked = controller.targets.count(f"/v1/jobs/{job_id}")
    controller.tell(replace(summary_of(job), progress=replace(HALF, fraction=0.8)))
    eventually_blocking(lambda: shows("80 %"), "more of its progress")
    assert controller.targets.count(f"/v1/jobs/{job_id}") == asked


def test_a_card_is_not_drawn_for_every_step_of_a_bar(
    shell: InteractiveShell, controller: ScriptedController, front_end: Any, eventually_blocking: Any
) -> None:
    shell.run_cell("%%train --as job\npass").raise_error()
    (job_id,) = controller.jobs
    job = controller.run(job_id)
    watching = session.current_session().watcher

    def knows(number: int) -> bool:
        news = watching.latest_summary(job_id)
        return news is not None and news.progress is not None and news.progress.at == number

    eventually_blocking(lambda: "Training" in front_end.shown[-1]["data"]["text/plain"], "the card of the running job")
    for number in range(1, 31):
        controller.tell(replace(summary_of(job), progress=Progress(fraction=number / 30, at=float(number))))
        eventually_blocking(lambda number=number: knows(number), f"step {number}")
    controller.end(job_id)
    eventually_blocking(
        lambda: "Completed" in front_end.shown[-1]["data"]["text/plain"], "the card of the finished job"
    )
    assert len(front_end.cards()) < 15
