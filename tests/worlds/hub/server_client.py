"""A client of a Jupyter server that sends what a page sends: requests, the events websocket, and cells to a kernel."""

from __future__ import annotations

import json
import secrets
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

import requests
import websocket

from jupyter_smx.server.bus_events import SCHEMA_ID
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable

FINAL = {"Completed", "Failed", "Stopped"}
TRIES = 10
"""Requests that a page sends at most until a proxy that cuts them lets an answer through: src/api/untilAnswered.ts."""
_TIMEOUT = 60.0


class Executed(NamedTuple):
    """What a cell did: ``ok`` or ``error``, and what it printed, the traceback included."""

    status: str
    text: str


class ServerClient:
    """Sends requests to the server at ``base_url``, which ends with a slash, with a token if there is one."""

    def __init__(self, base_url: str, *, token: str = "", verify: bool | str = True) -> None:
        self.base_url = base_url
        self.session = requests.Session()
        # Neither a proxy nor a certificate of the machine's environment belongs to a server on loopback.
        self.session.trust_env = False
        self.session.verify = verify
        if token:
            self.session.headers["Authorization"] = f"token {token}"

    def close(self) -> None:
        self.session.close()

    def send(self, method: str, path: str, body: object = None, **options: Any) -> requests.Response:
        """Send one request below ``base_url`` and return the response, whatever its status is."""
        content = None if body is None else json.dumps(body)
        # A page sends the token of its cookie with each request that changes something.
        headers = {"X-XSRFToken": self.xsrf_token()} if self.xsrf_token() else {}
        return self.session.request(
            method, self.base_url + path, data=content, headers=headers, timeout=_TIMEOUT, **options
        )

    def xsrf_token(self) -> str:
        """Return the XSRF cookie of the innermost path that contains this server, "" if there is none."""
        path = "/" + self.base_url.split("/", 3)[3]
        cookies = [each for each in self.session.cookies if each.name == "_xsrf" and path.startswith(each.path)]
        return max(cookies, key=lambda each: len(each.path)).value or "" if cookies else ""

    def read(self, path: str) -> Any:
        """Return the JSON of a successful GET."""
        response = self.send("GET", path)
        assert response.ok, (response.status_code, response.text)
        return response.json()

    def post_until_answered(self, path: str, body: object) -> requests.Response:
        """Send a request that is safe to repeat, again and again while a proxy cuts it, as a page does."""
        for _ in range(TRIES):
            response = self.send("POST", path, body)
            if response.status_code != HTTPStatus.GATEWAY_TIMEOUT:
                break
        return response

    def start_controller(self) -> None:
        """Start the user's controller unless it runs, as the panel does when it is opened."""
        response = self.post_until_answered("jupyter-smx/controller", {})
        assert response.ok, response.text

    def submit(self, source: str, *, base_name: str, keep_alive: int = 600) -> str:
        """Submit a training job and return its id."""
        request = job_request(secrets.token_hex(16), source, base_name, keep_alive)
        response = self.post_until_answered("jupyter-smx/jobs", request)
        assert response.status_code in {HTTPStatus.OK, HTTPStatus.CREATED}, response.text
        return str(request["id"])

    def jobs(self) -> dict[str, dict[str, Any]]:
        """Return the summaries of all jobs by id."""
        return {job["id"]: job for job in self.read("jupyter-smx/jobs?limit=1000")["jobs"]}

    def pools(self) -> list[dict[str, Any]]:
        return [pool for pool in self.read("jupyter-smx/pools")["pools"] if pool["state"] != "Terminated"]

    def wait_final(self, job_id: str) -> dict[str, Any]:
        """Wait until a job ends and return its summary."""

        def is_final() -> bool:
            # The server answers after a second at most, so that no proxy cuts the request.
            response = self.send("GET", f"jupyter-smx/jobs/{job_id}?wait=1&until=final")
            return response.ok and response.json()["status"] in FINAL

        eventually_blocking(is_final, "the job has ended", within=_TIMEOUT)
        return self.jobs()[job_id]

    def wait_log(self, job_id: str, text: str) -> None:
        """Wait until a job has printed ``text``."""
        eventually_blocking(lambda: text in self.log(job_id), f"the log contains {text!r}", within=_TIMEOUT)

    def log(self, job_id: str) -> str:
        return self.send("GET", f"jupyter-smx/jobs/{job_id}/logs?offset=0").text

    def connect(self, path: str) -> websocket.WebSocket:
        """Open a websocket.

        :raises websocket.WebSocketBadStatusException: the server or a proxy refused it.
        """
        authorization = self.session.headers.get("Authorization")
        return websocket.create_connection(
            self.base_url.replace("http", "ws", 1) + path,
            header={"Authorization": str(authorization)} if authorization else {},
            timeout=_TIMEOUT,
            http_no_proxy=["*"],
            sslopt={"ca_certs": self.session.verify} if isinstance(self.session.verify, str) else {},
        )

    def execute(self, code: str) -> Executed:
        """Run one cell in a kernel of its own, as a notebook does, and end the kernel."""
        kernel = self.send("POST", "api/kernels", {"name": "python3"})
        assert kernel.status_code == 201, kernel.text
        path = f"api/kernels/{kernel.json()['id']}"
        channels = self.connect(f"{path}/channels")
        try:
            return _execute(channels, code)
        finally:
            channels.close()
            self.send("DELETE", path)


def job_request(job_id: str, source: str, base_name: str, keep_alive: int = 0) -> dict[str, Any]:
    """Return the body of a request that submits a training job."""
    spec = {"kind": "train", "source": source, "base_name": base_name, "keep_alive": keep_alive}
    return {"id": job_id, "spec": spec}


def read_events(events: websocket.WebSocket, is_last: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """Read this extension's events until one of them is the last."""
    found: list[dict[str, Any]] = []
    while not found or not is_last(found[-1]):
        event = json.loads(events.recv())
        if event["schema_id"] == SCHEMA_ID:
            found.append(event)
    return found


def _execute(channels: websocket.WebSocket, code: str) -> Executed:
    request_id = secrets.token_hex(16)
    header = {"msg_id": request_id, "msg_type": "execute_request", "username": "", "session": "tests", "version": "5.3"}
    content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": True}
    message = {"header": header, "parent_header": {}, "metadata": {}, "content": content}
    channels.send(json.dumps({**message, "channel": "shell", "buffers": []}))
    status, text, is_idle = "", "", False
    while not (status and is_idle):
        answer = json.loads(channels.recv())
        if answer["parent_header"].get("msg_id") != request_id:
            continue
        kind, content = answer["header"]["msg_type"], answer["content"]
        if kind == "execute_reply":
            status = content["status"]
        elif kind == "status":
            is_idle = content["execution_state"] == "idle"
        elif kind == "stream":
            text += content["text"]
        elif kind == "error":
            text += "\n".join(content["traceback"])
    return Executed(status, text)
