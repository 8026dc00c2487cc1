"""Locate and start the controller; every package may import this module, so it imports almost nothing."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_core.paths import jupyter_data_dir

if TYPE_CHECKING:
    from collections.abc import Mapping

DATA_DIR_VARIABLE = "JUPYTER_SMX_DATA_DIR"

_SOCKET_PATH_LIMIT = 100
"""Bytes; Linux takes 107 and macOS 103."""

_SECRET_PREFIXES = ("JPY_", "JUPYTERHUB_", "JUPYTER_TOKEN", "JUPYTER_GATEWAY_")
"""What a Jupyter server and a hub put into the environment of a kernel and no job may see."""

_LOG_TAIL = 2048


def data_dir() -> Path:
    """Give the folder with the records of jobs: ``JUPYTER_SMX_DATA_DIR``, or ``smx`` in Jupyter's data folder."""
    chosen = os.environ.get(DATA_DIR_VARIABLE)
    return Path(chosen).expanduser().absolute() if chosen else Path(jupyter_data_dir()) / "smx"


def socket_path() -> Path:
    """Give the controller's unix socket; a data folder with a very long path has it in a private folder under /tmp."""
    path = data_dir() / "controller.sock"
    if len(os.fsencode(path)) <= _SOCKET_PATH_LIMIT:
        return path
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    return Path("/tmp") / f"smx-{os.getuid()}" / f"{digest}.sock"  # noqa: S108 - checked by ensure_folders


def lock_path() -> Path:
    """Give the file that each controller has open, and one has locked."""
    return data_dir() / "controller.lock"


def log_path() -> Path:
    """Give the file that holds what the controller says, its last words included."""
    return data_dir() / "controller.log"


def ensure_folders() -> None:
    """Make the data folder and the socket's folder, readable by this user only.

    :raises PermissionError: one of them exists and belongs to somebody else.
    """
    folders = [data_dir().resolve()]  # it may be a link that the user made
    if socket_path().parent != data_dir():
        folders.append(socket_path().parent)  # under /tmp a link was made by somebody else
    for folder in folders:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise PermissionError(f"{folder} must be a folder of this user. Set {DATA_DIR_VARIABLE} to one that is.")
        if found.st_mode & 0o077:
            folder.chmod(0o700)


def require_unix_sockets() -> None:
    """Say plainly that this platform cannot work, instead of failing somewhere inside.

    :raises OSError: this Python has no unix sockets.
    """
    if not hasattr(socket, "AF_UNIX"):
        raise OSError("jupyter_smx needs unix sockets, which this Python lacks. On Windows run Jupyter in WSL.")


def is_listening() -> bool:
    """Say whether a controller accepts connections now."""
    require_unix_sockets()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(os.fspath(socket_path()))
        except OSError:
            return False
    return True


def controller_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Drop from ``environ`` what belongs to one server, hub or kernel: the controller outlives all of them."""
    kept = {name: value for name, value in environ.items() if not name.startswith(_SECRET_PREFIXES)}
    if kept.get("MPLBACKEND", "").startswith("module://"):
        # A kernel's inline backend draws into that kernel; a job has none.
        del kept["MPLBACKEND"]
    return kept


def start_controller(python: str = sys.executable) -> subprocess.Popen[bytes]:
    """Start a controller that outlives this process and return at once; when one runs already the new one leaves.

    :raises OSError: ``python`` cannot be started or the data folder cannot be made.
    """
    ensure_folders()
    environment = controller_environment(os.environ) | {DATA_DIR_VARIABLE: os.fspath(data_dir())}
    log = os.open(log_path(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return subprocess.Popen(
            [python, "-m", "jupyter_smx.controller"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=data_dir(),
            env=environment,
            start_new_session=True,
        )
    finally:
        os.close(log)


def wait_ready(seconds: float, process: subprocess.Popen[bytes] | None = None) -> bool:
    """Wait until a controller listens, ``seconds`` at most; give up early when ``process`` failed. Blocks."""
    end = time.monotonic() + seconds
    while not is_listening():
        failed = process is not None and process.poll() not in (None, 0)
        if failed or time.monotonic() >= end:
            return is_listening()
        time.sleep(0.005)
    return True


def restart_hint() -> str:
    """Say in the controller what more a change of variables or of the configuration takes."""
    return (
        f"The controller reads this at its start: kill {os.getpid()} ends it, jobs and pools continue, and the "
        "next command starts a new controller."
    )


def last_log_line() -> str:
    """Give the last non-empty line of the controller's log, for the sentence that says why it did not start."""
    try:
        with log_path().open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - _LOG_TAIL))
            lines = log.read().decode(errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
