"""When a job will end and when one will begin: the median of earlier runs, the bar's own words, and honest silence."""

from __future__ import annotations

import pytest
from draws import LIMITS, NOW, a_job, a_spec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from jupyter_smx.model.records.cluster import QueueStatus
from jupyter_smx.model.results.progress import Progress
from jupyter_smx.model.spec.channel import Channel
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import SourceDir
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.policy.limits import Limits
from jupyter_smx.policy.scheduling.capacity import Share
from jupyter_smx.policy.scheduling.eta import (
    Claim,
    CompletedRun,
    code_hash,
    estimate_end,
    estimate_starts,
    parameters_hash,
    run_of,
)

SPEC = a_spec(submitted_at=NOW - 102.0)
JOB = a_job(spec=SPEC, created_at=NOW - 101.0, timings={"first_line": NOW - 100.0})
"""It ran for 100 seconds and took 2 seconds to begin."""

durations = st.floats(0.1, 1e5)


def runs(*seconds: float, wish: str = parameters_hash(SPEC)) -> list[CompletedRun]:
    return [CompletedRun(code="c", wish=wish, instances="local: local × 1", seconds=each) for each in seconds]


def test_the_median_of_the_same_wish_and_its_quartiles() -> None:
    found = estimate_end(JOB, None, runs(200, 210, 180, 190, 220), NOW)
    assert found is not None
    assert (found.low, found.seconds, found.high, found.basis, found.runs) == (192.0, 202.0, 212.0, "history", 5)


def test_one_earlier_run_of_the_same_wish_is_enough() -> None:
    found = estimate_end(JOB, None, runs(180), NOW)
    assert found is not None
    assert found.seconds == 182.0


def test_runs_with_other_hyperparameters_count_when_they_agree_and_only_where_there_are_no_others() -> None:
    others = runs(300, 310, 320, wish="other")
    agreeing = estimate_end(JOB, None, others, NOW)
    assert agreeing is not None
    assert agreeing.seconds == 312.0
    assert estimate_end(JOB, None, runs(110, 3000, 30_000, wish="other"), NOW) is None
    assert estimate_end(JOB, None, runs(300, wish="other"), NOW) is None
    same = estimate_end(JOB, None, [*others, *runs(150)], NOW)
    assert same is not None
    assert same.seconds == 152.0


def test_a_job_that_outlives_every_earlier_one_has_no_end_that_is_known() -> None:
    assert estimate_end(JOB, None, runs(80, 90, 99), NOW) is None
    longer = estimate_end(JOB, None, runs(80, 90, 120), NOW)
    assert longer is not None
    assert longer.seconds == 122.0


def test_nothing_known_is_nothing_said() -> None:
    assert estimate_end(JOB, None, [], NOW) is None
    assert estimate_end(JOB, Progress(text="12 it", at=NOW), [], NOW) is None


def test_the_bar_knows_better_than_history_once_it_has_gone_a_part_of_the_way() -> None:
    late = Progress(fraction=0.5, text="50/100", remaining_seconds=40.0, at=NOW - 10)
    found = estimate_end(JOB, late, runs(900), NOW)
    assert found is not None
    assert (found.seconds, found.basis) == (132.0, "progress")
    early = replace(late, fraction=0.01)
    assert estimate_end(JOB, early, runs(900), NOW).seconds == 902.0  # type: ignore[union-attr]
    assert estimate_end(JOB, early, [], NOW).seconds == 132.0  # type: ignore[union-attr]


def test_a_bar_that_proved_wrong_is_not_believed() -> None:
    stuck = Progress(fraction=0.5, remaining_seconds=20.0, at=NOW - 40)
    assert estimate_end(JOB, stuck, [], NOW) is None
    late = estimate_end(JOB, replace(stuck, at=NOW - 25), [], NOW)
    assert late is not None
    assert late.seconds == 102.0
    assert estimate_end(JOB, Progress(fraction=1.0, remaining_seconds=0.0, at=NOW), [], NOW) is None


def test_before_the_code_begins_only_history_counts() -> None:
    waiting = replace(JOB, timings={})
    found = estimate_end(waiting, None, runs(60), NOW)
    assert found is not None
    assert found.seconds == 162.0


@given(
    st.lists(durations, max_size=30), st.one_of(st.none(), st.floats(0, 1)), st.one_of(st.none(), durations), durations
)
def test_the_end_never_lies_in_the_past_and_the_spread_holds_it(
    seconds: list[float], fraction: float | None, remaining: float | None, ran: float
) -> None:
    job = replace(JOB, timings={"first_line": NOW - ran})
    progress = Progress(fraction=fraction, remaining_seconds=remaining, at=NOW - min(5.0, ran))
    found = estimate_end(job, progress, runs(*seconds), NOW)
    if found is not None:
        submitted = SPEC.submitted_at
        assert found.seconds >= NOW - max(submitted, NOW - ran) - 1e-6
        assert found.low <= found.seconds + 1e-6 <= found.high + 2e-6
        assert found.basis == "progress" or seconds


