"""A real JupyterLab server with folders of its own, and what is needed to leave nothing of it behind."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import nbformat

from jupyter_smx.testing import process_scan
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Mapping

BASE = "/user/x/"
MARK = "JUPYTER_SMX_TEST_RUN"
"""Environment variable that everything which the server starts inherits."""

START_LIMIT = 120.0
END_LIMIT = 20.0
FINAL = {"Completed", "Failed", "Stopped"}


class Installation(NamedTuple):
    """Which JupyterLab a server runs, and which code of this extension."""

    python: str = sys.executable
    checkout: Path | None = Path(__file__).parents[1]
    """The checkout with the code and the built labextension; None: those that are installed for ``python``."""

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of the server's process."""
        kept = {name: value for name, value in variables.items() if name != "PYTHONPATH"}
        programs = {"PATH": os.pathsep.join([str(Path(self.python).parent), kept.get("PATH", os.defpath)])}
        return kept | programs | ({} if self.checkout is None else {"PYTHONPATH": str(self.checkout)})

    def labextensions(self, folder: Path) -> list[str]:
        """Return folders with labextensions that come before the installed ones; a link is made in ``folder``.

        In a clone that shares an environment, the installed labextension is that of another checkout.
        """
        built = None if self.checkout is None else self.checkout / "jupyter_smx" / "labextension"
        if built is None or not built.exists():
            return []
        link = folder / "jupyter-smx"
        if not link.is_symlink():
            folder.mkdir(parents=True, exist_ok=True)
            link.symlink_to(built)
        return [str(folder)]


THIS_INSTALLATION = Installation()


