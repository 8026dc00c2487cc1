"""``{job_name}`` in a job request: which texts have it, and that nothing else changes."""

from __future__ import annotations

from msgspec import convert, to_builtins

from jupyter_smx.model.records.job import Job
from jupyter_smx.model.redaction import redact_record
from jupyter_smx.model.spec.channel import Channel, Output
from jupyter_smx.model.spec.job_spec import JobSpec

SPEC = JobSpec(
    kind="train",
    source="print('{job_name}')",
    hyperparameters={"model_dir": "s3://bucket/{job_name}/model", "cfg": '{"a": "{job_name}"}', "lr": "0.1"},
    environment={"RUN": "{job_name}", "OTHER": "{job}"},
    arguments=("--to", "{job_name}/x"),
    channels=(Channel(name="train", source="/data/{job_name}"),),
    outputs=(Output(name="model", path="/opt/ml/model/{job_name}", destination="/home/me/{job_name}"),),
    checkpoint="s3://bucket/{job_name}/checkpoints",
)


def test_fill_job_name_only_texts_that_can_depend_on_it_change() -> None:
    found = SPEC.fill_job_name("fit-1")
    assert found.hyperparameters == {"model_dir": "s3://bucket/fit-1/model", "cfg": '{"a": "fit-1"}', "lr": "0.1"}
    assert found.environment == {"RUN": "fit-1", "OTHER": "{job}"}
    assert found.arguments == ("--to", "fit-1/x")
    assert (found.outputs[0].path, found.outputs[0].destination) == ("/opt/ml/model/fit-1", "/home/me/fit-1")
    assert found.checkpoint == "s3://bucket/fit-1/checkpoints"
    assert (found.source, found.channels) == (SPEC.source, SPEC.channels)


def test_fill_job_name_without_a_placeholder_is_the_same_request() -> None:
    plain = JobSpec(kind="train", source="x", hyperparameters={"a": "{b}"}, arguments=("{}",))
    assert plain.fill_job_name("fit-1") == plain


def test_redact_record_people_see_the_name() -> None:
    job = Job(id="a" * 12, name="fit-1", spec=SPEC)
    assert convert(redact_record(to_builtins(job)), Job).spec == SPEC.fill_job_name("fit-1")


def test_redact_record_and_fill_job_name_fill_the_same_fields_of_an_output() -> None:
    output = Output(name="{job_name}", path="{job_name}", destination="{job_name}")
    job = Job(id="a" * 12, name="fit-1", spec=JobSpec(kind="process", source="", outputs=(output,)))
    filled = job.spec.fill_job_name("fit-1")
    assert filled.outputs == (Output(name="{job_name}", path="fit-1", destination="fit-1"),)
    assert convert(redact_record(to_builtins(job)), Job).spec == filled
