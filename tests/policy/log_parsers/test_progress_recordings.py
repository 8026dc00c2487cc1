"""What real libraries printed, byte for byte (the file names say which version), and what we read in it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from jupyter_smx.policy.log_parsers.observations import AnnouncedTotals
from jupyter_smx.policy.log_parsers.reader import Reader

RECORDINGS = Path(__file__).parent / "recordings"
NOTHING = AnnouncedTotals()


def read(
    name: str, announced: AnnouncedTotals = NOTHING, piece: int = 61
) -> tuple[Reader, list[tuple[float | None, str]]]:
    """Feed a recording piece by piece; gives the reader and every progress that it said, once."""
    data = (RECORDINGS / f"{name}.log").read_bytes()
    reader = Reader({}, announced, time.thread_time)
    said: list[tuple[float | None, str]] = []
    for start in range(0, len(data), piece):
        reader.feed(data[start : start + piece], 100.0 + start)
        now = reader.progress(1.0)
        if now is not None and (now.fraction, now.text) not in said[-1:]:
            said.append((now.fraction, now.text))
    reader.close(1e6)
    return reader, said


def points(reader: Reader, name: str) -> list[tuple[float | None, float | None]]:
    record = reader.state.series[name].record(name, "algo-1")
    return list(zip(record.steps, record.values, strict=True))


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("tqdm-4.70.1-plain", (0.0, "0/60"), (1.0, "60/60")),
        ("tqdm-4.70.1-postfix", (0.0, "Training 0/40 batch"), (1.0, "Training 40/40 batch")),
        ("tqdm-4.70.1-nested", (0.0, "epochs 0/3"), (1.0, "epochs 3/3")),
        ("tqdm-4.70.1-unknown", (None, "5 it"), (None, "50 it")),
        ("tqdm-4.70.1-bytes", (0.0, "weights.bin 0.00/2.86MB"), (1.0, "weights.bin 2.86M/2.86MB")),
        ("tqdm-4.70.1-slow", (0.0, "train 0/4"), (1.0, "train 4/4")),
        ("tqdm-4.70.1-write", (0.0, "0/10"), (1.0, "10/10")),
        ("keras-3.15.1-verbose1", (0.0, "epoch 1/3"), (1.0, "epoch 3/3 · 8/8")),
        ("keras-3.15.1-verbose2", (0.3333, "epoch 1/3 · 8/8"), (1.0, "epoch 3/3 · 8/8")),
        ("lightning-2.6.6-rich", (1.0, "epoch 3/3 · 12/12"), (1.0, "epoch 3/3 · 12/12")),
        ("lightning-2.6.6-rich-tty", (0.0, "epoch 1/3 · 0/12"), (1.0, "epoch 3/3 · 12/12")),
        ("lightning-2.6.6-tqdm", (None, "Sanity Checking"), (None, "epoch 3 · 12/12")),
        ("rich-15.0.0-track", (1.0, "Working 100 %"), (1.0, "Working 100 %")),
        ("rich-15.0.0-track-tty", (0.0, "Working 0 %"), (1.0, "Working 100 %")),
        ("transformers-5.23.0-trainer", (0.0, "0/18"), (1.0, "18/18")),
        ("xgboost-3.2.0-rmse", (None, "round 1"), (None, "round 15")),
        ("lightgbm-4.7.0-l2", (None, "round 1"), (None, "round 15")),
    ],
)
def test_the_bar_is_followed_from_its_beginning_to_its_end(
    name: str, first: tuple[float | None, str], last: tuple[float | None, str]
) -> None:
    _, said = read(name)
    assert said[0] == first
    assert said[-1] == last


@pytest.mark.parametrize(
    "name",
    [
        path.stem
        for path in sorted(RECORDINGS.glob("*.log"))
        if "sequence" not in path.stem and "unknown" not in path.stem
    ],
)
def test_progress_never_walks_back(name: str) -> None:
    fractions = [
        fraction for fraction, _ in read(name, AnnouncedTotals(epochs=3, rounds=15))[1] if fraction is not None
    ]
    # What runs before the epochs begin (a sanity check) is another count.
    main = fractions[fractions.index(0.0, 1) :] if name == "lightning-2.6.6-tqdm" else fractions
    assert main == sorted(main)
    assert main[-1] == 1.0


def test_a_bar_within_a_bar_moves_the_outer_one() -> None:
    said = read("tqdm-4.70.1-nested")[1]
    assert (0.5, "epochs 1/3 · batches 10/20") in said
    assert len({fraction for fraction, _ in said}) > 50


def test_one_bar_after_the_other_begins_anew_and_loading_and_evaluating_stand_aside() -> None:
    said = read("tqdm-4.70.1-sequence")[1]
    assert said[0] == (0.0, "Loading 0/20")
    assert (0.3333, "Train 10/30") in said
    assert (1.0, "Train 30/30 · Evaluating 0/10") in said
    assert said[-1] == (1.0, "Train 30/30")


def test_the_bar_says_how_long_it_will_take() -> None:
    data = (RECORDINGS / "tqdm-4.70.1-slow.log").read_bytes()
    reader = Reader({}, AnnouncedTotals(), time.thread_time)
    reader.feed(data[: data.index(b"2/4") - 20], 5.0)
    progress = reader.progress(5.0)
    assert progress is not None
    assert (progress.fraction, progress.remaining_seconds) == (0.25, 3.0)


def test_lightning_does_not_say_how_many_epochs_but_the_hyperparameters_do() -> None:
    said = read("lightning-2.6.6-tqdm", AnnouncedTotals(epochs=3))[1]
    assert (0.0278, "epoch 1/3 · 1/12") in said
    assert said[-1] == (1.0, "epoch 3/3 · 12/12")


def test_rounds_of_boosting_have_an_end_when_the_hyperparameters_say_it() -> None:
    assert read("lightgbm-4.7.0-l2", AnnouncedTotals(rounds=15))[1][-1] == (1.0, "round 15/15")


def test_the_metrics_of_keras_are_those_of_its_epochs() -> None:
    reader, _ = read("keras-3.15.1-verbose2")
    assert points(reader, "val_loss") == [(1.0, 0.8656), (2.0, 0.8531), (3.0, 0.8415)]
    reader, _ = read("keras-3.15.1-verbose1")
    assert points(reader, "val_loss") == [(1.0, 1.1489), (2.0, 1.1307), (3.0, 1.1129)]
    assert sorted(reader.state.series) == ["accuracy", "loss", "val_accuracy", "val_loss"]


def test_the_metrics_of_tqdm_are_its_postfix_and_words_in_it_are_none() -> None:
    reader, _ = read("tqdm-4.70.1-postfix")
    assert sorted(reader.state.series) == ["loss", "val_acc"]
    assert points(reader, "loss")[:2] == [(0.0, 0.25), (4.0, 0.125)]


def test_the_metrics_of_lightning_are_those_of_its_bar_without_its_version_number() -> None:
    reader, _ = read("lightning-2.6.6-tqdm")
    assert sorted(reader.state.series) == ["train_loss", "val_loss"]
    assert points(reader, "train_loss")[:2] == [(0.0833, 1.61), (0.1667, 1.78)]
    # One value for each validation, although the bar repeats it at every step of the next epoch.
    assert [value for _, value in points(reader, "val_loss")] == [0.0123, 0.000148, 2.04e-06]
    assert sorted(read("lightning-2.6.6-rich-tty")[0].state.series) == ["train_loss"]


def test_the_metrics_of_hugging_face_are_its_dictionaries_by_their_epoch() -> None:
    reader, _ = read("transformers-5.23.0-trainer")
    assert points(reader, "loss")[:3] == [(0.5, 1.854), (1.0, 1.577), (1.5, 1.743)]
    assert points(reader, "eval_loss") == [(1.0, 1.262), (2.0, 1.261), (3.0, 1.261)]
    assert points(reader, "train_loss") == [(3.0, 1.715)]


def test_the_metrics_of_boosting_are_those_of_its_rounds() -> None:
    reader, _ = read("xgboost-3.2.0-rmse")
    assert sorted(reader.state.series) == ["test-mae", "test-rmse", "train-mae", "train-rmse"]
    assert points(reader, "test-rmse")[0] == (0.0, 1.58216)
    assert points(reader, "test-rmse")[-1] == (14.0, 0.21631)
    assert points(read("lightgbm-4.7.0-l2")[0], "valid-l2")[-1] == (15.0, 0.388237)
