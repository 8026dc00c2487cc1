"""The Docker daemon of the tests: which one is used, where its files are, and that it ends with its starter."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.testing.docker import dockerd
from jupyter_smx.testing.docker.dockerd import Dockerd, daemon_folder, find_daemon, is_answering, main
from jupyter_smx.testing.docker.fixtures import connect
from jupyter_smx.testing.docker.images import NO_PYTHON, PYTHON

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_smx.testing.docker.fixtures import Docker

pytestmark = pytest.mark.heavy("docker")


class Listener:
    """A server on a unix socket that sends the same bytes to every client."""

    def __init__(self, program_path: Path, answer: bytes) -> None:
        self.answer = answer
        self.line = socket.socket(socket.AF_UNIX)
        self.line.bind(os.fspath(program_path))
        self.line.listen()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self) -> None:
        while True:
            caller, _ = self.line.accept()
            with caller:
                if not caller.recv(1000):
                    return
                caller.sendall(self.answer)

    def close(self) -> None:
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(self.line.getsockname())
        self.thread.join()
        self.line.close()


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Callable[[bytes], str]]:
    opened: list[Listener] = []

    def listen(answer: bytes) -> str:
        program_path = tmp_path / f"{len(opened)}.sock"
        opened.append(Listener(program_path, answer))
        return f"unix://{program_path}"

    yield listen
    for one in opened:
        one.close()


def test_only_a_daemon_on_a_socket_of_this_machine_answers(listening: Callable[[bytes], str], tmp_path: Path) -> None:
    (tmp_path / "file.sock").touch()
    assert is_answering(listening(b"HTTP/1.0 200 OK\r\n\r\nOK"))
    assert not is_answering(listening(b"HTTP/1.0 503 Service Unavailable\r\n\r\n"))
    assert not is_answering(listening(b"SSH-2.0-OpenSSH_9.2\r\n"))
    assert not is_answering(f"unix://{tmp_path}/file.sock")
    assert not is_answering(f"unix://{tmp_path}/nothing.sock")
    assert not is_answering(f"unix://{tmp_path}/{'long' * 40}.sock")
    assert not is_answering(listening(b"HTTP/1.0 200 OK\r\n\r\nOK").replace("unix://", "ssh://"))
    assert not is_answering("tcp://127.0.0.1:2375")


def test_docker_host_comes_first_then_the_usual_socket_then_our_own(
    listening: Callable[[bytes], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first, second, own = (listening(b"HTTP/1.0 200 OK\r\n\r\nOK") for _ in range(3))
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "docker.sock").symlink_to(own.removeprefix("unix://"))
    monkeypatch.setattr(dockerd, "daemon_folder", lambda: folder)
    monkeypatch.setattr(dockerd, "DEFAULT_HOST", second)
    monkeypatch.setenv("DOCKER_HOST", first)
    assert find_daemon() == first
    monkeypatch.delenv("DOCKER_HOST")
    assert find_daemon() == second
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:2375")
    assert find_daemon() == f"unix://{folder}/docker.sock", "who says another place does not mean the usual one"
    (folder / "docker.sock").unlink()
    assert find_daemon() == ""


def test_it_lies_in_the_checkout_unless_that_path_breaks_a_socket_or_a_mount() -> None:
    assert daemon_folder(Path("/home/me/smx")) == Path("/home/me/smx/.dockerd")
    odd = [Path(f"/{'long/' * 20}smx"), Path("/home/my folder/smx"), Path("/home/a,b:c/smx"), Path("/home/日本/smx")]
    places = {daemon_folder(program_path) for program_path in odd}
    assert len(places) == len(odd)
    assert all(one.parent == Path("/var/lib") and len(os.fspath(one)) < 40 for one in places)


def test_who_cannot_start_one_learns_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: 1000)
        assert "Only root" in dockerd.unavailable_reason()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(dockerd, "program_path", lambda: "/nowhere")
    assert "make dockerd" in dockerd.unavailable_reason()


def test_the_command_knows_three_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["restart"]) == 2
    assert "find|start|stop" in capsys.readouterr().err


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder with a short path, since a daemon has sockets."""
    if dockerd.unavailable_reason():
        (pytest.fail if os.environ.get("CI") and sys.platform == "linux" else pytest.skip)(dockerd.unavailable_reason())
    program_path = daemon_folder() / f"t{os.getpid()}"
    yield program_path
    Dockerd(program_path).remove()
    assert not program_path.exists(), "something of it is still mounted"


