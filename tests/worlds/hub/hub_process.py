"""A JupyterHub with its proxy, on a machine of several accounts, as a test sees it: start and stop servers of users."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import requests
from server_client import ServerClient
from shared_machine import SharedMachine

from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hub_packages import HubPackages

BASE = "/hubpre/"
START_LIMIT = 90.0
_ACTIVITY_INTERVAL = 2
"""Seconds between two reports of a user's server to the hub; 300 by default."""
_SCOPES = ["admin:users", "admin:servers", "list:users", "read:users:activity", "tokens", "access:servers"]
_CULLED = re.compile(r"Culling server (\S+) ")
_FORM_TOKEN = re.compile(r'name="_xsrf" value="([^"]+)"')


def free_port() -> int:
    """Return a port of loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class HubProcess:
    """Runs as root and starts the server of each user as that user, with the checkout's extension."""

    def __init__(self, packages: HubPackages, users: Mapping[str, int]) -> None:
        self.machine = SharedMachine(users)
        self._packages = packages
        self._token, self.password = secrets.token_hex(16), secrets.token_hex(16)
        self.url = f"http://127.0.0.1:{free_port()}{BASE}"
        self._log = self.machine.folder / "hub.log"
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers["Authorization"] = f"token {self._token}"

    def start(self) -> None:
        """Start the hub and wait until it answers."""
        config = self.machine.folder / "jupyterhub_config.json"
        config.touch(mode=0o600)
        config.write_text(json.dumps(self._config()), encoding="utf-8")
        self._log.touch(mode=0o600)
        command = [sys.executable, "-m", "jupyterhub", "-f", os.fspath(config)]
        self.machine.start(command, self._environment(), self._packages.folders, self._log)
        eventually_blocking(self._answers, "the hub answers", within=START_LIMIT)

    def stop(self) -> None:
        """End the hub, the servers of all users, their kernels, controllers and jobs."""
        self._session.close()
        self.machine.stop()

    def log(self) -> str:
        """Return what the hub, its proxy and the servers of the users printed."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def api(self, method: str, path: str, body: object = None) -> requests.Response:
        """Send a request to the hub's REST API as an administrator."""
        return self._session.request(method, f"{self.url}hub/api/{path}", json=body, timeout=START_LIMIT)

    def server(self, user: str, name: str = "") -> dict[str, Any] | None:
        """Return the hub's record of a running server of a user, None if there is none."""
        response = self.api("GET", f"users/{user}")
        assert response.ok, f"{response.text}\n{self.log()[-4000:]}"
        found: dict[str, Any] | None = response.json()["servers"].get(name)
        return found

    def start_server(self, user: str, name: str = "") -> None:
        """Start a server of a user if it does not run, and wait until it is ready."""
        if self.server(user, name) is None:
            response = self.api("POST", _server_path(user, name), {})
            assert response.status_code in {201, 202}, response.text
        # This answer lasts until the server is ready: frequent requests would take the processor from its start.
        progress = self.api("GET", f"{_server_path(user, name)}/progress")
        assert '"ready": true' in progress.text, f"{progress.text}\n{self.log()[-4000:]}"

    def stop_server(self, user: str, name: str = "") -> None:
        """Stop a server of a user, and wait until it has ended."""
        response = self.api("DELETE", _server_path(user, name))
        assert response.status_code in {202, 204}, response.text
        eventually_blocking(lambda: self.server(user, name) is None, f"{user}'s server has ended", within=30)

    def token_of(self, user: str) -> str:
        """Make an API token of a user."""
        response = self.api("POST", f"users/{user}/tokens", {"note": "tests"})
        assert response.ok, response.text
        return str(response.json()["token"])

    def client(self, user: str, name: str = "", *, token: str | None = None) -> ServerClient:
        """Start a user's server, and return a client with a token, by default one of that user."""
        self.start_server(user, name)
        return ServerClient(self._server_url(user, name), token=self.token_of(user) if token is None else token)

    def browser(self, visitor: str, user: str) -> ServerClient:
        """Log in by the hub's form and return a client of a user's server that has the visitor's cookies only."""
        browser = ServerClient(self._server_url(user))
        form = browser.session.get(f"{self.url}hub/login", timeout=START_LIMIT)
        found = _FORM_TOKEN.search(form.text)
        assert found is not None, form.text
        entered = {"username": visitor, "password": self.password, "_xsrf": found[1]}
        answer = browser.session.post(f"{self.url}hub/login", data=entered, timeout=START_LIMIT)
        assert answer.ok, (answer.status_code, answer.text)
        return browser

    def _server_url(self, user: str, name: str = "") -> str:
        return f"{self.url}user/{user}/{name}/" if name else f"{self.url}user/{user}/"

    def make_pipe(self, user: str, name: str) -> Path:
        """Make a named pipe in the home of a user; a job that reads it waits for a writer."""
        account = self.machine.accounts[user]
        pipe = account.home / name
        os.mkfifo(pipe, 0o600)
        os.chown(pipe, account.uid, account.uid)
        return pipe

    @contextlib.contextmanager
    def culler(self, timeout: int) -> Iterator[Callable[[], list[str]]]:
        """Run JupyterHub's culler: it stops servers that had no activity for ``timeout`` seconds.

        Gives a function that returns the users of the servers that it has stopped, in their order.
        """
        log = self.machine.folder / "culler.log"
        words = [f"--url={self.url}hub/api", f"--timeout={timeout}", "--cull-every=2"]
        with log.open("ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "jupyterhub_idle_culler", *words],
                env={**self._environment(), "JUPYTERHUB_API_TOKEN": self._token},
                stdout=file,
                stderr=file,
            )

        def culled() -> list[str]:
            text = log.read_text(encoding="utf-8")
            assert process.poll() is None, text
            return _CULLED.findall(text)

        try:
            yield culled
        finally:
            process.kill()
            process.wait()

    def _answers(self) -> bool:
        try:
            return self._session.get(f"{self.url}hub/api/", timeout=5).ok
        except requests.RequestException:
            return False

    def _environment(self) -> dict[str, str]:
        programs = os.pathsep.join([os.fspath(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        return {
            "HOME": os.fspath(self.machine.folder),
            "LANG": "C.UTF-8",
            "PATH": programs,
            "PYTHONPATH": self._packages.python_path,
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def _config(self) -> dict[str, Any]:
        services = [{"name": "tests", "api_token": self._token}]
        return {
            "JupyterHub": {
                "bind_url": self.url,
                "hub_ip": "127.0.0.1",
                "hub_port": free_port(),
                "authenticator_class": "dummy",
                "spawner_class": "jupyterhub.spawner.LocalProcessSpawner",
                "allow_named_servers": True,
                "services": services,
                "load_roles": [{"name": "tests", "scopes": _SCOPES, "services": ["tests"]}],
            },
            "Authenticator": {"allowed_users": sorted(self.machine.accounts)},
            "DummyAuthenticator": {"password": self.password},
            "ConfigurableHTTPProxy": {
                "command": list(self._packages.proxy),
                "api_url": f"http://127.0.0.1:{free_port()}",
            },
            "Spawner": {
                "ip": "127.0.0.1",
                "cmd": [sys.executable, "-m", "jupyterhub.singleuser"],
                "environment": {
                    "JUPYTERHUB_ACTIVITY_INTERVAL": str(_ACTIVITY_INTERVAL),
                    "PYTHONDONTWRITEBYTECODE": "1",
                },
                "start_timeout": int(START_LIMIT),
                "http_timeout": int(START_LIMIT),
            },
        }


def _server_path(user: str, name: str) -> str:
    return f"users/{user}/servers/{name}" if name else f"users/{user}/server"
