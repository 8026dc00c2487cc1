"""The JSON of a job as other programs get it."""

from __future__ import annotations

from msgspec import json, to_builtins

from jupyter_smx.cli.subcommand import document
from jupyter_smx.model.records.job import Job
from jupyter_smx.model.spec.channel import Channel, Output
from jupyter_smx.model.spec.job_spec import JobSpec

URL = "ftp://me:hunter2@host/x"


def test_neither_secrets_of_variables_nor_of_urls_are_in_it() -> None:
    spec = JobSpec(
        kind="process",
        source="pass",
        environment={"HF_TOKEN": "hunter2", "A": "b", "DATABASE_URL": URL},
        hyperparameters={"db": URL},
        arguments=(URL,),
        channels=(Channel(name="a", source=URL),),
        outputs=(Output(name="b", path="b", destination=URL),),
        checkpoint=URL,
    )
    job = Job(id="1", name="job", spec=spec)
    found = document(job)
    assert b"hunter2" not in json.encode(found)
    assert found["spec"]["environment"] == {"HF_TOKEN": "", "A": "b", "DATABASE_URL": "ftp://me:…@host/x"}
    plain = to_builtins(job)
    hidden = {"environment", "hyperparameters", "arguments", "channels", "outputs", "checkpoint"}
    assert {name: value for name, value in found["spec"].items() if name not in hidden} == {
        name: value for name, value in plain["spec"].items() if name not in hidden
    }
