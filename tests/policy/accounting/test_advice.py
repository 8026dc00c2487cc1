"""The rules of SageMaker's profiler over samples, and what they predict, beside what was published.

No GPU was at hand: the samples are made up as a driver tells them.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from jupyter_smx.model.results.progress import StepPace
from jupyter_smx.model.results.usage import GpuUsage, HostUsage
from jupyter_smx.model.spec.instance import InstanceGroup, catalogue
from jupyter_smx.policy.accounting.profiler_rules import PredictionInput, advise, data_group, gain

KNOWN = catalogue()
SECONDS = 900


def host(
    cpu: list[float | None], gpu: list[float | None], *, cpus: int = 8, gpus: int = 1, every: float = 1.0
) -> HostUsage:
    """Make a host with a sample ``every`` so many seconds; ``cpu`` is percent of all its vCPUs."""
    return HostUsage(
        host="algo-1",
        at=tuple(1_000 + number * every for number in range(len(cpu))),
        cpu_percent=tuple(None if value is None else value * cpus for value in cpu),
        gpus=tuple(GpuUsage(id=str(number), name="V100", percent=tuple(gpu)) for number in range(gpus)),
        cpus=cpus,
    )


def setting(*rows: tuple[str, int], step: float | None = None) -> PredictionInput:
    groups = tuple(InstanceGroup(name=name, instance_type=name, instance_count=count) for name, count in rows)
    return PredictionInput(groups, KNOWN, None if step is None else StepPace(steps=100, seconds=step))


ALONE = setting(("ml.p3.2xlarge", 1), step=1.193)


def rules(found: HostUsage, where: PredictionInput = ALONE) -> list[str]:
    return [one.rule for one in advise([found], where)]


def test_a_full_cpu_beside_idle_gpus_is_a_bottleneck_and_says_its_numbers() -> None:
    (first, *_) = advise([host([99.0] * SECONDS, [3.0] * SECONDS)], ALONE)
    assert first.rule == "CPUBottleneck"
    assert first.sentence == (
        "CPUBottleneck on algo-1: the CPU was above 90 % and the GPUs were below 10 % for 100 % of the time, in 849 "
        "samples after the first 50 s. The threshold is 50 %."
    )
    assert first.numbers["share"] == 1


@pytest.mark.parametrize(
    ("cpu", "gpu"),
    [
        (90.0, 3.0),  # not above
        (99.0, 10.0),  # not below
        (20.0, 3.0),
        (99.0, 95.0),
    ],
)
def test_at_the_thresholds_and_beside_them_it_is_none(cpu: float, gpu: float) -> None:
    assert "CPUBottleneck" not in rules(host([cpu] * SECONDS, [gpu] * SECONDS))


@pytest.mark.parametrize(("bad", "is_one"), [(425, True), (424, False)])
def test_it_speaks_for_more_than_half_of_the_time_after_its_patience(bad: int, *, is_one: bool) -> None:
    # 849 samples count: those after the first 50 s.
    cpu = [10.0] * (SECONDS - bad) + [99.0] * bad
    assert ("CPUBottleneck" in rules(host(cpu, [3.0] * SECONDS))) is is_one


def test_its_patience_is_time_however_dense_the_samples_are() -> None:
    assert rules(host([99.0] * 51, [0.0] * 51)) == []
    assert "CPUBottleneck" in rules(host([99.0] * 52, [0.0] * 52))
    assert "CPUBottleneck" in rules(host([99.0] * 8, [0.0] * 8, every=8.0))


def test_a_sample_weighs_as_much_as_its_time() -> None:
    dense, sparse = host([99.0] * 60, [0.0] * 60), host([5.0] * 60, [50.0] * 60, every=10.0)
    both = HostUsage(
        host="algo-1",
        at=(*dense.at, *(at + 100 for at in sparse.at)),
        cpu_percent=(*dense.cpu_percent, *sparse.cpu_percent),
        gpus=(GpuUsage(id="0", name="V100", percent=(*dense.gpus[0].percent, *sparse.gpus[0].percent)),),
        cpus=8,
    )
    assert "CPUBottleneck" not in rules(both)


def test_of_a_host_without_gpus_or_with_gpus_that_nobody_measured_nothing_is_said() -> None:
    assert advise([host([99.0] * SECONDS, [], gpus=0)], ALONE) == ()
    assert advise([host([99.0] * SECONDS, [None] * SECONDS)], ALONE) == ()
    assert advise([HostUsage(host="algo-1")], ALONE) == ()


def test_a_job_that_was_given_no_gpu_is_not_judged_by_those_of_the_machine() -> None:
    idle = host([99.0] * SECONDS, [0.0] * SECONDS, gpus=2)
    assert rules(idle, setting(("ml.c5.xlarge", 1))) == []
    assert rules(idle, setting(("local", 1))) == []


def test_a_job_that_was_given_some_of_the_gpus_is_judged_by_so_many() -> None:
    full = host([50.0] * SECONDS, [100.0] * SECONDS)
    rest = tuple(GpuUsage(id=str(number), name="V100", percent=(0.0,) * SECONDS) for number in (1, 2, 3))
    assert rules(replace(full, gpus=full.gpus + rest)) == []


def test_gpus_that_are_low_for_minutes_are_told_and_so_are_those_that_swing() -> None:
    assert rules(host([20.0] * SECONDS, [30.0] * SECONDS)) == ["LowGPUUtilization"]
    assert rules(host([20.0] * SECONDS, [99.0] * SECONDS)) == []
    swinging: list[float | None] = [5.0 if second % 10 == 0 else 95.0 for second in range(SECONDS)]
    (one,) = advise([host([20.0] * SECONDS, swinging)], ALONE)
    assert "between 5 % and 95 %" in one.sentence
    assert one.prediction == "", "the CPU has time, so it is not what the GPUs wait for"
    assert rules(host([20.0] * 400, [30.0] * 400)) == [], "its patience is 500 s"


@pytest.mark.parametrize(
    ("kind", "step", "fed", "vcpus", "needs", "saves"),
    [
        ("ml.p4d.24xlarge", 0.192, 0.086, 96, "ml.c5.18xlarge × 2", 46),
        ("ml.p3.2xlarge", 1.193, 0.184, 8, "ml.m5.12xlarge × 1", None),
    ],
)
def test_the_prediction_is_what_was_published_where_the_gpus_were_as_idle_as_that(
    kind: str, step: float, fed: float, vcpus: int, needs: str, saves: int | None
) -> None:
    busy = 100 * fed / step
    found = advise([host([99.0] * SECONDS, [busy] * SECONDS, cpus=vcpus)], setting((kind, 1), step=step))
    (one,) = found
    assert one.rule == "LowGPUUtilization"
    assert f"and with {needs} from $" in one.prediction
    assert one.numbers["step_seconds_fed"] == pytest.approx(fed)
    assert one.numbers["more_vcpus"] == pytest.approx(vcpus * (step - fed) / fed, abs=0.1)
    assert "This assumes that the GPUs wait for input only" in one.prediction
    if saves is not None:
        assert f"per step, {saves} % less" in one.prediction
        assert one.numbers["cost_per_step_fed"] == pytest.approx(0.00108, rel=5e-3)


def test_without_steps_or_prices_it_says_what_it_can() -> None:
    samples = [host([99.0] * SECONDS, [3.0] * SECONDS)]
    plain = advise(samples, setting(("ml.p3.2xlarge", 1)))[0]
    assert "the step time to 3 % at best. This assumes" in plain.prediction
    unknown = advise(samples, setting(("ml.p5.48xlarge", 1), step=1.0))[0]
    assert "from 1 s to 30 ms. This assumes" in unknown.prediction
    assert "$" not in unknown.prediction


def test_a_prediction_is_said_once_for_a_host() -> None:
    found = advise([host([99.0] * SECONDS, [3.0] * SECONDS)], ALONE)
    assert [one.rule for one in found] == ["CPUBottleneck", "LowGPUUtilization"]
    assert [bool(one.prediction) for one in found] == [True, False]


@given(st.floats(0.01, 0.99), st.integers(1, 128))
def test_all_cpus_together_make_input_as_fast_as_the_gpus_take_it(waits: float, vcpus: int) -> None:
    found = gain(waits, vcpus)
    assert found is not None
    # One batch per step now, on full CPUs: so the speed of a vCPU, and what is needed for the shorter step.
    assert (vcpus + found.more_vcpus) * (1 - waits) == pytest.approx(vcpus)


@given(st.floats(0.1, 5_000))
def test_a_data_group_has_the_vcpus_and_no_smaller_one_has(more: float) -> None:
    chosen = data_group(more, KNOWN)
    assert chosen is not None
    kind, count = chosen
    assert kind.gpus == 0
    assert kind.vcpus * count >= more - 1e-6
    assert kind.vcpus * (count - 1) < more
    assert data_group(more, {}) is None
