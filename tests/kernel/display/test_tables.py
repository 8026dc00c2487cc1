"""The tables of `%smx jobs` and `%smx pools`, as text and as HTML."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser

import pytest
from msgspec.structs import replace

from jupyter_smx.kernel.text.pages import jobs_page, pools_page
from jupyter_smx.kernel.text.tables import Column, shorten_names, table_page
from jupyter_smx.model.records.event import PoolSummary
from jupyter_smx.model.records.job import JobSummary
from jupyter_smx.model.spec.array import ArrayCounts, ArraySummary
from jupyter_smx.model.status import SecondaryStatus, Status

NOW = time.mktime((2026, 10, 2, 14, 30, 0, 0, 0, -1))
DONE = JobSummary(
    id="ab" * 16,
    name="train-ababab",
    base_name="train",
    kind="train",
    engine="local",
    instances="local × 1",
    status=Status.COMPLETED,
    secondary_status=SecondaryStatus.COMPLETED,
    message="",
    created_at=NOW - 1_500,
    ended_at=NOW - 1_493,
)
POOL = PoolSummary(
    id="fe" * 8, name="m5-fefefe", engine="local", instances="local × 1", state="Available", created_at=0.0
)


class Cells(HTMLParser):
    """Collects tags, and the text and attributes of each cell."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.cells: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag in ("td", "th"):
            self.cells.append(("", dict(attrs)))

    def handle_data(self, data: str) -> None:
        text, attributes = self.cells[-1]
        self.cells[-1] = (text + data, attributes)


def test_each_column_has_a_name_and_numbers_are_at_the_right() -> None:
    text, html = jobs_page([DONE], NOW)
    cells = Cells(html).cells
    headers = [text for text, _ in cells[:8]]
    assert headers == ["JOB", "STATUS", "START", "INSTANCES", "TIME", "END TIME", "COST", "DETAILS"]
    styles = {text: str(attributes["style"]) for text, attributes in cells}
    assert {header for header in headers if "right" in styles[header]} == {"TIME", "END TIME", "COST"}
    assert styles["train-ababab"] == "text-align: left; white-space: nowrap"
    assert text.splitlines()[1].split() == ["train-ababab", "Completed", "local", "×", "1", "7", "s", "14:05"]


def test_the_end_time_has_the_day_of_an_older_job_and_none_while_it_runs() -> None:
    old = replace(DONE, ended_at=NOW - 90_000)
    assert "2026-10-01 13:30" in jobs_page([old], NOW)[0]
    running = replace(DONE, ended_at=None, status=Status.IN_PROGRESS, secondary_status=SecondaryStatus.TRAINING)
    assert not re.search(r"\d\d:\d\d", jobs_page([running], NOW)[0])


def an_array(counts: ArrayCounts, ended_at: float | None) -> ArraySummary:
    return ArraySummary(
        id="cd" * 16,
        name="grid-cdcdcd",
        base_name="grid",
        kind="train",
        size=2,
        created_at=NOW - 200,
        counts=counts,
        ended_at=ended_at,
    )


def test_an_array_that_is_over_has_an_end_time_and_how_long_it_took() -> None:
    over, runs = ArrayCounts(completed=2), ArrayCounts(completed=1, running=1)
    row = jobs_page([], NOW, [an_array(over, NOW - 140)])[0].splitlines()[1]
    assert row.split()[:4] == ["grid-cdcdcd", "Completed", "1", "min"]
    assert re.findall(r"\d\d:\d\d", row) == ["14:27"]
    row = jobs_page([], NOW, [an_array(runs, None)])[0].splitlines()[1]
    assert "3 min 20 s" in row
    assert not re.search(r"\d\d:\d\d", row)
    assert "min" not in jobs_page([], NOW, [an_array(over, None)])[0]  # as an older controller answers


def test_jobs_and_arrays_are_listed_newest_first() -> None:
    older, newer = (replace(DONE, name=f"job-{age}", created_at=NOW - age) for age in (300, 100))
    array = an_array(ArrayCounts(completed=2), NOW - 100)
    lines = jobs_page([older, newer], NOW, [array])[0].splitlines()[1:]
    assert [line.split()[0] for line in lines] == ["job-100", "grid-cdcdcd", "job-300"]