class LabServer:
    """Listens on 127.0.0.1 with a token and with XSRF checks, under a base URL as a hub gives one."""

    def __init__(
        self, folder: Path, *, server_half: bool = True, installation: Installation = THIS_INSTALLATION
    ) -> None:
        self.folder = folder
        self._installation = installation
        self.notebooks = folder / "notebooks"
        self.notebooks.mkdir(parents=True)
        self.token = self._current = secrets.token_hex(16)
        self._run = f"ui-{os.getpid()}-{secrets.token_hex(4)}"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._server_half = server_half
        self._configure(self.token, {})
        self._process = self._started({})
        self._is_altered = False

    def kill(self) -> None:
        """End the server as a crash does: at once, without a message."""
        self._process.kill()
        self._process.wait(END_LIMIT)

    def restart(
        self, *, token: str = "", config: dict[str, Any] | None = None, environment: dict[str, str] | None = None
    ) -> None:
        """Kill the server and start it again at the same address, and wait until it answers.

        ``token`` is another one, ``config`` and ``environment`` come on top; without them it is as it was at first.
        """
        self.kill()
        self._sweep_workspaces()
        self._configure(token or self.token, config or {})
        self._process = self._started(environment or {})
        self._current = token or self.token
        self._is_altered = bool(token or config or environment)
        self.wait_ready()

    def _sweep_workspaces(self) -> None:
        """Remove what JupyterLab was about to write when it was killed: with one empty file it lists none any more."""
        for path in (self.folder / "workspaces").glob("*"):
            if not path.stat().st_size:
                path.unlink()

    def restore(self) -> None:
        """Let it be as it was at first, which takes another start only where it is not."""
        if self._is_altered or self._process.poll() is not None:
            self.restart()

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"http://127.0.0.1:{self._port}"

    def wait_ready(self) -> None:
        """Wait until the server answers.

        :raises AssertionError: it does not, or has ended; the text has its log.
        """

        def answers() -> bool:
            ended = self._process.poll() is not None
            assert not ended, f"The server ended:\n{(self.folder / 'server.log').read_text()}"
            try:
                self.ask("GET", "api/status")
            except (urllib.error.URLError, ConnectionError):
                return False
            return True

        eventually_blocking(answers, "the server answers", within=START_LIMIT)

    def ask(self, verb: str, path: str, body: object = None) -> Any:
        """Send one request with the token, and read the JSON answer."""
        asked = urllib.request.Request(  # noqa: S310 - our own server
            f"{self.origin}{BASE}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"token {self._current}", "Content-Type": "application/json"},
            method=verb,
        )
        with urllib.request.urlopen(asked, timeout=30) as answer:  # noqa: S310 - our own server
            content = answer.read()
        return json.loads(content) if content else None

    def write_notebook(self, name: str, *cells: str) -> None:
        """Write a notebook of code cells."""
        metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(cell) for cell in cells], metadata=metadata
        )
        nbformat.write(notebook, self.notebooks / name)

    def submit(self, base_name: str, source: str, keep_alive: int = 0, *, spot: bool = False) -> str:
        """Hand in a training job as a program does, and give its name."""
        spec = {"kind": "train", "source": source, "base_name": base_name, "keep_alive": keep_alive, "spot": spot}
        wish = {"id": secrets.token_hex(16), "spec": spec | {"python": self._installation.python}}
        return str(self.ask("POST", "jupyter-smx/jobs", wish)["name"])

    def is_running(self) -> bool:
        """Say whether a controller runs."""
        return bool(self.ask("GET", "jupyter-smx/controller")["running"])

    def settle(self) -> None:
        """Stop all jobs, release all pools and end all kernels, and wait until that is so."""
        for session in self.ask("GET", "api/sessions"):
            self.ask("DELETE", f"api/sessions/{session['id']}")
        if not self.is_running():
            return
        for job in self._open_jobs():
            self.ask("POST", f"jupyter-smx/jobs/{job['id']}/stop", {})
        eventually_blocking(lambda: not self._open_jobs(), "all jobs are over", within=END_LIMIT)
        for pool in self._pools():
            self._release(pool["id"])
        eventually_blocking(lambda: not self._pools(), "all pools are gone", within=END_LIMIT)

    def delete_jobs(self) -> None:
        """Delete the records of all jobs, which are over, so that no later test finds a row of theirs."""
        while self.is_running() and (jobs := self._jobs()):
            for job in jobs:
                self.ask("DELETE", f"jupyter-smx/jobs/{job['id']}")

    def end_controller(self) -> None:
        """End the controller as its host's shutdown does, and wait until no controller answers."""
        if self.is_running():
            process_scan.kill(self.ask("GET", "jupyter-smx/doctor")["controller"]["pid"], 15)
            eventually_blocking(lambda: not self.is_running(), "the controller has left", within=END_LIMIT)

    def end(self) -> None:
        """End the server.

        :raises AssertionError: a process that it or its kernels started lives on; it is killed.
        """
        self._process.terminate()
        try:
            self._process.wait(END_LIMIT)
        finally:
            self._process.kill()
        try:
            eventually_blocking(lambda: not self._living(), "all processes have ended", within=END_LIMIT)
        except AssertionError as error:
            left = self._living()
            for seen in left:
                process_scan.kill(seen.pid)
            raise AssertionError("\n".join(f"left behind: {seen.pid} {seen.command}" for seen in left)) from error

    def _started(self, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        with (self.folder / "server.log").open("ab") as log:
            return subprocess.Popen(
                # `-m jupyter lab` would run the first jupyter-lab of PATH.
                [self._installation.python, "-m", "jupyterlab", "--no-browser"],
                env=self._environment() | environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _open_jobs(self) -> list[dict[str, Any]]:
        return [job for job in self._jobs() if job["status"] not in FINAL]

    def _jobs(self) -> list[dict[str, Any]]:
        jobs: list[dict[str, Any]] = self.ask("GET", "jupyter-smx/jobs?limit=100")["jobs"]
        return jobs

    def _pools(self) -> list[dict[str, Any]]:
        pools = self.ask("GET", "jupyter-smx/pools")["pools"]
        return [pool for pool in pools if pool["state"] != "Terminated"]

    def _release(self, pool: str) -> None:
        try:
            self.ask("DELETE", f"jupyter-smx/pools/{pool}")
        except urllib.error.HTTPError as error:
            gone_or_going = {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}
            if error.code not in gone_or_going:
                raise

    def _living(self) -> list[process_scan.ProcessInfo]:
        return [seen for seen in process_scan.processes() if seen.has_variable(f"{MARK}={self._run}")]

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("JPY_", "JUPYTER"))}
        return self._installation.environment(kept) | {
            "JUPYTER_CONFIG_DIR": str(self.folder / "config"),
            "JUPYTER_DATA_DIR": str(self.folder / "data"),
            "JUPYTER_RUNTIME_DIR": str(self.folder / "runtime"),
            "JUPYTER_SMX_DATA_DIR": str(self.folder / "smx"),
            "IPYTHONDIR": str(self.folder / "ipython"),
            MARK: self._run,
        }

    def _configure(self, token: str, config: dict[str, Any]) -> None:
        # A file, for everybody on the machine can read a token on a command line.
        labextensions = self._installation.labextensions(self.folder / "labextensions")
        wanted: dict[str, dict[str, Any]] = {
            "ServerApp": {
                "ip": "127.0.0.1",
                "port": self._port,
                "port_retries": 0,
                "base_url": BASE,
                "root_dir": str(self.notebooks),
                "allow_root": os.getuid() == 0,
                "disable_check_xsrf": False,
                "jpserver_extensions": {"jupyter_smx": self._server_half},
            }
            | config,
            "IdentityProvider": {"token": token},
            "JupyterNotebookApp": {"expose_app_in_browser": True, "extra_labextensions_path": labextensions},
            "LabApp": {
                "expose_app_in_browser": True,
                "extra_labextensions_path": labextensions,
                "extension_manager": "readonly",
                "user_settings_dir": str(self.folder / "settings"),
                "workspaces_dir": str(self.folder / "workspaces"),
            },
        }
        _write_json(self.folder / "config" / "jupyter_server_config.json", wanted)
        # Lab's own questions about news and updates ask the internet and cover the page.
        news = {"fetchNews": "false", "checkForUpdates": False}
        name = "@jupyterlab/apputils-extension/notification.jupyterlab-settings"
        _write_json(self.folder / "settings" / name, news)
        # Lab would start node for each page that opens, to ask whether its own build is up to date.
        _write_json(self.folder / "config" / "labconfig" / "page_config.json", {"buildCheck": False})


def _write_json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(json.dumps(content))
