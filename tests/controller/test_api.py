from __future__ import annotations

import asyncio
import http.client
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from msgspec.structs import replace
from records import a_cluster, a_job, a_spec, an_id
from serving import Unix, World, served

from jupyter_smx.controller.api import MAX_BODY
from jupyter_smx.controller.identity import Door
from jupyter_smx.controller.store import Store
from jupyter_smx.model.cluster import ClusterState
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.model.summary import summary_of
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with served(tmp_path) as world:
        yield world


def finished(number: int = 1, **fields: Any) -> Any:
    return a_job(number, state=SecondaryStatus.COMPLETED, ended_at=2.0, spec=a_spec(engine="fake"), **fields)


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
    cell = world.folder / "jobs" / an_id(1) / "cell.py"
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


async def test_a_body_that_no_frame_could_carry_is_refused(world: World) -> None:
    with pytest.raises((AssertionError, OSError, http.client.HTTPException)):
        assert (await world.ask("POST", "/v1/jobs", b"x" * (MAX_BODY + 1))).status == 201
    assert (await world.ask("GET", "/v1/")).status == 200


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
    waiting = asyncio.create_task(world.ask("GET", f"/v1/jobs/{an_id(1)}?wait=20&until=final"))
    await eventually(lambda: world.service.server.connections == 1)
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


class TestLogs:
    @pytest.fixture
    def log(self, world: World) -> Path:
        world.books.save(jobs=[a_job(spec=a_spec(engine="fake"), cluster="x")])
        path = world.folder / "jobs" / an_id(1) / "logs" / "algo-1.log"
        path.parent.mkdir(parents=True)
        return path

    async def test_are_read_by_a_cursor(self, world: World, log: Path) -> None:
        log.write_bytes(b"0123456789")  # noqa: ASYNC240
        answer = await world.ask("GET", "/v1/jobs/train/logs?offset=3&limit=4")
        assert answer.content == b"3456"
        assert {name: answer.headers[f"X-Smx-{name}"] for name in ("Offset", "Total", "Final", "Host")} == {
            "Offset": "7",
            "Total": "10",
            "Final": "0",
            "Host": "algo-1",
        }
        beyond = await world.ask("GET", "/v1/jobs/train/logs?offset=10")
        assert (beyond.content, beyond.headers["X-Smx-Offset"]) == (b"", "10")

    async def test_that_have_nothing_yet_wait_for_the_first_byte(self, world: World, log: Path) -> None:
        waiting = asyncio.create_task(world.ask("GET", "/v1/jobs/train/logs?wait=20"))
        await eventually(lambda: world.service.server.connections == 1)
        log.write_bytes(b"x")  # noqa: ASYNC240
        world.service._log_bells.ring(an_id(1))
        assert (await waiting).content == b"x"

    async def test_of_a_finished_job_end_at_the_last_byte(self, world: World, log: Path) -> None:
        log.write_bytes(b"abc")  # noqa: ASYNC240
        waiting = asyncio.create_task(world.ask("GET", "/v1/jobs/train/logs?offset=3&wait=20"))
        await eventually(lambda: world.service.server.connections == 1)
        world.books.save(jobs=[finished()])
        assert (await waiting).headers["X-Smx-Final"] == "1"
        assert (await world.ask("GET", "/v1/jobs/train/logs?offset=0&limit=2")).headers["X-Smx-Final"] == "0"

    @pytest.mark.usefixtures("log")
    async def test_of_a_host_that_is_none(self, world: World) -> None:
        answer = await world.ask("GET", "/v1/jobs/train/logs?host=../../x")
        assert (answer.status, answer.json()["field"]) == (404, "host")

    @pytest.mark.usefixtures("log")
    @pytest.mark.parametrize("offset", ["-1", "nan", "x"])
    async def test_from_an_offset_that_is_no_number(self, world: World, offset: str) -> None:
        answer = await world.ask("GET", f"/v1/jobs/train/logs?offset={offset}")
        assert (answer.status, answer.json()["field"]) == (400, "offset")


