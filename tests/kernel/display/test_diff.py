"""In what two jobs differ, and the page on where a result comes from."""

from __future__ import annotations

from typing import Any

import pytest
from exported_jobs import job
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json
from msgspec.structs import replace

from jupyter_smx.kernel.display.diff import diff_page, difference
from jupyter_smx.kernel.display.provenance import provenance_page
from jupyter_smx.model.records.comparison import Change
from jupyter_smx.model.records.job import Job
from jupyter_smx.model.results.progress import MetricValue
from jupyter_smx.model.results.provenance import (
    HostProvenance,
    InputDigest,
    Machine,
    OwnModule,
    Provenance,
    Revision,
    SeedNote,
)
from jupyter_smx.model.spec.channel import Channel, Output, Payload
from jupyter_smx.model.spec.distribution import Distribution
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import JobSpec, SourceDir
from jupyter_smx.model.status import SecondaryStatus

SPEC = JobSpec(
    kind="train",
    source="a = 1\nb = 2\n",
    base_name="digits",
    hyperparameters={"lr": "0.1"},
    environment={"MODE": "fast", "HF_TOKEN": "abc"},
    channels=(Channel(name="train", source="/data"),),
    send=Payload(path="/p", sha256="a" * 64, sizes={"x": 1}),
    revision=Revision(commit="1" * 40, branch="main"),
    python="/env/bin/python",
)
PROVENANCE = Provenance(
    code_sha256="c",
    python_version="3.11.7",
    packages={"numpy": "2.1", "scipy": "1.0"},
    own_modules=(OwnModule(name="mine", path="/m.py", sha256="5" * 64),),
    inputs=(InputDigest(channel="train", method="content", sha256="6" * 64, files=2, bytes=8),),
    hosts=(HostProvenance(host="algo-1", isolation="namespace", machine=Machine(hostname="box", vcpus=2)),),
    seeds=SeedNote(sentence=""),
)
JOB = Job(
    id="a" * 12,
    name="digits-aaaaaa",
    spec=SPEC,
    state=SecondaryStatus.COMPLETED,
    started_at=10.0,
    ended_at=13.0,
    provenance=PROVENANCE,
    metrics=(MetricValue(name="acc", value=0.9, at=1.0),),
)


def other(spec: dict[str, Any] | None = None, found: dict[str, Any] | None = None, **fields: Any) -> Job:
    provenance = replace(PROVENANCE, **(found or {}))
    changed = {"spec": replace(SPEC, **(spec or {})), "provenance": provenance} | fields
    return replace(JOB, id="b" * 12, name="digits-bbbbbb", **changed)


def digest(**fields: Any) -> tuple[InputDigest, ...]:
    return (replace(PROVENANCE.inputs[0], **fields),)


