from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from records import a_cluster, a_job, a_spec, an_id, finished
from serving import Unix, World

from jupyter_smx.controller.api import facade
from jupyter_smx.controller.db.store import Store
from jupyter_smx.controller.singleton import ListenSocket
from jupyter_smx.engines.machine.other_controllers import ControllerProcess
from jupyter_smx.engines.machine.resources import MachineResources
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.records.cluster import ClusterState
from jupyter_smx.model.records.summary import summary_of
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.policy.accounting import price
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


async def test_it_says_who_it_is(world: World) -> None:
    said = (await world.ask("GET", "/v1/")).json()
    assert said["protocol"] == 1
    assert said["pid"] == os.getpid()
    assert said["data_dir"] == str(world.folder)
    assert said["epoch"] == 1
    assert said["seq"] == 0


async def test_a_job_is_made_once_however_often_it_is_sent(world: World) -> None:
    first, again = await world.submit(), await world.submit()
    assert (first.status, again.status) == (201, 200)
    assert first.json()["id"] == again.json()["id"] == an_id(1)
    assert first.json()["status"] == "InProgress"
    assert first.json()["secondary_status"] == "Starting"
    other = await world.submit(source="y = 2")
    assert other.status == 409
    assert other.json()["code"] == "ResourceInUse"


async def test_the_cell_lies_beside_the_outputs(world: World) -> None:
    await world.submit()
    await world.submit(2, after=[an_id(1)])
    await world.ask("POST", f"/v1/jobs/{an_id(2)}/stop")
    cell = world.folder / "jobs" / an_id(2) / "cell.py"
    await eventually(cell.exists)
    assert cell.read_text() == "x = 1"


@pytest.mark.parametrize(
    ("change", "field", "says"),
    [
        ({"id": "zz"}, "id", "not a job id"),
        ({"spec": {"kind": "train", "source": "", "colour": "red"}}, "spec", "colour"),
        ({"spec": {"kind": "dance", "source": ""}}, "spec.kind", "dance"),
        ({"spec": {"kind": "train", "source": "", "keep_alive": "long"}}, "spec.keep_alive", "int"),
        ({"spec": {"kind": "train", "source": "", "engine": "nowhere"}}, "engine", "nowhere"),
    ],
)
async def test_a_wrong_wish_says_at_which_field(world: World, change: dict[str, Any], field: str, says: str) -> None:
    answer = await world.ask("POST", "/v1/jobs", world.wish() | change)
    assert answer.status == 400
    assert answer.json()["code"] == "ValidationException"
    assert answer.json()["field"] == field
    assert says in answer.json()["message"]
    assert world.books.jobs == {}


async def test_what_is_not_json_is_said(world: World) -> None:
    answer = await world.ask("POST", "/v1/jobs", b"{")
    assert answer.status == 400
    assert "cannot be read" in answer.json()["message"]


async def test_a_plan_makes_nothing(world: World) -> None:
    answer = await world.ask("POST", "/v1/plan", {"spec": world.wish()["spec"]})
    assert answer.json()["engine_request"]["cluster"]
    assert (await world.ask("GET", "/v1/jobs")).json() == {"jobs": []}


async def test_jobs_are_found_by_every_name(world: World) -> None:
    world.books.save(jobs=[finished()])
    for ref in (an_id(1), finished().name, "train", an_id(1)[:5]):
        assert (await world.ask("GET", f"/v1/jobs/{ref}")).json()["id"] == an_id(1)
    missing = await world.ask("GET", "/v1/jobs/tarin")
    assert missing.status == 404
    assert "train" in missing.json()["cure"]


async def test_a_page_is_cut_after_its_status_was_looked_at(world: World) -> None:
    # SageMaker's ListTrainingJobs cuts first: its StatusEquals leaves nothing of a page of newer jobs.
    failed = [replace(finished(number), state=SecondaryStatus.FAILED) for number in range(3)]
    world.books.save(jobs=[*failed, *(finished(number) for number in range(3, 9))])
    pages = []
    for before in ("", an_id(2), an_id(1), an_id(0)):
        page = (await world.ask("GET", f"/v1/jobs?limit=1&status=Failed&before={before}")).json()["jobs"]
        pages.append([row["id"] for row in page])
    assert pages == [[an_id(2)], [an_id(1)], [an_id(0)], []]


async def test_pages_of_jobs(world: World) -> None:
    world.books.save(jobs=[finished(n) for n in range(5)])
    world.books.save(jobs=[a_job(9, spec=a_spec(engine="fake"), cluster="x")])
    page = (await world.ask("GET", "/v1/jobs?limit=3&status=Completed")).json()["jobs"]
    assert [row["id"] for row in page] == [an_id(n) for n in (4, 3, 2)]
    rest = (await world.ask("GET", f"/v1/jobs?before={an_id(2)}")).json()["jobs"]
    assert [row["id"] for row in rest] == [an_id(1), an_id(0)]
    wrong = await world.ask("GET", "/v1/jobs?status=Complete")
    assert wrong.status == 400
    assert "Completed" in wrong.json()["cure"]


