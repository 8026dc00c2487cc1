"""Outputs of processing jobs that are copied to their destination while the job runs: ``mode=Continuous``."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

import jupyter_smx as smx
from jupyter_smx.agent.contract import training_toolkit
from jupyter_smx.kernel.options import option_values as values
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.channel import Output
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.policy.admission import continuous_output_rules
from jupyter_smx.testing.eventually import eventually_blocking
from jupyter_smx.testing.servers.object_storage import Bucket, bucket

__all__ = ["bucket"]


@pytest.fixture
def notebook(shared_notebook: Any) -> Any:
    """Share one controller, which no test here ends."""
    return shared_notebook


@pytest.mark.parametrize(
    ("text", "destination", "mode"),
    [
        ("table=:out", "/home/me/out", "EndOfJob"),
        ("table=:out,mode=Continuous", "/home/me/out", "Continuous"),
        ("table=:out,mode=continuous", "/home/me/out", "Continuous"),
        ("table=:out,mode=EndOfJob", "/home/me/out", "EndOfJob"),
        ("table=:a,b", "/home/me/a,b", "EndOfJob"),
    ],
)
def test_how_an_output_travels_is_a_property_of_it(text: str, destination: str, mode: str) -> None:
    found = values.parse_output(text, "process", Path("/home/me"))
    assert (found.path, found.destination, found.mode) == ("/opt/ml/processing/output/table", destination, mode)


def test_a_mode_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match=r"--output table: mode 'often' does not exist.*Continuous, EndOfJob"):
        values.parse_output("table=:out,mode=often", "process", tmp_path)


@pytest.mark.parametrize(
    ("kind", "destination", "shared", "sentence"),
    [
        ("process", "/home/me/out", True, ""),
        ("process", "", True, "must name a folder or a URL"),
        ("process", "s3://bucket/out", True, ""),
        ("process", "gs://bucket/out", False, ""),
        ("process", "https://example.org/out", True, "are read-only"),
        ("process", "s3://", True, "has no bucket"),
        ("process", "memory://x/out", True, "exists only inside one process"),
        ("process", "simplecache::s3://bucket/out", True, "not a chain"),
        ("process", "/home/me/out", False, "do not share this folder"),
        ("train", "/home/me/out", True, "archives of a training job"),
    ],
)
def test_only_what_can_be_brought_before_the_end_is_continuous(
    kind: Any, destination: str, shared: bool, sentence: str
) -> None:
    output = Output(name="table", path="/opt/ml/processing/table", destination=destination, mode="Continuous")
    spec = JobSpec(kind=kind, source="pass", outputs=(output,))
    if not sentence:
        continuous_output_rules.check(spec, is_shared=lambda _path: shared)
        return
    with pytest.raises(ValidationError, match=f"--output table: it cannot be Continuous.*{sentence}"):
        continuous_output_rules.check(spec, is_shared=lambda _path: shared)


WORK = """
import os, shutil, time
out = os.environ["SMX_OUTPUT_TABLE"]
os.makedirs(out + "/deep")
for name in ("rows.csv", "gone.csv", "deep/more.csv"):
    with open(f"{out}/{name}", "w") as file:
        file.write(name)
os.symlink(SECRET, out + "/linked.csv")
while not os.path.exists(GATE):
    time.sleep(0.01)
os.unlink(out + "/gone.csv")
with open(out + "/rows.csv", "a") as file:
    file.write(", and the last")
"""


@pytest.mark.processes
def test_files_are_there_while_the_job_runs_and_what_it_deletes_stays(notebook: Any, tmp_path: Path) -> None:
    del notebook  # provides the session
    gate, target, secret = tmp_path / "gate", tmp_path / "out", tmp_path / "secret"
    secret.write_text("of the host")
    source = WORK.replace("SECRET", repr(str(secret))).replace("GATE", repr(str(gate)))
    job = smx.process(source, outputs={"table": f"/opt/ml/processing/table:{target}/of/job,mode=Continuous"})
    there = target / "of" / "job"
    wanted = {"rows.csv", "gone.csv", "deep/more.csv"}

    def brought() -> set[str]:
        return {os.path.relpath(path, there) for path in there.rglob("*") if path.is_file()}

    eventually_blocking(lambda: brought() == wanted, "files of a job that runs", within=60)
    assert (there / "rows.csv").read_text() == "rows.csv"
    assert not job.done()
    gate.touch()
    job.result(60)
    assert brought() == wanted
    assert (there / "rows.csv").read_text() == "rows.csv, and the last"
    assert not any(path.name.startswith(".smx") or path.is_symlink() for path in there.rglob("*"))


@pytest.mark.processes
def test_files_are_at_a_url_while_the_job_runs_and_what_it_deletes_stays(
    notebook: Any, tmp_path: Path, bucket: Bucket
) -> None:
    del notebook  # provides the session
    gate, secret = tmp_path / "gate", tmp_path / "secret"
    secret.write_text("of the host")
    source = WORK.replace("SECRET", repr(str(secret))).replace("GATE", repr(str(gate)))
    wish = "/opt/ml/processing/table:s3://bucket/of/job/,mode=Continuous"
    job = smx.process(source, outputs={"table": wish}, environment=bucket.environment)
    there = bucket.folder / "of" / "job"
    wanted = {"rows.csv": "rows.csv", "gone.csv": "gone.csv", "deep/more.csv": "deep/more.csv"}

    def brought() -> dict[str, str]:
        found = {}
        for path in there.rglob("*"):
            with suppress(FileNotFoundError):  # the server's temporary file, until an object is complete
                if path.is_file():
                    found[os.path.relpath(path, there)] = path.read_text()
        return found

    eventually_blocking(lambda: brought() == wanted, "objects of a job that runs", within=60)
    assert not job.done()
    gate.touch()
    job.result(60)
    assert brought() == {**wanted, "rows.csv": "rows.csv, and the last"}


INTERMEDIATE = """
import os, time
out = os.environ["SM_OUTPUT_INTERMEDIATE_DIR"]
os.makedirs(out + "/deep")
for name in ("step-1", "gone", "deep/step-2"):
    with open(f"{out}/{name}", "w") as file:
        file.write(name)
