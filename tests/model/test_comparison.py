"""What a comparison says, and what it keeps to itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from jupyter_smx.model import redaction
from jupyter_smx.model.records.comparison import compare
from jupyter_smx.model.records.job import Job
from jupyter_smx.model.results.progress import MetricValue
from jupyter_smx.model.results.provenance import Provenance, SeedNote
from jupyter_smx.model.spec.channel import Channel
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import SecondaryStatus

VIEW = Path(__file__).parents[2] / "src" / "jobView" / "sections" / "environment.tsx"


def test_the_page_keeps_the_same_variables_to_itself_as_a_comparison_does() -> None:
    found = re.search(r"^const SECRET =\s+/(.+)/(\w*);$", VIEW.read_text(), re.MULTILINE)
    assert found is not None
    assert found.groups() == (redaction.PATTERN.pattern, "i")
    assert redaction.PATTERN.flags & re.IGNORECASE


@pytest.mark.parametrize(
    "name",
    [
        *("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "HF_TOKEN", "WANDB_API_KEY", "APIKEY"),
        *("DB_PASSWORD", "PGPASSWD", "SSH_PASSPHRASE", "AZURE_STORAGE_CONNECTION_STRING", "BLOB_SAS", "MY_KEY"),
        *("key", "private_stuff", "GOOGLE_CREDENTIALS"),
    ],
)
def test_what_sounds_like_a_secret_keeps_its_value_to_itself(name: str) -> None:
    assert redaction.redact_variables({name: "x", "A": "b"}) == {name: "", "A": "b"}


@pytest.mark.parametrize(
    "name", ["TOKENIZERS_PARALLELISM", "KEYBOARD", "MONKEY", "SASKATOON", "AWS_REGION", "AWS_PROFILE", "PATH"]
)
def test_what_does_not_is_told(name: str) -> None:
    assert redaction.redact_variables({name: "x"}) == {name: "x"}


def test_what_opens_a_url_is_in_no_comparison_and_is_no_difference() -> None:
    def job(name: str, password: str, folder: str) -> Job:
        url = f"sftp://me:{password}@host/{folder}"
        channel = Channel(name="train", source=url)
        spec = JobSpec(
            kind="train",
            source="",
            channels=(channel,),
            checkpoint=url,
            environment={"DB": url},
            hyperparameters={"db": url},
            arguments=(url,),
        )
        return Job(id=name, name=name, spec=spec)

    assert compare(job("a", "hunter2", "x"), job("b", "hunter3", "x")).changes == ()
    changes = compare(job("a", "hunter2", "x"), job("b", "hunter2", "y")).changes
    assert {(one.name, one.after) for one in changes} == {
        ("checkpoints", "sftp://me:…@host/y"),
        ("arguments", "sftp://me:…@host/y"),
        ("db", "sftp://me:…@host/y"),
        ("DB", "sftp://me:…@host/y"),
        ("train from", "sftp://me:…@host/y (File, FullyReplicated)"),
    }


def finished(name: str, **fields: Any) -> Job:
    times = {"started_at": 1.0, "ended_at": 2.0, "state": SecondaryStatus.COMPLETED}
    return Job(id=name, name=name, spec=JobSpec(kind="train", source="", python_version="3.11"), **(times | fields))


def test_a_job_that_is_not_over_is_called_that_and_its_results_are_no_differences() -> None:
    metrics = (MetricValue(name="loss", value=0.5, at=1.0),)
    ran = Provenance(code_sha256="", python_version="3.11.7", seeds=SeedNote(sentence=""))
    over = finished("a", metrics=metrics, provenance=ran)
    running = finished("b", state=SecondaryStatus.TRAINING, ended_at=None)
    for before, after in ((over, running), (running, over)):
        found = compare(before, after)
        assert found.sentence == "b is not over, so results are not compared yet. No differences."
        assert found.changes == ()
    assert compare(running, running).sentence.startswith("b and b are not over, so results are not compared yet. ")
    assert compare(over, over).sentence == "No differences."