def mounts(folder: Path) -> list[str]:
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f" {folder}" in line]


def test_it_starts_once_and_leaves_no_process_and_no_mount(folder: Path) -> None:
    daemon = Dockerd(folder, apart=True)
    daemon.start()
    pid = daemon.pid()
    assert pid
    daemon.start()
    Dockerd(folder).start()
    assert Dockerd(folder).pid() == pid
    docker = connect(daemon.host, ours=True, images=(NO_PYTHON,))
    docker.client.containers.run(NO_PYTHON.name, ["sleep", "1000"], detach=True, network_mode="none", init=True)
    docker.client.close()
    assert mounts(folder)
    Dockerd(folder).stop()
    assert (daemon.pid(), is_answering(daemon.host), mounts(folder)) == (0, False, [])
    assert processes_of(folder) == []
    daemon.stop()


def processes_of(folder: Path) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes()
        except OSError:
            continue
        if os.fsencode(folder) in command:
            found.append(command.replace(b"\0", b" ").decode(errors="replace"))
    return found


def test_one_that_was_killed_is_started_again_and_ends_its_containers(folder: Path) -> None:
    daemon = Dockerd(folder, apart=True)
    daemon.start()
    docker = connect(daemon.host, ours=True, images=(NO_PYTHON,))
    container = docker.client.containers.run(
        NO_PYTHON.name, ["sleep", "1000"], detach=True, network_mode="none", init=True
    )
    daemon.kill()
    assert not is_answering(daemon.host)
    daemon.start()
    container.reload()
    assert container.status == "exited"
    docker.client.close()
    daemon.stop()
    assert processes_of(folder) == []


def test_one_that_is_apart_has_a_bridge_and_leaves_that_of_this_machine_alone(folder: Path) -> None:
    before = usual_bridge()
    daemon = Dockerd(folder, apart=True)
    daemon.start()
    assert usual_bridge() == before
    docker = connect(daemon.host, ours=True, images=(NO_PYTHON,))
    routes = docker.client.containers.run(NO_PYTHON.name, ["cat", "/proc/net/route"], remove=True).decode()
    assert "eth0\t00000000" in routes
    docker.client.close()
    daemon.stop()
    assert usual_bridge() == before


def usual_bridge() -> str:
    program_path = Path("/sys/class/net/docker0/ifindex")
    return program_path.read_text() if program_path.exists() else ""


def test_a_tied_one_ends_with_whoever_started_it(folder: Path, eventually_blocking: Callable[..., object]) -> None:
    script = (
        "import pathlib, sys, signal; from jupyter_smx.testing.docker.dockerd import Dockerd\n"
        "Dockerd(pathlib.Path(sys.argv[1]), apart=True).start(tied=True); print('up', flush=True); signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", script, folder], stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == b"up\n"
        assert Dockerd(folder).pid()
        starter.send_signal(signal.SIGKILL)
    eventually_blocking(lambda: not Dockerd(folder).pid() and not processes_of(folder), "the daemon's end")


def test_one_that_cannot_start_says_its_last_words_and_leaves_nothing(folder: Path) -> None:
    with pytest.raises(RuntimeError, match="driver not supported"):
        Dockerd(folder, "--storage-driver=no-such-driver", apart=True).start()
    assert processes_of(folder) == []


def test_the_session_has_one_that_everything_started_here_finds(docker: Docker) -> None:
    assert os.environ["DOCKER_HOST"] == docker.host == find_daemon()
    assert docker.client.ping()


def test_a_test_that_leaves_a_container_is_told_of_it(docker: Docker) -> None:
    before = docker.contents()
    made = docker.client.containers.create(PYTHON.name, ["true"], labels={"jupyter-smx.cluster": "x"})
    network = docker.client.networks.create("left", labels={"jupyter-smx.cluster": "x"})
    left = set(docker.contents()) - set(before)
    assert left == {made.id, network.id}
    for key in left:
        docker.remove(key)
    assert docker.contents() == before
