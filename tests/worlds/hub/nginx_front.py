"""A Jupyter server with the extension, and nginx in front of it with the limits that proxies of companies have."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import requests
from hub_packages import skip_or_fail
from hub_process import free_port
from server_client import ServerClient

from jupyter_smx import controller_launch
from jupyter_smx.testing.eventually import eventually_blocking
from jupyter_smx.testing.leftovers import RUN
from jupyter_smx.testing.teardown import stop_everything

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[3]
BASE = "/front/"
READ_TIMEOUT = 3.0
"""Seconds that nginx waits for the server."""
OUR_HEADERS = re.compile(r"X-Smx-", re.IGNORECASE)
_HIDDEN_HEADERS = ("Offset", "Total", "Final", "Host", "Hosts", "Attempt", "Attempts", "Now", "Version", "Aws")
_UNUSED_EXTENSIONS = ("jupyter_lsp", "jupyter_server_terminals", "jupyterlab", "notebook", "notebook_shim")
"""Extensions of the environment that take time to start."""
_START_LIMIT = 60.0
_CONFIG = """\
daemon off;
master_process off;
worker_processes 1;
pid "{folder}/nginx.pid";
error_log stderr warn;
events {{ worker_connections 256; }}
http {{
  access_log off;
  client_body_temp_path "{folder}/body";
  proxy_temp_path "{folder}/proxy";
  fastcgi_temp_path "{folder}/fastcgi";
  uwsgi_temp_path "{folder}/uwsgi";
  scgi_temp_path "{folder}/scgi";
  gzip on;
  gzip_types *;
  gzip_min_length 1;
  server {{
    listen 127.0.0.1:{port} ssl;
    ssl_certificate "{folder}/certificate.pem";
    ssl_certificate_key "{folder}/key.pem";
    location {base} {{
      if ($request_method !~ ^(GET|POST)$) {{ return 405; }}
      proxy_pass http://127.0.0.1:{server_port};
      proxy_read_timeout {timeout:g}s;
      proxy_buffering on;
      proxy_set_header Host $http_host;
      proxy_set_header Upgrade "";
      {hidden}
    }}
  }}
}}
"""
# A disk from which the controller's program comes slowly: its interpreter waits until the pipe is written.
_SLOW_START = """\
import os, sys
if sys.orig_argv[-2:] == ["-m", "jupyter_smx.controller"]:
    open({pipe!r}).read()
"""


def nginx_program() -> str:
    """Return the path of nginx, "" if it or openssl is missing. Debian has it outside of an ordinary user's PATH."""
    search = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"])
    return (shutil.which("openssl") and shutil.which("nginx", path=search)) or ""


