"""Failures of containers: each ends with a reason and the cure, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import socket
import tarfile
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from msgspec.structs import replace

from jupyter_smx.engines.base import Observation
from jupyter_smx.model.errors import RefusedError, SmxError, UnavailableError
from jupyter_smx.model.records.cluster import Handle
from jupyter_smx.model.spec.image import Image
from jupyter_smx.testing import process_scan
from jupyter_smx.testing.agent_client import AgentClient
from jupyter_smx.testing.docker import images as docker_images
from jupyter_smx.testing.eventually import eventually
from jupyter_smx.testing.groups.loop_lag import LoopLag

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from jupyter_smx.engines.base import PullProgress
    from jupyter_smx.testing.docker.dockerd import Dockerd
    from jupyter_smx.testing.docker.fixtures import Docker
    from jupyter_smx.testing.docker.harness import DockerHarness

pytestmark = pytest.mark.heavy("docker")

UNFIT = {
    "nowhere/nothing:1": "is not an image",
    docker_images.NO_PYTHON.name: "has no Python",
    docker_images.EMPTY.name: "has no Python",
    docker_images.OLD_PYTHON.name: ": Python 3.6",
    docker_images.BROKEN.name: "/usr/bin/python3: exit code 1, ModuleNotFoundError: No module named",
    docker_images.FOREIGN.name: "is for linux/s390x",
    "": "no image is named",
}

SAVE = "open('/opt/ml/model/weights', 'w').close(); open('/data/mine', 'w').close()"


@pytest_asyncio.fixture
async def harness(nasty_path: Path, docker: Docker) -> AsyncIterator[DockerHarness]:
    from jupyter_smx.testing.docker.harness import DockerHarness  # noqa: PLC0415 - imports Docker's library

    harness = DockerHarness(nasty_path / "smx", docker.host, docker_images.PYTHON.name)
    yield harness
    await harness.close()


@pytest.mark.parametrize("image", UNFIT)
async def test_an_image_that_no_host_can_be_made_of_is_refused_with_the_cure(
    harness: DockerHarness, image: str
) -> None:
    before = harness.run_docker("ps", "-aq")
    request = replace(harness.request(), image=image)
    for question in (harness.engine.resolve_image(image, lambda _words: None), harness.acquire(request)):
        with pytest.raises(RefusedError) as told:
            await question
        assert UNFIT[image] in told.value.message
        assert (told.value.field, told.value.value, told.value.transient) == ("image", image, False)
        assert told.value.message.lower().count("no such image") <= 1
        assert told.value.rule
        assert told.value.cure
    assert harness.run_docker("ps", "-aq") == before
    assert not harness.cluster_folder(request.cluster).exists()


async def test_an_image_is_pinned_by_its_id_and_looked_at_once(
    harness: DockerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jupyter_smx.engines.docker.images.image import Images  # noqa: PLC0415 - imports Docker's library

    monkeypatch.setattr(Images, "cache", {})
    said: list[PullProgress] = []
    names = ("jupyter-smx-test", "jupyter-smx-test:other")
    assert [await harness.engine.cached_image(name) for name in names] == [None, None]
    ids = {name: (await harness.engine.resolve_image(name, said.append)).id for name in names}
    assert ids["jupyter-smx-test"] == harness.image
    assert ids["jupyter-smx-test:other"] != harness.image
    assert all(found.startswith("sha256:") for found in ids.values())
    assert len(said) == 2
    assert (await harness.engine.resolve_image("jupyter-smx-test:latest", said.append)).id == harness.image
    assert len(said) == 2
    name = "jupyter-smx-test:moves"
    try:
        for old in names:
            harness.run_docker("tag", ids[old], name)
            assert await harness.engine.cached_image(name) == Image(name=name, id=ids[old])
    finally:
        harness.run_docker("rmi", name)
    assert await harness.engine.cached_image(name) is None
    monkeypatch.setattr(Images, "cache", {})
    assert await harness.engine.cached_image(names[0]) is None


async def test_a_python_that_never_answers_is_the_images_fault_and_not_the_daemons(
    harness: DockerHarness, docker: Docker
) -> None:
    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon  # noqa: PLC0415 - imports Docker's library
    from jupyter_smx.engines.docker.images.image import Images  # noqa: PLC0415 - the same

    labels = {"jupyter-smx.test": "1"}
    images = Images(Daemon(docker.host, 15.0), labels, lambda: "1000:1000", 1.0)
    before = harness.run_docker("ps", "-aq")
    with pytest.raises(RefusedError, match=r"python3 of .* did not report its Python version within 1 s") as told:
        await images.inspect(docker_images.SILENT.name, lambda _words: None)
    assert (told.value.field, told.value.transient) == ("image", True)
    assert harness.run_docker("ps", "-aq") == before
    assert images.under_way == set()


async def test_a_look_at_an_image_is_bounded(harness: DockerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    from jupyter_smx.engines.docker.images import image  # noqa: PLC0415 - imports Docker's library

    monkeypatch.setattr(image.Images, "cache", {})
    monkeypatch.setattr(image, "_VERSION_SCRIPT", "x = b'x' * (1 << 30)")
    with pytest.raises(RefusedError, match=r"has no Python that can run hosts .*exit code 137"):
        await harness.engine.resolve_image(harness.image, lambda _words: None)


async def test_an_image_with_ideas_of_its_own_is_a_host_like_any_other(harness: DockerHarness) -> None:
    image = await harness.engine.resolve_image(docker_images.ODD.name, lambda _words: None)
    handle = await harness.acquire(replace(harness.request(), image=image.id))
    async with AgentClient(harness.engine, handle) as agent:
        outcome = await agent.run_and_wait("import os; print(os.environ['TEST_IMAGE'], os.getcwd())\n" + SAVE)
        again = await agent.run_and_wait(
            "import os; print(os.listdir('/opt/ml/model'), sorted(os.listdir('/data')))", lease=2
        )
        last = await agent.run_and_wait("import os; print(os.listdir('/tmp'), os.listdir('/tmp/a'))", lease=3)
    assert (outcome.text, again.text) == ("odd /opt/ml/code\n", "[] ['mine', 'of the image']\n")
    assert (last.text, again.record["errors"]) == ("['a'] ['b']\n", [])
    remain, closed = handle.hosts[0].given_up
    assert remain.startswith("Files that a job writes to /data remain for later jobs")
    assert closed.startswith("Its jobs cannot write to /tmp/a/b: the image declares a volume there")
    saved = harness.engine.spool_path(handle.cluster, "algo-1") / outcome.record["job"] / "artifacts" / "model.tar.gz"
    with tarfile.open(saved) as archive:
        assert archive.getnames() == ["weights"], "the image declares a volume there"
    [seen] = harness.inspect(handle.cluster)
    assert "Health" not in seen["State"], "the image's own check of its health would run in every host"
    assert seen["Config"]["StopSignal"] == "SIGTERM"


async def test_without_a_daemon_nothing_is_known_and_the_cure_is_said(harness: DockerHarness) -> None:
    handle = await harness.acquire()
    with harness.outage():
        for question in (
            harness.acquire(),
            harness.engine.release(handle),
            harness.engine.resolve_image("x", lambda _words: None),
        ):
            with pytest.raises(UnavailableError) as told:
                await question
            assert told.value.transient
            assert "docker_host" in told.value.field
            assert "dockerd" in told.value.cure
        with pytest.raises(SmxError):
            await harness.engine.doctor()
        assert await harness.engine.observe_all([handle]) == [Observation.UNKNOWN]
        # The connection to the agent does not use the daemon.
        async with AgentClient(harness.engine, handle) as agent:
            assert (await agent.run_and_wait("print('goes on')")).text == "goes on\n"


async def test_a_daemon_that_says_nothing_holds_up_nobody(tmp_path: Path) -> None:
    from jupyter_smx.engines.docker.engine import DockerEngine  # noqa: PLC0415 - imports Docker's library

    with contextlib.closing(socket.socket(socket.AF_UNIX)) as silent:
        silent.bind(os.fspath(tmp_path / "s"))
        silent.listen(8)
        engine = DockerEngine(data_dir=os.fspath(tmp_path), docker_host=f"unix://{tmp_path}/s", call_timeout=0.2)
        (tmp_path / "clusters" / "c").mkdir(parents=True)
        async with LoopLag() as lag:
            with pytest.raises(UnavailableError, match=r"did not answer within 200 ms"):
                await engine.find("c")
            assert await engine.observe_all([Handle(engine="docker", cluster="c")]) == [Observation.UNKNOWN]
        assert lag.max_lag < 0.05
    # The requests that it did not answer end with it.


async def test_a_container_that_is_killed_from_outside_is_gone(harness: DockerHarness) -> None:
    handle = await harness.acquire()
    async with AgentClient(harness.engine, handle) as agent:
        job = await agent.run("import signal\nprint('on', flush=True)\nsignal.pause()")
        await agent.wait_for_log(job, b"on")
        harness.run_docker("kill", *harness.containers(handle.cluster))
        with pytest.raises(ConnectionError):
            await agent.wait_for_outcome(job)
    assert await harness.engine.observe_all([handle]) == [Observation.GONE]
    remains = harness.engine.spool_path(handle.cluster, "algo-1")
    assert (remains / job / "log").read_bytes() == b"on\n"
    harness.run_docker("start", *harness.containers(handle.cluster))
    await eventually(lambda: not harness.live_hosts(handle.cluster), "no agent takes a folder that had one")


@pytest.mark.parametrize("gives_up", [True, False], ids=["nobody waits", "somebody waits"])
async def test_a_container_that_is_made_after_its_release_does_not_stay(
    harness: DockerHarness, *, gives_up: bool
) -> None:
    """The daemon makes it after a release found none, whether or not the launch still waits for it."""
    harness.traits["network_isolation"] = True  # such a host has no network, so that only a release asks for any
    request, engine = harness.request(), harness.new_engine()
    await engine.resolve_image(
        request.image, lambda _words: None
    )  # the first inspection of an image needs containers, too
    mine = f"--filter=label=jupyter-smx.cluster={request.cluster}"
    with harness.proxy.delay(b"/networks") as looked:
        with harness.proxy.delay(b"/containers/create") as asked:
            launch = asyncio.create_task(harness.acquire(request, engine=engine))
            await asyncio.to_thread(asked.wait, 20)
            if gives_up:
                launch.cancel()
                await asyncio.wait({launch})
            release = asyncio.create_task(
                harness.new_engine().release(Handle(engine="docker", cluster=request.cluster))
            )
            await asyncio.to_thread(looked.wait, 20)
            assert harness.containers(request.cluster) == []
        await eventually(
            lambda: "create" in harness.run_docker("events", "--since=10m", "--until=0s", mine, "--format={{.Action}}"),
            "the container was made",
        )
        await eventually(lambda: harness.containers(request.cluster) == [], "and removed")
    await release
    if not gives_up:
        with pytest.raises(UnavailableError, match="released meanwhile"):
            await launch
    assert harness.leftovers(request.cluster) == []


async def test_a_container_that_was_removed_from_outside_is_called_that(harness: DockerHarness) -> None:
    handle = await harness.acquire()
    harness.run_docker("rm", "--force", *harness.containers(handle.cluster))
    assert await harness.engine.observe_all([handle]) == [Observation.GONE]
    await harness.engine.release(handle)
    said = await harness.new_engine().exit_reason(handle.cluster, "algo-1")
    assert said == (
        "its container was removed from outside, as by docker rm --force. Run the job again, or set --retries."
    )


@pytest.mark.parametrize("how", ["kill", "stop"])
async def test_how_a_container_ended_outlives_it(harness: DockerHarness, tmp_path: Path, how: str) -> None:
    handle = await harness.acquire()
    mine = tmp_path / "mine"
    mine.write_text("mine")
    folder = harness.engine.spool_path(handle.cluster, "algo-1").parent
    (folder / "obituary").symlink_to(mine)  # the engine follows no link that a job writes into its host's folder
    harness.run_docker(how, *harness.containers(handle.cluster))
    await harness.engine.release(handle)
    assert mine.read_text() == "mine"
    said = await harness.new_engine().exit_reason(handle.cluster, "algo-1")
    words = "its container was ended from outside, by docker kill, with its daemon, or by a process in it. "
    assert said == (f"{words}Run the job again, or set --retries." if how == "kill" else "")


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"OOMKilled": True, "ExitCode": 137}, "for lack of memory"),
        ({"OOMKilled": True, "ExitCode": 143}, "by docker stop"),
        ({"OOMKilled": False, "ExitCode": 143}, "by docker stop"),
        ({"OOMKilled": False, "ExitCode": 4}, "exit code 4"),
        ({"OOMKilled": False, "ExitCode": 255}, "by a shutdown of the machine or of docker"),
    ],
)
def test_each_end_of_a_container_has_its_words(state: dict[str, Any], words: str) -> None:
    from jupyter_smx.engines.docker.teardown import exit_reason  # noqa: PLC0415 - imports Docker's library

    assert words in exit_reason(state)
    assert ("Its log ends with: no zygote" in exit_reason(state, log_tail="no zygote")) == (state["ExitCode"] == 4)
    for flag in (False, True):  # Docker sets it for a job of the container, too
        assert exit_reason({"OOMKilled": flag, "ExitCode": 0}) == ""


async def test_a_container_that_is_paused_says_so_and_goes_on(harness: DockerHarness) -> None:
    handle = await harness.acquire()
    [container] = harness.containers(handle.cluster)
    harness.run_docker("pause", container)
    with pytest.raises(UnavailableError, match="paused") as told:
        await harness.engine.connect(handle, "algo-1")
    assert "docker unpause" in told.value.cure
    assert await harness.engine.observe_all([handle]) == [Observation.RUNNING]
    told_at_once = harness.engine.stopped_agent(handle, "algo-1")
    assert told_at_once is not None
    assert (told_at_once.reason, told_at_once.cure) == ("its container is paused", told.value.cure)
    harness.run_docker("unpause", container)
    await harness.engine.observe_all([handle])
    assert harness.engine.stopped_agent(handle, "algo-1") is None
    async with AgentClient(harness.engine, handle) as agent:
        assert (await agent.run_and_wait("print('on')")).text == "on\n"
    harness.run_docker("pause", container)
    await harness.engine.release(handle)
    assert harness.leftovers(handle.cluster) == []


async def test_an_agent_that_a_signal_has_stopped_in_its_container_is_named(harness: DockerHarness) -> None:
    handle = await harness.acquire()
    [container] = harness.containers(handle.cluster)
    about = harness.cluster_folder(handle.cluster) / "algo-1" / "agent.json"
    await eventually(about.exists, "its first zygote is up")
    inside = json.loads(about.read_text())["pid"]
    async with AgentClient(harness.engine, handle) as agent:
        assert harness.engine.stopped_agent(handle, "algo-1") is None
        harness.run_docker("exec", container, "sh", "-c", f"kill -STOP {inside}")
        await eventually(lambda: harness.engine.stopped_agent(handle, "algo-1"), "it is known")
        harness.run_docker("exec", container, "sh", "-c", f"kill -CONT {inside}")
        await eventually(lambda: harness.engine.stopped_agent(handle, "algo-1") is None, "it goes on")
        assert (await agent.run_and_wait("print('on')")).text == "on\n"


async def test_a_job_that_takes_too_much_memory_is_told_so_and_its_host_lives(harness: DockerHarness) -> None:
    request = harness.request()
    request = replace(request, hosts=tuple(replace(plan, memory=256 << 20) for plan in request.hosts))
    handle = await harness.acquire(request)
    async with AgentClient(harness.engine, handle) as agent:
        record = (await agent.run_and_wait("x = b'x' * (1 << 30)")).record
        assert record["cause"] == "memory"
        assert "for lack of memory" in record["reason"]
        assert "256.0 MiB is the limit of instance type local" in record["reason"]
        assert (await agent.run_and_wait("print('alive')", lease=2)).text == "alive\n"
    # With version 2 of control groups the daemon attributes an event in one job to the container.
    harness.run_docker("stop", *harness.containers(handle.cluster))
    await harness.engine.release(handle)
    assert await harness.new_engine().exit_reason(handle.cluster, "algo-1") == ""


@pytest.mark.parametrize("kind", ["container", "network"])
async def test_a_name_that_somebody_else_has_is_left_to_them(harness: DockerHarness, kind: str) -> None:
    request = harness.request(2)
    if kind == "container":
        name = f"jupyter-smx-{request.cluster}-algo-2"
        theirs = harness.run_docker("create", "--name", name, harness.image)
    else:
        name = f"jupyter-smx-{request.cluster}"
        theirs = harness.run_docker("network", "create", name)
    try:
        with pytest.raises(UnavailableError, match=f"another {kind} has the name {name}"):
            await harness.acquire(request)
        assert harness.leftovers(request.cluster) == []
        assert theirs in harness.run_docker(kind, "ls", "--no-trunc", "-q", *(["-a"] if kind == "container" else []))
    finally:
        harness.run_docker(kind, "rm", theirs)


async def test_what_nobody_has_a_record_of_is_swept_and_nothing_else(harness: DockerHarness, docker: Docker) -> None:
    orphan, alive = await harness.acquire(harness.request(2)), await harness.acquire()
    stranger = harness.run_docker("create", "--label", "jupyter-smx.cluster=x", harness.image)
    from jupyter_smx.engines.docker.containers.container_spec import OWNER, owner  # noqa: PLC0415 - beside the engine

    looks = ("--label", f"{OWNER}={owner(str(harness.folder))}", "--label", "jupyter-smx.probe=1", harness.image)
    for name in ("dead", "living"):
        harness.run_docker("create", "--name", f"jupyter-smx-probe-{name}", *looks)
    engine = harness.new_engine()
    await engine.resolve_image(harness.image, lambda _words: None)
    images = engine._images  # as it would be during an inspection
    assert images is not None
    images.under_way.add("jupyter-smx-probe-living")
    removed = await engine.sweep(lambda: [alive.cluster])
    assert sorted(removed) == [
        *(f"jupyter-smx-{orphan.cluster}-algo-{number}" for number in (1, 2)),
        "jupyter-smx-probe-dead",
        f"network jupyter-smx-{orphan.cluster}",
    ]
    harness.run_docker("rm", "jupyter-smx-probe-living")
    assert harness.containers(orphan.cluster) == []
    assert harness.live_hosts(alive.cluster) == {"algo-1"}
    assert stranger in harness.run_docker("ps", "-aq", "--no-trunc")
    docker.remove(stranger)


async def test_what_is_born_while_nobodys_is_swept_is_known_by_then_and_lives(harness: DockerHarness) -> None:
    orphan = await harness.acquire()
    cache: list[str] = []
    engine, request = harness.new_engine(), harness.request(2)
    with harness.proxy.delay(b"/containers/json") as looks:
        sweep = asyncio.create_task(engine.sweep(lambda: [*cache]))
        assert await asyncio.to_thread(looks.wait, 20)
        cache.append(request.cluster)  # as a controller does before it launches anything
        handle = await harness.acquire(request)
    assert await sweep == [f"jupyter-smx-{orphan.cluster}-algo-1"]
    assert harness.live_hosts(handle.cluster) == {"algo-1", "algo-2"}


async def test_a_host_whose_controller_is_gone_ends_its_container_at_its_deadline(harness: DockerHarness) -> None:
    handle = await harness.acquire(replace(harness.request(), idle_limit=2.0))
    [container] = harness.containers(handle.cluster)
    assert harness.run_docker("wait", container) == "0"
    assert harness.live_hosts(handle.cluster) == set()
    assert await harness.new_engine().observe_all([handle]) == [Observation.GONE]


async def test_a_container_without_its_agent_says_what_it_said_last(harness: DockerHarness) -> None:
    request = harness.request()
    folder = harness.cluster_folder(request.cluster) / "algo-1"
    folder.mkdir(parents=True)
    (folder / "host.json").write_text("{torn")
    (folder.parent / "algo-1.json").write_text("{}")  # as if the host had been described
    folder.chmod(0o755)
    for name in ("ml", "tmp", "given"):
        (folder / name).mkdir()
    with pytest.raises(UnavailableError, match="ended with exit code 2") as told:
        await harness.acquire(request)
    assert "host.json" in told.value.rule
    assert harness.leftovers(request.cluster) == []


@pytest.mark.parametrize("end", ["kill", "stop"])
async def test_a_daemon_that_ends_in_the_middle_of_a_job(own_dockerd: Dockerd, tmp_path: Path, end: str) -> None:
    from jupyter_smx.testing.docker.fixtures import connect  # noqa: PLC0415 - imports Docker's library
    from jupyter_smx.testing.docker.harness import DockerHarness  # noqa: PLC0415 - the same

    connect(own_dockerd.host, ours=True, images=(docker_images.PYTHON,))
    harness = DockerHarness(tmp_path / "smx", own_dockerd.host, docker_images.PYTHON.name, network_isolation=True)
    handle = await harness.acquire()
    token = secrets.token_hex(8)
    async with AgentClient(harness.engine, handle) as agent:
        job = await agent.run(f"import signal\ntoken = {token!r}\nprint('on', flush=True)\nsignal.pause()")
        await agent.wait_for_log(job, b"on")
        getattr(own_dockerd, end)()
        assert await harness.engine.observe_all([handle]) == [Observation.UNKNOWN]
        with pytest.raises(UnavailableError):
            await harness.engine.release(handle)
        if end == "kill":
            assert b"on" in await agent.read(job, "log")
    own_dockerd.start(tied=True)

    assert await harness.engine.observe_all([handle]) == [Observation.GONE]
    await harness.engine.release(handle)
    assert harness.leftovers(handle.cluster) == []
    await harness.close()


async def test_a_container_that_a_shutdown_of_the_machine_ended_is_called_that(
    own_dockerd: Dockerd, tmp_path: Path
) -> None:
    from jupyter_smx.testing.docker.fixtures import connect  # noqa: PLC0415 - imports Docker's library
    from jupyter_smx.testing.docker.harness import DockerHarness  # noqa: PLC0415 - the same

    connect(own_dockerd.host, ours=True, images=(docker_images.PYTHON,))
    harness = DockerHarness(tmp_path / "smx", own_dockerd.host, docker_images.PYTHON.name, network_isolation=True)
    handle = await harness.acquire()
    inside = [int(seen["State"]["Pid"]) for seen in harness.inspect(handle.cluster)]
    own_dockerd.kill()
    mine = os.fspath(own_dockerd.folder)
    shims = [one.pid for one in process_scan.processes() if "containerd-shim" in one.command and mine in one.command]
    for pid in [*shims, *inside]:  # as everything ends at once
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    own_dockerd.start(tied=True)
    assert await harness.engine.observe_all([handle]) == [Observation.GONE]
    await harness.engine.release(handle)
    assert await harness.new_engine().exit_reason(handle.cluster, "algo-1") == (
        "its container ended with exit code 255, as by a shutdown of the machine or of docker. Run the job again, or "
        "set --retries."
    )
    await harness.close()


async def test_the_doctor_says_how_hosts_are_closed_in(harness: DockerHarness) -> None:
    facts: dict[str, Any] = await harness.engine.doctor()
    assert facts["version"] == harness.run_docker("version", "--format", "{{.Server.Version}}")
    assert facts["user_of_jobs"] != "0:0"
    assert facts["warm_pools_survive_a_restart_of_the_daemon"] is False