def test_long_names_are_told_apart_and_are_whole_in_their_titles_and_in_the_text() -> None:
    names = [f"experiment-with-a-very-long-name-of-a-notebook-of-mine-{number:05}" for number in range(12)]
    assert {len(name) for name in names} == {60}
    text, html = jobs_page([replace(DONE, name=name) for name in names], NOW)
    found = [(shown, attributes["title"]) for shown, attributes in Cells(html).cells if attributes.get("title")]
    assert [title for _, title in found] == names
    assert len({shown for shown, _ in found}) == 12
    assert all(len(shown) == 40 and "…" in shown for shown, _ in found)
    assert all(name in text for name in names)


def test_names_that_differ_in_their_middle_only_stay_whole() -> None:
    names = ["a" * 30 + middle + "b" * 30 for middle in "xy"]
    assert shorten_names(names) == names
    assert shorten_names([names[0], names[0]]) == ["a" * 19 + "…" + "b" * 20] * 2


def test_text_lines_its_numbers_up_at_the_right() -> None:
    text, _ = table_page(("A", Column("N", "number"), "B"), [("x", "1", "y"), ("x", "200", "y")])
    assert text == "A    N  B\nx    1  y\nx  200  y"


def test_a_table_without_rows_has_its_headers() -> None:
    text, html = table_page(("A", Column("N", "number")), [])
    assert text == "A  N"
    assert [word for word, _ in Cells(html).cells] == ["A", "N"]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>"),
        ("loss\x1b[31m\x07 red\x1b]0;title\x07", "loss red"),
        ("abc\u202edef\u2066", "abcdef"),
        ("\u05e9\u05dc\u05d5\u05dd", "\u05e9\u05dc\u05d5\u05dd"),
        ("one\ntwo\tthree", "one two\tthree"),
    ],
)
def test_what_others_wrote_is_shown_as_text(said: str, shown: str) -> None:
    row = replace(
        DONE,
        status=Status.FAILED,
        secondary_status=SecondaryStatus.FAILED,
        message=f"AlgorithmError: {said}",
        failure_type="E",
    )
    page = Cells(jobs_page([replace(row, name=said)], NOW)[1])
    assert page.tags == {"table", "thead", "tbody", "tr", "th", "td"}
    assert page.cells[8][0] == shown
    assert page.cells[15][0] == f"E: {shown}"


def test_a_message_or_a_metric_of_any_length_is_cut() -> None:
    for row in (
        replace(DONE, metrics={"m" * 5_000: 1.0}),
        replace(DONE, status=Status.STOPPED, secondary_status=SecondaryStatus.STOPPED, message="x" * 5_000),
    ):
        text, html = jobs_page([row], NOW)
        assert len(Cells(html).cells[15][0]) == 240
        assert max(map(len, text.splitlines())) < 400


@pytest.mark.parametrize(("left", "words"), [(1_500, "25 min"), (-5, "0 ms")])
def test_a_pool_says_how_much_of_its_allocation_is_left(left: float, words: str) -> None:
    text, _ = pools_page([replace(POOL, allocation_ends_at=NOW + left)], NOW)
    assert f"{POOL.state}, allocation ends in {words}" in text


@pytest.mark.parametrize(("kept", "left", "words"), [(3_000, 1_500, "25 min"), (600, 1_500, "10 min")])
def test_a_pool_expires_with_its_allocation_or_its_keep_alive_whichever_ends_first(
    kept: float, left: float, words: str
) -> None:
    pool = replace(POOL, expires_at=NOW + kept, allocation_ends_at=NOW + left)
    assert words in [text for text, _ in Cells(pools_page([pool], NOW)[1]).cells]


def test_pools_have_the_same_form() -> None:
    pool = replace(POOL, name="p" * 50, last_job="<b>", expires_at=NOW + 60)
    cells = Cells(pools_page([pool], NOW)[1]).cells
    assert [text for text, attributes in cells if attributes.get("title") == "p" * 50] == ["p" * 19 + "…" + "p" * 20]
    assert cells[-1][0] == "<b>"
    assert {text for text, attributes in cells[:9] if "right" in str(attributes["style"])} == {
        "EXPIRES IN",
        "JOBS",
        "SAVED",
        "IDLE",
    }


@pytest.mark.parametrize(
    ("seconds", "words"), [(5_400, "3.00 node hours"), (0, "0.00 node hours"), (1, "< 0.01 node hours")]
)
def test_idle_time_of_an_allocation_is_in_node_hours(seconds: float, words: str) -> None:
    _, html = pools_page([replace(POOL, nodes=2, idle_seconds=seconds)], NOW)
    assert words in [text for text, _ in Cells(html).cells]
    assert "node hours" not in pools_page([replace(POOL, idle_seconds=seconds, idle_cost=1.0)], NOW)[0]
