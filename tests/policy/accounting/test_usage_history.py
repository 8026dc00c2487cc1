"""What the lines of a sampler say: rates of counters, holes, halves, and the sums over hosts."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.model.results.usage import Usage
from jupyter_smx.policy.accounting import usage
from jupyter_smx.policy.accounting.usage import read_host_usage, sum_usage, usage_of

HEAD = {"version": 1, "cpus": 4, "memory": 8_000, "disk": 90, "note": "Of the whole host."}


def lines(*rows: object, head: object = HEAD) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in (head, *rows)).encode()


def row(at: float, cpu: float, memory: int = 100, **more: object) -> list[object]:
    return [at, cpu, memory, more.get("read", 0), 0, 5, None, None, more.get("gpus")]


def test_cores_are_counted_as_sagemaker_does() -> None:
    found = read_host_usage("algo-1", lines(row(10, 0), row(11, 1.86), row(13, 1.86)))
    assert found.cpu_percent == (None, 186.0, 0.0)
    assert (found.cpus, found.memory_total_bytes, found.disk_total_bytes) == (4, 8_000, 90)
    assert found.notes == ("Of the whole host.",)


def test_what_was_not_measured_is_none_and_never_zero() -> None:
    found = read_host_usage("algo-1", lines(row(10, 0), [11, 1.0]))
    assert (found.memory_bytes, found.read_rate, found.receive_rate) == ((100, None), (None, None), (None, None))
    assert found.gpus == ()


def test_halves_are_passed_over_and_the_rate_spans_the_hole() -> None:
    data = lines(row(10, 0)) + b"[11.0,0.\n" + lines(row(14, 2), head=row(12, 1)) + b"[15.0,3"
    found = read_host_usage("algo-1", data)
    assert (found.at, found.cpu_percent) == ((10, 12, 14), (None, 50.0, 50.0))
    assert read_host_usage("algo-1", b'{"vers').at == ()
    assert read_host_usage("algo-1", b"\x00\xff\n[1.0,2.0]\n").at == (1.0,)


def test_after_a_moment_come_only_later_samples_with_the_rates_that_they_had() -> None:
    data = lines(row(10, 0), row(11, 1), row(12, 3))
    assert read_host_usage("algo-1", data, since=11).cpu_percent == (200.0,)
    assert read_host_usage("algo-1", data, since=12).at == ()


def test_two_samples_of_nearly_one_moment_have_no_rate() -> None:
    assert read_host_usage("algo-1", lines(row(10, 0), row(10.01, 0.01))).cpu_percent == (None, None)


def test_each_gpu_has_columns_of_its_own_and_notes_say_why_one_has_not() -> None:
    head = {**HEAD, "gpus": [{"id": "GPU-a", "name": "H100", "memory": 80}, {"id": "MIG-b"}]}
    rows = [row(10, 0, gpus=[[50, 7], [None, 3]]), row(11, 1), row(12, 2, gpus=[None, [None, 4]])]
    found = read_host_usage("algo-1", lines(*rows, {"note": "gpu: a MIG device."}, head=head))
    one, other = found.gpus
    assert (one.id, one.percent, one.memory_bytes) == ("GPU-a", (50, None, None), (7, None, None))
    assert (other.percent, other.memory_bytes) == ((None, None, None), (3, None, 4))
    assert found.notes[-1] == "gpu: a MIG device."


@given(st.lists(st.tuples(st.floats(0.3, 90), st.floats(0, 50)), min_size=2, max_size=40))
def test_rates_and_their_times_give_back_what_was_counted(steps: list[tuple[float, float]]) -> None:
    at, cpu = 1.0, 0.0
    rows = [row(at, cpu)]
    for seconds, used in steps:
        at, cpu = at + seconds, cpu + used
        rows.append(row(at, cpu))
    found = read_host_usage("algo-1", lines(*rows))
    assert {len(column) for column in (found.at, found.cpu_percent, found.memory_bytes, found.disk_bytes)} == {
        len(rows)
    }
    spans = [after - before for before, after in pairwise(found.at)]
    whole = sum((rate or 0) * span for rate, span in zip(found.cpu_percent[1:], spans, strict=True)) / 100
    assert abs(whole - cpu) < 0.001 * sum(spans) + 1e-6


@given(st.binary(max_size=400))
def test_no_bytes_raise(data: bytes) -> None:
    found = read_host_usage("algo-1", data)
    assert len(found.at) == len(found.cpu_percent) == len(found.memory_bytes)


def test_hosts_are_added_and_what_nobody_knows_stays_unknown() -> None:
    one, other = usage_of({"cpu_percent": 120.5, "memory_bytes": 5.0, "at": 3}), usage_of({"memory_bytes": 7})
    assert sum_usage([one, None, other]) == Usage(cpu_percent=120.5, memory_bytes=12)
    assert sum_usage([None]) is None
    assert usage_of({"at": 1.0}) is None
    assert usage_of({"cpu_percent": "much"}) is None


@given(st.lists(st.floats(0.3, 5.0), min_size=1, max_size=30), st.integers(0, 30))
def test_what_comes_after_a_moment_is_the_end_of_all(steps: list[float], cut: int) -> None:
    at, rows = 0.0, []
    for number, step in enumerate(steps):
        at += step
        rows += [row(at, number * 0.5), {"note": f"note {number}"}]
    data = lines(*rows)
    whole = read_host_usage("algo-1", data)
    since = whole.at[min(cut, len(whole.at) - 1)]
    after = read_host_usage("algo-1", data, since=since)
    later = sum(moment > since for moment in whole.at)
    assert after.at == whole.at[len(whole.at) - later :]
    assert after.cpu_percent == whole.cpu_percent[len(whole.at) - later :]
    assert after.notes == whole.notes


def test_of_a_long_history_only_the_new_lines_are_read() -> None:
    class Lines(bytes):
        read = 0

        def startswith(self, *_: object) -> bool:
            Lines.read += 1
            return False

    old = [Lines(json.dumps(row(at, 0)).encode()) for at in range(10_000)]
    assert [one.at for one in usage.read_samples(old, 9_998)] == [9_998, 9_999]
    assert Lines.read == 2