CASES: list[tuple[Job, tuple[str, str, str | None, str | None]]] = [
    (other({"hyperparameters": {"lr": "0.2"}}), ("hyperparameter", "lr", "0.1", "0.2")),
    (other({"hyperparameters": {}}), ("hyperparameter", "lr", "0.1", None)),
    (other({"hyperparameters": {"lr": "0.1", "n": "1"}}), ("hyperparameter", "n", None, "1")),
    (other({"environment": {"MODE": "slow", "HF_TOKEN": "abc"}}), ("environment variable", "MODE", "fast", "slow")),
    (other({"kind": "process"}), ("option", "kind", "train", "process")),
    (other({"engine": "docker"}), ("option", "engine", "local", "docker")),
    (other({"instance_groups": (InstanceGroup(instance_count=2),)}), ("option", "instances", "local × 1", "local × 2")),
    (other({"distribution": Distribution(runner="mpi")}), ("option", "distribution", None, "mpi")),
    (other({"keep_alive": 600}), ("option", "kept warm for", None, "10 min")),
    (other({"retries": 2}), ("option", "retries", None, "2")),
    (other({"metrics": {"acc": "acc=(.*)"}}), ("option", "metric acc", None, "acc=(.*)")),
    (other({"instance_groups": (InstanceGroup(name="data"),)}), ("option", "instance groups", None, "data")),
    (
        other({"outputs": (Output(name="report", path="/r", destination="/here"),)}),
        ("output", "report", None, "/r to /here (EndOfJob)"),
    ),
    (other({"requirements_only": True}), ("Python", "packages of the interpreter", None, "none")),
    (other({"python": "/new/python"}), ("Python", "interpreter", "/env/bin/python", "/new/python")),
    (other({"requirements": ("x==1",)}), ("Python", "requirement x==1", None, "asked for")),
    (other(found={"python_version": "3.12.1"}), ("Python", "version", "3.11.7", "3.12.1")),
    (other(found={"packages": {"numpy": "2.2", "scipy": "1.0"}}), ("package", "numpy", "2.1", "2.2")),
    (other(found={"packages": {"numpy": "2.1"}}), ("package", "scipy", "1.0", None)),
    (other(found={"own_modules": ()}), ("own code", "mine", "5" * 12, None)),
    (
        other({"source_dir": SourceDir(folder="/f", path="/p", sha256="9" * 64, files=1, size=1)}),
        ("own code", "source folder", None, "9" * 12),
    ),
    (
        other(found={"inputs": digest(sha256="7" * 64)}),
        ("input", "train", f"content {'6' * 12}, 2 files, 8 bytes", f"content {'7' * 12}, 2 files, 8 bytes"),
    ),
    (
        other({"channels": (Channel(name="train", source="/new"),)}),
        ("input", "train from", "/data (File, FullyReplicated)", "/new (File, FullyReplicated)"),
    ),
    (
        other({"channels": (Channel(name="train", source="/data", groups=("a", "b"), content_type="text/csv"),)}),
        (
            "input",
            "train from",
            "/data (File, FullyReplicated)",
            "/data (File, FullyReplicated, groups=a+b, content_type=text/csv)",
        ),
    ),
    (
        other({"shared": Payload(path="/s", sha256="c" * 64, sizes={})}),
        ("variable", "of all tasks together", None, "c" * 12),
    ),
    (
        other({"send": Payload(path="/q", sha256="b" * 64, sizes={"x": 1})}),
        ("variable", "all together", "a" * 12, "b" * 12),
    ),
    (other({"revision": Revision(commit="2" * 40, branch="main")}), ("git", "commit", "1" * 12, "2" * 12)),
    (
        other(found={"hosts": (replace(PROVENANCE.hosts[0], isolation="variables"),)}),
        ("host", "algo-1 isolation", "namespace", "variables"),
    ),
    (other(ended_at=14.0), ("outcome", "duration", "3 s", "4 s")),
    (other(state=SecondaryStatus.STOPPED), ("outcome", "status", "Completed", "Stopped")),
    (other(failure_reason="it broke"), ("outcome", "failure", None, "it broke")),
    (other(metrics=(MetricValue(name="acc", value=None, at=2.0),)), ("metric", "acc", "0.9", "nan")),
]


@pytest.mark.parametrize(("changed", "expected"), CASES, ids=[" ".join(row[:2]) for _, row in CASES])
def test_each_thing_that_differs_is_found_and_nothing_else(
    changed: Job, expected: tuple[str, str, str | None, str | None]
) -> None:
    section, name, before, after = expected
    assert difference(JOB, changed).changes == (Change(section=section, name=name, before=before, after=after),)
    assert difference(changed, JOB).changes == (Change(section=section, name=name, before=after, after=before),)


def test_jobs_that_are_alike_are_said_to_be() -> None:
    # Another name, other lines of a magic above the code, and other moments are no difference.
    again = other({"source": "\n\na = 1\nb = 2\n", "submitted_at": 99.0}, started_at=110.0, ended_at=113.0)
    found = difference(JOB, again)
    assert (found.sentence, found.code, found.changes, found.unknown) == ("No differences.", (), (), ())


def test_few_differences_are_said_in_the_sentence_and_many_are_counted() -> None:
    few = difference(JOB, other({"hyperparameters": {"lr": "0.2"}, "source": "a = 1\nb = 3\n"}))
    assert few.sentence == "No differences except the code and hyperparameter lr (0.1 → 0.2)."
    packages = dict.fromkeys(("a", "b", "c", "d"), "1")
    many = difference(JOB, other({"kind": "process"}, {"packages": packages}))
    assert many.sentence == "No differences except option and package (6)."


