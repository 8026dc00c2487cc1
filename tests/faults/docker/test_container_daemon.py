"""A Docker daemon that is absent, stopped, restarted or out of room, under a controller that lives on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from containers import CONFIG, WAIT, Containers, said
from disks import Disk, mounted
from world import PATIENCE, surround

from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.testing.docker import dockerd, fixtures
from jupyter_smx.testing.docker import images as docker_images
from jupyter_smx.testing.docker.dockerd import Dockerd
from jupyter_smx.testing.docker.fixtures import Docker
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.heavy("docker")

COMPLETED, FAILED, STOPPED = SecondaryStatus.COMPLETED, SecondaryStatus.FAILED, SecondaryStatus.STOPPED
MEET = """
import json, os, socket
print(len({socket.gethostbyname(name) for name in json.loads(os.environ["SM_HOSTS"])}))
"""
ROOM = 96
"""MiB of the disk on which the daemon has its images and containers, beyond what the images take."""


@pytest.fixture(scope="module")
def daemon() -> Iterator[Dockerd]:
    """Give a daemon of this module alone, whose disk is small and which may be stopped; its images are in it."""
    from docker import DockerClient  # noqa: PLC0415 - a heavy client, which most tests do not need

    why = dockerd.unavailable_reason()
    if why:
        fixtures.skip_or_fail(why)
    own = Dockerd(fixtures.session_folder() / "third", apart=True)
    images = [docker_images.PYTHON]
    with mounted(own.folder, ROOM + (2 * docker_images.size(images) >> 20), "0711"):
        own.start(tied=True)
        client = DockerClient(base_url=own.host, timeout=60)
        docker_images.load(client, images)
        client.close()
        try:
            yield own
        finally:
            own.start(tied=True)  # what it left only a daemon can end
            own.stop()


@pytest.fixture
def containers(daemon: Dockerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Containers]:
    """Give a world at that daemon."""
    from docker import DockerClient  # noqa: PLC0415 - a heavy client, which most tests do not need

    monkeypatch.setenv("DOCKER_HOST", daemon.host)
    surround(monkeypatch, tmp_path, CONFIG)
    client = DockerClient(base_url=daemon.host, timeout=60)
    world = Containers(tmp_path, Docker(daemon.host, client, ours=True))
    yield world
    daemon.start(tied=True)
    world.close()
    client.close()


def test_a_daemon_that_is_absent_or_stopped_is_named_and_what_waits_for_it_goes_on_when_it_is_there(
    containers: Containers, daemon: Dockerd
) -> None:
    daemon.stop()
    absent = containers.submit()
    inspecting = re.escape(f"Inspecting the image: Docker does not answer at {daemon.host}: ")
    eventually_blocking(lambda: re.search(inspecting, said(absent)), "it says why it waits", within=PATIENCE)
    assert "Start it (dockerd, or systemctl start docker)" in said(absent)
    daemon.start(tied=True)
    assert absent.wait().state is COMPLETED

    gate = containers.gate()
    running, unwanted = (containers.submit(gate=gate, keep_alive=600) for _ in range(2))
    before = containers.submit(WAIT.format(gate=str(gate)), engine="local")
    waiting, stopped = (containers.submit(after=(before.id,)) for _ in range(2))
    for job in (running, unwanted, before):
        job.until_it_says("begun")
    for job in (waiting, stopped):
        job.until(lambda record: record.image, "its image was looked at when it was handed in")
    daemon.stop()
    gate.touch()
    silent = f"Docker does not answer at {daemon.host}: "
    away = rf"Its hosts are not reachable since \d\d:\d\d: {re.escape(silent)}"
    queued = re.escape(f"Waiting at the engine docker: {silent}")
    for job, why in ((running, away), (unwanted, away), (waiting, queued), (stopped, queued)):
        eventually_blocking(lambda job=job, why=why: re.match(why, said(job)), "it says why", within=PATIENCE)
        assert "Start it (dockerd" in said(job)
    for job in (unwanted, stopped):
        containers.client.stop(job.id)
    assert [job.wait().state for job in (unwanted, stopped)] == [STOPPED] * 2, "although the daemon is away"
    assert [job.log() for job in (unwanted, stopped)] == ["begun\n", ""]

    daemon.start(tied=True)
    ended = running.until(lambda record: record.ended_at, "it is known to be lost")
    assert (ended.state, running.log()) == (FAILED, "begun\n")
    assert ended.failure_reason == (
        "InternalServerError: The job was terminated without a stop request, probably because its hosts were "
        "shut down. Run it again, or set --retries."
    )
    assert (waiting.wait().state, waiting.log()) == (COMPLETED, "begun\ndone\n")
    containers.nothing_is_left()


def test_pools_and_jobs_survive_a_restart_of_a_daemon_with_live_restore(
    containers: Containers, daemon: Dockerd
) -> None:
    daemon.stop()
    daemon.options = ("--live-restore",)
    daemon.start(tied=True)
    try:
        facts = containers.client.doctor()["engines"]["docker"]
        assert facts["warm_pools_survive_a_restart_of_the_daemon"] is True
        pair = {"keep_alive": 600, "instance_groups": (InstanceGroup(instance_count=2),)}
        assert containers.submit(MEET, **pair).wait().state is COMPLETED
        gate = containers.gate()
        job = containers.submit(gate=gate)  # before there is a pool that it could take, and would not leave warm
        job.until_it_says("begun")
        warm = containers.submit(keep_alive=600)
        assert warm.wait().state is COMPLETED
        daemon.stop()
        containers.open(job, gate)
        job.until_it_says("done")  # the way to a host is not the daemon's
        daemon.start(tied=True)
        assert job.wait().state is COMPLETED
        again = containers.submit(keep_alive=600)
        assert (again.wait().state, again.log()) == (COMPLETED, "begun\ndone\n")
        assert again.job().cluster == warm.job().cluster
        met = containers.submit(MEET, **pair)
        assert (met.wait().why.start, met.log()) == ("warm", "begun\n2\ndone\n"), "their network has outlived it, too"
        for job in (again, met):
            containers.client.release(job.job().cluster)
        containers.nothing_is_left()
    finally:
        daemon.stop()
        daemon.options = ()
        daemon.start(tied=True)


def test_a_full_disk_of_the_daemon_fails_the_job_with_its_words_and_leaves_nothing(
    containers: Containers, daemon: Dockerd
) -> None:
    assert containers.submit().wait().state is COMPLETED  # its image is known
    disk = Disk(daemon.folder)
    disk.fill()
    full = containers.submit()
    ended = full.wait()
    disk.make_room()
    assert (ended.state, full.log()) == (FAILED, "")
    assert ended.failure_reason.startswith("CapacityError: "), ended.failure_reason
    assert "no space left on device" in ended.failure_reason
    assert "docker system df" in ended.failure_reason
    assert containers.submit().wait().state is COMPLETED
    containers.nothing_is_left()
