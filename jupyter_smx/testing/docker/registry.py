"""A registry of images for tests: Debian's ``docker-registry`` on the loopback of the daemon that uses it.

A daemon of the tests' own has a network apart, and so has its registry. A proxy before it can close, so that the
registry is away, or stop after a number of bytes, so that a download stalls.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import hashlib
import http.client
import json
import os
import secrets
import shutil
import socket
import struct
import subprocess
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from jupyter_smx.testing.docker import images
from jupyter_smx.testing.docker.dockerd import program_path
from jupyter_smx.testing.docker.fixtures import skip_or_fail
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from jupyter_smx.testing.docker.fixtures import Docker

T = TypeVar("T")

USER, PASSWORD = "ann", "swordfish"
_HTPASSWD = f"{USER}:$2b$04$jjDDdGtkQY3796M4RhqiSeGu.NjIv8k.QXo6zd6TIlvSkzwGZsnma\n"
"""The same as a line of an htpasswd file; four rounds of bcrypt, which is enough for a test."""
_CLONE_NEWNET = 0x40000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _UP = 0x8913, 0x8914, 1
_HOST = "127.0.0.1"
_BLOCK = 65_536
_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def run_in_network(pid: int, do: Callable[[], T]) -> T:
    """Call ``do`` in the network of a process, 0 for our own; its sockets and children stay in that network."""

    def run() -> T:
        if pid:
            _enter(pid)
        return do()

    with ThreadPoolExecutor(1) as room:  # a network is a thread's own, and this one ends here
        return room.submit(run).result()


def _enter(pid: int) -> None:
    descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(descriptor)
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as line:
        request = struct.pack("16sh", b"lo", 0)
        flags = struct.unpack("16sh", fcntl.ioctl(line, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(line, _SIOCSIFFLAGS, struct.pack("16sh", b"lo", flags | _UP))


def _free_port() -> int:
    with contextlib.closing(socket.socket()) as line:
        line.bind((_HOST, 0))
        return int(line.getsockname()[1])


class RegistryProxy:
    """A way to the registry that can be closed, or stand still."""

    def __init__(self, pid: int, target: int) -> None:
        self._pid = pid
        self._target = target
        self.port = run_in_network(pid, _free_port)
        self.byte_count = 0
        """Bytes of the registry that went through."""
        self._byte_limit: int | None = None
        self.stall_event = threading.Event()
        """Set while a download stands still."""
        self.connection_count = 0
        """Number of connections that are open now."""
        self._lock = threading.Condition()
        self._listener: socket.socket | None = None
        self.open()

    def open(self) -> None:
        """Accept connections, and forward them to the registry."""
        if self._listener is None:
            run_in_network(self._pid, self._listen)

    def _listen(self) -> None:
        listener = self._listener = socket.create_server((_HOST, self.port))
        threading.Thread(target=self._serve, args=(listener,), daemon=True).start()

    def close(self) -> None:
        """Accept no more connections; open ones stay."""
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None

    @contextlib.contextmanager
    def stall_after(self, size: int) -> Iterator[None]:
        """Let ``size`` bytes through, and the rest when the ``with`` ends."""
        self.byte_count, self._byte_limit = 0, size
        try:
            yield
        finally:
            with self._lock:
                self._byte_limit = None
                self._lock.notify_all()
            self.stall_event.clear()

    def allow_more(self, size: int) -> None:
        """Let ``size`` more bytes through."""
        with self._lock:
            self._byte_limit = None if self._byte_limit is None else self._byte_limit + size
            self._lock.notify_all()

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                visitor, _ = listener.accept()
                there = socket.create_connection((_HOST, self._target))
            except OSError:
                return
            with self._lock:
                self.connection_count += 1
            threading.Thread(target=self._forward, args=(visitor, there, False), daemon=True).start()
            threading.Thread(target=self._forward, args=(there, visitor, True), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket, is_counted: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_BLOCK):
                if is_counted:
                    self._count(len(data))
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        if is_counted:
            with self._lock:
                self.connection_count -= 1

    def _count(self, size: int) -> None:
        with self._lock:
            self.byte_count += size
            while self._byte_limit is not None and self.byte_count > self._byte_limit:
                self.stall_event.set()
                self._lock.wait()


class Registry:
    """A registry that a daemon reaches through a proxy, and another one that requires a login."""

    def __init__(self, folder: Path, docker: Docker) -> None:
        self._folder = folder
        self.docker = docker
        # A daemon of this machine itself reaches the registry on this machine's own loopback.
        self._pid = docker.pid
        self._programs: list[subprocess.Popen[bytes]] = []
        (folder / "people").write_text(_HTPASSWD)
        people = {"auth": {"htpasswd": {"realm": "test", "path": os.fspath(folder / "people")}}}
        self._open, self._closed = self._start("open", {}), self._start("closed", people)
        self.proxy = RegistryProxy(self._pid, self._open)

    @property
    def host(self) -> str:
        """Return the address of the registry behind its proxy, as in names of images."""
        return f"{_HOST}:{self.proxy.port}"

    @property
    def private(self) -> str:
        """Return the address of the registry that requires a login; it has the same images."""
        return f"{_HOST}:{self._closed}"

    def hosts(self) -> tuple[str, ...]:
        """Return how names of its images begin; other tests may have registries at the same daemon."""
        return tuple(f"{_HOST}:{port}/" for port in (self.proxy.port, self._open, self._closed))

    def _start(self, name: str, more: dict[str, Any]) -> int:
        port = run_in_network(self._pid, _free_port)
        file = self._folder / f"{name}.yml"
        storage = {"filesystem": {"rootdirectory": os.fspath(self._folder / "images")}, "delete": {"enabled": True}}
        said = {"version": 0.1, "log": {"level": "error"}, "storage": storage, "http": {"addr": f"{_HOST}:{port}"}}
        file.write_text(json.dumps(said | more))  # which is YAML, too
        with (self._folder / f"{name}.log").open("wb") as log:
            command = [program(), "serve", os.fspath(file)]
            started = run_in_network(
                self._pid,
                lambda: subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={"PATH": program_path()}
                ),
            )
        self._programs.append(started)
        eventually_blocking(lambda: run_in_network(self._pid, lambda: _answers(port)), f"{name} registry")
        return port

    def publish(self, name: str, size: int = 3_000_000) -> str:
        """Publish an image of our Python and ``size`` bytes that no other image has; return its id."""
        made = self.docker.client.containers.create(images.PYTHON.name, ["python3"])
        try:
            made.put_archive("/", _archive(size))
            found = str(made.commit().id)
        finally:
            made.remove()
        self.push(found, name)
        return found

    def push(self, image: str, name: str) -> None:
        """Push an image of the daemon to the registry, and remove the registry's name for it here."""
        client, ours = self.docker.client, f"{_HOST}:{self._open}/{name}"
        repository, _, tag = ours.rpartition(":")
        client.images.get(image).tag(repository, tag)
        try:
            for line in client.api.push(repository, tag, stream=True, decode=True):
                assert "error" not in line, line
        finally:
            client.images.remove(ours, force=True)

    def publish_copy(self, name: str, other: str, **changes: str) -> None:
        """Publish an image under another tag, with ``changes`` of its configuration."""
        repository, _, tag = name.rpartition(":")
        kind = {"Accept": _MANIFEST, "Content-Type": _MANIFEST}
        manifest = json.loads(self._ask("GET", f"/v2/{repository}/manifests/{tag}", headers=kind)[0])
        config = json.loads(self._ask("GET", f"/v2/{repository}/blobs/{manifest['config']['digest']}")[0])
        said = json.dumps(config | changes).encode()
        digest = f"sha256:{hashlib.sha256(said).hexdigest()}"
        place = self._ask("POST", f"/v2/{repository}/blobs/uploads/")[1].partition(_HOST)[2].partition("/")[2]
        self._ask("PUT", f"/{place}&digest={digest}", said)
        manifest["config"] |= {"digest": digest, "size": len(said)}
        self._ask("PUT", f"/v2/{repository}/manifests/{other}", json.dumps(manifest).encode(), kind)

    def _ask(
        self, way: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> tuple[bytes, str]:
        """Send a request to the registry itself; return the answer, and its redirection."""

        def ask() -> tuple[bytes, str]:
            with contextlib.closing(http.client.HTTPConnection(_HOST, self._open, timeout=20)) as line:
                line.request(way, path, body, dict(headers or {}))
                answer = line.getresponse()
                data = answer.read()
                assert answer.status < http.client.MULTIPLE_CHOICES, data
                return data, answer.headers.get("Location", "")

        return run_in_network(self._pid, ask)

    def remove_images(self, *names: str) -> None:
        """Take images out of the daemon, where they are in it."""
        from docker.errors import APIError  # noqa: PLC0415 - a heavy client, which most tests do not need

        for name in names:
            with contextlib.suppress(APIError):
                self.docker.client.images.remove(name, force=True)

    def stop(self) -> None:
        """End it."""
        self.proxy.close()
        for started in self._programs:
            started.terminate()
            started.wait(10)


def _archive(size: int) -> BytesIO:
    file = BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        info = tarfile.TarInfo("own.bin")
        info.size = size
        tar.addfile(info, BytesIO(secrets.token_bytes(size)))
    file.seek(0)
    return file


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), contextlib.closing(socket.create_connection((_HOST, port), 5)):
        return True
    return False


def program() -> str:
    """Return the path of Debian's registry, "" if it is not installed."""
    return shutil.which("docker-registry", path=program_path()) or ""


@pytest.fixture(scope="session")
def _registry(docker_daemon: Docker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    if not program():
        skip_or_fail("There is no docker-registry: `make docker.io` installs Debian's.")
    found = Registry(tmp_path_factory.mktemp("registry"), docker_daemon)
    yield found
    found.stop()


@pytest.fixture
def registry(_registry: Registry) -> Iterator[Registry]:
    """Yield the registry of this session, with its gate open; a test's downloads are removed."""
    client = _registry.docker.client
    before = {tag for image in client.images.list() for tag in image.tags}
    _registry.proxy.open()
    yield _registry
    _registry.proxy.open()
    after = {tag for image in client.images.list() for tag in (*image.tags, *(image.attrs.get("RepoDigests") or ()))}
    _registry.remove_images(*(name for name in after - before if name.startswith(_registry.hosts())))
