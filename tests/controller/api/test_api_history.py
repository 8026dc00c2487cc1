"""What runs of a job used and measured, over the API: after a moment, of the newest run or an earlier one."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from records import a_job, a_spec, an_id
from serving import served

from jupyter_smx.controller.transfer.host_spool import HostSpool
from jupyter_smx.controller.transfer.job_folder import JobFolder
from jupyter_smx.model.results.progress import StepPace
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.status import SecondaryStatus

if TYPE_CHECKING:
    from pathlib import Path

    from serving import World

COMPLETED = SecondaryStatus.COMPLETED

WRITTEN = (1_700_000_100.0, 1_700_000_200.0)
"""When the logs of the two runs were written last."""


def begun_again(world: World, state: SecondaryStatus = SecondaryStatus.TRAINING) -> JobFolder:
    job = a_job(1, state=state, attempt=2, cluster="gone", spec=a_spec(engine="fake", retries=1))
    world.books.save(jobs=[job])
    folder = JobFolder(world.folder / "jobs", job.id)
    for attempt, written in enumerate(WRITTEN, 1):
        log, samples = folder.log("algo-1", attempt), folder.samples("algo-1", attempt)
        for path in (log, samples):
            path.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(f"epoch 1/2 loss={attempt}.5\nepoch 2/2 loss={attempt}.25\n")
        os.utime(log, (written, written))
        rows = [[written - 2, 0.0, 10], [written - 1, 1.0, 20], [written, 1.5, 30]]
        samples.write_text("".join(json.dumps(row) + "\n" for row in ({"version": 1, "cpus": 2}, *rows)))
    return folder


async def read(world: World, what: str, query: str = "") -> Any:
    return (await world.ask("GET", f"/v1/jobs/train/{what}{query}")).json()


@pytest.mark.parametrize(
    ("query", "attempt", "is_final"), [("", 2, False), ("?attempt=1", 1, True), ("?attempt=2", 2, False)]
)
async def test_each_run_has_a_history_of_its_own_and_an_earlier_one_is_over(
    tmp_path: Path, query: str, attempt: int, is_final: bool
) -> None:
    async with served(tmp_path) as world:
        begun_again(world)
        usage = await read(world, "usage", query)
        assert (usage["attempt"], usage["attempts"], usage["is_final"]) == (attempt, 2, is_final)
        assert usage["hosts"][0]["at"][-1] == WRITTEN[attempt - 1]
        metrics = await read(world, "metrics", query)
        assert (metrics["attempt"], metrics["attempts"], metrics["is_final"]) == (attempt, 2, is_final)


async def test_a_chart_that_is_asked_for_while_the_hosts_are_lost_gets_what_is_here(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        home = begun_again(world).samples("algo-1", 2)
        here = home.read_bytes()
        job = world.books.job(an_id(1))
        all_of_it = here + b"[1700000201.0, 1.75, 40]\n"
        world.agent.files[job.id, "samples"] = all_of_it
        world.agent.held = {"read"}
        await world.service._agents.open(world.engine, world.engine.handle("gone"), 1)  # type: ignore[arg-type]
        world.service._usage_recorder.on_sample(job, "algo-1", len(all_of_it), {})
        asked = asyncio.create_task(world.ask("GET", "/v1/jobs/train/usage"))
        await world.agent.heard("read")
        (tmp_path / "left").mkdir()
        (tmp_path / "left" / "samples").write_bytes(all_of_it)
        await world.service._usage_recorder.collect(job, "algo-1", len(all_of_it), None, HostSpool(tmp_path / "left"))
        answer = await asked
        assert answer.status == 200
        assert answer.json()["hosts"][0]["at"][:3] == [WRITTEN[1] - 2, WRITTEN[1] - 1, WRITTEN[1]]
        assert home.read_bytes() == all_of_it


async def test_what_nobody_read_while_a_run_lasted_has_the_moment_of_its_last_word(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        begun_again(world, SecondaryStatus.COMPLETED)
        for attempt, written in enumerate(WRITTEN, 1):
            (series,) = (await read(world, "metrics", f"?attempt={attempt}"))["series"]
            assert series["values"] == [attempt + 0.5, attempt + 0.25]
            assert series["at"] == [written, written]


async def test_a_run_does_not_take_away_what_the_one_before_it_measured(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        folder = begun_again(world, SecondaryStatus.COMPLETED)
        first = await read(world, "metrics", "?attempt=1")
        await read(world, "metrics", "?attempt=2")
        folder.log("algo-1").unlink()
        assert await read(world, "metrics", "?attempt=1") == first


async def test_after_a_moment_come_only_later_points_and_the_series_is_named_all_the_same(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        begun_again(world)
        usage = await read(world, "usage", f"?since={WRITTEN[1] - 1}")
        assert usage["hosts"][0]["cpu_percent"] == [50.0]
        job = world.books.jobs[an_id(1)]
        world.books.save(jobs=[replace(job, state=SecondaryStatus.COMPLETED)])
        (series,) = (await read(world, "metrics", f"?since={WRITTEN[1]}"))["series"]
        assert (series["name"], series["at"], series["count"]) == ("loss", [], 2)
        (series,) = (await read(world, "metrics", f"?since={WRITTEN[1] - 0.5}"))["series"]
        assert series["values"] == [2.5, 2.25]


@pytest.mark.parametrize("query", ["?since=yesterday", "?attempt=first"])
@pytest.mark.parametrize("what", ["metrics", "usage"])
async def test_what_is_no_number_is_refused_with_the_rule(tmp_path: Path, what: str, query: str) -> None:
    async with served(tmp_path) as world:
        begun_again(world)
        answer = await world.ask("GET", f"/v1/jobs/train/{what}{query}")
        assert answer.status == 400
        assert answer.json()["rule"] == "It must be 0 or more."


async def test_what_a_job_used_of_a_gpu_becomes_advice_with_prices_and_steps(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        groups = (InstanceGroup(instance_type="ml.p3.2xlarge"),)
        job = a_job(1, cluster="gone", spec=a_spec(engine="fake", instance_groups=groups), state=COMPLETED)
        world.books.save(jobs=[replace(job, pace=StepPace(steps=100, seconds=1.193))])
        samples = JobFolder(world.folder / "jobs", job.id).samples("algo-1", 1)
        samples.parent.mkdir(parents=True)
        # Recorded by hand: no GPU was at hand. 8 vCPUs are full, and the GPU does something for 5 % of the time.
        rows = [[1_000 + at, 7.9 * at, 10, None, None, None, None, None, [[5.0, 1]]] for at in range(120)]
        head = [{"version": 1, "cpus": 8}, {"gpus": [{"id": "0", "name": "V100", "memory": 16}]}]
        samples.write_text("".join(json.dumps(line) + "\n" for line in [*head, *rows]))
        found = (await world.ask("GET", "/v1/jobs/train/advice")).json()
        (one,) = found["advice"]
        assert (found["is_final"], one["rule"], one["host"]) == (True, "CPUBottleneck", "algo-1")
        assert "for 100 % of the time, in 69 samples after the first 50 s" in one["sentence"]
        assert "from 1.19 s to 59.6 ms, and with " in one["prediction"]
        assert one["numbers"]["waits"] == 0.95
