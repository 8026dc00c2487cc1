"""Fixtures of tests that need Docker: ``docker`` for one test, ``docker_daemon``, ``own_dockerd``.

The daemon is the one that answers at ``DOCKER_HOST``, at the usual socket, or that ``make dockerd`` started; where none
does, one of our own that lives as long as the session, with a network of its own, so that this machine's is left as it
is. Processes that run tests side by side start one each. The images of :mod:`jupyter_smx.testing.docker.images` are in
it. Where there can be no daemon, tests are skipped with the reason, and fail in CI.
"""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import pytest

from jupyter_smx.testing.docker import dockerd
from jupyter_smx.testing.docker import images as docker_images
from jupyter_smx.testing.docker.dockerd import Dockerd
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from docker import DockerClient

    from jupyter_smx.testing.docker.images import TestImage

_CLEANUP_TIMEOUT = 3.0
"""Seconds that what was made late has to be unmade."""
LABEL_PREFIX = "jupyter-smx."
"""Prefix of the names of all our labels."""


@dataclass(frozen=True)
class Docker:
    """A daemon, without an engine: its address, a client for it, and whether its whole content belongs to the tests.

    ``pid`` is the process whose network the daemon has; 0 if that is this machine's.
    """

    host: str
    client: DockerClient
    ours: bool
    pid: int = 0

    def contents(self) -> dict[str, str]:
        """Return its content by id, in words: all in a daemon of our own, elsewhere only objects with our labels."""
        api = self.client.api
        found = [("container", one["Id"], one["Names"], one["Labels"]) for one in api.containers(all=True)]
        found += [("network", one["Id"], one["Name"], one["Labels"]) for one in api.networks()]
        volumes = api.volumes()["Volumes"] or []
        found += [("volume", one["Name"], one["Name"], one.get("Labels")) for one in volumes]
        return {
            str(key): f"{kind} {name}"
            for kind, key, name, labels in found
            if self.ours or any(label.startswith(LABEL_PREFIX) for label in labels or {})
        }

    def remove(self, key: str) -> None:
        """Remove a container, network or volume."""
        kind = self.contents().get(key, "").partition(" ")[0]
        if kind == "container":
            self.client.api.remove_container(key, force=True, v=True)
        elif kind == "network":
            self.client.api.remove_network(key)
        elif kind == "volume":
            self.client.api.remove_volume(key, force=True)


def session_folder() -> Path:
    """Return the folder for daemons of this test process; another process would end them there."""
    return dockerd.daemon_folder() / os.environ.get("PYTEST_XDIST_WORKER", "tests")


def skip_or_fail(why: str) -> NoReturn:
    """Skip a test that needs what is not there; in CI it is no excuse."""
    needed = os.environ.get("CI") and sys.platform == "linux"
    raise (pytest.fail if needed else pytest.skip).Exception(f"This needs a Docker daemon. {why}")


def connect(host: str, *, ours: bool, pid: int = 0, images: Sequence[TestImage] = docker_images.IMAGES) -> Docker:
    """Talk to a daemon, and put images into it: those that are asked for, since each costs a new daemon its time."""
    from docker import DockerClient  # noqa: PLC0415 - a heavy client, which most tests do not need

    client = DockerClient(base_url=host, timeout=60)
    docker_images.load(client, images)
    return Docker(host, client, ours, pid)


@pytest.fixture(scope="session")
def docker_daemon() -> Iterator[Docker]:
    """Yield the daemon of this session, which ``DOCKER_HOST`` names as well."""
    host, own = dockerd.find_daemon(), Dockerd(session_folder(), apart=True)
    ours = host in {"", Dockerd(dockerd.daemon_folder()).host}
    if not host:
        why = dockerd.unavailable_reason()
        if why:
            skip_or_fail(why)
        own.start(tied=True)
    try:
        found = connect(host or own.host, ours=ours, pid=0 if host else own.pid())
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DOCKER_HOST", found.host)
            yield found
        found.client.close()
    finally:
        if not host:
            own.stop()


@pytest.fixture
def docker(docker_daemon: Docker) -> Iterator[Docker]:
    """Yield the daemon of this session; fail a test that leaves a container, a network or a volume in it."""
    before = docker_daemon.contents()
    yield docker_daemon

    def new() -> dict[str, str]:
        return {key: what for key, what in docker_daemon.contents().items() if key not in before}

    # What a launch that was cancelled makes late is unmade by the thread that makes it, a moment after.
    with contextlib.suppress(AssertionError):
        eventually_blocking(lambda: not new(), within=_CLEANUP_TIMEOUT)
    left = new()
    for key in left:
        docker_daemon.remove(key)
    if left:
        pytest.fail("The test left in the Docker daemon:\n" + "\n".join(left.values()), pytrace=False)


@pytest.fixture
def own_dockerd() -> Iterator[Dockerd]:
    """Yield a daemon for this test alone, which may stop, kill and restart it; ``connect`` loads its images."""
    why = dockerd.unavailable_reason()
    if why:
        skip_or_fail(why)
    daemon = Dockerd(session_folder() / "second", apart=True)
    daemon.start(tied=True)
    try:
        yield daemon
    finally:
        daemon.start(tied=True)  # a killed one left containers, which only a daemon can end
        daemon.remove()
