"""``--group …,until=`` and ``--distribution``: from words to the wish, and on to a program for SageMaker."""

from __future__ import annotations

import json

import pytest

from jupyter_smx.kernel.options import option_values as values
from jupyter_smx.kernel.options.distribution_value import parse_distribution
from jupyter_smx.kernel.sagemaker import estimator_call
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.records.job import Job
from jupyter_smx.model.spec.distribution import Distribution
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import JobSpec

GROUPS = (
    InstanceGroup(name="data", instance_type="ml.c5.xlarge", instance_count=2, until="dnn"),
    InstanceGroup(name="dnn", instance_type="ml.p3.2xlarge"),
)


def test_a_group_is_read_with_and_without_the_one_that_it_helps() -> None:
    assert values.parse_group("data:ml.c5.xlarge:2,until=dnn") == GROUPS[0]
    assert values.parse_group("dnn:ml.p3.2xlarge:1") == GROUPS[1]


@pytest.mark.parametrize(
    "text", ["data:ml.c5.xlarge:2,unti=dnn", "data:ml.c5.xlarge:2,until=", "data:ml.c5.xlarge:2,x"]
)
def test_another_property_of_a_group_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(
        ValidationError, match=r"The only property is until=LEADER.*For example data:ml\.c5\.xlarge:2,until=dnn\."
    ):
        values.parse_group(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", None),
        ("torchrun", Distribution(runner="torchrun")),
        ("torchrun,processes=2,groups=dnn", Distribution(runner="torchrun", processes=2, groups=("dnn",))),
        ("mpi,groups=dnn", Distribution(runner="mpi", groups=("dnn",))),
        ("parameter_server", Distribution(runner="parameter_server")),
        (
            "multi_worker_mirrored_strategy,groups=dnn",
            Distribution(runner="multi_worker_mirrored_strategy", groups=("dnn",)),
        ),
        ("pyspark", Distribution(runner="pyspark")),
    ],
)
def test_a_distribution_is_read(text: str, found: Distribution | None) -> None:
    assert parse_distribution(text) == found
    assert found is None or found.option_value() == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("torchrn", r"'torchrn' is not known\..*Did you mean torchrun\?"),
        ("spark", r"'spark' is not known\..*Did you mean pyspark\?"),
        ("parameter-server", r"'parameter-server' is not known\..*Did you mean parameter_server\?"),
        ("mpi,proceses=2", r"'proceses' is not known\..*Did you mean processes\?"),
        ("mpi,processes=two", "is not a number of processes"),
        ("mpi,processes=0", "is not a number of processes"),
    ],
)
def test_what_is_no_distribution_is_refused_with_what_is_near(text: str, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        parse_distribution(text)


def test_the_hyperparameters_are_those_of_sagemakers_sdk_and_the_users_own_win() -> None:
    spec = JobSpec(kind="train", source="pass", instance_groups=GROUPS, hyperparameters={"a": "1"})
    assert spec.all_hyperparameters() == {"a": "1"}
    ranks = JobSpec(
        kind="train",
        source="pass",
        instance_groups=GROUPS,
        hyperparameters={"a": "1", "sagemaker_mpi_custom_mpi_options": '"-v"'},
        distribution=Distribution(runner="mpi", processes=4, groups=("dnn",)),
    )
    assert {name: json.loads(text) for name, text in ranks.all_hyperparameters().items()} == {
        "a": 1,
        "sagemaker_mpi_enabled": True,
        "sagemaker_mpi_num_of_processes_per_host": 4,
        "sagemaker_mpi_custom_mpi_options": "-v",
        "sagemaker_distribution_instance_groups": ["dnn"],
        "sagemaker_instance_type": "ml.p3.2xlarge",
    }


@pytest.mark.parametrize("strategy", ["parameter_server", "multi_worker_mirrored_strategy"])
def test_a_strategy_of_tensorflow_is_asked_for_as_by_sagemakers_sdk_and_in_an_export(strategy: str) -> None:
    wanted = parse_distribution(f"{strategy},groups=dnn")
    spec = JobSpec(kind="train", source="pass", instance_groups=GROUPS, distribution=wanted)
    asked = {f"sagemaker_{strategy}_enabled": "true", "sagemaker_distribution_instance_groups": '["dnn"]'}
    assert spec.all_hyperparameters() == asked
    assert estimator_call.decode_hyperparameters(spec.sdk2_hyperparameters()) == {
        name: json.loads(text) for name, text in asked.items()
    }


def test_a_script_of_spark_gets_no_hyperparameters_that_are_not_its_own() -> None:
    spec = JobSpec(
        kind="process", source="pass", hyperparameters={"a": "1"}, distribution=Distribution(runner="pyspark")
    )
    assert spec.all_hyperparameters() == {"a": "1"}


def test_a_program_for_sagemaker_says_that_there_nobody_ends_a_helper() -> None:
    spec = JobSpec(kind="train", source="pass", base_name="feed", instance_groups=GROUPS)
    job = Job(id="a" * 12, name="feed-aaaaaa", spec=spec)
    text = estimator_call.program(job, "train.py", alone=True, requirements=False)
    (line,) = [line for line in text.splitlines() if 'InstanceGroup("data"' in line]
    assert line.endswith("# SageMaker ends no helpers: its script has to end when dnn is done")
    compile(text, "sagemaker_job.py", "exec")
