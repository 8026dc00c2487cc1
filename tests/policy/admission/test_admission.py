"""What may become a job: every field that no engine could honour is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from draws import a_spec

from jupyter_smx.model.errors import ResourceLimitError, SmxError, ValidationError
from jupyter_smx.model.spec.channel import Channel, Output
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.policy.admission import checks
from jupyter_smx.policy.limits import Limits

ENGINES = ("local", "ray")


def channel(name: str, **fields: Any) -> Channel:
    return Channel(name=name, source="/data", **fields)


def test_a_plain_wish_passes() -> None:
    checks.check(a_spec(), Limits(), ENGINES)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"engine": "rey"}, "engine"),
        ({"instance_groups": ()}, "instance_groups"),
        ({"instance_groups": tuple(InstanceGroup(name=f"g{n}") for n in range(6))}, "instance_groups"),
        ({"instance_groups": (InstanceGroup(), InstanceGroup())}, "instance_groups"),
        ({"instance_groups": (InstanceGroup(instance_count=0),)}, "instance_count"),
        ({"instance_groups": (InstanceGroup(instance_type="ml.m5.larg"),)}, "instance_type"),
        ({"base_name": "-no-"}, "name"),
        ({"base_name": "x" * 57}, "name"),
        ({"keep_alive": -1}, "keep_alive"),
        ({"max_run": 0}, "max_run"),
        ({"max_run": 28 * 86_400 + 1}, "max_run"),
        ({"source": "x" * (checks.MAX_SOURCE + 1)}, "source"),
        ({"hyperparameters": {f"h{n}": "1" for n in range(101)}}, "hyperparameters"),
        ({"hyperparameters": {"h": "x" * 2_501}}, "hyperparameters"),
        ({"environment": {"1A": "x"}}, "environment"),
        ({"environment": {"A=B": "x"}}, "environment"),
        ({"channels": tuple(channel(f"c{n}") for n in range(21))}, "channels"),
        ({"channels": (channel("a/b"),)}, "channels"),
        ({"channels": (channel("a", content_type="x" * 257),)}, "channels"),
        ({"kind": "process", "channels": (channel("a", content_type="text/csv"),)}, "channels"),
        ({"channels": (channel(".."),)}, "channels"),
        ({"channels": (channel("a"), channel("a"))}, "channels"),
        ({"channels": (channel("a", groups=("nobody",)),)}, "channels"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_a_wish_that_no_engine_can_honour_is_refused_and_the_field_is_named(change: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        checks.check(a_spec(**change), Limits(), ENGINES)
    assert refusal.value.field == field
    assert refusal.value.message.startswith(("--", "The code"))
    assert refusal.value.rule, "what was broken is said"
    assert refusal.value.cure, "and how to mend it"
    assert refusal.value.value not in ("", "None"), "the value is said"


SMDDP = "sagemaker_distributed_dataparallel_enabled"
MODULE = {"SAGEMAKER_TRAINING_MODULE": "sagemaker_pytorch_container.training:main"}
ARTIFACTS = {"CA_REPOSITORY_ARN": "arn:aws:codeartifact:us-east-1:111122223333:repository/d/r"}


@pytest.mark.parametrize(
    ("change", "name"),
    [
        *(({"hyperparameters": {SMDDP: flag}}, f"--hp {SMDDP}") for flag in ("true", "1", '"yes"', "True")),
        ({"hyperparameters": {"sagemaker_pytorch_ddp_enabled": "true"}}, "--hp sagemaker_pytorch_ddp_enabled"),
        (
            {"hyperparameters": {"sagemaker_pytorch_xla_multi_worker_enabled": "true"}},
            "--hp sagemaker_pytorch_xla_multi_worker_enabled",
        ),
        ({"environment": MODULE}, "--env SAGEMAKER_TRAINING_MODULE"),
        ({"environment": ARTIFACTS, "requirements": ("a",)}, "--env CA_REPOSITORY_ARN"),
        ({"environment": ARTIFACTS, "requirements": ("a",), "contract": "v3"}, "--env CA_REPOSITORY_ARN"),
    ],
)
def test_what_only_sagemaker_could_do_for_a_job_is_refused_with_a_cure_and_not_left_out(
    change: dict[str, Any], name: str
) -> None:
    with pytest.raises(ValidationError) as refusal:
        checks.check(a_spec(**change), Limits(), ENGINES)
    assert refusal.value.message == f"{name} is not supported."
    assert refusal.value.rule
    assert refusal.value.cure
    assert refusal.value.field == next(iter(change))


@pytest.mark.parametrize(
    "change",
    [
        *({"hyperparameters": {SMDDP: flag}} for flag in ("false", "0", "null", '""')),
        {"hyperparameters": {SMDDP: "true"}, "kind": "process"},
        {"hyperparameters": {SMDDP: "true"}, "contract": "v3"},
        {"environment": MODULE, "kind": "process"},
        {"environment": MODULE, "contract": "v3"},
        {"environment": {"SAGEMAKER_TRAINING_MODULE": ""}},
        {"environment": ARTIFACTS},
        {"environment": ARTIFACTS, "requirements": ("a",), "kind": "process"},
    ],
)
def test_where_it_means_nothing_on_sagemaker_either_it_passes(change: dict[str, Any]) -> None:
    checks.check(a_spec(**change), Limits(), ENGINES)


@pytest.mark.parametrize(
    ("path", "cure"),
    [
        ("/home/me/reports", "To copy the default folder to that path, use --output report=:/home/me/reports."),
        ("../../home/me", "To copy the default folder to that path, use --output report=:../../home/me."),
        (
            "/opt/ml/model/../../../home",
            "To copy the default folder to that path, use --output report=:/opt/ml/model/../../../home.",
        ),
        ("/opt/mlx", "To copy the default folder to that path, use --output report=:/opt/mlx."),
        ("/opt/ml/", "To copy the default folder to that path, use --output report=:/opt/ml/."),
        ("/opt/ml/processing", "To use the default folder, write --output report=."),
        ("/opt/ml/processing/input/", "To use the default folder, write --output report=."),
        ("/opt/ml/processing/input/raw/2026", "To use the default folder, write --output report=."),
    ],
)
def test_an_output_is_a_folder_below_opt_ml_that_holds_no_inputs(path: str, cure: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        checks.check(a_spec(kind="process", outputs=(Output(name="report", path=path),)), Limits(), ENGINES)
    assert (refusal.value.field, refusal.value.value, refusal.value.cure) == ("outputs", path, cure)
    assert refusal.value.rule.startswith("Files in PATH are moved out when the job ends")


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("train", "/opt/ml/model"),
        ("train", "/opt/ml/output/data"),
        ("process", "/opt/ml/processing/output/report"),
        ("process", "/opt/ml/processing/inputs"),
        ("process", "/opt/ml/processing/many/"),
        ("process", "model"),
    ],
)
def test_every_other_folder_below_opt_ml_may_be_an_output(kind: str, path: str) -> None:
    checks.check(a_spec(kind=kind, outputs=(Output(name="report", path=path),)), Limits(), ENGINES)


@pytest.mark.parametrize(
    ("change", "limits", "field"),
    [
        ({"engine": "ray"}, Limits(allowed_engines=("local",)), "engine"),
        ({}, Limits(allowed_instance_types=("ml.m5.large",)), "instance_type"),
        ({"keep_alive": 61}, Limits(keep_alive_cap=60), "keep_alive"),
    ],
)
def test_what_the_administrator_does_not_allow_is_refused_with_the_name_of_the_setting(
    change: dict[str, Any], limits: Limits, field: str
) -> None:
    with pytest.raises(ResourceLimitError) as refusal:
        checks.check(a_spec(**change), limits, ENGINES)
    assert refusal.value.field == field
    assert "ControllerApp." in refusal.value.rule


@pytest.mark.parametrize(("cap", "example"), [(600, "600"), (3_599, "3599"), (3_600, "1h"), (86_400, "1h")])
def test_an_example_of_a_run_time_is_within_the_cap(cap: int, example: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        checks.check(a_spec(max_run=cap + 1), Limits(max_run_cap=cap), ENGINES)
    assert refusal.value.cure == f"For example --max-run {example}."


def test_a_job_that_never_fits_is_refused_and_one_that_only_has_to_wait_is_not() -> None:
    groups = (InstanceGroup(name="a", instance_count=2), InstanceGroup(name="b", instance_count=2))
    checks.check_hosts(a_spec(instance_groups=groups), Limits(max_hosts=4))
    with pytest.raises(ResourceLimitError) as refusal:
        checks.check_hosts(a_spec(instance_groups=groups), Limits(max_hosts=3))
    assert refusal.value.field == "instance_count"


def test_a_spelling_error_is_answered_with_the_right_word() -> None:
    with pytest.raises(ValidationError) as refusal:
        checks.check(a_spec(engine="rey"), Limits(), ENGINES)
    assert "ray" in refusal.value.cure


def test_a_full_queue_says_who_sets_its_length() -> None:
    refusal: SmxError = checks.queue_full_error(Limits(max_jobs_queued=7))
    assert refusal.value == "7"
    assert "max_jobs_queued" in refusal.rule