@contextlib.contextmanager
def running_front(*, waits_for: Path | None = None) -> Iterator[NginxFront]:
    """Run a server with a data folder of its own behind nginx; end both, and what they started."""
    if not nginx_program():
        skip_or_fail("There is no nginx. Install it (Debian: apt-get install nginx openssl).")
    with tempfile.TemporaryDirectory(prefix="smx-nginx-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv(controller_launch.DATA_DIR_VARIABLE, f"{folder}/smx")
        front = NginxFront(Path(folder), waits_for=waits_for)
        try:
            front.start()
            yield front
        finally:
            front.stop()


class NginxFront:
    """Listens on loopback by TLS with its own certificate; ``waits_for`` is a pipe that delays the controller's start.

    nginx ends requests after ``READ_TIMEOUT``, passes ``GET`` and ``POST`` only and no websocket, compresses, buffers,
    and hides this project's response headers.
    """

    def __init__(self, folder: Path, *, waits_for: Path | None = None) -> None:
        self.folder = folder
        self._token = secrets.token_hex(16)
        self._port, self._server_port = free_port(), free_port()
        self.certificate = folder / "certificate.pem"
        self._waits_for = waits_for
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        """Return the address of the server for browsers."""
        return f"https://127.0.0.1:{self._port}{BASE}"

    def start(self) -> None:
        """Start the server and nginx, and wait until a request gets through."""
        self._write_server_config()
        self._write_nginx_config()
        self._run([sys.executable, "-m", "jupyter_server", "--no-browser"], self._environment())
        nginx = [nginx_program(), "-e", "stderr", "-p", os.fspath(self.folder), "-c", "nginx.conf"]
        self._run(nginx, {"PATH": os.defpath})
        eventually_blocking(self._answers, "the server answers through nginx", within=_START_LIMIT)

    def stop(self) -> None:
        """End jobs, pools, the controller, the server and nginx."""
        try:
            stop_everything()
        finally:
            for process in reversed(self._processes):
                process.terminate()
                process.wait(20)

    def log_in(self) -> ServerClient:
        """Return a client with the cookies of the server's login form, as a browser has them."""
        page = ServerClient(self.url, verify=os.fspath(self.certificate))
        assert page.send("GET", "login").ok
        entered = {"password": self._token, "_xsrf": page.xsrf_token()}
        answer = page.session.post(f"{self.url}login", data=entered, allow_redirects=False, timeout=_START_LIMIT)
        assert answer.status_code == 302, answer.text
        return page

    def _run(self, command: Sequence[str], environment: dict[str, str]) -> None:
        with (self.folder / "log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
            )

    def _answers(self) -> bool:
        log = (self.folder / "log").read_text(encoding="utf-8", errors="replace")
        assert all(process.poll() is None for process in self._processes), log
        try:
            return requests.get(f"{self.url}login", verify=os.fspath(self.certificate), timeout=5).ok
        except requests.RequestException:
            return False

    def _environment(self) -> dict[str, str]:
        # Without the mark of this test run, since the server and its controller outlive a test; stop() ends them.
        foreign = ("JPY_", "JUPYTERHUB_", RUN)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        paths = [os.fspath(ROOT)]
        if self._waits_for is not None:
            slow = self.folder / "slow"
            slow.mkdir()
            text = _SLOW_START.format(pipe=os.fspath(self._waits_for))
            (slow / "sitecustomize.py").write_text(text, encoding="utf-8")
            paths.insert(0, os.fspath(slow))
        folders = {
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "IPYTHONDIR": "ipython",
        }
        own = {name: os.fspath(self.folder / folder) for name, folder in folders.items()}
        data = {controller_launch.DATA_DIR_VARIABLE: os.fspath(controller_launch.chosen_data_dir())}
        return {**kept, **own, **data, "PYTHONPATH": os.pathsep.join(paths)}

    def _write_server_config(self) -> None:
        server: dict[str, Any] = {
            "ip": "127.0.0.1",
            "port": self._server_port,
            "port_retries": 0,
            "base_url": BASE,
            "root_dir": os.fspath(self.folder),
            "allow_root": os.getuid() == 0,
            "jpserver_extensions": {"jupyter_smx": True, **dict.fromkeys(_UNUSED_EXTENSIONS, False)},
        }
        config = {"ServerApp": server, "IdentityProvider": {"token": self._token}}
        (self.folder / "config").mkdir(mode=0o700)
        (self.folder / "config" / "jupyter_server_config.json").write_text(json.dumps(config), encoding="utf-8")

    def _write_nginx_config(self) -> None:
        request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
        files = ["-keyout", "key.pem", "-out", self.certificate.name, "-addext", "subjectAltName=IP:127.0.0.1"]
        subprocess.run([*request, *files], cwd=self.folder, check=True, capture_output=True)
        text = _CONFIG.format(
            folder=self.folder,
            base=BASE,
            port=self._port,
            server_port=self._server_port,
            timeout=READ_TIMEOUT,
            hidden="\n      ".join(f"proxy_hide_header X-Smx-{name};" for name in _HIDDEN_HEADERS),
        )
        (self.folder / "nginx.conf").write_text(text, encoding="utf-8")
