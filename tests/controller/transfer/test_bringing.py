"""Hosts that see nothing of this machine get what a job needs before they get the job, whatever dies meanwhile."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.controller.transfer import input_listing
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.channel import Channel, Output, Payload
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import SourceDir
from jupyter_smx.model.status import SecondaryStatus, Status
from jupyter_smx.testing.fakes.fake_image_engine import FakeImageEngine
from jupyter_smx.testing.simulation.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

START = 0.6


@pytest.fixture
def far() -> Iterator[Simulation]:
    with Simulation(engine=FakeImageEngine) as simulation:
        engine(simulation).default = "train:1"
        yield simulation
        assert not simulation.bugs, "\n".join(simulation.bugs)


def engine(sim: Simulation) -> FakeImageEngine:
    assert isinstance(sim.engine, FakeImageEngine)
    return sim.engine


def told(sim: Simulation, job: str, host: int = 0) -> Any:
    return sim.hosts(job)[host].runs[job].spec


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "da ta"
    (folder / "deep").mkdir(parents=True)
    for name in ("a.csv", "b.csv", "c.txt", "deep/d.csv", "manifest"):
        (folder / name).write_text(name)
    return folder


def channels(data: Path) -> tuple[Channel, ...]:
    return (
        Channel(name="folder", source=str(data)),
        Channel(name="file", source=str(data / "a.csv")),
        Channel(name="some", source=str(data / "*.csv"), distribution="ShardedByS3Key"),
        Channel(name="all", source=str(data / "**" / "*.csv")),
        Channel(name="listed", source=str(data / "manifest"), data_type="ManifestFile"),
        Channel(name="store", source="s3://bucket/key"),
    )


def test_a_host_is_told_of_everything_by_the_path_at_which_it_sees_it(far: Simulation, data: Path) -> None:
    send, shared = (Payload(path=str(data / name), sha256="0", sizes={"x": 1}) for name in ("c.txt", "b.csv"))
    code = SourceDir(folder="/home/me/src", path=str(data / "deep/d.csv"), sha256="0", files=1, size=1)
    job = far.submit(channels=channels(data), send=send, shared=shared, source_dir=code)
    far.pass_time(START)
    spec = told(far, job)
    seen = engine(far).provided_paths[far.job(job).cluster, "algo-1"]
    found = {one["name"]: one for one in spec["channels"]}
    assert found["folder"]["source"] == seen[str(data)]
    assert found["file"]["entries"] == [["a.csv", seen[str(data / "a.csv")]]]
    assert found["some"]["entries"] == [[name, seen[str(data / name)]] for name in ("a.csv", "b.csv")]
    assert [name for name, _ in found["all"]["entries"]] == ["a.csv", "b.csv", "deep/d.csv"]
    assert found["listed"]["source"] == seen[str(data / "manifest")]
    assert found["store"]["source"] == "s3://bucket/key"
    paths = [spec[name]["path"] for name in ("send", "shared", "source_dir")]
    assert paths == [seen[one.path] for one in (send, shared, code)]
    assert spec["source_dir"]["folder"] == "/home/me/src"


def test_what_a_pattern_finds_is_what_an_agent_finds_that_sees_it_itself(data: Path) -> None:
    from jupyter_smx.agent.channels.channel_types import entries  # noqa: PLC0415 - beside what is compared with it

    for pattern in ("*", "*.csv", "**", "**/*", "d*", "[ab].csv", "deep/*", "a.csv", "*/d.csv"):
        one = Channel(name="x", source=str(data / pattern))
        mine = input_listing.list_inputs(type("Spec", (), {"channels": (one,)}))[0]  # type: ignore[arg-type]  # it has channels
        assert [*(mine.entries or ())] == entries({"name": "x", "source": one.source}), pattern


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("deep/**/../c.*", "is outside"),
        ("no*thing", "is not a file, folder or pattern of this machine"),
        ("*.csv", "matches 2 files and folders"),
        ("a" * 300, r"cannot be read \(File name too long\)"),
    ],
)
def test_a_pattern_that_cannot_be_a_channel_is_refused_by_its_name(
    data: Path, monkeypatch: pytest.MonkeyPatch, pattern: str, sentence: str
) -> None:
    monkeypatch.setattr(input_listing, "MAX_ENTRIES", 1)
    one = Channel(name="x", source=str(data / pattern))
    with pytest.raises(ValidationError, match=f"channel x: .*{sentence}"):
        input_listing.list_inputs(type("Spec", (), {"channels": (one,)}))  # type: ignore[arg-type]  # it has channels


def test_each_host_is_brought_what_its_group_has_and_no_more(far: Simulation, data: Path) -> None:
    groups = (InstanceGroup(name="one"), InstanceGroup(name="two"))
    its = Channel(name="its", source=str(data / "a.csv"), groups=("two",))
    job = far.new_id()
    far.call(lambda: far.controller.facade.submit(job, far.spec(channels=(its,), instance_groups=groups)))
    far.pass_time(START)
    assert far.job(job).state is SecondaryStatus.TRAINING
    brought = {host: [*seen] for (_, host), seen in engine(far).provided_paths.items()}
    assert brought == {"algo-1": [], "algo-2": [str(data / "a.csv")]}


def test_a_job_that_needs_nothing_of_this_machine_brings_nothing(far: Simulation) -> None:
    job = far.submit(hyperparameters={"a": "1"}, channels=(Channel(name="x", source="s3://b/k"),))
    far.pass_time(START)
    assert far.job(job).state is SecondaryStatus.TRAINING
    assert engine(far).provided_paths == {}


def test_hosts_that_see_all_paths_are_brought_nothing(sim: Simulation, data: Path) -> None:
    job = sim.submit(channels=(Channel(name="file", source=str(data / "a.csv")),))
    sim.pass_time(START)
    assert told(sim, job)["channels"][0]["source"] == str(data / "a.csv")
    assert "entries" not in told(sim, job)["channels"][0]


def test_a_job_is_downloading_while_its_hosts_are_brought_its_inputs(far: Simulation, data: Path) -> None:
    engine(far).provide_seconds = 30.0
    job = far.submit(channels=channels(data))
    far.pass_time(START + 10)
    assert far.job(job).state is SecondaryStatus.DOWNLOADING
    assert far.world.start_counts == {}
    far.pass_time(30)
    assert far.job(job).state is SecondaryStatus.TRAINING


def test_a_stop_meanwhile_ends_the_job_and_its_code_never_runs(far: Simulation, data: Path) -> None:
    engine(far).provide_seconds = 30.0
    job = far.submit(channels=channels(data))
    far.pass_time(START + 1)
    far.stop(job)
    far.pass_time(60)
    assert far.job(job).status() is Status.STOPPED
    assert far.world.start_counts == {}


def test_the_next_job_of_a_host_waits_for_nothing_that_a_stopped_one_would_have_been_brought(
    far: Simulation, data: Path
) -> None:
    first = far.run_to_end(keep_alive=600)
    engine(far).provide_seconds = 30.0
    stopped = far.submit(channels=channels(data), keep_alive=600)
    far.pass_time(1)
    far.stop(stopped)
    engine(far).provide_seconds = 0.5
    next_one = far.submit(channels=channels(data), keep_alive=600)
    assert far.job(next_one).cluster == far.job(first).cluster
    far.pass_time(1)
    assert far.job(next_one).state is SecondaryStatus.TRAINING
    assert engine(far).overlaps == []


def test_nothing_is_brought_any_more_to_a_job_whose_host_is_lost(far: Simulation, data: Path) -> None:
    engine(far).provide_seconds = 1_000.0
    job = far.submit(channels=channels(data))
    far.pass_time(START + 1)
    assert len(engine(far).busy_hosts) == 1
    engine(far).provide_seconds = 0.5
    far.kill_host(far.hosts(job)[0])
    far.pass_time(30)
    assert engine(far).busy_hosts == set()
    assert far.job(job).state is SecondaryStatus.TRAINING


def test_a_controller_that_dies_meanwhile_leaves_the_next_one_to_bring_it(far: Simulation, data: Path) -> None:
    engine(far).provide_seconds = 10.0
    job = far.submit(channels=channels(data))
    far.pass_time(START + 5)
    far.restart()
    far.pass_time(15)
    assert far.job(job).state is SecondaryStatus.TRAINING
    assert sum(far.world.start_counts.values()) == 1


def test_nothing_changes_under_a_host_that_has_the_job_already(far: Simulation, data: Path) -> None:
    job = far.new_id()
    groups = (InstanceGroup(instance_count=2),)
    wish = far.spec(channels=channels(data), instance_groups=groups)
    far.call(lambda: far.controller.facade.submit(job, wish))
    far.pass_time(START)
    far.kill_controller()
    cluster = far.hosts(job)[0].cluster
    # What a controller leaves that dies between the one host and the other.
    second = far.world.hosts[cluster, "algo-2"]
    second.runs.pop(job).drop_timers()
    before = {**engine(far).provided_paths.pop((cluster, "algo-1"))}
    del engine(far).provided_paths[cluster, "algo-2"]
    far.restart()
    far.pass_time(START)
    assert job in second.runs
    assert before
    assert [*engine(far).provided_paths] == [(cluster, "algo-2")]
    assert engine(far).disturbed_hosts == []
    assert far.world.start_counts[job, "algo-1"] == 1
    assert far.job(job).state is SecondaryStatus.TRAINING


def test_looking_for_sources_takes_no_thread_that_anybody_else_needs(
    far: Simulation, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    real = input_listing.list_inputs

    def list_inputs(spec: Any) -> Any:
        names.append(threading.current_thread().name)
        return real(spec)

    monkeypatch.setattr(input_listing, "list_inputs", list_inputs)
    far.submit(channels=channels(data))
    far.pass_time(START)
    assert [name.partition("_")[0] for name in names] == ["list-inputs"]


def test_a_host_that_cannot_be_reached_is_brought_it_later(far: Simulation, data: Path) -> None:
    engine(far).connect_failures = 2
    job = far.submit(channels=channels(data))
    far.pass_time(START)
    said = far.controller.live_state.summary(far.job(job)).message
    assert said == "Its files cannot be copied to its hosts now; the controller will try again."
    far.pass_time(10)
    assert far.job(job).state is SecondaryStatus.TRAINING


def test_a_host_that_dies_meanwhile_is_replaced(far: Simulation, data: Path) -> None:
    engine(far).provide_seconds = 30.0
    job = far.submit(channels=channels(data))
    far.pass_time(START + 1)
    far.kill_host(far.hosts(job)[0])
    engine(far).provide_seconds = 0.0
    far.pass_time(120)
    assert far.job(job).state is SecondaryStatus.TRAINING
    assert sum(far.world.start_counts.values()) == 1


@pytest.mark.parametrize("source", ["nothing", "no*thing", "gone"])
def test_what_is_not_there_ends_the_job_with_its_name(far: Simulation, data: Path, source: str) -> None:
    (data / "gone").touch()
    engine(far).missing_paths.add(str(data / "gone"))
    job = far.submit(channels=(Channel(name="x", source=str(data / source)),), keep_alive=600)
    far.pass_time(START + 1)
    record = far.job(job)
    assert record.status() is Status.FAILED
    assert record.failure_reason.startswith("ClientError")
    assert source in record.failure_reason
    assert far.world.start_counts == {}


def test_what_comes_back_while_the_job_runs_needs_a_url(far: Simulation, tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="hosts of the engine fake do not share this folder") as refused:
        far.submit(checkpoint=str(tmp_path))
    assert "s3://" in refused.value.cure
    output = Output(name="out", path="/opt/ml/processing/output/out", destination=str(tmp_path), mode="Continuous")
    with pytest.raises(ValidationError, match="--output out: it cannot be Continuous"):
        far.submit(kind="process", outputs=(output,))
    with pytest.raises(ValidationError, match="--input x: hosts of the engine fake cannot open file:///x"):
        far.submit(channels=(Channel(name="x", source="file:///x"),))


def test_nothing_that_a_host_is_told_names_a_path_of_this_machine_that_it_would_open(
    far: Simulation, data: Path
) -> None:
    job = far.submit(channels=tuple(one for one in channels(data) if one.name in ("folder", "listed")))
    far.pass_time(START)
    assert str(data) not in json.dumps(told(far, job))
