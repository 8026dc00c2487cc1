"""What may travel with a job as code, and what its hosts are told of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.controller.scheduling import run_request
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.channel import Channel, Payload
from jupyter_smx.model.spec.distribution import Distribution
from jupyter_smx.model.spec.job_spec import JobSpec, SourceDir, is_entry_point
from jupyter_smx.policy.admission import checks
from jupyter_smx.policy.limits import Limits

SOURCE = SourceDir(folder="/home/me/src", path="/data/payloads/1.tar.gz", sha256="1", files=2, size=3)


def check(**fields: Any) -> None:
    wish = {"kind": "train", "source": "pass", "base_name": "train"} | fields
    checks.check(JobSpec(**wish), Limits(), ["local"])


@pytest.mark.parametrize("name", ["../x.py", "/x.py", "a/../b.py", "a b.py", "-x.py", "a//b.py", "./x.py", "ü.py"])
def test_a_name_that_sagemaker_would_not_take_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match=r"--entry-point: .* is not a valid script path"):
        check(entry_point=name)


@pytest.mark.parametrize("name", ["train.py", "a/b-c_d.py", ".hidden/x+1.py"])
def test_a_name_that_sagemaker_takes_is_taken(name: str) -> None:
    check(entry_point=name, source_dir=SOURCE)


@given(st.text(max_size=20))
def test_an_entry_point_never_leads_out_of_its_folder(name: str) -> None:
    if is_entry_point(name):
        assert not name.startswith("/")
        assert ".." not in name.split("/")


def test_the_code_of_a_processing_job_has_its_channel_for_itself() -> None:
    code = (Channel(name="code", source="/x"),)
    with pytest.raises(
        ValidationError, match="channel 'code' uses /opt/ml/processing/input/code, the folder of the job's code"
    ):
        check(kind="process", channels=code, source_dir=SOURCE)
    check(kind="process", channels=code)
    check(channels=code, source_dir=SOURCE)


def test_words_as_they_are_belong_to_processing_jobs() -> None:
    check(kind="process", arguments=("--split", "0.2"))
    with pytest.raises(
        ValidationError,
        match=r"--arg is not for training jobs\. SageMaker passes hyperparameters to a training script",
    ):
        check(arguments=("--split", "0.2"))


@pytest.mark.parametrize(
    "fields",
    [
        {"receive": ("x",)},
        {"send": Payload(path="/p", sha256="", sizes={})},
        {"shared": Payload(path="/p", sha256="", sizes={})},
    ],
)
def test_a_program_has_no_variables(fields: dict[str, Any]) -> None:
    check(entry_point="train.py", **fields)
    with pytest.raises(ValidationError, match=r"--entry-point: train\.sh cannot send or receive variables"):
        check(entry_point="train.sh", **fields)


def test_a_program_is_started_once_on_each_host() -> None:
    torchrun = Distribution(runner="torchrun")
    check(entry_point="train.py", distribution=torchrun)
    with pytest.raises(ValidationError, match=r"--distribution: train\.sh is not a Python script"):
        check(entry_point="train.sh", distribution=torchrun)


def test_what_a_job_needs_of_the_payloads_is_named() -> None:
    send = Payload(path="/data/payloads/2.pkl", sha256="2", sizes={})
    assert JobSpec(kind="train", source="").payloads() == ()
    assert JobSpec(kind="train", source="", send=send, source_dir=SOURCE).payloads() == (send.path, SOURCE.path)


@pytest.mark.parametrize(
    ("fields", "folder"),
    [
        ({"source_dir": SOURCE, "entry_point": "sub/fit.py", "filename": "/home/me/src/sub/fit.py"}, "/home/me/src"),
        ({"entry_point": "fit.py", "filename": "/home/me/fit.py"}, "/home/me"),
        ({"filename": "<train>"}, ""),
        ({"filename": "/home/me/functions.py"}, ""),  # a function's own file has its own name already
    ],
)
def test_tracebacks_are_told_whose_files_they_are(fields: dict[str, Any], folder: str) -> None:
    assert run_request._folder(JobSpec(kind="train", source="", **fields)) == folder