def test_code_is_compared_line_by_line() -> None:
    found = difference(JOB, other({"source": "a = 1\nb = 3\n"}))
    assert found.code[:2] == ("--- digits-aaaaaa", "+++ digits-bbbbbb")
    assert found.code[3:] == (" a = 1", "-b = 2", "+b = 3")
    text, html = diff_page(found)
    assert "-b = 2\n+b = 3" in text
    assert ">+b = 3</ins>" in html
    assert ">-b = 2</del>" in html
    assert "<ins" not in html.split("a = 1")[0]


def test_what_looks_like_a_secret_is_not_shown() -> None:
    found = difference(JOB, other({"environment": {"MODE": "fast", "HF_TOKEN": "xyz"}}))
    assert found.changes == (
        Change(section="environment variable", name="HF_TOKEN", before="(not shown)", after="(not shown)"),
    )
    assert "xyz" not in "".join(diff_page(found))


def test_everything_from_outside_is_escaped() -> None:
    evil = "<script>alert(1)</script>"
    found = difference(JOB, other({"hyperparameters": {evil: evil}, "source": f"x = {evil!r}"}))
    assert "<script>" not in diff_page(found)[1]
    assert found._repr_html_() == diff_page(found)[1]
    assert str(found) == diff_page(found)[0]


def test_digests_of_different_kinds_are_not_compared_and_said_to_be() -> None:
    listing = difference(JOB, other(found={"inputs": digest(method="listing", sha256="8" * 64)}))
    assert listing.changes == ()
    assert listing.unknown == ("Input train cannot be compared: its digests were made by content and listing.",)
    both = other(found={"inputs": digest(method="listing")})
    assert "by names, sizes and times" in difference(both, both).unknown[0]


def test_a_job_that_goes_on_or_left_nothing_is_not_taken_for_one_without_packages() -> None:
    running = other(state=SecondaryStatus.TRAINING, ended_at=None, provenance=None, metrics=())
    found = difference(JOB, running)
    assert {change.section for change in found.changes} & {"package", "host", "own code"} == set()
    assert "not known yet" in found.unknown[0]
    assert "has no provenance record" in difference(other(provenance=None), JOB).unknown[0]


@given(
    st.dictionaries(st.sampled_from("abcde"), st.sampled_from("12")),
    st.dictionaries(st.sampled_from("abcde"), st.sampled_from("12")),
)
def test_changes_turn_one_dictionary_into_the_other(old: dict[str, str], new: dict[str, str]) -> None:
    found = difference(other({"hyperparameters": old}), other({"hyperparameters": new}))
    made = dict(old)
    for change in found.changes:
        if change.after is None:
            del made[change.name]
        else:
            made[change.name] = change.after
    assert made == new
    assert (found.sentence == "No differences.") == (old == new)
    assert json.decode(json.encode(found), type=type(found)) == found


def test_hyperparameters_are_on_it_and_no_password_of_a_url() -> None:
    ran = job(hyperparameters={"lr": "0.1", "db": "postgres://me:hunter2@host/db"})
    found = Provenance(code_sha256="0", seeds=SeedNote(sentence=""))
    for page in provenance_page(replace(ran, provenance=found)):
        assert "hunter2" not in page
        assert "postgres://me:…@host/db" in page
        assert "0.1" in page


def test_code_that_is_a_command_has_no_password_of_a_url() -> None:
    old, new = (
        other({"source": f"app {word} postgres://me:hunter2@host/db\n", "command": ("app", word)}) for word in "ab"
    )
    said = "\n".join(difference(old, new).code)
    assert "hunter2" not in said
    assert "+app b postgres://me:…@host/db" in said


def test_provenance_has_the_filled_name_the_command_and_what_was_ignored() -> None:
    ran = job(
        hyperparameters={"model_dir": "s3://b/{job_name}/model"},
        command=("app", "postgres://me:hunter2@host/db"),
        source_dir=SourceDir(folder="/f", path="/p", sha256="9" * 64, files=1, size=1),
        source_ignore="none",
    )
    found = Provenance(code_sha256="0", seeds=SeedNote(sentence=""))
    text, _html = provenance_page(replace(ran, provenance=found))
    assert f"s3://b/{ran.name}/model" in text
    assert "command: app postgres://me:…@host/db" in text
    assert "source ignore: none" in text
    assert "hunter2" not in text
    several = replace(ran.spec, source_dir=replace(ran.spec.source_dir, folder="", is_whole=False))
    assert "source folder: several folders, SHA-256" in provenance_page(replace(ran, spec=several, provenance=found))[0]
