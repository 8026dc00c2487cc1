"""A fake Docker daemon on a socket: it makes no containers, and does in their folders what a test defines."""

from __future__ import annotations

import http.server
import json
import os
import socket
import socketserver
import struct
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

IMAGE = "sha256:" + "1" * 64


class FakeDockerd(socketserver.ThreadingUnixStreamServer):
    """The containers are in a dict by name: ``{"config": …, "state": …, "said": …}``, as requested, and their state.

    ``live`` acts as a container when it is started. ``refuses`` has the status and the message of each refusal, by the
    beginning of the request (such as ``POST /networks/create``). ``asked`` lists all requests.
    ``podman`` is its answer about itself as Podman.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, path: Path, live: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(os.fspath(path), _Answer)
        self.url = f"unix://{path}"
        self.live = live
        self.refuses: dict[str, tuple[int, str]] = {}
        self.image = {"Id": IMAGE, "Os": "linux", "Architecture": "amd64"}
        self.info: dict[str, Any] = {"SecurityOptions": []}
        self.podman: dict[str, Any] = {}
        self.containers: dict[str, dict[str, Any]] = {}
        self.networks: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []
        self.is_behind = False
        """Whether its list still shows every container as running."""

    def server_close(self) -> None:
        super().server_close()
        for container in self.containers.values():
            stop_listening(container)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore the error: a client that gave up has closed its connection."""

    def answer(self, what: str, body: dict[str, Any]) -> tuple[int, object]:
        """Return the status and the body of an answer."""
        plain = what.replace("/v1.41/", "/", 1)
        self.asked.append(plain)
        no = next((no for start, no in self.refuses.items() if what.startswith(start) or plain.startswith(start)), None)
        if no is not None:
            return no[0], {"message": no[1]}
        way, _, path = plain.partition(" ")
        path, _, query = path.partition("?")
        kind, _, rest = path.strip("/").partition("/")
        if rest == "libpod/info":
            return 200, self.podman
        if kind == "images":
            return 200, [] if rest == "json" else self.image
        if kind in ("version", "info"):
            return 200, {"ApiVersion": "1.41", "Arch": "amd64"} if kind == "version" else self.info
        if kind == "networks":
            return self._network(way, rest, body)
        return self._container(way, rest, query, body)

    def _network(self, way: str, name: str, body: dict[str, Any]) -> tuple[int, object]:
        name, _, act = name.partition("/")
        if act:
            self._joined(act, name, body)
            return 200, {}
        if way == "POST":
            self.networks[body["Name"]] = {**body, "Id": body["Name"]}
            return 201, {"Id": body["Name"]}
        if name and name not in self.networks:
            return 404, {"message": "no such network"}
        inside = {key: {"Name": key} for key, one in self.containers.items() if name in one.get("networks", ())}
        if way == "DELETE" and inside:
            return 403, {"message": f"error while removing network: network {name} has active endpoints"}
        if way == "DELETE":
            return 204, self.networks.pop(name)
        return 200, {**self.networks[name], "Containers": inside} if name else [*self.networks.values()]

    def _joined(self, act: str, network: str, body: dict[str, Any]) -> None:
        there = self.containers[body["Container"]]["networks"]
        if act == "connect":
            there[network] = body["EndpointConfig"]
        else:
            del there[network]

    def _container(self, way: str, rest: str, query: str, body: dict[str, Any]) -> tuple[int, object]:
        name, _, act = rest.partition("/")
        if rest == "create":
            made = unquote(query.partition("name=")[2])
            if made in self.containers:
                return 409, {"message": f"Conflict. The container name {made} is already in use"}
            self.containers[made] = {
                "config": body,
                "state": {"Status": "created"},
                "said": "",
                "networks": {body["HostConfig"]["NetworkMode"]: {}},
            }
            return 201, {"Id": made}
        if rest == "json":
            wanted = json.loads(parse_qs(query).get("filters", ["{}"])[0]).get("label", [])
            rows = [self._row(key) for key in self.containers]
            return 200, [row for row in rows if {*wanted} <= _filters(row["Labels"])]
        if name not in self.containers:
            return 404, {"message": "no such container"}
        if act == "archive":
            return 404, {"message": "no such file"}
        return self._one(f"{way} {act}".strip(), name)

    def _one(self, what: str, name: str) -> tuple[int, object]:
        one = self.containers[name]
        if what == "DELETE":
            stop_listening(self.containers.pop(name))
        elif what == "POST start":
            one["state"] = {"Status": "running"}
            self.live(one)
        elif what == "GET logs":
            return 200, one["said"].encode()
        elif what == "POST wait":
            return 200, {"StatusCode": one["state"].get("ExitCode", 0)}
        else:
            config = {"Tty": False, "Labels": one["config"]["Labels"]}
            net, host_config = {"Networks": one["networks"]}, one["config"]["HostConfig"]
            return 200, {
                "Id": name,
                "State": one["state"],
                "Config": config,
                "HostConfig": host_config,
                "NetworkSettings": net,
            }
        return 204, {}

    def _row(self, name: str) -> dict[str, Any]:
        one = self.containers[name]
        state = "running" if self.is_behind else one["state"]["Status"]
        row = {"Id": name, "Names": [f"/{name}"], "State": state, "Labels": one["config"]["Labels"]}
        return {**row, "NetworkSettings": {"Networks": one.get("networks", {})}}


