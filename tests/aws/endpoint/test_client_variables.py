"""Variables that lead clients to the front, saved values, and what shells evaluate."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx import controller_launch
from jupyter_smx.aws_endpoint import environment
from jupyter_smx.aws_endpoint.endpoint_file import Endpoint
from jupyter_smx.aws_endpoint.environment import Shell, apply_changes, client_variables, switch_off, switch_on

ENDPOINT = Endpoint(4711, "SMX00000000000000000", "s" * 40)
CONFIG = Path("/data/it's here.yaml")
OWN = {
    "AWS_ACCESS_KEY_ID": "AKIA",
    "AWS_SECRET_ACCESS_KEY": "a 'secret' $HOME",
    "AWS_SESSION_TOKEN": "token",
    "AWS_DEFAULT_REGION": "eu-central-1",
    "HOME": "/home/a",
}


def turned_on(environ: dict[str, str]) -> dict[str, str]:
    variables = client_variables(ENDPOINT, CONFIG, environ)
    return dict(apply_changes(dict(environ), switch_on(environ, variables)))


def test_each_service_has_its_own_variable_and_no_other_service_moves() -> None:
    found = turned_on({})
    urls = {name for name, value in found.items() if value == ENDPOINT.url}
    assert urls == {
        "AWS_ENDPOINT_URL_CLOUDWATCH",
        "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS",
        "AWS_ENDPOINT_URL_IAM",
        "AWS_ENDPOINT_URL_S3",
        "AWS_ENDPOINT_URL_SAGEMAKER",
        "AWS_ENDPOINT_URL_SAGEMAKER_METRICS",
        "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME",
        "AWS_ENDPOINT_URL_STS",
    }
    assert found["AWS_ACCESS_KEY_ID"] == ENDPOINT.access_key
    assert found["AWS_DEFAULT_REGION"] == "us-east-1"
    assert found["SAGEMAKER_ADMIN_CONFIG_OVERRIDE"] == str(CONFIG)


def test_real_buckets_stay_where_they_are_if_they_are_chosen() -> None:
    assert "AWS_ENDPOINT_URL_S3" not in client_variables(ENDPOINT, CONFIG, {}, "aws")


def test_a_token_of_another_key_is_removed_and_a_region_stays() -> None:
    found = turned_on(OWN)
    assert "AWS_SESSION_TOKEN" not in found
    assert found["AWS_DEFAULT_REGION"] == "eu-central-1"
    assert turned_on({"AWS_REGION": "eu-west-3"})["AWS_DEFAULT_REGION"] == "eu-west-3"


def test_a_proxy_is_not_asked_for_this_machine() -> None:
    found = turned_on({"HTTP_PROXY": "http://proxy", "NO_PROXY": "intranet"})
    assert found["NO_PROXY"] == found["no_proxy"] == "intranet,127.0.0.1"
    assert "no_proxy" not in turned_on({})


NAMES = st.sampled_from(
    [*client_variables(ENDPOINT, CONFIG, {}), "HTTP_PROXY", "no_proxy", "NO_PROXY", "AWS_PROFILE", "AWS_REGION", "HOME"]
)


@given(st.dictionaries(NAMES, st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)))
def test_off_restores_exactly_what_was_there_before(environ: dict[str, str]) -> None:
    once = turned_on(environ)
    twice = turned_on(once)
    assert twice == once
    assert apply_changes(dict(twice), switch_off(twice)) == environ
    assert switch_off(environ) == []
    assert controller_launch.controller_environment(twice) == controller_launch.controller_environment(environ)


def evaluated(environ: dict[str, str], *scripts: str) -> dict[str, str]:
    code = "\n".join([*scripts, "env -0"])
    done = subprocess.run(["/bin/bash", "-c", code], env=environ, capture_output=True, check=True)
    pairs = dict(item.split("=", 1) for item in done.stdout.decode().split("\0") if item)
    return {name: value for name, value in pairs.items() if name not in ("PWD", "SHLVL", "_", "OLDPWD")}


@pytest.mark.processes
def test_bash_evaluates_the_way_there_and_back() -> None:
    changes = switch_on(OWN, client_variables(ENDPOINT, CONFIG, OWN))
    there = environment.format_changes(changes, "bash")
    assert OWN["AWS_SECRET_ACCESS_KEY"] not in there, "the user's own secret is copied by the shell and not printed"
    on = evaluated(OWN, there)
    assert on == turned_on(OWN)
    assert evaluated(OWN, there, environment.format_changes(switch_off(on), "bash")) == OWN


def test_documents_have_the_variables_and_no_saved_ones() -> None:
    changes = switch_on(OWN, client_variables(ENDPOINT, CONFIG, OWN))
    found = json.loads(environment.format_changes(changes, "json"))
    assert found["AWS_ENDPOINT_URL_S3"] == ENDPOINT.url
    assert found["AWS_SESSION_TOKEN"] is None
    lines = environment.format_changes(changes, "dotenv").splitlines()
    assert f'AWS_ENDPOINT_URL_SAGEMAKER="{ENDPOINT.url}"' in lines
    assert not [line for line in lines if line.startswith(("JUPYTER_SMX", "AWS_SESSION_TOKEN"))]


def test_fish_gets_its_own_words() -> None:
    lines = environment.format_changes(switch_on(OWN, client_variables(ENDPOINT, CONFIG, OWN)), "fish").splitlines()
    assert 'set -gx JUPYTER_SMX_BEFORE_AWS_ACCESS_KEY_ID "$AWS_ACCESS_KEY_ID"' in lines
    assert "set -e AWS_SESSION_TOKEN" in lines
    assert r"set -gx SAGEMAKER_ADMIN_CONFIG_OVERRIDE '/data/it\'s here.yaml'" in lines
    assert set(get_args(Shell)) == set(environment.SHELLS)
