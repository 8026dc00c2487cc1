"""What a job ran with: put together from its wish, its hosts and their records, and said where they disagree."""

from __future__ import annotations

import ast
import hashlib
from typing import Any

import pytest
from draws import a_host, a_job, a_spec
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.agent.system.resources import cgroups
from jupyter_smx.kernel.display.provenance import provenance_page
from jupyter_smx.model.results.provenance import HostLimits, Machine, Revision
from jupyter_smx.model.spec.channel import Payload
from jupyter_smx.policy.hosts.provenance import limits_of, machine_of, provenance_of
from jupyter_smx.policy.hosts.seeds import seed_note

MACHINE = Machine(hostname="box", cpus=8, vcpus=2, executable="/env/bin/python", python="3.11.7 (main)")


def a_digest(**fields: Any) -> dict[str, Any]:
    return {"channel": "train", "method": "content", "sha256": "aa", "files": 1, "bytes": 3, "reason": ""} | fields


def a_record(**fields: Any) -> dict[str, Any]:
    return {"packages": {"numpy": "2.1"}, "modules": ["numpy"], "inputs": [a_digest()], "hash_seed": ""} | fields


def test_everything_that_is_known_of_a_run_is_in_its_provenance() -> None:
    send = Payload(path="/p", sha256="ff", sizes={"x": 1})
    revision = Revision(commit="c" * 40, branch="main")
    job = a_job(spec=a_spec(source="import random\nrandom.seed(3)", send=send, revision=revision))
    host = a_host(machine=MACHINE, python_version="3.11.7", isolation="namespace", limits=HostLimits(cpus=2))
    record = a_record(packages={"pandas": "2", "Numpy": "1"}, own_modules=[{"name": "mine", "path": "/m.py"}])
    found = provenance_of(job, (host,), {"algo-1": record})
    assert found.code_sha256 == hashlib.sha256(job.spec.source.encode()).hexdigest()
    assert (found.python, found.python_version) == ("/env/bin/python", "3.11.7")
    assert list(found.packages.items()) == [("Numpy", "1"), ("pandas", "2")]
    assert [(one.name, one.path, one.sha256) for one in found.own_modules] == [("mine", "/m.py", "")]
    assert [(one.channel, one.sha256, one.host) for one in found.inputs] == [("train", "aa", "")]
    assert (found.sent_sha256, found.revision) == ("ff", revision)
    assert [(one.host, one.isolation, one.machine.hostname) for one in found.hosts] == [("algo-1", "namespace", "box")]
    assert [one.limits.cpus for one in found.hosts] == [2]
    assert found.seeds.calls == ("random.seed (line 2)",)
    assert found.notes == ()


def test_hosts_that_had_different_inputs_or_packages_are_told_apart() -> None:
    hosts = (a_host(), a_host(name="algo-2"))
    records = {
        "algo-1": a_record(),
        "algo-2": a_record(inputs=[a_digest(sha256="bb")], packages={"numpy": "2.2"}, notes=["x was installed."]),
    }
    found = provenance_of(a_job(), hosts, records)
    assert [(one.host, one.sha256) for one in found.inputs] == [("algo-1", "aa"), ("algo-2", "bb")]
    assert found.packages == {"numpy": "2.1"}
    assert found.notes == ("x was installed.", "algo-2 and algo-1 had different versions of numpy.")


def test_a_host_that_only_worked_for_another_one_takes_no_packages_away_although_it_ends_first() -> None:
    """As one of a Spark cluster does, which imports nothing itself."""
    hosts = (a_host(), a_host(name="algo-2"))
    own = [{"name": "mine", "path": "/m.py"}]
    driver = a_record(packages={"pyspark": "3.5.9", "numpy": "2.1"}, own_modules=own)
    records = {"algo-2": a_record(packages={"numpy": "2.2", "py4j": "1"}), "algo-1": driver}
    found = provenance_of(a_job(), hosts, records)
    assert found.packages == {"numpy": "2.1", "py4j": "1", "pyspark": "3.5.9"}
    assert [one.name for one in found.own_modules] == ["mine"]
    assert found.notes == ("algo-2 and algo-1 had different versions of numpy.",)


def test_a_host_that_was_lost_is_said_to_have_left_nothing() -> None:
    found = provenance_of(a_job(), (a_host(), a_host(name="algo-2")), {"algo-2": a_record()})
    assert found.notes == ("algo-1 left no record, so its imports are not listed.",)
    assert found.packages == {"numpy": "2.1"}


@given(
    st.dictionaries(
        st.sampled_from(["inputs", "own_modules"]),
        st.one_of(st.none(), st.integers(), st.lists(st.dictionaries(st.text(max_size=5), st.integers(), max_size=3))),
    )
)
def test_what_an_agent_of_another_version_says_is_left_out_and_breaks_nothing(strange: dict[str, Any]) -> None:
    found = provenance_of(a_job(), (a_host(),), {"algo-1": a_record() | strange})
    assert found.packages == {"numpy": "2.1"}