def _filters(labels: dict[str, str]) -> set[str]:
    """Return all filters by which a daemon finds an object that has these labels."""
    return {*labels, *(f"{name}={text}" for name, text in labels.items())}


class _Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeDockerd

    def _take(self) -> None:
        given = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, said = self.server.answer(f"{self.command} {self.path}", json.loads(given) if given else {})
        is_log = isinstance(said, bytes)
        data = struct.pack(">BxxxL", 1, len(said)) + said if is_log else json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/octet-stream" if is_log else "application/json")
        self.send_header("Content-Length", str(0 if status == 204 else len(data)))
        self.end_headers()
        if status != 204:
            self.wfile.write(data)

    do_GET = do_POST = do_DELETE = _take  # noqa: N815 - the names that the base class calls

    def log_message(self, *_words: object) -> None:
        return

    def address_string(self) -> str:
        return "a unix socket has none"


@contextmanager
def serving(path: Path, live: Callable[[dict[str, Any]], None]) -> Iterator[FakeDockerd]:
    """Let such a daemon listen."""
    server = FakeDockerd(path, live)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def room(container: dict[str, Any]) -> Path:
    """Return the folder of this machine that a container would see as its own."""
    [first, *_] = container["config"]["HostConfig"]["Mounts"]
    return Path(first["Source"])


def end(container: dict[str, Any], code: int, said: str = "") -> None:
    """Set the state of a container that has ended."""
    container["state"], container["said"] = {"Status": "exited", "ExitCode": code}, said


def answer(container: dict[str, Any], *, token: str = "", listens: bool = True) -> None:
    """Act as a container that tests its folder, and can read it."""
    folder = room(container)
    token = token or (folder / "token").read_text()
    if listens:
        threading.Thread(target=_serve, args=(_listener(folder), token), daemon=True).start()
    (folder / "answer").write_text(token)


def listen(container: dict[str, Any]) -> None:
    """Act as a container whose agent listens; the system takes its visitors, and nothing answers them."""
    container["listener"] = _listener(room(container))


def stop_listening(container: dict[str, Any]) -> None:
    """Close the socket of a container that listened."""
    if "listener" in container:
        container.pop("listener").close()


def _listener(folder: Path) -> socket.socket:
    line = socket.socket(socket.AF_UNIX)
    there = os.open(folder, os.O_PATH)
    line.bind(f"/proc/self/fd/{there}/agent.sock")
    os.close(there)
    line.listen(8)
    return line


def _serve(line: socket.socket, token: str) -> None:
    with line, line.accept()[0] as visitor:
        visitor.sendall(token.encode())
