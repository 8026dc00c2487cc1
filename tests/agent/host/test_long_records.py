"""A job may make very many files: its record, which names each, ends no host and loses nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent import wire
from jupyter_smx.agent.host import end_record
from jupyter_smx.agent.host.spool import Spool
from jupyter_smx.agent.job.inputs import Inputs
from jupyter_smx.agent.paths import HostInfo
from jupyter_smx.agent.system.files.host_layout import END_RECORD

if TYPE_CHECKING:
    from pathlib import Path

    from far_side import Agent

MANY = 130_000
PLACE = HostInfo("algo-1", ["algo-1"], [], "homogeneousCluster", "local", 1, 0)
# Names of 3000 characters, so that few files are enough.
DEEP = """
import os
os.chdir(os.environ["SMX_OUTPUT_R"])
for _ in range(12):
    os.mkdir("d" * 249)
    os.chdir("d" * 249)
for number in range(3000):
    open(str(number), "w").close()
print("made")
"""


def record(count: int, **changes: Any) -> dict[str, Any]:
    names = [f"outputs/table/part-{number:06d}.parquet" for number in range(count)]
    whole: dict[str, Any] = dict.fromkeys(end_record._BRIEF)
    whole.update(
        job="a", lease=1, cause="exit", exit_code=0, failure="", at={}, log=0, samples=0, errors=[], modules=["numpy"]
    )
    return {
        **whole,
        "artifacts": [{"name": name, "path": f"artifacts/{name}", "size": 0} for name in names],
        **changes,
    }


def test_what_is_told_of_a_long_record_fits_into_a_frame_and_all_of_it_is_on_disk(tmp_path: Path) -> None:
    said = record(MANY)
    told = Spool(str(tmp_path)).write_record("a", said)
    wire.encode({"event": "ended", "job": "a", "lease": 1, **told})
    written = (tmp_path / "a" / END_RECORD).read_bytes()
    assert told == {"kept": len(written)}
    found = json.loads(written)
    assert [one["name"] for one in found["artifacts"]] == [one["name"] for one in said["artifacts"]]
    assert "path" not in found["artifacts"][0]
    assert found["modules"] == ["numpy"]


def test_a_record_that_is_not_long_is_told_as_it_is(tmp_path: Path) -> None:
    said = record(3)
    assert Spool(str(tmp_path)).write_record("a", said) == {"record": said}
    assert json.loads((tmp_path / "a" / END_RECORD).read_bytes()) == said


def test_the_record_of_a_million_files_can_be_read() -> None:
    text, _told = end_record.fit_event(record(1_000))
    assert len(text) / 1_000 * 1_000_000 / 2 < wire.MAX_RECORD  # it is short, and names each file twice


@pytest.mark.parametrize(
    ("end", "expected"),
    [({}, ("refused", None)), ({"cause": "exit", "exit_code": 3}, ("exit", 3)), ({"cause": "stopped"}, ("stopped", 0))],
)
def test_what_is_longer_than_any_record_may_be_is_said_with_its_count(
    monkeypatch: pytest.MonkeyPatch, end: dict[str, Any], expected: tuple[str, int | None]
) -> None:
    monkeypatch.setattr(end_record, "MAX_EVENT_BYTES", 1_000)
    monkeypatch.setattr(wire, "MAX_RECORD", 10_000)
    text, told = end_record.fit_event(record(400, **end))
    cut = told["record"]
    assert json.loads(text) == cut
    assert (cut["cause"], cut["exit_code"], cut["artifacts"]) == (*expected, [])
    assert "it names 400 files and 0 errors" in cut["errors"][0]
    assert cut["failure"] == (cut["errors"][0] if expected[0] == "refused" else "")


def test_a_long_record_that_no_disk_takes_says_that_instead_of_its_files() -> None:
    told = end_record.unwritten_event(record(MANY), "host: no room.")
    wire.encode(told)
    assert (told["record"]["failure"], told["record"]["artifacts"]) == ("host: no room.", [])
    short = record(1)
    assert end_record.unwritten_event(short, "host: no room.") == {"record": short}


def test_a_host_whose_job_made_files_beyond_a_frame_takes_the_next_job(agent: Agent) -> None:
    job, _lease = agent.start(DEEP, kind="process", outputs=[{"name": "r", "path": "/opt/ml/processing/output/r"}])
    told = agent.client.event("ended", job)
    kept = agent.read(job, END_RECORD)
    assert told["kept"] == len(kept)
    assert "record" not in told
    artifacts = json.loads(kept)["artifacts"]
    assert len(artifacts) == 3000
    assert 2 * sum(len(one["name"]) for one in artifacts) > wire.MAX_HEADER
    assert agent.read(job, "artifacts/" + artifacts[0]["name"]) == b""
    agent.serves()


class Looking:
    """A look at lazy channels that is under way, and the host and its loop around it."""

    info = PLACE

    def __init__(self) -> None:
        self.loop = self
        self.input_hashes: dict[str, Any] = {}

    def later(self, _seconds: float, _call: object) -> Looking:
        return self

    def cancel(self) -> None:
        pass


@pytest.mark.parametrize("way", ["_on_described", "_on_timeout"])
def test_an_end_that_waited_for_an_input_and_breaks_off_is_the_jobs_to_end(way: str) -> None:
    heard: list[Exception] = []
    host: Any = Looking()
    inputs = Inputs(host, {"kind": "train", "channels": []}, heard.append)
    inputs._describe_task = host
    error = OSError("no room")

    def ends() -> None:
        raise error

    inputs.call_when_described(ends)
    if way == "_on_described":
        inputs._on_described({"inputs": [], "fresh": {}}, "")
    else:
        inputs._on_timeout()
    assert heard == [error]
