"""``--metric``: what may be asked for, what is found, and regexes that would never end."""

from __future__ import annotations

import itertools
import time

import pytest

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.results.progress import MAX_METRICS
from jupyter_smx.model.spec.metric import check_metrics
from jupyter_smx.policy.log_parsers.observations import AnnouncedTotals
from jupyter_smx.policy.log_parsers.reader import Reader
from jupyter_smx.policy.log_parsers.user_regex import FEED_SECONDS, LINE_SECONDS

EVIL = [r"(a+)+b(\d)", r"(a|aa)+$(b)", r"([a-z]+)*=(\d)", r"^(([a-z])+.)+[A-Z]([a-z])+$"]


@pytest.mark.parametrize(
    ("metrics", "says"),
    [
        ({"loss": "loss=([0-9"}, "unterminated character set at position 10"),
        ({"loss": "loss=[0-9]+"}, "has no capture group"),
        ({"loss": ""}, "the regex has 0 characters"),
        ({"loss": "(" + "a" * 499 + ")"}, "the regex has 501 characters"),
        ({"": "(a)"}, "the name has 0 characters"),
        ({"n" * 256: "(a)"}, "the name has 256 characters"),
        ({f"m{number}": "(a)" for number in range(41)}, "41 metrics"),
    ],
)
def test_what_sagemaker_would_not_take_is_refused(metrics: dict[str, str], says: str) -> None:
    with pytest.raises(ValidationError) as refused:
        check_metrics(metrics)
    assert says in str(refused.value)
    assert refused.value.field == "metrics"


def test_what_sagemaker_takes_is_taken() -> None:
    check_metrics({"n" * 255: "(" + "a" * 498 + ")"} | {f"m{number}": "loss=(.*?);" for number in range(39)})


def test_the_first_group_is_the_value_and_what_is_no_number_is_dropped() -> None:
    reader = Reader({"train:error": r"Train_error=(.*?);"}, AnnouncedTotals(), time.thread_time)
    reader.feed(
        b"Train_error=0.138318; Valid_error=0.324557;\nTrain_error=oops;\n\x1b[1mTrain_error=nan;\x1b[0m\n", 5.0
    )
    assert reader.state.series["train:error"].values == [0.138318, None]


def test_the_users_metric_goes_before_one_of_the_same_name_that_is_found() -> None:
    reader = Reader({"loss": r"my loss is (\d+)"}, AnnouncedTotals(), time.thread_time)
    reader.feed(b"epoch 1/2 loss=0.5 acc=0.25\nmy loss is 3\n", 5.0)
    assert reader.state.series["loss"].values == [3.0]
    assert reader.state.series["acc"].values == [0.25]


def test_metrics_that_are_found_leave_room_for_those_of_the_user() -> None:
    reader = Reader({"mine": r"mine (\d+)"}, AnnouncedTotals(), time.thread_time)
    reader.feed(b"".join(b"step 1/2 m%d=1\n" % number for number in range(60)) + b"mine 4\n", 5.0)
    assert len(reader.state.series) == MAX_METRICS
    assert reader.state.series["mine"].values == [4.0]


@pytest.mark.parametrize("evil", EVIL)
def test_a_regex_that_would_never_end_is_given_up_and_the_others_go_on(evil: str) -> None:
    reader = Reader({"evil": evil, "good": r"good=(\d+)"}, AnnouncedTotals(), time.thread_time)
    begun = time.thread_time()
    reader.feed((b"a" * 4000 + b"\n") * 20 + b"good=1\n", 5.0)
    assert time.thread_time() - begun < 5 * (LINE_SECONDS + FEED_SECONDS)
    reader.feed(b"good=2\n", 6.0)
    assert reader.state.series["good"].values[-1] == 2.0
    if reader.state.off:
        assert "The regex of metric evil took" in reader.state.off["evil"]


def test_what_was_given_up_stays_so_in_the_next_process() -> None:
    reader = Reader({"evil": EVIL[0]}, AnnouncedTotals(), time.thread_time)
    reader.feed(b"a" * 4000 + b"\n", 5.0)
    assert list(reader.state.off) == ["evil"]
    again = Reader({"evil": EVIL[0]}, AnnouncedTotals(), time.thread_time, reader.state)
    begun = time.thread_time()
    again.feed((b"a" * 4000 + b"\n") * 50, 6.0)
    assert time.thread_time() - begun < FEED_SECONDS / 2


def test_many_lines_that_each_take_a_while_give_the_slowest_regex_up() -> None:
    ticks = itertools.count()
    reader = Reader({"slow": "(x)", "quick": "(1)"}, AnnouncedTotals(), lambda: next(ticks) * LINE_SECONDS / 4)
    reader.feed(b"1\n" * 100, 5.0)
    assert len(reader.state.off) == 1
    assert "for a few lines" in next(iter(reader.state.off.values()))


def test_a_busy_machine_gives_no_regex_up() -> None:
    """The wall says that time passed, the thread's own clock that it did not compute."""
    reader = Reader({"loss": EVIL[0]}, AnnouncedTotals(), lambda: 0.0)
    reader.feed(b"a" * 4000 + b"\n", 5.0)
    assert reader.state.off == {}
