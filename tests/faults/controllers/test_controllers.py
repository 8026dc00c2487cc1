"""Controllers that die, freeze, come twice, or are not there; servers and kernels that die; jobs go on."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from jupyter_client.manager import start_new_kernel
from world import PATIENCE, World, has_lost_its_pool, kill, read_json, run_python, spec_of

from jupyter_smx import controller_launch
from jupyter_smx.controller.db.store import Store
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.policy.lifecycle import transitions
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.heavy("faults")

COMPLETED = SecondaryStatus.COMPLETED
_SUBMIT = """
import sys, msgspec
from jupyter_smx.kernel.client import autostart
from jupyter_smx.model.spec.job_spec import JobSpec
client = autostart.client()
print(client.submit(sys.argv[1], msgspec.json.decode(sys.argv[2], type=JobSpec)).id)
client.close()
"""


def test_bug_11_kernels_that_start_controllers_at_once_share_one_and_its_limits(world: World) -> None:
    words = [world.source() for _ in range(4)]
    specs = [msgspec.structs.replace(spec_of(world, keep_alive=60), source=source) for source, _ in words]
    with ThreadPoolExecutor(4) as pool:
        done = pool.map(
            lambda spec: run_python(_SUBMIT, secrets.token_hex(16), msgspec.json.encode(spec).decode()), specs
        )
        ids = [each.stdout.strip() for each in done]
    assert [world.client.wait(job, PATIENCE).state for job in ids] == [COMPLETED] * 4
    assert [world.runs(word) for _, word in words] == [1] * 4
    assert len(world.controllers()) == 1
    assert world.clusters_ever() <= 3, "max_hosts of this world"


def test_bug_11_the_same_job_from_two_kernels_at_once_runs_once(world: World) -> None:
    source, word = world.source()
    spec = msgspec.json.encode(msgspec.structs.replace(spec_of(world), source=source)).decode()
    same = secrets.token_hex(16)
    with ThreadPoolExecutor(2) as pool:
        done = [*pool.map(lambda _: run_python(_SUBMIT, same, spec), range(2))]
    assert [each.stdout.strip() for each in done] == [same, same]
    assert world.client.wait(same, PATIENCE).state is COMPLETED
    assert world.runs(word) == 1
    assert len(world.client.jobs()) == 1


def test_a_controller_started_beside_a_living_one_leaves_and_changes_nothing(world: World) -> None:
    gate = world.gate()
    job = world.submit(gate=gate)
    job.until_it_says("begun")
    first = world.controller()
    second = controller_launch.start_controller()
    assert second.wait(PATIENCE) == 0
    gate.touch()
    assert job.wait().state is COMPLETED
    assert (world.controller(), job.runs()) == (first, 1)


def test_bug_10_a_pool_ends_at_its_deadline_with_no_controller_alive_and_the_next_one_says_so(world: World) -> None:
    job = world.run()
    # An agent waits longer after a job that was kept for less than a minute; what it is told later it takes exactly.
    world.client.set_keep_alive(world.cluster(), 2)
    world.client.close_thread_connections()
    kill(world.controller())
    assert world.agents(), "the pool is still warm"
    eventually_blocking(lambda: not world.agents(), "the agent ended by itself", within=PATIENCE)
    assert not world.controllers()
    told = job.until(has_lost_its_pool, "the record says so").warm_pool
    assert told is not None
    assert told.reason == "The keep-alive expired."
    assert told.resource_retained_billable_seconds >= 2
    assert world.pools() == ()


def test_a_job_ends_while_no_controller_lives_and_the_next_one_tells_its_story(world: World) -> None:
    gate = world.gate()
    job = world.submit(
        "MODEL = os.environ['SM_MODEL_DIR']\nopen(MODEL + '/m', 'w').write('m')", gate=gate, keep_alive=60
    )
    job.until_it_says("begun")
    cluster = world.cluster()
    kill(world.controller())
    gate.touch()
    record = world.data / "clusters" / cluster / "algo-1" / "spool" / job.id / "end.json"
    eventually_blocking(record.exists, "the agent wrote the end down", within=PATIENCE)
    exited = read_json(record)["at"]["exited"]
    ended = job.wait()
    assert (ended.state, job.runs(), job.log()) == (COMPLETED, 1, "begun\ndone\n")
    assert [artifact.name for artifact in ended.artifacts] == ["model.tar.gz"]
    assert ended.timings["exited"] == exited
    (pool,) = world.pools()
    assert pool.expires_at is not None
    assert pool.expires_at <= exited + 60 + 1, "kept from its end, not from when we looked"


def test_a_controller_that_comes_late_learns_that_the_code_began(world: World) -> None:
    gate = world.gate()
    job = world.submit(gate=gate)
    kill(world.controller())
    job.runs()
    seen = job.until(lambda record: record.state is SecondaryStatus.TRAINING, "the record says Training")
    assert seen.timings["first_line"] >= seen.timings["received"]
    gate.touch()
    assert job.wait().state is COMPLETED
    assert job.runs() == 1


def test_a_frozen_controller_goes_on_where_it_was(world: World) -> None:
    gate = world.gate()
    job = world.submit(gate=gate)
    job.until_it_says("begun")
    record = world.data / "clusters" / world.cluster() / "algo-1" / "spool" / job.id / "end.json"
    frozen = world.controller()
    os.kill(frozen, signal.SIGSTOP)
    gate.touch()
    eventually_blocking(record.exists, "the job ended", within=PATIENCE)
    os.kill(frozen, signal.SIGCONT)
    assert job.wait().state is COMPLETED
    assert (world.controller(), job.runs(), job.log()) == (frozen, 1, "begun\ndone\n")


def test_bug_03_a_frozen_controller_that_lost_its_place_writes_nothing_any_more(world: World) -> None:
    gate = world.gate()
    job = world.submit(gate=gate)
    job.until_it_says("begun")
    frozen = world.controller()
    os.kill(frozen, signal.SIGSTOP)
    world.client.close_thread_connections()
    # What a careless clean-up does: the lock's name is gone, so another process gets a lock of its own.
    (world.data / "controller.lock").unlink()
    Path(controller_launch.socket_address()).unlink()
    assert world.controller() != frozen
    os.kill(frozen, signal.SIGCONT)
    eventually_blocking(lambda: frozen not in world.controllers(), "the old one left", within=PATIENCE)
    gate.touch()
    assert job.wait().state is COMPLETED
    assert (job.runs(), job.log()) == (1, "begun\ndone\n")
    assert [transition.status.value for transition in job.job().transitions][-1] == "Completed"


def test_an_idle_controller_leaves_only_when_jobs_and_pools_are_gone(
    world: World, configure: Callable[[str], None]
) -> None:
    configure("c.ControllerApp.idle_exit = 0.2")
    world.run(keep_alive=1)
    world.client.close_thread_connections()
    (pid,) = world.controllers()
    eventually_blocking(lambda: not world.controllers(), "the controller left", within=PATIENCE)
    assert not world.agents()
    log = controller_launch.log_path().read_text()
    assert "controller was idle" in log
    assert world.controller() != pid


def test_a_controller_killed_between_the_end_of_the_hosts_and_that_of_the_job_leaves_no_job_for_ever(
    world: World,
) -> None:
    job = world.submit(gate=world.gate())
    job.until_it_says("begun")
    cluster = world.cluster()
    agent = world.agent()
    kill(world.controller())
    kill(agent)
    # What the records are like between those two writes.
    store = Store.open(world.data / "smx.sqlite")
    (record,) = store.live_clusters()
    store.write(clusters=[transitions.mark_terminated(record, "The host was lost.", time.time())])
    store.close()
    ended = job.wait()
    assert ended.state is SecondaryStatus.FAILED
    assert ended.failure_reason == "InternalServerError: Host algo-1 was lost while the job ran."
    assert job.runs() == 1
    assert cluster not in [pool.id for pool in world.pools()]


# Jupyter


class Server:
    """A real Jupyter server with the extension, in the world's data folder."""

    def __init__(self, world: World, number: int) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.token = secrets.token_hex(16)
        folder = world.folder / f"server-{number}"
        folder.mkdir()
        places = {f"JUPYTER_{kind}_DIR": str(folder / kind.lower()) for kind in ("DATA", "RUNTIME")}
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "jupyter", "server", "--no-browser", "--allow-root"),
                    *("--ServerApp.ip=127.0.0.1", f"--ServerApp.port={self.port}", "--ServerApp.port_retries=0"),
                    f"--ServerApp.root_dir={folder}",
                ],
                env={**os.environ, **places, "JUPYTER_TOKEN": self.token},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def ask(self, path: str, body: object = None) -> Any:
        """Send a GET, or a POST of JSON, as a browser's page does."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"token {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, headers)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310 - ours
            return json.load(answer)

    def answers(self) -> bool:
        """Say whether it serves."""
        try:
            self.ask("/api/status")
        except (urllib.error.URLError, ConnectionError):
            return False
        return True


@pytest.fixture
def start_server(world: World) -> Iterator[Callable[[], Server]]:
    started: list[Server] = []

    def start() -> Server:
        started.append(Server(world, len(started)))
        return started[-1]

    yield start
    for server in started:
        server.process.kill()
        server.process.wait()


def test_bug_11_two_servers_of_one_user_see_the_same_pools_and_run_no_job_twice(
    world: World, start_server: Callable[[], Server]
) -> None:
    first, second = start_server(), start_server()
    for server in (first, second):
        eventually_blocking(server.answers, "the server serves", within=PATIENCE)
    source, word = world.source()
    job = secrets.token_hex(16)
    spec = {"kind": "train", "source": source, "base_name": "both", "keep_alive": 60}
    body = {"id": job, "spec": spec}
    with ThreadPoolExecutor(2) as pool:
        answers = [*pool.map(lambda server: server.ask("/jupyter-smx/jobs", body), (first, second))]
    assert [answer["id"] for answer in answers] == [job, job]
    assert first.ask(f"/jupyter-smx/jobs/{job}?wait=30&until=final")["state"] == "Completed"
    assert world.runs(word) == 1
    assert len(world.controllers()) == 1
    pools = [server.ask("/jupyter-smx/pools")["pools"] for server in (first, second)]
    assert [pool["id"] for pool in pools[0]] == [pool["id"] for pool in pools[1]]
    assert len(pools[0]) == 1
    first.process.kill()
    first.process.wait()
    again, word = world.source()
    job = secrets.token_hex(16)
    second.ask("/jupyter-smx/jobs", {"id": job, "spec": spec | {"source": again}})
    told = second.ask(f"/jupyter-smx/jobs/{job}?wait=30&until=final")
    assert (told["state"], told["why"]["start"], world.runs(word)) == ("Completed", "warm", 1)


def test_a_job_outlives_its_kernel_its_server_and_its_controller(
    world: World, start_server: Callable[[], Server]
) -> None:
    server = start_server()
    gate = world.gate()
    source, word = world.source("open(os.environ['SM_MODEL_DIR'] + '/m', 'w').write('m')", gate=gate)
    manager, kernel = start_new_kernel(kernel_name="python3", env=dict(os.environ))
    try:
        kernel.execute_interactive("%load_ext jupyter_smx", timeout=PATIENCE)
        kernel.execute(f"%%train --name survivor --keep-alive 5m\n{source}", allow_stdin=True)
        eventually_blocking(lambda: world.runs(word), "the code began", within=PATIENCE)
        eventually_blocking(server.answers, "the server serves", within=PATIENCE)
        (listed,) = server.ask("/jupyter-smx/jobs")["jobs"]
        assert listed["status"] == "InProgress"
    finally:
        kernel.stop_channels()
        server.process.kill()
        manager.shutdown_kernel(now=True)
    for pid in world.controllers():
        kill(pid)
    gate.touch()
    cluster = next((world.data / "clusters").iterdir()).name
    record = world.data / "clusters" / cluster / "algo-1" / "spool" / listed["id"] / "end.json"
    eventually_blocking(record.exists, "the job ended with nobody there", within=PATIENCE)
    assert not world.controllers()
    ended = world.client.wait("survivor", PATIENCE)
    assert (ended.state, world.runs(word)) == (COMPLETED, 1)
    assert [artifact.name for artifact in ended.artifacts] == ["model.tar.gz"]
    assert world.client.log(ended.id, "", 0).data == b"begun\ndone\n"
    assert ended.timings["final"] <= time.time()
    assert world.run().why().startswith("Warm: ")
