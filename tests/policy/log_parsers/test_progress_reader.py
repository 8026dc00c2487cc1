"""The reader of a log: the same however it is cut, of constant size whatever it gets, and not fooled by prose."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_smx.model.results.progress import MAX_METRICS
from jupyter_smx.policy.log_parsers.line_splitter import MAX_LINE
from jupyter_smx.policy.log_parsers.observations import AnnouncedTotals, parse_clock
from jupyter_smx.policy.log_parsers.reader import Reader, ReaderState, announced_totals
from jupyter_smx.policy.log_parsers.series import MAX_POINTS, Series

RECORDINGS = [path.read_bytes() for path in sorted((Path(__file__).parent / "recordings").glob("*.log"))]
OWN = {"note": r"note (\d+)", "loss": r"'loss': '([^']+)'"}

fragments = st.sampled_from(
    (
        b"\r", b"\n", b"\x1b[A", b"\x1b[1m", "━".encode(), "·".encode(), b"\xff\xfe", b"\xe2\x94", b"\x08" * 9,
        b"Epoch 3/10", b" 45%|####5     | 45/100 [00:01<00:02, ", b"9.1it/s]", b"loss=0.5, ", b"- loss: nan",
        b"{'loss': '0.2', 'epoch': '1.0'}", b"[3]\ttrain-rmse:0.5", b"8/8 ", b"epoch 2/4 loss: 1e-3", b"step 12/50",
        b"[1,0]<stdout>:", b"Progress: 12%", b" ... ", b"2.1.0 ", b"[00:03, 2.1it/s]", b"9" * 400, b"/", b":\tlearn: ",
        b"Epoch ", b"epoch ", b"[" + b"9" * 20 + b"]\tloss:0.1", b"|##|", b" days, ", b"[00:", b" remaining: ", b"h 1s",
    )
)  # fmt: skip
logs = st.one_of(st.sampled_from(RECORDINGS), st.binary(max_size=300), st.lists(fragments, max_size=60).map(b"".join))


def whole(data: bytes, metrics: dict[str, str] | None = None) -> Reader:
    reader = Reader(metrics or {}, AnnouncedTotals(), time.thread_time)
    reader.feed(data, 7.0)
    return reader


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    at = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in itertools.pairwise(at)]


@given(data=logs, cuts=st.lists(st.integers(0, 20_000), max_size=40), metrics=st.sampled_from([{}, OWN]))
def test_it_does_not_matter_where_the_log_is_cut(data: bytes, cuts: list[int], metrics: dict[str, str]) -> None:
    at_once = whole(data, metrics)
    in_pieces = Reader(metrics, AnnouncedTotals(), time.thread_time)
    for piece in cut(data, cuts):
        in_pieces.feed(piece, 7.0)
    assert in_pieces.state == at_once.state
    assert in_pieces.progress(7.0) == at_once.progress(7.0)


@given(data=logs, cuts=st.lists(st.integers(0, 20_000), max_size=5))
@settings(max_examples=50)
def test_another_process_reads_on_from_the_saved_state(data: bytes, cuts: list[int]) -> None:
    at_once = whole(data, OWN)
    state = ReaderState()
    for piece in cut(data, cuts):
        reader = Reader(
            OWN,
            AnnouncedTotals(),
            time.thread_time,
            msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=ReaderState),
        )
        reader.feed(piece, 7.0)
        state = reader.state
    assert msgspec.msgpack.encode(state) == msgspec.msgpack.encode(at_once.state)


def test_a_recording_fed_byte_by_byte_is_the_same() -> None:
    for data in RECORDINGS:
        reader = Reader({}, AnnouncedTotals(), time.thread_time)
        for number in range(len(data)):
            reader.feed(data[number : number + 1], 7.0)
        assert reader.state == whole(data).state


PROSE = [
    "3/10 of people like this",
    "loaded 3/10 files",
    "2026/11/21 12:00:00 server started",
    "learning rate 0.1, batch size: 32",
    "Epoch Times 2020",
    "the first step 5 was easy",
    "45% of the data is missing",
    "accuracy: 0.9",
    "{'a': 1}",
    "100/200",
    "http://localhost:8888/step/3/10",
    "| 1 | 2 | 3/4 | [1, 2]",
    "[1, 2, 3]\t5",
    "KeyError: 'epoch'",
    "Loading checkpoint ... [00:03, 2.10it/s]",
    "Downloading torch 2.1.0 [00:05, 12.3MB/s]",
    "building |###| ../.. [00:03, 2.10it/s]",
    f"Epoch 1/{'9' * 400}",
    f"Epoch {'9' * 20}/{'9' * 21}",
    f"epoch {'9' * 400}: loss=0.1",
    f"step {'9' * 400}/{'9' * 400}",
    f"{'9' * 400}/{'9' * 400} ━━━━ 3s 40ms/step",
    f"Working ━━━ {'9' * 400}/{'9' * 400} 0:00:03",
    f"[{'9' * 400}]\ttrain-rmse:0.5",
    f" 50%|###| {'9' * 400}/{'9' * 400} [00:01<00:01, 1.0it/s]",
]


@pytest.mark.parametrize("line", PROSE)
def test_prose_is_no_progress_and_no_metric(line: str) -> None:
    reader = whole(f"{line}\n".encode())
    assert reader.progress(7.0) is None
    assert reader.state.series == {}


WORDS = [
    ("epoch 7/10  loss=0.2134  val_acc=0.962", 0.7, "epoch 7/10", {"loss": 0.2134, "val_acc": 0.962}, 7.0),
    ("Epoch [2/4], Step [50/100], Loss: 0.25", 0.375, "epoch 2/4 · 50/100", {"Loss": 0.25}, 1.5),
    ("2026-11-21 12:00:00 INFO Epoch: 3 of 4 | train loss: 0.5 | val loss: 0.6", 0.75, "epoch 3/4",
     {"train_loss": 0.5, "val_loss": 0.6}, 3.0),
    ("Epoch 5, loss 0.1, acc=0.3", None, "epoch 5", {"acc": 0.3}, 5.0),
    ("iter 120/480", 0.25, "iter 120/480", {}, None),
    ("[1,mpirank:0,algo-1]<stdout>: step 1/4 loss=nan", 0.25, "step 1/4", {"loss": None}, 1.0),
    ("[default0]:global_step: 5/10 - lr: 1e-05", 0.5, "global_step 5/10", {"lr": 1e-05}, 5.0),
    ("Progress: 45%", 0.45, "45 %", {}, None),
    ("[=====>     ] 50%", 0.5, "50 %", {}, None),
    ("62/94 [==================>...........] - ETA: 3s - loss: 0.3 - accuracy: 0.9", 0.6596, "62/94",
     {"loss": 0.3, "accuracy": 0.9}, 62.0),
    ("94/94 [==============================] - 5s 50ms/step - loss: 0.3 - val_loss: 0.4", 1.0, "94/94",
     {"loss": 0.3, "val_loss": 0.4}, 94.0),
    ("12:\tlearn: 0.5\ttest: 0.6\tbest: 0.6 (12)\ttotal: 50ms\tremaining: 1.5s", None, "round 13",
     {"learn": 0.5, "test": 0.6, "best": 0.6}, 12.0),
]  # fmt: skip


@pytest.mark.parametrize(("line", "fraction", "text", "values", "step"), WORDS)
def test_counts_in_words_are_progress(
    line: str, fraction: float | None, text: str, values: dict[str, float | None], step: float | None
) -> None:
    reader = whole(f"{line}\n".encode())
    progress = reader.progress(7.0)
    assert progress is not None
    assert (progress.fraction, progress.text) == (fraction, text)
    assert {name: series.values[-1] for name, series in reader.state.series.items()} == values
    assert {series.steps[-1] for series in reader.state.series.values()} <= {step}


@pytest.mark.parametrize("clock", ["9" * 400, f"{'9' * 400}:00", "0:" * 400 + "1", f"{'9' * 400} days, 0:00:01"])
def test_a_clock_that_no_job_lives_to_see_promises_nothing(clock: str) -> None:
    reader = whole(f"epochs:  50%|#####     | 1/2 [00:01<{clock.replace(', ', ' ')},  1.20s/it]\r".encode())
    progress = reader.progress(7.0)
    assert progress is not None
    assert (progress.fraction, progress.remaining_seconds) == (0.5, None)


def test_a_round_that_promises_more_hours_than_a_float_holds_promises_nothing() -> None:
    reader = whole(f"12:\tlearn: 0.5\ttotal: 50ms\tremaining: {'9' * 400}h 1s\n".encode())
    (bar,) = reader.state.standing.bars
    assert (bar.done, bar.remaining) == (13.0, None)


def test_the_version_of_a_lightning_log_is_no_metric() -> None:
    reader = whole(b"Epoch 0:  50%|##   | 1/2 [00:00<00:00, 50.00it/s, v_num=3, train_loss=0.25]\r")
    assert {name: series.values for name, series in reader.state.series.items()} == {"train_loss": [0.25]}


def test_a_second_training_begins_at_its_beginning() -> None:
    reader = whole(b"Epoch 1/2\nEpoch 2/2\n")
    reader.feed(b"Epoch 1/5\n", 8.0)
    progress = reader.progress(8.0)
    assert progress is not None
    assert (progress.fraction, progress.text) == (0.0, "epoch 1/5")


def test_the_description_of_a_bar_that_is_a_path_stays_in_the_log() -> None:
    progress = whole(b"/home/me/secret.bin:  50%|#####     | 1/2 [00:01<00:01,  1.20s/it]\r").progress(7.0)
    assert progress is not None
    assert progress.text == "1/2"


def test_a_number_that_may_have_more_digits_is_not_believed_before_its_line_ends() -> None:
    assert whole(b"epoch 1/1").progress(7.0) is None
    assert whole(b"step 1/1").progress(7.0) is None
    progress = whole(b"epoch 1/10\n").progress(7.0)
    assert progress is not None
    assert progress.fraction == 0.0


def test_a_line_without_an_end_costs_no_memory() -> None:
    reader = whole(b"x" * 1_000_000)
    reader.feed(b"epoch " * 100_000, 7.0)
    assert len(reader.state.start) == MAX_LINE
    reader.feed(b"\nepoch 1/2\n", 7.0)
    assert reader.progress(7.0) is not None


def test_a_flood_of_values_and_names_stays_small() -> None:
    reader = whole(b"".join(b"step %d/99999 loss=%d\n" % (number, number) for number in range(20_000)))
    reader.feed(b"".join(b"step 1/2 metric%d=1\n" % number for number in range(500)), 7.0)
    assert len(reader.state.series) == MAX_METRICS
    loss = reader.state.series["loss"]
    assert MAX_POINTS / 2 <= len(loss.values) <= MAX_POINTS
    record = loss.record("loss", "algo-1")
    assert (record.count, record.steps[0], record.values[-1]) == (20_000, 0.0, 19_999.0)
    assert len(msgspec.msgpack.encode(reader.state)) < 1_000_000


def test_carriage_returns_in_a_flood_cost_no_memory() -> None:
    reader = whole(b"\r" * 1_000_000 + b" 50%|#####     | 1/2 [00:01<00:01,  1.20s/it]\r" * 5_000)
    progress = reader.progress(7.0)
    assert progress is not None
    assert progress.fraction == 0.5
    assert len(msgspec.msgpack.encode(reader.state)) < 1_000


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(-1e6, 1e6)), min_size=1, max_size=3 * MAX_POINTS))
@settings(max_examples=20)
def test_thinning_keeps_the_first_and_the_newest_in_order(points: list[tuple[float, float]]) -> None:
    series = Series()
    for number, (_, value) in enumerate(points):
        series.add(float(number), float(number), value)
    record = series.record("loss", "algo-1")
    assert len(record.values) <= MAX_POINTS
    assert record.count == len(points)
    assert record.at[0] == 0.0
    assert (record.at[-1], record.values[-1]) == (len(points) - 1, points[-1][1])
    assert list(record.at) == sorted(set(record.at))
    assert all(points[int(at)][1] == value for at, value in zip(record.at, record.values, strict=True))


def test_the_wish_announces_epochs_and_rounds() -> None:
    assert announced_totals({"num-train-epochs": "3", "lr": "0.1"}) == AnnouncedTotals(epochs=3)
    assert announced_totals({"num_round": "200"}) == AnnouncedTotals(rounds=200)
    assert announced_totals({"epochs": "{expr}", "n_estimators": "-1"}) == AnnouncedTotals()
    assert announced_totals({"epochs": "9" * 5_000, "num_round": "9" * 16}) == AnnouncedTotals()


def test_a_clock_counts_its_days() -> None:
    assert parse_clock("1 day, 1:02:03") == parse_clock("1d 1:02:03") == 86_400 + 3_723
