"""A job's clients of AWS get the front's present key with each run, and no record has it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from jupyter_smx.aws.sagemaker.requests.job_clients import add_variables
from jupyter_smx.aws_endpoint.endpoint_file import Endpoint
from jupyter_smx.aws_endpoint.environment import client_variables
from jupyter_smx.model.errors import UnavailableError

if TYPE_CHECKING:
    from jupyter_smx.testing.simulation.simulation import Simulation

START = 0.6
SECRET = "AWS_SECRET_ACCESS_KEY"  # noqa: S105 - the name of a variable
FIRST, PRESENT = Endpoint(4711, "SMXFIRST", "first" * 8), Endpoint(4712, "SMXPRESENT", "present" * 6)
OWN = {"PLACE": "of {job_name}", "AWS_ENDPOINT_URL_STS": "http://own"}


def variables(own: dict[str, str] = OWN) -> dict[str, str]:
    """Return the variables of a job that the front with the first key created."""
    return add_variables(own, client_variables(FIRST, Path("/sdk"), own))


def run_environment(sim: Simulation, job: str) -> dict[str, str]:
    """Return the variables that the agents of all hosts of a job received."""
    first, *others = [dict(run.spec["environment"]) for _, run in sim.world.running_jobs() if run.job == job]
    assert all(other == first for other in others)
    return first


def test_a_record_lacks_the_secret_and_each_run_has_the_present_one(sim: Simulation) -> None:
    present = [FIRST]
    sim.controller.reconciler.dispatcher.read_endpoint = lambda: present[0]
    running = sim.submit(hosts=2, environment=variables())
    waiting = sim.submit(hosts=2, environment=variables())
    sim.pass_time(START)
    assert run_environment(sim, running)[SECRET] == FIRST.secret_key
    present[0] = PRESENT
    sim.end_job(running)
    sim.pass_time(START)
    led = run_environment(sim, waiting)
    assert led == add_variables(OWN, client_variables(PRESENT, Path("/sdk"), OWN)) | {"PLACE": led["PLACE"]}
    assert led["PLACE"] == f"of {sim.job(waiting).name}"
    for job in (running, waiting):
        assert sim.job(job).spec.environment == variables() | {SECRET: ""}


def test_a_job_that_was_recorded_with_a_secret_runs_with_the_present_one(sim: Simulation) -> None:
    sim.controller.reconciler.dispatcher.read_endpoint = lambda: PRESENT
    first = sim.submit(hosts=2)
    queued = sim.submit(hosts=2, environment=variables())
    job = sim.job(queued)
    earlier = replace(job, spec=replace(job.spec, environment=variables()))
    sim.call(lambda: sim.controller.live_state.save(jobs=[earlier]))
    sim.pass_time(START)
    sim.end_job(first)
    sim.pass_time(START)
    assert run_environment(sim, queued)[SECRET] == PRESENT.secret_key


@pytest.mark.parametrize("error", [None, UnavailableError("aws.json cannot be used.")])
def test_a_job_without_a_front_runs_and_its_clients_do_not_reach_aws(
    sim: Simulation, error: UnavailableError | None
) -> None:
    def read_endpoint() -> None:
        if error is not None:
            raise error

    sim.controller.reconciler.dispatcher.read_endpoint = read_endpoint
    job = sim.submit(environment=variables())
    sim.pass_time(START)
    led = run_environment(sim, job)
    assert (led[SECRET], led["AWS_ENDPOINT_URL_S3"]) == ("", FIRST.url)


def test_a_secret_of_the_users_own_stays(sim: Simulation) -> None:
    sim.controller.reconciler.dispatcher.read_endpoint = lambda: PRESENT
    own = {SECRET: "mine", "LEVEL": "1"}
    jobs = [sim.submit(environment=own), sim.submit(environment=variables(own))]
    sim.pass_time(START)
    for job in jobs:
        assert sim.job(job).spec.environment[SECRET] == run_environment(sim, job)[SECRET] == "mine"


def test_variables_that_the_user_replaced_beside_the_mark_stay(sim: Simulation) -> None:
    """As of a job with all variables of a kernel whose clients are led to the front, and a key for AWS."""
    sim.controller.reconciler.dispatcher.read_endpoint = lambda: PRESENT
    own = {"AWS_ACCESS_KEY_ID": "AKIAMINE", SECRET: "mine", "AWS_ENDPOINT_URL_S3": "https://store.example"}
    job = sim.submit(environment=variables() | own)
    sim.pass_time(START)
    assert sim.job(job).spec.environment[SECRET] == "mine"
    led = run_environment(sim, job)
    assert {name: led[name] for name in own} == own
    assert led["AWS_ENDPOINT_URL_SAGEMAKER"] == PRESENT.url


def test_the_key_is_read_by_a_thread_that_no_listing_of_inputs_takes(sim: Simulation) -> None:
    names: list[str] = []

    def read_endpoint() -> Endpoint:
        names.append(threading.current_thread().name)
        return PRESENT

    sim.controller.reconciler.dispatcher.read_endpoint = read_endpoint
    sim.submit(environment=variables())
    sim.pass_time(START)
    assert [name.partition("_")[0] for name in names] == ["read-key"]
