"""Run the quickstart through a real Jupyter server, then take everything away under a running job.

``make demo`` calls it. Everything happens in a folder of its own (``.demo``), and nothing of it is left running.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import nbformat
import picture
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent
DEMO = HERE.parent / ".demo"
START_LIMIT = 60.0
CELL_LIMIT = 300
END_LIMIT = 60.0

OUTLIVE = """
import time
import jupyter_smx as smx
survivor = smx.train('''
import os, time
for step in range(40):
    print("step", step, flush=True)
    time.sleep(0.1)
''', name="survivor", keep_alive=600, wait=False)
while "step" not in survivor.logs():
    time.sleep(0.05)
print(survivor.id)
"""


class Server:
    """A Jupyter server of our own, and the few requests that the demo makes of it."""

    def __init__(self, environment: dict[str, str], application: str = "server") -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.token = secrets.token_hex(16)
        log = (DEMO / "server.log").open("ab")
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "jupyter", application, "--no-browser", "--allow-root"),
                *("--ServerApp.ip=127.0.0.1", f"--ServerApp.port={self.port}", "--ServerApp.port_retries=0"),
                f"--ServerApp.root_dir={DEMO / 'work'}",
            ],
            env={**environment, "JUPYTER_TOKEN": self.token},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        log.close()

    def request(self, path: str, body: object = None) -> Any:
        """Send a GET, or a POST of JSON, and read the JSON answer."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"token {self.token}", "Content-Type": "application/json"}
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, headers)
        with urllib.request.urlopen(asked, timeout=30) as answer:  # noqa: S310 - our own server
            return json.load(answer)

    def wait_ready(self) -> None:
        """Ask until the server answers."""
        deadline = time.monotonic() + START_LIMIT
        while not self._answers():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise SystemExit(f"The Jupyter server did not start, see {DEMO / 'server.log'}.")
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            self.request("/api/status")
        except (urllib.error.URLError, ConnectionError):
            return False
        return True

    def end(self) -> None:
        """End the server; a thread that answered its last request may keep it for ever, and is not waited for."""
        self.process.terminate()
        try:
            self.process.wait(END_LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def kernel(self) -> str:
        """Start a kernel as opening a notebook does, and give its id."""
        name = "quickstart.ipynb"
        model = {"path": name, "name": name, "type": "notebook", "kernel": {"name": "python3"}}
        return str(self.request("/api/sessions", model)["kernel"]["id"])


class ServersKernel(AsyncKernelManager):
    """A kernel that belongs to the server; we only talk to it."""

    @property
    def has_kernel(self) -> bool:
        """Say yes: the server started it."""
        return True

    async def is_alive(self) -> bool:
        """Say yes: the server would have said otherwise."""
        return True

    # A client asks in this way when the kernel is slow to answer its first question.
    _async_is_alive = is_alive

    async def shutdown_kernel(self, now: bool = False, restart: bool = False) -> None:
        """Leave the kernel to its server."""

    async def cleanup_resources(self, restart: bool = False) -> None:
        """Leave the connection file to its server."""


async def execute(notebook: nbformat.NotebookNode, connection_file: Path) -> None:
    """Execute all cells in the server's kernel."""
    manager = ServersKernel()
    manager.load_connection_file(str(connection_file))
    client = NotebookClient(notebook, km=manager, timeout=CELL_LIMIT)
    async with client.async_setup_kernel(cleanup_kc=True):
        for index, cell in enumerate(notebook.cells):
            await client.async_execute_cell(cell, index)


def text_of(cell: nbformat.NotebookNode) -> str:
    """Collect what a cell printed."""
    return "".join(output.get("text", "") for output in cell.get("outputs", []) if output["output_type"] == "stream")


def connection_file(environment: dict[str, str], kernel: str) -> Path:
    """Say where the server wrote a kernel's connection file."""
    return Path(environment["JUPYTER_RUNTIME_DIR"]) / f"kernel-{kernel}.json"


def report(server: Server) -> None:
    """Print the measured starts and the artefacts, as the server extension tells them."""
    found = [server.request(f"/jupyter-smx/jobs/{row['id']}") for row in server.request("/jupyter-smx/jobs")["jobs"]]
    starts = {}
    for job in sorted(found, key=lambda job: job["created_at"]):
        seconds = job["timings"]["first_line"] - job["timings"]["magic"]
        start = job["why"]["start"]
        print(f"  {job['name']:24} {job['status']:10} {start:5} first line after {seconds * 1000:8.1f} ms")
        if job["name"].startswith("train-digits"):
            starts[start] = seconds
            model = next(item for item in job["artifacts"] if item["name"] == "model.tar.gz")
            print(f"  {'':24} {job['why']['sentence']}")
            print(f"  {'':24} artefact {os.path.relpath(model['path'])} ({model['size'] / 1e6:.1f} MB)")
    if set(starts) != {"cold", "warm"}:
        raise SystemExit(f"The demo wants one cold and one warm training job and saw {sorted(starts)}.")
    print(f"  cold start {starts['cold'] * 1000:.0f} ms, warm start {starts['warm'] * 1000:.1f} ms: ", end="")
    print(f"{starts['cold'] / starts['warm']:.0f} times as fast to the first line")


def outlive(server: Server, environment: dict[str, str], kernel: str) -> None:
    """Kill the kernel, the server and the controller under a running job, and find the job again."""
    cell = nbformat.v4.new_code_cell(OUTLIVE)
    notebook = nbformat.v4.new_notebook(cells=[cell])
    asyncio.run(execute(notebook, connection_file(environment, kernel)))
    job = text_of(cell).split()[-1]
    controller = server.request("/jupyter-smx/doctor")["controller"]["pid"]
    server.process.kill()
    server.process.wait()
    os.kill(controller, signal.SIGKILL)
    print(f"  killed the Jupyter server ({server.process.pid}) and the controller ({controller}) under job {job}")
    code = (
        "import sys, jupyter_smx as smx; job = smx.job(sys.argv[1]); job.wait(60); "
        "print(job.status, len(job.logs().splitlines()), 'lines of log')"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, job], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    said = found.stdout.strip()
    print(f"  a new process and a new controller say: {said}")
    if said != "Completed 40 lines of log":
        raise SystemExit("The job did not survive.")


def photograph(environment: dict[str, str]) -> None:
    """Keep a picture of JupyterLab with a job that runs, where there is a browser to take it with."""
    if picture.browser() is None or importlib.util.find_spec("playwright") is None:
        print("  no picture: there is no Chromium, or no Playwright (pip install 'jupyter-smx[test]')")
        return
    server = Server(environment, "lab")
    try:
        server.wait_ready()
        address = f"http://127.0.0.1:{server.port}/lab/tree/quickstart.ipynb?token={server.token}"
        picture.take(address, environment, DEMO / "jupyterlab.png")
    finally:
        server.end()
    print("  .demo/jupyterlab.png (make picture puts it where the README shows it)")


def clean_up(environment: dict[str, str]) -> None:
    """End the demo's jobs, its pools and its controller."""
    code = "from jupyter_smx.testing.teardown import stop_everything; stop_everything()"
    subprocess.run([sys.executable, "-c", code], env=environment, timeout=END_LIMIT, check=True)


def main() -> None:
    """Run the demo from an empty folder."""
    shutil.rmtree(DEMO, ignore_errors=True)
    (DEMO / "work").mkdir(parents=True)
    shutil.copy(HERE / "quickstart.ipynb", DEMO / "work")
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("JPY_", "JUPYTER"))},
        "JUPYTER_DATA_DIR": str(DEMO / "data"),
        "JUPYTER_RUNTIME_DIR": str(DEMO / "runtime"),
        "JUPYTER_CONFIG_DIR": str(DEMO / "config"),
        "IPYTHONDIR": str(DEMO / "ipython"),
    }
    server = Server(environment)
    try:
        server.wait_ready()
        print("1. examples/quickstart.ipynb through a real Jupyter server")
        kernel = server.kernel()
        notebook = nbformat.read(DEMO / "work" / "quickstart.ipynb", as_version=4)
        asyncio.run(execute(notebook, connection_file(environment, kernel)))
        nbformat.write(notebook, DEMO / "work" / "quickstart.ipynb")
        for cell in notebook.cells:
            for line in text_of(cell).splitlines():
                print("   |", line)
        print("2. What was measured")
        report(server)
        print("3. A job outlives its kernel, its server and its controller")
        outlive(server, environment, kernel)
        print("4. A picture of JupyterLab")
        photograph(environment)
    finally:
        server.end()
        clean_up(environment)
    print("Done. The executed notebook, the records and the artefacts are in .demo/.")


if __name__ == "__main__":
    main()
