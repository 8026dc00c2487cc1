"""What of a URL people may see: where it leads, and not what opens it."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.model import redaction
from jupyter_smx.model.errors import ValidationError, from_body
from jupyter_smx.model.records.job import Job
from jupyter_smx.model.spec.channel import Channel, Output
from jupyter_smx.model.spec.job_spec import JobSpec

PARTS = st.text(st.sampled_from("abcXYZ019._-%~!$&'()*+,;="), min_size=1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("/data/train:old@home", "/data/train:old@home"),
        ("s3://bucket/a:b@c", "s3://bucket/a:b@c"),
        ("sftp://me@host/x", "sftp://me@host/x"),
        ("sftp://host:22/x", "sftp://host:22/x"),
        ("ftp://me:hunter2@host:21/x", "ftp://me:…@host:21/x"),
        ("ftp://me:hun@ter2@host", "ftp://me:…@host"),
        ("ftp://me:hun:ter2@host", "ftp://me:…@host"),
        ("ftp://:hunter2@host/x", "ftp://:…@host/x"),
        ("FTP://me:hunter2@host/x", "FTP://me:…@host/x"),
        ("zip://train::ftp://me:hunter2@host/x.zip", "zip://train::ftp://me:…@host/x.zip"),
        ("channel a: ftp://me:hunter2@h/x: no (me@x)", "channel a: ftp://me:…@h/x: no (me@x)"),
        ("ftp://a:1@h/x and ftp://b:2@h/y", "ftp://a:…@h/x and ftp://b:…@h/y"),
        (
            "https://h/x?X-Amz-Date=1&X-Amz-Credential=hunter2&X-Amz-Signature=hunter2",
            "https://h/x?X-Amz-Date=1&X-Amz-Credential=…&X-Amz-Signature=…",
        ),
        ("https://h/x?sv=2024&sig=hun%2Fter2%3D#top", "https://h/x?sv=2024&sig=…#top"),
        ("https://h/x?access_token=hunter2&page=2", "https://h/x?access_token=…&page=2"),
        ("https://h/x?version=1&design=2", "https://h/x?version=1&design=2"),
        ("git+https://ghp_hunter2hunter2hunter2@h/x.git", "git+https://…@h/x.git"),
        ("https://me@h/x", "https://me@h/x"),
        ("abfs://a-container-of-a-long-name@account/x", "abfs://a-container-of-a-long-name@account/x"),
        ('{"db": "postgres://me:hunter2@h/db"}', '{"db": "postgres://me:…@h/db"}'),
    ],
)
def test_passwords_and_signatures_are_left_out_and_nothing_else(text: str, expected: str) -> None:
    assert redaction.redact_text(text) == expected
    assert redaction.redact_text(expected) == expected


@given(PARTS, PARTS, st.text())
def test_no_password_is_ever_shown(user: str, password: str, around: str) -> None:
    marked = f"<{password}>"
    text = redaction.redact_text(f"{around} ftp://{user}:{marked}@host/path")
    assert marked not in text.removeprefix(around)
    assert text.endswith(f"ftp://{user}:…@host/path")


def test_a_long_text_takes_no_longer_for_each_of_its_letters() -> None:
    began = time.process_time()
    assert redaction.redact_text("a" * 200_000 + " ftp://me:hunter2@h").endswith(" ftp://me:…@h")
    assert time.process_time() - began < 5, "no letter is looked at as often as there are letters"


@given(st.text())
def test_a_sentence_without_a_url_stays_as_it_is(text: str) -> None:
    assert "://" in text or redaction.redact_text(text) == text


def test_a_record_says_where_everything_lies() -> None:
    spec = JobSpec(
        kind="process",
        source="read('ftp://me:hunter2@host/x')",
        channels=(Channel(name="a", source="ftp://me:hunter2@host/a"),),
        outputs=(Output(name="b", path="b", destination="ftp://me:hunter2@host/b"), Output(name="c", path="c")),
        checkpoint="sftp://me:hunter2@host/kept",
        environment={"HF_TOKEN": "hunter2", "DATABASE_URL": "postgres://me:hunter2@host/db", "A": "b"},
        hyperparameters={"sagemaker_s3_output": "ftp://me:hunter2@host/d", "lr": "0.1"},
        arguments=("--db", "--db=postgres://me:hunter2@host/e"),
    )
    record: dict[str, Any] = msgspec.to_builtins(Job(id="1", name="job", spec=spec))
    found = redaction.redact_record(record)
    assert found["spec"]["channels"][0]["source"] == "ftp://me:…@host/a"
    assert [one["destination"] for one in found["spec"]["outputs"]] == ["ftp://me:…@host/b", ""]
    assert found["spec"]["checkpoint"] == "sftp://me:…@host/kept"
    assert found["spec"]["environment"] == {"HF_TOKEN": "", "DATABASE_URL": "postgres://me:…@host/db", "A": "b"}
    assert found["spec"]["hyperparameters"] == {"sagemaker_s3_output": "ftp://me:…@host/d", "lr": "0.1"}
    assert found["spec"]["arguments"] == ["--db", "--db=postgres://me:…@host/e"]
    assert found["spec"]["source"] == spec.source, "the code is the user's"
    assert record["spec"]["checkpoint"] == spec.checkpoint, "a rerun needs it"
    assert {**found, "spec": {}} == {**record, "spec": {}}


def test_a_record_has_no_password_of_a_command() -> None:
    url = "postgres://me:hunter2@host/db"
    command = ("python", "-m", "app", "--db", url)
    alone = JobSpec(kind="train", source=f"python -m app --db {url}\n", command=command)
    found = redaction.redact_record(msgspec.to_builtins(Job(id="1", name="job", spec=alone)))["spec"]
    assert found["command"] == ["python", "-m", "app", "--db", "postgres://me:…@host/db"]
    assert found["source"] == "python -m app --db postgres://me:…@host/db\n"
    script = JobSpec(kind="train", source=f"read({url!r})", command=("Rscript", url), entry_point="fit.R")
    found = redaction.redact_record(msgspec.to_builtins(Job(id="1", name="job", spec=script)))["spec"]
    assert found["command"] == ["Rscript", "postgres://me:…@host/db"]
    assert found["source"] == script.source, "the code is the user's"


def test_no_error_has_one() -> None:
    url = "sftp://me:hunter2@host/x"
    error = ValidationError(f"--checkpoint: checkpoints cannot be written to {url}.", field="checkpoint", value=url)
    for one in (error, from_body(error.body())):
        assert "hunter2" not in f"{one} {one!r} {one.body()} {one.args}"
        assert one.value == "sftp://me:…@host/x"
