"""A job's name before it is submitted: an exact one, and ``{job_name}`` in its texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio
from records import an_id
from serving import World, served

from jupyter_smx.agent.contract import platform_variables, scriptmode
from jupyter_smx.agent.paths import HostInfo
from jupyter_smx.controller.scheduling.run_request import run_spec
from jupyter_smx.policy.hosts.names import named_hosts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

EXACT = "Train-2026-05-01"


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with served(tmp_path) as world:
        yield world


async def test_an_exact_name_is_the_name_of_the_record(world: World) -> None:
    made = await world.submit(job_name=EXACT)
    assert (made.status, made.json()["name"]) == (201, EXACT)
    assert (await world.submit(job_name=EXACT)).status == 200, "the same request once more"
    assert (await world.ask("GET", f"/v1/jobs/{EXACT}")).json()["id"] == an_id(1)


async def test_an_exact_name_that_a_job_has_is_refused(world: World) -> None:
    await world.submit(job_name=EXACT)
    refused = await world.submit(2, job_name=EXACT)
    assert (refused.status, refused.json()["field"]) == (409, "job_name")
    assert f"--job-name: another job has the name {EXACT}." in refused.json()["message"]
    assert [*world.books.jobs] == [an_id(1)]


async def test_a_name_that_sagemaker_would_refuse_is_refused(world: World) -> None:
    for wrong in ("-a", "a_b", "a" * 64):
        refused = await world.submit(job_name=wrong)
        assert (refused.status, refused.json()["field"]) == (400, "job_name"), wrong


async def test_an_array_has_no_exact_name(world: World) -> None:
    spec = world.wish(job_name=EXACT)["spec"]
    refused = await world.ask("POST", "/v1/arrays", {"id": an_id(7), "spec": spec, "tasks": [{}, {}]})
    assert (refused.status, refused.json()["field"]) == (400, "job_name")
    assert world.books.jobs == {}


async def test_a_rerun_gets_a_name_and_folders_of_its_own(world: World) -> None:
    await world.submit(job_name=EXACT, checkpoint="s3://bucket/{job_name}")
    again = await world.ask("POST", f"/v1/jobs/{EXACT}/rerun", {"id": an_id(2)})
    assert again.status == 201
    assert again.json()["name"] == f"train-{an_id(2)[:6]}"
    assert again.json()["spec"]["checkpoint"] == "s3://bucket/{job_name}"


async def test_hosts_get_the_name_in_place_of_the_placeholder(world: World) -> None:
    url = "s3://bucket/{job_name}/model"
    await world.submit(job_name=EXACT, hyperparameters={"model_dir": url}, environment={"RUN": "{job_name}"})
    job = world.books.job(an_id(1))
    host = named_hosts(job.spec.instance_groups)[0]
    spec = scriptmode.complete(run_spec(job, host, 10.0, 0))
    assert spec["hyperparameters"] == {"model_dir": f"s3://bucket/{EXACT}/model"}
    assert spec["environment"] == {"RUN": EXACT}
    place = HostInfo("algo-1", ["algo-1"], [], "homogeneousCluster", "local", cpus=1, gpus=0)
    assert platform_variables.variables(spec, place)["TRAINING_JOB_NAME"] == EXACT


async def test_hosts_get_the_name_in_a_command_and_its_arguments(world: World) -> None:
    made = await world.submit(kind="process", command=["echo", "{job_name}"], arguments=["--to={job_name}"])
    assert made.status == 201, made.json()
    job = world.books.job(an_id(1))
    assert job.spec.command == ("echo", "{job_name}"), "a rerun fills in its own name"
    spec = run_spec(job, named_hosts(job.spec.instance_groups)[0], 10.0, 0)
    assert (spec["command"], spec["arguments"]) == (["echo", job.name], [f"--to={job.name}"])
