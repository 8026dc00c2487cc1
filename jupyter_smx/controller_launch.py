"""Locate and start the controller; every package may import this module, so it imports almost nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_core.paths import jupyter_data_dir

from jupyter_smx.data_folder import location, short_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_smx.data_folder.location import DataFolder

DATA_DIR_VARIABLE = "JUPYTER_SMX_DATA_DIR"

_SOCKET_PATH_LIMIT = 100
"""Bytes; Linux takes 107 and macOS 103."""

_SECRET_PREFIXES = ("JPY_", "JUPYTERHUB_", "JUPYTER_TOKEN", "JUPYTER_GATEWAY_")
"""What a Jupyter server and a hub put into the environment of a kernel and no job may see."""

AWS_VARIABLES = "JUPYTER_SMX_AWS"
"""Names the variables that lead clients of AWS here, separated by commas (``jupyter_smx.aws_endpoint``)."""
AWS_SAVED_PREFIX = "JUPYTER_SMX_BEFORE_"
"""Begins the name of the variable with the value from before."""

_LOG_TAIL = 2048

_RECORDS_ID = "records-id"


def chosen_data_dir() -> Path:
    """Give the data folder as it was chosen: ``JUPYTER_SMX_DATA_DIR``, or ``smx`` in Jupyter's data folder."""
    chosen = os.environ.get(DATA_DIR_VARIABLE)
    return Path(chosen).expanduser().absolute() if chosen else Path(jupyter_data_dir()) / "smx"


_located: dict[Path, DataFolder] = {}


def locate_data() -> DataFolder:
    """Find the folders of the records and of the jobs; they differ if the data folder is on a network file system.

    A process looks once, since each submission asks; but again while there is no place for the records.
    """
    chosen = chosen_data_dir()
    found = _located.get(chosen) or location.locate(chosen)
    if found.has_local_records or not found.network_type:
        _located[chosen] = found
    return found


def data_dir() -> Path:
    """Give the folder with the records of jobs, which is on a local disk."""
    return locate_data().records


def aws_socket_dir(records: Path | None = None) -> Path:
    """Give the folder with the socket of the front for clients of AWS, which containers of jobs mount.

    ``records`` is the folder with the records of jobs, if it is known.
    """
    return (records or data_dir()) / "aws-front"


def ensure_aws_socket_dir() -> Path:
    """Make the folder with the front's socket. Users of containers may enter it, and the data folder protects it here.

    :raises OSError: it cannot be made.
    """
    folder = aws_socket_dir()
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)  # whatever this process's umask is
    return folder


def jobs_dir() -> Path:
    """Give the folder with the logs and outputs of jobs."""
    return locate_data().jobs


def records_note() -> str:
    """Say where the records are and that they end with this machine; empty if they are in the data folder."""
    return locate_data().note()


def records_id() -> str:
    """Return the random ID of the folder with the records; empty while it has none.

    A card and a server with different IDs have different jobs, whatever the names of their machines and folders.
    """
    return read_records_id(data_dir())


def read_records_id(folder: Path) -> str:
    """Return the random ID of a folder with records; empty while it has none."""
    try:
        return (folder / _RECORDS_ID).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def socket_path() -> Path:
    """Give the name of the controller's unix socket; :func:`socket_address` has its address."""
    return data_dir() / "controller.sock"


def socket_address(path: Path | None = None) -> str:
    """Return the address of a unix socket, by default the controller's: its path, or a short one that is recorded.

    :raises FileNotFoundError: the path is too long, and there is no private folder with a short one.
    """
    path = path or socket_path()
    if len(os.fsencode(path)) <= _SOCKET_PATH_LIMIT:
        return os.fspath(path)
    folder = short_folder.find_short_folder(_record_path(path))
    if folder is None:
        raise FileNotFoundError(errno.ENOENT, "No folder for the socket is recorded", os.fspath(path))
    return os.fspath(folder / "s")


def has_socket() -> bool:
    """Return True if the controller's socket exists; a controller that was killed leaves one."""
    try:
        return Path(socket_address()).exists()
    except OSError:
        return False


def _record_path(path: Path) -> Path:
    """Return the file that names the folder of a socket whose path is too long."""
    return path.with_suffix(".folder")


def lock_path() -> Path:
    """Give the file that each controller has open, and one has locked."""
    return data_dir() / "controller.lock"


def log_path() -> Path:
    """Give the file that holds what the controller says, its last words included."""
    return data_dir() / "controller.log"


def ensure_folders() -> None:
    """Make the data folder and the socket's folder, readable by this user only.

    :raises OSError: one of them cannot be made or belongs to another user; ``filename`` says which.
    """
    located = locate_data()
    # Each may be a link that the user made.
    for folder in dict.fromkeys((located.records.resolve(), located.chosen.resolve())):
        location.make_private(folder)
    _ensure_records_id(located.records)
    path = socket_path()
    if len(os.fsencode(path)) > _SOCKET_PATH_LIMIT:
        short_folder.make_short_folder(_record_path(path), os.environ.get(short_folder.RUNTIME_VARIABLE, ""))


def _ensure_records_id(folder: Path) -> None:
    """Give a folder of records its ID. Of several processes at once one does; without it cards are live as before."""
    path = folder / _RECORDS_ID
    if path.exists():
        return
    drafted = folder / f"{_RECORDS_ID}.{os.getpid()}"
    with contextlib.suppress(OSError):
        drafted.write_text(f"{secrets.token_hex(8)}\n", encoding="utf-8")
        # A link is made whole or not at all, and not over another one.
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(drafted)
        drafted.unlink()


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
            probe.connect(socket_address())
        except OSError:
            return False
    return True


def controller_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Drop from ``environ`` what belongs to one server, hub or kernel: the controller outlives all of them.

    Variables of AWS have the values from before a kernel or a shell led its own clients here.
    """
    kept = leave_front({name: value for name, value in environ.items() if not name.startswith(_SECRET_PREFIXES)})
    if kept.get("MPLBACKEND", "").startswith("module://"):
        # A kernel's inline backend draws into that kernel; a job has none.
        del kept["MPLBACKEND"]
    return kept


def leave_front(environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables without those that lead clients of AWS here, with their values from before."""
    kept = dict(environ)
    for name in filter(None, kept.pop(AWS_VARIABLES, "").split(",")):
        before = kept.pop(f"{AWS_SAVED_PREFIX}{name}", None)
        kept.pop(name, None)
        if before is not None:
            kept[name] = before
    return kept


def start_controller(python: str = sys.executable) -> subprocess.Popen[bytes]:
    """Start a controller that outlives this process and return at once; when one runs already the new one leaves.

    :raises OSError: ``python`` cannot be started or the data folder cannot be made.
    """
    ensure_folders()
    environment = controller_environment(os.environ) | {DATA_DIR_VARIABLE: os.fspath(chosen_data_dir())}
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