def test_a_run_is_that_of_a_completed_job_from_its_first_line_to_its_exit() -> None:
    timings = {"first_line": NOW, "exited": NOW + 30.0, "final": NOW + 35.0}
    done = a_job(state=SecondaryStatus.COMPLETED, timings=timings, ended_at=NOW + 35.0)
    found = run_of(done)
    assert found is not None
    assert (found.seconds, found.instances) == (30.0, "local: local × 1")
    assert run_of(replace(done, state=SecondaryStatus.FAILED)) is None
    assert run_of(replace(done, timings={})) is None


def test_the_same_code_is_the_same_wherever_it_stands_and_whatever_it_is_run_with() -> None:
    spec = a_spec(source="x = 1\n")
    assert code_hash(spec) == code_hash(replace(spec, source="\n\n\nx = 1", hyperparameters={"a": "1"}, base_name="b"))
    assert code_hash(spec) != code_hash(replace(spec, source="x = 2"))
    folders = [
        replace(spec, source_dir=SourceDir(folder="/f", path="/p", sha256=digest * 64, files=1, size=1))
        for digest in "ab"
    ]
    assert len({code_hash(spec), *map(code_hash, folders)}) == 3
    assert parameters_hash(spec) == parameters_hash(replace(spec, source="y"))
    assert parameters_hash(spec) != parameters_hash(replace(spec, hyperparameters={"a": "1"}))
    assert parameters_hash(spec) != parameters_hash(replace(spec, channels=(Channel(name="train", source="/d"),)))
    assert run_of(a_job()) is None
    assert a_spec(instance_groups=(InstanceGroup(instance_count=2),)).instances() == "local × 2"


ONE = Share(hosts=1, cpus=1.0, memory_gib=4.0)


@pytest.mark.parametrize(
    ("held", "ahead", "seconds"),
    [
        ([], [], 0.0),
        ([10, 20, 30, 40], [], 10.0),
        ([10, 20, 30, 40], [5], 15.0),
        ([10, 20, 30, 40], [100], 20.0),
        ([10, 20, 30, None], [100, 100], 30.0),
        ([None, None, None, None], [], None),
        ([10, None, None, None], [None], None),
        ([10, 20, None, None], [None], 20.0),
    ],
)
def test_a_waiting_job_begins_when_those_before_it_made_room(
    held: list[float | None], ahead: list[float | None], seconds: float | None
) -> None:
    made = [Claim(share=ONE, seconds=each) for each in held]
    line = [Claim(share=ONE, seconds=each) for each in (*ahead, 1.0)]
    assert estimate_starts(made, line, LIMITS)[-1] == seconds


def test_the_administrators_number_of_jobs_counts_too() -> None:
    limits = replace(LIMITS, max_jobs_running=1)
    assert estimate_starts([Claim(share=ONE, seconds=7.0)], [Claim(share=ONE, seconds=1.0)], limits) == [7.0]


@given(st.lists(durations, min_size=1, max_size=6), st.lists(durations, max_size=6), durations)
def test_one_more_before_it_never_lets_a_job_begin_sooner(held: list[float], ahead: list[float], more: float) -> None:
    def waits(before: list[float]) -> float:
        limits = Limits(max_hosts=2, cpus=2, memory_gib=8.0)
        running = [Claim(share=ONE, seconds=each) for each in held[:2]]
        found = estimate_starts(running, [Claim(share=ONE, seconds=each) for each in (*before, 1.0)], limits)
        assert sorted(found, key=lambda each: each or 0.0) == found
        assert found[-1] is not None
        return found[-1]

    assert waits(ahead) <= waits([*ahead, more]) + 1e-9


def test_hosts_that_wait_at_their_engine_begin_when_it_expects_that_and_without_a_word_of_it_nothing_is_promised() -> (
    None
):
    waiting = a_job(spec=SPEC, created_at=NOW - 101.0)
    found = estimate_end(waiting, None, runs(60), NOW, QueueStatus("Resources", expected_start=NOW + 600))
    assert found is not None
    assert found.seconds == 102.0 + 600.0 + 60.0
    assert estimate_end(waiting, None, runs(60), NOW, QueueStatus("Resources")) is None
    assert estimate_end(waiting, None, runs(60), NOW, QueueStatus("Resources", expected_start=NOW - 1)) is None


def test_a_line_of_an_engine_moves_up_as_its_slots_become_free_however_small_this_machine_is() -> None:
    def claim(hosts: int, seconds: float | None) -> Claim:
        return Claim(share=Share(hosts=hosts, cpus=1_000.0, memory_gib=1e6, gpus=64), seconds=seconds)

    held, line = [claim(1, 10.0), claim(1, 30.0)], [claim(1, 5.0), claim(2, 5.0)]
    assert estimate_starts(held, line, LIMITS, 2) == [10.0, 30.0]
    assert estimate_starts(held, line, LIMITS, 1_000) == [0.0, 0.0]
