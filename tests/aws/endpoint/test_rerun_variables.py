"""A job of the front that runs again, when the front has another port and key, does not run, or is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_smx import controller_launch
from jupyter_smx.aws.sagemaker.requests.job_clients import add_variables
from jupyter_smx.aws_endpoint import environment, process
from jupyter_smx.aws_endpoint.endpoint_file import Endpoint, endpoint_path, ensure_endpoint
from jupyter_smx.data_folder.singleton_lock import SingletonLock
from jupyter_smx.model.records.job import Job
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.rerun_spec import make_rerun_spec

FIRST = Endpoint(4711, "SMX00000000000000000", "s" * 40)
OWN = {"AWS_ENDPOINT_URL_CLOUDWATCH_LOGS": "http://own", "LEVEL": "1", "AWS_REGION": "eu-west-3"}


def rerun(own: dict[str, str]) -> JobSpec:
    spec = JobSpec(kind="train", source="pass", environment=own, notes=("first",), job_name="a")
    return make_rerun_spec(Job(id="a", name="a", spec=spec, created_at=1.0), 2.0, Path("/none"))


@pytest.fixture
def variables(data_folder: Path) -> dict[str, str]:
    """Return the variables of a job that the front with another key created."""
    data_folder.mkdir()
    return add_variables(OWN, environment.client_variables(FIRST, Path("/sdk"), OWN))


def test_a_rerun_has_the_present_address_and_key_of_the_front(variables: dict[str, str]) -> None:
    endpoint = ensure_endpoint()
    lock = SingletonLock(process.lock_path())
    assert lock.acquire()
    lock.write("local", "note")
    again = rerun(variables)
    lock.release()
    assert again.notes == ("first",)
    assert again.environment == add_variables(OWN, environment.client_variables(endpoint, Path("/sdk"), OWN))
    assert again.environment["AWS_ENDPOINT_URL_S3"] == endpoint.url
    assert FIRST.secret_key not in again.environment.values()
    assert again.environment["AWS_ENDPOINT_URL_CLOUDWATCH_LOGS"] == "http://own"


def test_a_rerun_whose_front_does_not_run_says_how_to_start_it(variables: dict[str, str]) -> None:
    endpoint = ensure_endpoint()
    again = rerun(variables)
    assert again.environment["AWS_SECRET_ACCESS_KEY"] == endpoint.secret_key
    assert again.notes[0] == "first"
    assert "jupyter smx aws start" in again.notes[1]
    assert rerun(again.environment).notes == again.notes


def test_a_rerun_without_a_front_has_no_variables_of_one_and_a_note(variables: dict[str, str]) -> None:
    assert not endpoint_path().exists()
    again = rerun(variables)
    assert again.environment == OWN
    assert "reach AWS" in again.notes[1]


def test_a_job_that_no_front_created_keeps_its_own_variables(data_folder: Path) -> None:
    own = OWN | {"AWS_ACCESS_KEY_ID": "AKIA", controller_launch.AWS_VARIABLES: ""}
    assert rerun(own).environment == own
    assert rerun(own).notes == ("first",)
    assert not data_folder.exists()