while not os.path.exists(GATE):
    time.sleep(0.01)
os.unlink(out + "/gone")
"""


@pytest.mark.processes
@pytest.mark.parametrize("kind", ["folder", "url"])
def test_what_a_training_job_calls_intermediate_is_brought_while_it_runs(
    notebook: Any, tmp_path: Path, bucket: Bucket, kind: str
) -> None:
    del notebook  # provides the session
    gate = tmp_path / "gate"
    place = "s3://bucket/runs" if kind == "url" else str(tmp_path / "runs")
    job = smx.train(
        INTERMEDIATE.replace("GATE", repr(str(gate))),
        hyperparameters={"sagemaker_s3_output": place},
        environment=bucket.environment if kind == "url" else {},
    )
    there = (bucket.folder if kind == "url" else tmp_path) / "runs" / job.name / "output" / "intermediate"
    wanted = {"step-1": "step-1", "gone": "gone", "deep/step-2": "deep/step-2"}

    def brought() -> dict[str, str]:
        found = {}
        for path in there.rglob("*"):
            with suppress(FileNotFoundError):  # the server's temporary file, until an object is complete
                if path.is_file():
                    found[os.path.relpath(path, there)] = path.read_text()
        return found

    eventually_blocking(lambda: brought() == wanted, "files of a job that runs", within=60)
    assert not job.done()
    gate.touch()
    job.result(60)
    assert brought() == wanted, "what it deletes stays, as with the toolkit"
    assert job.record.hosts[0].errors == ()


@pytest.mark.parametrize(
    ("place", "shared", "sentence"),
    [
        ("s3://bucket/x", False, ""),
        ('"s3://bucket/x"', False, ""),
        ("file:///x", False, ""),
        ("7", False, ""),
        ("/home/me/x", True, ""),
        ("/home/me/x", False, "do not share this folder with this machine"),
        ("runs", True, "to an absolute path"),
        ("https://example.org/x", True, "are read-only"),
    ],
)
def test_where_it_cannot_be_brought_is_refused(place: str, shared: bool, sentence: str) -> None:
    spec = JobSpec(kind="train", source="pass", hyperparameters={"sagemaker_s3_output": place})
    if not sentence:
        continuous_output_rules.check(spec, is_shared=lambda _path: shared)
        return
    with pytest.raises(ValidationError, match=f"--hp sagemaker_s3_output: .* cannot be copied to .*{sentence}"):
        continuous_output_rules.check(spec, is_shared=lambda _path: shared)
    continuous_output_rules.check(JobSpec(**{**asdict(spec), "kind": "process"}), is_shared=lambda _path: shared)


NOWHERE = "https://example.org/x"
"""A destination that does not exist: a host that reads it as a destination fails."""


@pytest.mark.parametrize("kind", ["train", "process"])
@pytest.mark.parametrize("contract", ["v2", "v3"])
@pytest.mark.parametrize(
    "hyperparameters",
    [
        *({"sagemaker_s3_output": text} for text in (NOWHERE, json.dumps(NOWHERE), f"{NOWHERE}/", f" {NOWHERE}")),
        *({"sagemaker_s3_output": text} for text in ("", '""', "7", "null", "true", f'["{NOWHERE}"]', f'"{NOWHERE}')),
        *({"sagemaker_s3_output": text} for text in ("file:///x", '"file:///x"', "file:x")),
        {"Sagemaker_s3_output": NOWHERE},
        {"s3_output": NOWHERE},
        {},
    ],
    ids=str,
)
def test_what_is_judged_to_be_a_place_before_a_job_is_what_its_host_takes_for_one(
    kind: Any, contract: Any, hyperparameters: dict[str, str]
) -> None:
    spec = JobSpec(kind=kind, source="pass", contract=contract, hyperparameters=hyperparameters)
    told = {"name": "job-1", "kind": kind, "contract": contract, "hyperparameters": spec.all_hyperparameters()}
    if training_toolkit.intermediate_destination(told):
        with pytest.raises(ValidationError, match=r"--hp sagemaker_s3_output: .* cannot be copied to"):
            continuous_output_rules.check(spec, is_shared=lambda _path: True)
    else:
        continuous_output_rules.check(spec, is_shared=lambda _path: True)


@pytest.mark.processes
def test_an_output_that_leads_out_of_the_job_brings_nothing(notebook: Any, tmp_path: Path) -> None:
    del notebook  # provides the session
    elsewhere, target = tmp_path / "elsewhere", tmp_path / "out"
    elsewhere.mkdir()
    (elsewhere / "private").write_text("not the job's")
    source = f"""
import os
out = os.environ["SMX_OUTPUT_TABLE"]
os.rmdir(out)
os.symlink({str(elsewhere)!r}, out)
"""
    job = smx.process(source, outputs={"table": f"/opt/ml/processing/table:{target},mode=Continuous"})
    job.wait(60)
    assert not list(target.rglob("*"))
    assert any("is a link out of /opt/ml" in error for error in job.record.hosts[0].errors)