class TestArtifacts:
    @pytest.fixture(autouse=True)
    def _files(self, world: World) -> None:
        world.books.save(jobs=[finished()])
        folder = world.folder / "jobs" / an_id(1)
        (folder / "artifacts" / "outputs" / "a b").mkdir(parents=True)
        (folder / "artifacts" / "model.tar.gz").write_bytes(b"m" * 1_000_000)
        (folder / "artifacts" / "outputs" / "a b" / "ü").write_bytes(b"u")
        (folder / "artifacts" / "link").symlink_to("/etc/passwd")
        (folder / "result.pkl").write_bytes(b"r")

    @pytest.mark.parametrize(
        ("name", "size"), [("model.tar.gz", 1_000_000), ("outputs/a%20b/%C3%BC", 1), ("result.pkl", 1)]
    )
    async def test_come_whole(self, world: World, name: str, size: int) -> None:
        answer = await world.ask("GET", f"/v1/jobs/train/artifacts/{name}")
        assert (answer.status, len(answer.content)) == (200, size)

    @pytest.mark.parametrize(
        "name", ["../cell.py", "..%2f..%2f..%2fsmx.sqlite", "%2fetc%2fpasswd", "link", "no", "outputs"]
    )
    async def test_lead_nowhere_else(self, world: World, name: str) -> None:
        answer = await world.ask("GET", f"/v1/jobs/train/artifacts/{name}")
        assert answer.status == 404
        assert answer.json()["code"] == "ResourceNotFound"


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
    pool = replace(pool, key=replace(pool.key, engine="fake"), created_at=world.books.clock())
    world.books.save(clusters=[pool])
    (shown,) = (await world.ask("GET", "/v1/pools")).json()["pools"]
    assert shown["state"] == "Available"
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
    seen = (await world.ask("GET", "/v1/changes?since=0&wait=20")).json()
    assert [event["job"]["id"] for event in seen["events"]] == [an_id(1)]
    waiting = asyncio.create_task(world.ask("GET", f"/v1/changes?since={seen['seq']}&wait=20"))
    await eventually(lambda: world.service.server.connections == 1)
    world.books.save(jobs=[finished(2)])
    later = (await waiting).json()
    assert [event["seq"] for event in later["events"]] == [seen["seq"] + 1]
    assert "source" not in later["events"][0]["job"]
    assert (await world.ask("GET", "/v1/changes?since=99&wait=20")).json()["reset"] is True
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
    running = asyncio.create_task(world.service.run(Door(world.socket), world.stop))
    await eventually(world.socket.exists)
    newer = Store.open(tmp_path / "smx.sqlite")
    answer = await world.submit()
    assert (answer.status, answer.json()["code"]) == (503, "Fenced")
    await asyncio.wait_for(running, 10)
    assert newer.live_jobs() == []
    newer.close()


STRANGER = """
import http.client, os, socket, sys
os.setgid(65534); os.setuid(65534)
connection = http.client.HTTPConnection("localhost")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(sys.argv[1])
connection.request(sys.argv[2], sys.argv[3])
answer = connection.getresponse()
print(answer.status, answer.read().decode())
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize(
    ("method", "target"), [("GET", "/v1/jobs"), ("POST", "/v1/jobs"), ("DELETE", "/v1/jobs/train"), ("GET", "/x")]
)
async def test_another_user_is_refused_even_where_the_folder_is_open(world: World, method: str, target: str) -> None:
    # The modes would already keep a stranger out; here the user opened every door by mistake.
    with tempfile.TemporaryDirectory(dir="/tmp") as everybodys:
        os.chmod(everybodys, 0o755)  # noqa: PTH101, S103
        door = Path(everybodys) / "s"
        door.hardlink_to(world.socket)
        door.chmod(0o666)
        run = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", STRANGER, door, method, target],
            capture_output=True,
            text=True,
            cwd="/",
            check=False,
        )
    assert run.stdout.startswith("403"), run.stderr
    assert "user 65534" in run.stdout


async def test_the_write_ahead_log_is_emptied_when_nobody_writes(world: World) -> None:
    world.books.save(jobs=[finished(n) for n in range(50)])
    log = world.folder / "smx.sqlite-wal"
    assert log.stat().st_size > 0
    await eventually(lambda: log.stat().st_size == 0)


async def test_one_bad_look_does_not_end_the_controller(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def stumble() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(world.service.reconciler, "tick", stumble)
    await eventually(lambda: caplog.text.count("ZeroDivisionError") > 1)
    assert (await world.ask("GET", "/v1/")).status == 200


async def test_a_summary_has_no_path_and_no_source(world: World) -> None:
    await world.submit(source="password = 'x'", environment={"TOKEN": "secret"}, notebook="/home/me/n.ipynb")
    text = (await world.ask("GET", "/v1/jobs")).content + (await world.ask("GET", "/v1/changes?since=0")).content
    for word in (b"password", b"secret", b"/home/me", b"/py"):
        assert word not in text
    assert summary_of(world.books.jobs[an_id(1)]).kind == "train"


def test_a_door_that_another_controller_replaced_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    old, new = Door(path), Door(path)
    old.open()
    new.open()
    old.hide()
    old.close()
    assert path.exists()
    new.close()
    assert list(tmp_path.iterdir()) == []


def test_a_door_can_be_hidden_and_shown(tmp_path: Path) -> None:
    door = Door(tmp_path / "s")
    assert not door.path.exists()
    assert [oct(entry.stat().st_mode & 0o777) for entry in tmp_path.iterdir()] == ["0o600"]
    connects: Callable[[], int] = lambda: socket.socket(socket.AF_UNIX).connect_ex(str(door.path))  # noqa: E731
    assert connects() != 0
    door.open()
    assert connects() == 0
    door.hide()
    assert connects() != 0
    door.open()
    assert connects() == 0
    door.close()
    door.close()
    assert list(tmp_path.iterdir()) == []
