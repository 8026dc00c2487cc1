"""Restore the data folder that 6b340c9 recorded, and ask the controller of a data folder everything it can tell.

``make_fixture.py`` uses it with the old package, the tests with the new one.
"""

from __future__ import annotations

import functools
import hashlib
import http.client
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tarfile
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator

FIXTURE = Path(__file__).parent / "made_by_6b340c9"
FOLDER = "@FOLDER@"
"""Stands for the folder that holds ``data`` and :data:`WORK`."""
WORK = "@WORK@"
"""Stands for the folder in which notebook and commands ran."""
PYTHON = "@PYTHON@"
"""Stands for the interpreter of notebook and jobs."""
IDLE = 1000.0
"""Seconds for which the pool is idle when it is restored."""
PATIENCE = 30.0
wait_for = functools.partial(eventually_blocking, within=PATIENCE)
"""Wait for a condition, as the project's tests do."""
_RECORDS = {"jobs": ("summary", "record"), "clusters": ("record",), "events": ("body",), "arrays": ("record",)}


def placeholders(folder: Path) -> dict[str, str]:
    """Give the placeholder of each path of this machine, a folder before the one that it lies in."""
    return {str(folder / "work"): WORK, str(folder): FOLDER, sys.executable: PYTHON}


def variables(folder: Path) -> dict[str, str]:
    """Give the environment of a controller, a kernel or a command that works in this folder."""
    own = {
        "JUPYTER_SMX_DATA_DIR": str(folder / "data"),
        "JUPYTER_CONFIG_DIR": str(FIXTURE / "config"),
        "IPYTHONDIR": str(folder / "ipython"),
    }
    return {name: value for name, value in os.environ.items() if not name.startswith("SM")} | own


def restore(folder: Path, keep_alive_left: float) -> Path:
    """Unpack all below ``folder``; the pool that is recorded alive is idle for a while and has so many seconds left.

    Files count as written now, since a controller deletes old ones a minute after its start.
    """
    for name in ("data", "exported"):
        with tarfile.open(FIXTURE / f"{name}.tar.xz") as archive:
            archive.extractall(folder, filter="data")
    for path in (folder / "data").rglob("*"):
        os.utime(path)
    substitute(folder / "data", {word: path for path, word in placeholders(folder).items()})
    with closing(sqlite3.connect(folder / "data" / "smx.sqlite")) as records, records:
        for (record,) in records.execute("SELECT record FROM clusters WHERE state = 'Available'").fetchall():
            now = time.time()
            changed = json.loads(record) | {"available_since": now - IDLE, "expires_at": now + keep_alive_left}
            values = (json.dumps(changed).encode(), changed["id"])
            records.execute("UPDATE clusters SET record = ? WHERE id = ?", values)
    return folder / "data"


def substitute(data: Path, words: dict[str, str]) -> None:
    """Replace words in the records and in the text files of a data folder."""
    with closing(sqlite3.connect(data / "smx.sqlite")) as records:
        for table, columns in _RECORDS.items():
            for column in columns:
                for row, text in records.execute(f"SELECT rowid, {column} FROM {table}").fetchall():  # noqa: S608
                    changed = (replace_words(text, words), row)
                    records.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", changed)  # noqa: S608
        records.commit()
        records.execute("VACUUM")
    for path in data.rglob("*"):
        if path.is_file() and path.suffix in {".json", ".log"}:
            path.write_bytes(replace_words(path.read_bytes(), words))


def replace_words(text: bytes, words: dict[str, str]) -> bytes:
    """Replace each word that is a key by its value."""
    for old, new in words.items():
        text = text.replace(old.encode(), new.encode())
    return text


def start(folder: Path, package: Path | None = None) -> subprocess.Popen[str]:
    """Start a controller on the data folder, of the importable package or of the one in another folder.

    :raises AssertionError: it does not answer.
    """
    path = {} if package is None else {"PYTHONPATH": str(package)}
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyter_smx.controller"],
        cwd=folder,
        env=variables(folder) | path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    asker = Asker(folder)

    def is_settled() -> bool:
        return asker.is_answered() or process.poll() is not None

    wait_for(is_settled, "the controller answers")
    assert process.poll() is None, process.communicate()[1]
    return process


@contextmanager
def controller(folder: Path, package: Path | None = None) -> Iterator[Asker]:
    """Run a controller on the data folder, and end it; hosts go on."""
    process = start(folder, package)
    try:
        yield Asker(folder)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Asker:
    """Sends GET requests to the controller of a folder; paths of this machine come back as their placeholders."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, path: str) -> Any:
        """Give the JSON of an answer, or of other content its type, text or digest."""
        with closing(_UnixConnection(self.folder / "data" / "controller.sock")) as connection:
            connection.request("GET", path)
            reply = connection.getresponse()
            content = reply.read()
        kind = reply.getheader("Content-Type", "")
        if kind == "application/json":
            return json.loads(replace_words(content, placeholders(self.folder)))
        try:
            return {"status": reply.status, "type": kind, "text": content.decode()}
        except UnicodeDecodeError:
            return {"status": reply.status, "type": kind, "sha256": hashlib.sha256(content).hexdigest()}

    def is_answered(self) -> bool:
        """Say whether a controller listens."""
        try:
            self.get("/v1/")
        except OSError:
            return False
        return True

    def wait_for_pool_end(self) -> dict[str, Any]:
        """Wait until no pool is left; give what the last event says of it, and what its last job does."""
        wait_for(lambda: not self.get("/v1/pools")["pools"], "no pool is left")
        (*_, end) = [event["pool"] for event in self.get("/v1/changes?since=0")["events"] if event["pool"]]
        return {"pool": end, "job": self.get("/v1/jobs/last")["warm_pool"], "bill": self.get("/v1/jobs/last")["bill"]}

    def answers(self) -> dict[str, Any]:
        """Ask all that can be asked of jobs, arrays, types and events."""
        paths = ["/v1/jobs", "/v1/jobs?tasks=0", "/v1/jobs?status=Failed", "/v1/jobs/fit", "/v1/instance_types"]
        paths += ["/v1/changes?since=0", "/v1/arrays", "/v1/arrays/grid"]
        for job in self.get("/v1/jobs")["jobs"]:
            of_job = f"/v1/jobs/{job['id']}"
            paths += [of_job, f"{of_job}/logs/search?text=o", f"{of_job}/logs?offset=2&limit=5"]
            paths += [f"{of_job}/{what}" for what in ("logs", "logs/whole", "metrics", "usage", "advice", "diff")]
            paths += [f"{of_job}/artifacts/{quote(one['name'])}" for one in self.get(of_job)["artifacts"]]
        return {path: self.get(path) for path in paths}