def test_the_machine_is_read_from_the_greeting_or_left_open() -> None:
    assert machine_of({"machine": {"hostname": "box", "cpus": 8, "news": 1}}) == Machine(hostname="box", cpus=8)
    assert machine_of({}) == Machine()
    assert machine_of({"machine": {"cpus": "many"}}) == Machine()


def test_the_limits_are_read_from_the_greeting_or_left_open() -> None:
    said = cgroups.view(
        cgroups.JobCgroups(cpus=2, memory=2**33, groups={"memory": "/g"}, reason="no controller for cpu")
    )
    assert limits_of({"limits": said}) == HostLimits(memory_bytes=2**33, reason="no controller for cpu")
    whole = cgroups.view(cgroups.JobCgroups(cpus=2, memory=2**33, groups={"cpu": "/g", "memory": "/g"}))
    assert limits_of({"limits": whole}) == HostLimits(cpus=2, memory_bytes=2**33)
    for nothing in ({}, {"limits": {}}, {"limits": {"cpus": "many"}}, {"limits": None}):
        assert limits_of(nothing) == HostLimits()


@pytest.mark.parametrize(
    ("known", "said"),
    [({}, "provenance is recorded when the job ends"), ({"ended_at": 2.0}, "it ended before it ran")],
)
def test_a_job_of_which_nothing_is_written_down_says_why(known: dict[str, Any], said: str) -> None:
    assert said in provenance_page(a_job(**known))[0]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (HostLimits(cpus=1, memory_bytes=2**33), "1 CPU, 8.0 GiB including swap"),
        (HostLimits(cpus=2, memory_bytes=2**33), "2 CPUs, 8.0 GiB including swap"),
        (
            HostLimits(memory_bytes=2**33, reason="no controller for cpu"),
            "8.0 GiB including swap (no controller for cpu)",
        ),
        (HostLimits(reason="no control groups"), "none (no control groups)"),
    ],
)
def test_the_limits_of_a_host_are_said_beside_its_isolation(found: HostLimits, said: str) -> None:
    host = a_host(machine=MACHINE, isolation="namespace", limits=found)
    job = a_job(provenance=provenance_of(a_job(), (host,), {"algo-1": a_record()}))
    text, _html = provenance_page(job)
    assert f"limits: {said}" in text


@pytest.mark.parametrize(
    ("source", "calls"),
    [
        ("import numpy as np\nnp.random.seed(0)", ("np.random.seed (line 2)",)),
        (
            "rng = np.random.default_rng(7)\nimport torch; torch.manual_seed(1)",
            ("np.random.default_rng (line 1)", "torch.manual_seed (line 2)"),
        ),
        ("model = Forest(n=2, random_state=42)", ("random_state of Forest (line 1)",)),
        ("random.seed()\nnp.random.default_rng(None)\nForest(random_state=None)", ()),
        ("make()(seed=1)", ("seed of a call (line 1)",)),
        ("not python", ()),
    ],
)
def test_calls_that_fix_a_random_state_are_found_in_the_source(source: str, calls: tuple[str, ...]) -> None:
    note = seed_note(a_spec(source=source), (), "")
    assert note.calls == calls
    assert all(call in note.sentence for call in calls)


def test_the_note_names_libraries_with_a_state_and_hyperparameters_that_look_like_a_seed() -> None:
    spec = a_spec(source="from random import choice", hyperparameters={"global_seed": "5", "seedling": "x", "lr": "1"})
    note = seed_note(spec, ("torch", "numpy", "pandas"), "")
    assert note.libraries == ("numpy", "random", "torch")
    assert note.hyperparameters == {"global_seed": "5"}
    assert "hyperparameters set global_seed=5" in note.sentence
    assert "Hashes of strings were random" in note.sentence


def test_the_note_names_the_hash_seed_of_the_interpreter() -> None:
    assert "PYTHONHASHSEED was 7." in seed_note(a_spec(), (), "7").sentence


def test_a_source_is_walked_once_and_once_for_all_tasks_that_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    walks, walk = [], ast.walk
    monkeypatch.setattr(ast, "walk", lambda tree: walks.append(tree) or walk(tree))
    source = "import random\nrandom.seed(11)  # of this test alone"
    notes = [seed_note(a_spec(source=source, hyperparameters={"n": str(n)}), (), "") for n in range(3)]
    assert [(note.calls, note.libraries) for note in notes] == [(("random.seed (line 2)",), ("random",))] * 3
    assert len(walks) == 1


def test_each_channel_that_hosts_had_differently_has_a_row_for_each_host() -> None:
    hosts = (a_host(), a_host(name="algo-2"))
    records = {
        host: a_record(inputs=[a_digest(sha256=host), a_digest(channel="test", sha256=host), a_digest(channel="same")])
        for host in ("algo-1", "algo-2")
    }
    rows = provenance_of(a_job(), hosts, records).inputs
    split = [(channel, host) for channel in ("train", "test") for host in ("algo-1", "algo-2")]
    assert [(row.channel, row.host) for row in rows] == [*split, ("same", "")]


def test_a_job_without_hosts_has_the_python_of_its_wish() -> None:
    found = provenance_of(a_job(), (), {})
    assert (found.python, found.python_version) == ("/py", "")
