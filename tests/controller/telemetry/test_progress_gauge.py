"""One job's logs, read a piece at a time: nothing counted twice after a kill, and a flood read in samples."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from records import a_job, a_spec

from jupyter_smx.controller.telemetry.log_metrics import (
    MAX_BACKLOG,
    PIECE,
    SAMPLE,
    SAVE_EVERY,
    LogMetricsReader,
    read_saved,
)
from jupyter_smx.controller.transfer.job_folder import JobFolder
from jupyter_smx.kernel.handles.metrics import Metrics
from jupyter_smx.model.spec.instance import InstanceGroup

if TYPE_CHECKING:
    from pathlib import Path

LINES = b"".join(b"epoch %d/40 loss=%g\n" % (number, 1 / number) for number in range(1, 41))


def folder_of(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path, "a" * 12)


def write(folder: JobFolder, data: bytes, host: str = "algo-1", attempt: int = 1) -> None:
    path = folder.log(host, attempt)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as log:
        log.write(data)


def gauge(folder: JobFolder, **fields: Any) -> LogMetricsReader:
    return LogMetricsReader(folder, a_job(**fields), lambda: 5.0)


def losses(gauge: LogMetricsReader, host: str = "algo-1") -> list[float | None]:
    return next(list(each.values) for each in gauge.job_metrics().series if each.host == host and each.name == "loss")


def test_what_a_log_tells_is_known_after_a_turn(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    write(folder, LINES)
    told = gauge(folder).read_next()
    assert told.progress is not None
    assert (told.progress.fraction, told.progress.text) == (1.0, "epoch 40/40")
    assert [(value.name, value.value, value.step, value.host) for value in told.latest] == [
        ("loss", 0.025, 40.0, "algo-1")
    ]
    assert not told.more


@given(cuts=st.lists(st.integers(0, len(LINES)), max_size=6), saves=st.lists(st.booleans(), min_size=7, max_size=7))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True, max_examples=60)
def test_a_controller_that_was_killed_at_any_byte_counts_nothing_twice(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], saves: list[bool]
) -> None:
    folder = folder_of(tmp_path_factory.mktemp("killed"))
    at = [0, *sorted(cuts), len(LINES)]
    for number, (start, end) in enumerate(itertools.pairwise(at)):
        write(folder, LINES[start:end])
        killed = gauge(folder)
        killed.read_next()
        if saves[number]:
            killed.save()
    last = gauge(folder)
    last.read_remaining()
    assert losses(last) == [pytest.approx(1 / number, rel=1e-4) for number in range(1, 41)]


def test_a_broken_file_is_no_reason_to_fail(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    write(folder, LINES)
    folder.metrics().write_bytes(b"\x93half a file")
    found = gauge(folder)
    found.read_remaining()
    found.save()
    assert len(losses(found)) == 40
    assert read_saved(folder.metrics()) is not None


def test_a_disk_that_refuses_costs_nothing_but_the_file(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    write(folder, LINES)
    folder.metrics().mkdir()
    found = gauge(folder)
    assert found.read_remaining().progress is not None
    found.save()


def test_a_log_that_begins_anew_is_counted_anew(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    write(folder, LINES)
    found = gauge(folder)
    found.read_next()
    folder.log("algo-1").write_bytes(b"epoch 1/2 loss=9\n")
    found.read_next()
    assert losses(found) == [9.0]


def test_the_next_attempt_of_a_job_has_metrics_of_its_own(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    write(folder, LINES)
    first = gauge(folder)
    first.read_remaining()
    first.save()
    write(folder, b"".join(b"step %d/99 loss=%d\n" % (number, number) for number in range(99)), attempt=2)
    second = gauge(folder, attempt=2)
    second.read_remaining()
    assert losses(second) == [float(number) for number in range(99)]


def test_the_leader_says_how_far_the_job_is_and_every_host_keeps_its_values(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    write(folder, b"epoch 1/4 loss=4\n", "algo-1")
    write(folder, b"epoch 3/4 loss=2 only=1\n", "algo-2")
    found = gauge(folder, spec=a_spec(instance_groups=(InstanceGroup(instance_count=2),)))
    told = found.read_next()
    assert told.progress is not None
    assert told.progress.fraction == 0.25
    assert {(value.name, value.host): value.value for value in told.latest} == {
        ("loss", "algo-1"): 4.0,
        ("only", "algo-2"): 1.0,
    }
    assert losses(found, "algo-2") == [2.0]


def test_a_group_that_helps_another_one_does_not_lead_wherever_it_is_named(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    write(folder, b"epoch 3/4 loss=9 served=1\n", "algo-1")
    write(folder, b"epoch 2/4 loss=2\n", "algo-2")
    groups = (InstanceGroup(name="data", until="dnn"), InstanceGroup(name="dnn"))
    found = gauge(folder, spec=a_spec(instance_groups=groups))
    told = found.read_next()
    assert told.progress is not None
    assert told.progress.fraction == 0.5
    assert {(value.name, value.host): value.value for value in told.latest} == {
        ("loss", "algo-2"): 2.0,
        ("served", "algo-1"): 1.0,
    }
    metrics = Metrics(found.job_metrics())
    assert (metrics["loss"], metrics["served"]) == (2.0, 1.0)
    assert metrics.hosts("loss") == {"algo-2": 2.0, "algo-1": 9.0}


def test_a_flood_is_read_in_samples_and_the_last_value_is_right(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    count = 3 * MAX_BACKLOG // 20
    write(folder, b"".join(b"step %07d/%07d loss=%d\n" % (number, count, number) for number in range(count)))
    found = gauge(folder)
    turns = 1
    while found.read_next().more:
        turns += 1
    assert turns <= SAMPLE / PIECE + 1
    told = found.read_remaining()
    assert [(value.name, value.value) for value in told.latest] == [("loss", count - 1)]
    assert any("MiB were skipped" in note for note in told.notes)


def test_a_log_that_is_followed_is_read_whole(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    found = gauge(folder)
    for number in range(50):
        write(folder, b"x" * 50_000 + b"\nepoch %d/50 loss=%d\n" % (number + 1, number))
        while found.read_next().more:
            pass
    assert losses(found) == [float(number) for number in range(50)]
    assert found.read_remaining().notes == ()


def test_a_verdict_reads_the_end_of_a_long_log_only(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    write(folder, b"nothing to see\n" * (MAX_BACKLOG // 15) + LINES)
    found = gauge(folder)
    begun = time.thread_time()
    told = found.read_remaining()
    assert time.thread_time() - begun < 2.0
    assert told.progress is not None
    assert told.progress.fraction == 1.0
    assert "skipped" in told.notes[0]


def test_the_line_without_an_end_counts_at_the_end(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    write(folder, b"epoch 1/2 loss=4\nepoch 2/2 loss=3")
    found = gauge(folder)
    found.read_next()
    assert losses(found) == [4.0]
    found.read_remaining()
    assert losses(found) == [4.0, 3.0]


def test_a_job_that_printed_nothing_leaves_no_file(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    folder.make()
    found = gauge(folder)
    assert found.is_empty()
    told = found.read_remaining()
    found.save()
    assert (told.progress, told.latest, told.notes) == (None, (), ())
    assert not folder.metrics().exists()


def test_the_file_is_not_written_for_every_piece(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    found = gauge(folder)
    times = []
    begun = time.monotonic()
    for _ in range(30):
        write(folder, LINES)
        found.read_next()
        times.append(folder.metrics().stat().st_mtime_ns if folder.metrics().exists() else 0)
    assert len(set(times)) <= 2 + (time.monotonic() - begun) / SAVE_EVERY
