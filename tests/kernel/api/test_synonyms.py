"""Keywords of SageMaker's SDK in ``smx.train``: taken where they mean the same, else refused by the name here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from sagemaker_stand_in import PARAMETERS

import jupyter_smx as smx
from jupyter_smx.kernel.api import session
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.options.synonyms import SYNONYMS, cure_of, translate
from jupyter_smx.model.options.table import ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripted_controller import ScriptedController


@pytest.fixture(autouse=True)
def without_a_notebook(controller: ScriptedController) -> Iterator[None]:  # noqa: ARG001 - it must be there first
    session.close_session()
    session.open_session(None)
    yield
    session.close_session()


TAKEN: list[tuple[str, Any, str, Any]] = [
    ("use_spot_instances", True, "spot", True),
    ("enable_managed_spot_training", True, "spot", True),
    ("keep_alive_period_in_seconds", 600, "keep_alive", 600),
    ("max_runtime_in_seconds", 60, "max_run", 60),
    ("max_retry_attempts", 2, "retries", 2),
    ("checkpoint_s3_uri", "s3://bucket/folder", "checkpoint", "s3://bucket/folder"),
    ("enable_network_isolation", True, "network_isolation", True),
    ("image_uri", "python:3.11", "image", "python:3.11"),
    ("training_image", "python:3.11", "image", "python:3.11"),
    ("base_job_name", "digits", "base_name", "digits"),
    ("env", {"A": "1"}, "environment", {"A": "1"}),
    ("metric_definitions", [{"Name": "loss", "Regex": "loss=([0-9.]+)"}], "metrics", {"loss": "loss=([0-9.]+)"}),
    ("metric_definitions", [SimpleNamespace(name="a", regex="a=(.*)")], "metrics", {"a": "a=(.*)"}),
    ("metric_definitions", {"a": "a=(.*)"}, "metrics", {"a": "a=(.*)"}),
    ("metric_definitions", {"Name": "loss", "Regex": "l=(.*)"}, "metrics", {"loss": "l=(.*)"}),
    ("metric_definitions", {"Name": "n=(.*)", "loss": "l=(.*)"}, "metrics", {"Name": "n=(.*)", "loss": "l=(.*)"}),
    ("metric_definitions", [], "metrics", {}),
]


@pytest.mark.parametrize(("keyword", "value", "field", "expected"), TAKEN, ids=lambda value: str(value)[:30])
def test_a_synonym_of_the_sdk_is_taken(
    controller: ScriptedController, keyword: str, value: Any, field: str, expected: Any
) -> None:
    job = smx.train("pass", **{keyword: value})
    assert getattr(controller.jobs[job.id].spec, field) == expected


def test_a_synonym_that_is_not_set_does_not_hide_the_option(controller: ScriptedController) -> None:
    job = smx.train("pass", spot=True, use_spot_instances=None, max_wait=90_000)
    assert controller.jobs[job.id].spec.spot
    job = smx.train("pass", spot=None, use_spot_instances=True, max_wait=90_000)
    assert controller.jobs[job.id].spec.spot


def test_remote_and_map_take_them_too(controller: ScriptedController) -> None:
    def double(x: int) -> int:
        return 2 * x

    smx.remote(base_job_name="twice", keep_alive_period_in_seconds=60)(double).submit(2)
    assert [(job.spec.base_name, job.spec.keep_alive) for job in controller.jobs.values()] == [("twice", 60)]
    found = smx.map(double, [1, 2], base_job_name="both")
    assert found.name.startswith("both-")


def test_a_volume_size_is_taken_and_said_to_have_no_effect(
    controller: ScriptedController, capsys: pytest.CaptureFixture[str]
) -> None:
    smx.train("pass", volume_size=30)
    assert len(controller.jobs) == 1
    assert "volume_size=30 has no effect here: hosts use the disk of their machine." in capsys.readouterr().err
    with pytest.raises(ValidationError, match="volume_size: 'big' is not a number of GiB"):
        smx.train("pass", volume_size="big")


REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"spot": True, "use_spot_instances": True},
        r"spot= cannot be combined with use_spot_instances=\. .*Remove one of the two\.",
    ),
    ({"use_spot_instances": False, "enable_managed_spot_training": True}, r"Both mean spot=\."),
    ({"metric_definitions": "loss"}, r"metric_definitions='loss' has the wrong type\. It is a list of .*metrics="),
    ({"metric_definitions": [{"Name": "loss"}]}, r"metric_definitions=.* has the wrong type\."),
    ({"metric_definitions": [{"Name": "a", "Regex": "a"}] * 2}, r"metric_definitions: 'a' is given twice\."),
    ({"use_spot_instances": "yes"}, r"spot='yes' has the wrong type\."),
    ({"compute": object()}, r"SageMaker's compute is here instance_type=, instance_count=, .* and spot=\."),
    ({"output_path": "s3://b"}, r"smx\.train: output_path is not an option\. Use outputs="),
    ({"tags": []}, r"SageMaker's tags has no counterpart here\. Leave it out\."),
    ({"train_instance_type": "ml.m5.large"}, r"SageMaker's train_instance_type is here instance_type=\."),
    ({"KeepAlivePeriodInSeconds": 1}, r"is here keep_alive=\."),
    ({"arguments": ["a"]}, r"is not for training jobs\. .*use smx\.process\."),
]


@pytest.mark.parametrize(("keywords", "sentence"), REFUSED, ids=lambda value: str(value).split(" at 0x")[0][:40])
def test_others_are_refused_by_the_name_here(
    controller: ScriptedController, keywords: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValidationError, match=sentence):
        smx.train("pass", **keywords)
    assert controller.jobs == {}


def test_a_processing_job_has_no_spot_by_any_name() -> None:
    with pytest.raises(ValidationError, match=r"spot=True is not for processing jobs.*use smx\.train\."):
        smx.process("pass", use_spot_instances=True)  # type: ignore[call-arg]  # that is what is tried


@pytest.mark.parametrize(
    "owner",
    [
        *("Estimator", "Estimator.fit", "ScriptProcessor", "FrameworkProcessor", "PySparkProcessor", "ModelTrainer"),
        *("ScriptProcessor.run", "FrameworkProcessor.run", "PySparkProcessor.run", "Compute", "StoppingCondition"),
    ],
)
def test_each_keyword_of_the_sdk_is_taken_or_has_a_sentence(owner: str) -> None:
    for name in PARAMETERS[owner].split():
        taken = name in ROWS or name in SYNONYMS or translate({name: 30}).notes
        assert taken or cure_of(name), name


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("script_mode", "Each job runs a script. Leave it out."),
        ("VolumeSizeInGB", "Hosts use the disk of their machine. Leave it out."),
        ("TrainingInputMode", "inputs={'train': smx.Channel("),
        ("OutputPath", "Use outputs="),
        ("Tags", "SageMaker's Tags has no counterpart here. Leave it out."),
        ("hyper_parameters", "SageMaker's hyper_parameters is here hyperparameters=."),
        ("role_arn", "SageMaker's role_arn is here role=."),
        ("resource_config", "SageMaker's resource_config is here instance_type="),
        ("spot", ""),
        ("no_such_name", ""),
    ],
)
def test_a_field_of_the_api_has_a_sentence_in_each_case_of_its_letters(name: str, sentence: str) -> None:
    assert sentence in cure_of(name) if sentence else cure_of(name) == ""


@pytest.mark.parametrize(
    ("line", "sentence"),
    [("--use-spot-instances", "--spot"), ("--keep-alive-period-in-seconds 9", "--keep-alive"), ("--env-x", "")],
)
def test_a_line_names_the_option_of_a_synonym(shell: Any, line: str, sentence: str) -> None:
    error = str(shell.run_cell(f"%%train {line}\npass").error_in_exec)
    assert (f"is {sentence} here." in error) is bool(sentence)
    assert "is not an option." in error