async def test_waiting_ends_with_the_verdict(world: World) -> None:
    await world.submit()
    waiting = asyncio.create_task(world.ask("GET", f"/v1/jobs/{an_id(1)}?wait=600&until=final"))
    await world.somebody_waits()
    job = world.books.jobs[an_id(1)]
    world.books.save(jobs=[replace(job, state=SecondaryStatus.FAILED, failure_reason="AlgorithmError: so")])
    answer = (await waiting).json()
    assert answer["status"] == "Failed"
    assert answer["failure_reason"] == "AlgorithmError: so"


async def test_waiting_for_the_first_line_and_for_nonsense(world: World) -> None:
    world.books.save(jobs=[a_job(spec=a_spec(engine="fake"), cluster="x", timings={"first_line": 1.0})])
    assert (await world.ask("GET", f"/v1/jobs/{an_id(1)}?wait=20&until=first_line")).status == 200
    assert (await world.ask("GET", f"/v1/jobs/{an_id(1)}?wait=20&until=noon")).json()["field"] == "until"


async def test_waiting_for_nothing_gives_the_job_as_it_is(world: World) -> None:
    await world.submit()
    assert (await world.ask("GET", f"/v1/jobs/{an_id(1)}?wait=0.01")).json()["status"] == "InProgress"


@pytest.mark.parametrize(
    "target", ["/v1/changes?since=0&wait=60", "/v1/jobs/train?wait=60", "/v1/jobs/train/logs?wait=60"]
)
async def test_a_long_poll_ends_with_whoever_asked(world: World, target: str) -> None:
    world.books.save(jobs=[a_job(spec=a_spec(engine="fake"), cluster="x")])
    since = world.service.store.last_seq()
    connection = Unix(world.socket)
    connection.request("GET", target.replace("since=0", f"since={since}"))
    idle = len(asyncio.all_tasks())
    await eventually(lambda: len(asyncio.all_tasks()) > idle, "somebody waits")
    connection.close()
    await eventually(lambda: world.service.server.connections == 0)
    await eventually(lambda: len(asyncio.all_tasks()) <= idle, "nobody waits")


async def test_a_finished_job_is_forgotten_with_its_folder(world: World) -> None:
    world.books.save(jobs=[finished(1), a_job(2, spec=a_spec(engine="fake"), cluster="x")])
    folder = world.folder / "jobs" / an_id(1)
    folder.mkdir(parents=True)
    answer = await world.ask("DELETE", f"/v1/jobs/{an_id(1)}")
    assert (answer.status, answer.content) == (204, b"")
    assert not folder.exists()
    assert (await world.ask("GET", f"/v1/jobs/{an_id(1)}")).status == 404
    assert (await world.ask("DELETE", f"/v1/jobs/{an_id(2)}")).status == 409


async def test_pools_are_shown_extended_and_released(world: World) -> None:
    pool = a_cluster(
        state=ClusterState.AVAILABLE, handle=world.engine.handle(a_cluster().id), created_at=1e9, expires_at=4e9
    )
    now = world.books.clock()
    pool = replace(pool, key=replace(pool.key, engine="fake"), created_at=now, available_since=now - 9)
    world.books.save(clusters=[pool])
    (shown,) = (await world.ask("GET", "/v1/pools")).json()["pools"]
    assert (shown["state"], shown["idle_since"]) == ("Available", pool.available_since)
    assert shown["price_per_hour"] == price.rate(pool.key.instance_groups, world.books.limits.catalogue)
    longer = await world.ask("PATCH", f"/v1/pools/{shown['name']}", {"keep_alive": 60})
    assert longer.status == 200
    assert 0 < longer.json()["expires_at"] - world.books.clock() <= 60
    assert (await world.ask("PATCH", f"/v1/pools/{pool.id}", {"keep_alive": 10**6})).json()[
        "code"
    ] == "ResourceLimitExceeded"
    gone = await world.ask("DELETE", f"/v1/pools/{pool.id}")
    assert (gone.status, gone.json()["state"]) == (202, "Releasing")
    await eventually(lambda: world.engine.released == [pool.id])
    assert (await world.ask("DELETE", f"/v1/pools/{pool.id}")).status == 404


async def test_changes_wait_for_the_next_one(world: World) -> None:
    world.books.save(jobs=[finished(1)])
    seen = (await world.ask("GET", "/v1/changes?since=0&wait=600")).json()
    assert [event["job"]["id"] for event in seen["events"]] == [an_id(1)]
    waiting = asyncio.create_task(world.ask("GET", f"/v1/changes?since={seen['seq']}&wait=600"))
    await world.somebody_waits()
    world.books.save(jobs=[finished(2)])
    later = (await waiting).json()
    assert [event["seq"] for event in later["events"]] == [seen["seq"] + 1]
    assert "source" not in later["events"][0]["job"]
    assert (await world.ask("GET", "/v1/changes?since=99&wait=600")).json()["reset"] is True
    assert (await world.ask("GET", f"/v1/changes?since={later['seq']}")).json()["events"] == []


