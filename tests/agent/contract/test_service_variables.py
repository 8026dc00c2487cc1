"""Region and ARN of a job, and variables that no system has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.contract import platform_variables, scriptmode
from jupyter_smx.agent.paths import REGION, HostInfo

if TYPE_CHECKING:
    from pathlib import Path

    from far_side import Agent

ARN = re.compile(r"arn:aws[a-z\-]*:sagemaker:[a-z0-9\-]*:[0-9]{12}:(training|processing)-job/.{1,63}")
"""The form that the API's model gives for it."""


@pytest.mark.parametrize(
    ("variables", "region"),
    [
        ({}, "eu-north-1"),
        ({"AWS_PROFILE": "work"}, "ap-south-1"),
        ({"AWS_PROFILE": "nobody"}, REGION),
        ({"AWS_PROFILE": "empty"}, REGION),
        ({"AWS_CONFIG_FILE": "/nowhere"}, REGION),
        ({"AWS_DEFAULT_REGION": "us-west-2"}, "us-west-2"),
        ({"AWS_REGION": "us-west-1", "AWS_DEFAULT_REGION": "us-west-2"}, "us-west-1"),
        ({"AWS_REGION": "", "AWS_DEFAULT_REGION": ""}, "eu-north-1"),
    ],
)
def test_the_region_of_a_host_is_its_users(tmp_path: Path, variables: dict[str, str], region: str) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text(
        "[default]\nregion = eu-north-1\noutput = %(x)s\n[profile work]\nregion=ap-south-1\n[profile empty]\n"
    )
    assert platform_variables.region_of({"HOME": str(tmp_path), **variables}) == region


@pytest.mark.parametrize("content", [b"region = no section\n", b"\xff\xfe\x00", b"[default\n"])
def test_a_config_file_that_nobody_could_read_is_no_trouble(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config"
    path.write_bytes(content)
    assert platform_variables.region_of({"AWS_CONFIG_FILE": str(path)}) == REGION
    assert platform_variables.region_of({}) == REGION


@pytest.mark.parametrize(
    ("changes", "region"),
    [
        ({}, "eu-central-1"),
        ({"environment": {"AWS_REGION": "us-west-2"}}, "us-west-2"),
        ({"environment": {"AWS_DEFAULT_REGION": "us-west-1"}}, "us-west-1"),
    ],
)
def test_a_job_has_one_region_in_all_its_variables(changes: dict[str, Any], region: str) -> None:
    group = {"instance_group_name": "homogeneousCluster", "instance_type": "local", "hosts": ["algo-1"]}
    place = HostInfo("algo-1", ["algo-1"], [group], "homogeneousCluster", "local", 2, 0, region="eu-central-1")
    spec = scriptmode.complete({"source": "pass", "kind": "train", "name": "digits-1", **changes})
    found = scriptmode.variables(spec, place)
    assert found["AWS_REGION"] == found["SAGEMAKER_REGION"] == region
    assert found["TRAINING_JOB_ARN"] == f"arn:aws:sagemaker:{region}:000000000000:training-job/digits-1"
    assert ARN.fullmatch(found["TRAINING_JOB_ARN"])
    processing = scriptmode.complete({"source": "pass", "kind": "process", "name": "digits-1", **changes})
    assert ARN.fullmatch(platform_variables.job_arn(processing, place))
    assert scriptmode.variables(processing, place)["AWS_REGION"] == region


def test_sagemakers_own_hyperparameters_win_over_what_the_sdk_would_add() -> None:
    group = {"instance_group_name": "homogeneousCluster", "instance_type": "local", "hosts": ["algo-1"]}
    place = HostInfo("algo-1", ["algo-1"], [group], "homogeneousCluster", "local", 2, 0)
    given = {"sagemaker_region": '"eu-west-1"', "sagemaker_job_name": '"other"', "sagemaker_container_log_level": "10"}
    spec = scriptmode.complete({"source": "pass", "kind": "train", "name": "digits-1", "hyperparameters": given})
    found = scriptmode.variables(spec, place)
    names = ("SAGEMAKER_REGION", "SAGEMAKER_JOB_NAME", "SM_LOG_LEVEL", "TRAINING_JOB_NAME", "SM_HPS", "AWS_REGION")
    assert [found[name] for name in names] == ["eu-west-1", "other", "10", "digits-1", "{}", "us-east-1"]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"hyperparameters": {"a": '"\\u0000"'}}, "SM_HP_A"),
        ({"hyperparameters": {"a": '"\\ud800"'}}, "SM_HP_A"),
        ({"hyperparameters": {"a\0b": "1"}}, "SM_HP_A"),
        ({"environment": {"OWN": "a\0b"}}, "OWN"),
    ],
)
def test_what_no_variable_can_hold_is_refused_and_named(agent: Agent, fields: dict[str, Any], named: str) -> None:
    record = agent.run("print('never')", **fields)
    assert record["cause"] == "refused"
    assert re.match(rf"environment: '{named}.*' cannot be set", record["failure"])
    assert "a\0b" not in record["failure"], "no value is told"
    agent.serves()