async def test_a_page_that_was_led_here_under_another_name_is_refused(world: World) -> None:
    answer = await world.ask("GET", "/v1/jobs", headers={"Host": "evil.example"})
    assert (answer.status, answer.json()["code"]) == (403, "AccessDenied")


@pytest.mark.parametrize(
    ("method", "target", "status"), [("GET", "/v2/x", 404), ("PUT", "/v1/jobs", 405), ("GET", "/", 404)]
)
async def test_every_refusal_has_the_one_form(world: World, method: str, target: str, status: int) -> None:
    answer = await world.ask(method, target, b"" if method == "PUT" else None)
    assert answer.status == status
    assert {"code", "message", "cure"} <= answer.json().keys()


async def test_a_mistake_of_ours_is_logged_and_its_insides_stay_here(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def wrong() -> None:
        raise KeyError("secret")

    monkeypatch.setattr(world.service.store, "last_seq", wrong)
    answer = await world.ask("GET", "/v1/")
    assert answer.status == 500
    assert b"secret" not in answer.content
    assert b"Traceback" not in answer.content
    assert "KeyError: 'secret'" in caplog.text


async def test_a_controller_that_was_replaced_says_so_and_ends(tmp_path: Path) -> None:
    world = World(tmp_path)
    running = asyncio.create_task(world.service.run(ListenSocket(world.socket), world.stop))
    await eventually(world.socket.exists)
    newer = Store.open(tmp_path / "smx.sqlite")
    answer = await world.submit()
    assert (answer.status, answer.json()["code"]) == (503, "Fenced")
    await asyncio.wait_for(running, 10)
    assert newer.live_jobs() == []
    newer.close()


async def test_one_bad_look_does_not_end_the_controller(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def stumble() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(world.service.reconciler, "tick", stumble)
    await eventually(lambda: caplog.text.count("ZeroDivisionError") > 1)
    assert (await world.ask("GET", "/v1/")).status == 200


@pytest.mark.parametrize("trouble", [PermissionError("no way in"), UnavailableError("no way in")])
async def test_an_engine_in_trouble_is_part_of_what_the_doctor_says(
    world: World, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    async def doctor(_timeout: float) -> None:
        raise trouble

    monkeypatch.setattr(world.engine, "doctor", doctor, raising=False)
    page = await world.ask("GET", "/v1/doctor")
    assert (page.status, page.json()["engines"]) == (200, {"fake": {"trouble": "no way in"}})


@pytest.mark.parametrize(("users", "advised"), [(["ann", "bob"], True), ([], False)])
async def test_the_doctor_names_other_controllers_of_this_machine(
    world: World, monkeypatch: pytest.MonkeyPatch, users: list[str], advised: bool
) -> None:
    async def doctor(_timeout: float) -> dict[str, object]:
        return {}

    monkeypatch.setattr(world.engine, "doctor", doctor, raising=False)
    others = [ControllerProcess(pid, user) for pid, user in enumerate(users)]
    monkeypatch.setattr(facade, "find_other_controllers", lambda _own: others)
    whole = MachineResources(cpus=3, memory=6 << 30, gpus=0)
    monkeypatch.setattr(facade.resources, "whole_machine", lambda: whole)
    page = await world.ask("GET", "/v1/doctor")
    assert (page.status, "shared_machine" in page.json()) == (200, advised)
    assert page.json().get("shared_machine", "memory_gib = 2").endswith("memory_gib = 2")


async def test_what_nobody_has_a_record_of_is_ended_and_what_lives_is_spared(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    born = a_cluster(2, state=ClusterState.PROVISIONING)

    async def sweep(known: Callable[[], list[str]]) -> list[str]:
        asked.append(known())
        await asyncio.sleep(0)
        world.books.save(clusters=[replace(born, key=replace(born.key, engine="fake"))])
        asked.append(known())
        return ["an orphan"]

    monkeypatch.setattr(world.engine, "sweep", sweep, raising=False)
    pool = a_cluster(state=ClusterState.AVAILABLE, handle=world.engine.handle(a_cluster().id), expires_at=4e9)
    world.books.save(clusters=[replace(pool, key=replace(pool.key, engine="fake"))])
    answer = await world.ask("POST", "/v1/doctor")
    assert (answer.status, answer.json()) == (200, {"fake": ["an orphan"]})
    assert asked == [[pool.id], [pool.id, born.id]]


async def test_an_engine_that_cannot_sweep_says_why(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def sweep(_known: object) -> None:
        raise UnavailableError("no way in")

    monkeypatch.setattr(world.engine, "sweep", sweep, raising=False)
    assert (await world.ask("POST", "/v1/doctor")).json() == {"fake": ["Stopping failed: no way in"]}


async def test_a_summary_has_no_path_and_no_source(world: World) -> None:
    await world.submit(source="password = 'x'", environment={"TOKEN": "secret"}, notebook="/home/me/n.ipynb")
    text = (await world.ask("GET", "/v1/jobs")).content + (await world.ask("GET", "/v1/changes?since=0")).content
    for word in (b"password", b"secret", b"/home/me", b"/py"):
        assert word not in text
    assert summary_of(world.books.jobs[an_id(1)]).kind == "train"
