"""Explain why no controller could start or answer, in one sentence for kernels, terminals and the Jupyter server."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from pathlib import Path

from jupyter_smx import controller_launch
from jupyter_smx.data_folder.singleton_lock import read_holder
from jupyter_smx.model.errors import UnavailableError

ANSWER_LIMIT = 30.0
"""Seconds for an answer of the controller that needs no waiting; after them it counts as frozen."""
START_LIMIT = 120.0
"""Seconds until a controller must listen while its process lives: imports from a cold network disk may take minutes."""
REPEAT_LIMIT, REPEAT_PAUSE = 5.0, 0.1
"""Seconds for which a request is sent again after its first lost answer, and between two tries."""
NO_LISTENER = (FileNotFoundError, NotADirectoryError, ConnectionRefusedError)
"""Errors of a request that no process received."""
_STOPPED = ("T", "t")
"""States of a process that a signal, or a debugger, has stopped."""
_UNAVAILABLE = 503
_MIN_FREE_BYTES = 1 << 16
"""Bytes; on a disk with less room left not even a reason can be written down."""


def start_error(error: OSError, *, then: str = "") -> UnavailableError:
    """Say why nothing can be started; ``then`` is what to do after the data folder was changed."""
    if error.filename == sys.executable:
        return UnavailableError(
            f"The controller could not be started: {sys.executable} cannot be run: {error.strerror}.",
            field="python",
            value=sys.executable,
            rule="The controller runs with this program's Python.",
            cure="Check whether its environment was moved or deleted, and start this program from an existing one.",
        )
    located, place = controller_launch.locate_data(), _place_of(error)
    folder = next((each for each in (located.records, located.chosen) if _is_on_the_way(place, each)), None)
    message = f"The controller could not be started, because {format_unusable(error)}."
    if folder is None:
        return _socket_folder_error(message, place, located.records, then)
    return UnavailableError(
        message,
        field="data_dir",
        value=folder,
        rule="The controller stores the records of all jobs in it.",
        cure=f"Make it a folder that you can write to and free some space, "
        f"or set {controller_launch.DATA_DIR_VARIABLE} to another folder{then}.",
    )


def format_unusable(error: OSError) -> str:
    """Say which folder cannot be used, and why."""
    reason = "it is a file" if isinstance(error, FileExistsError) else error.strerror or str(error).rstrip(".")
    return f"{_place_of(error)} cannot be used: {reason}"


def _place_of(error: OSError) -> Path:
    return Path(error.filename) if isinstance(error.filename, str) else controller_launch.data_dir()


def _is_on_the_way(place: Path, folder: Path) -> bool:
    """Return True if ``place`` is the data folder, in it, or above it."""
    return any(place == each or each in place.parents or place in each.parents for each in (folder, folder.resolve()))


def _socket_folder_error(message: str, place: Path, folder: Path, then: str) -> UnavailableError:
    return UnavailableError(
        message,
        field="data_dir",
        value=folder,
        rule=f"The path of {folder} is too long for a unix socket, so the socket needs a folder in {place}.",
        cure=f"Set {controller_launch.DATA_DIR_VARIABLE} to a shorter path, or make {place} writable{then}.",
    )


def no_answer_error(*, then: str = "") -> UnavailableError:
    """Say why a controller that was started does not listen: another one has the lock, or by its own last words."""
    if _is_disk_full():
        return start_error(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), then=then)
    owner = lock_owner()
    if owner:
        return _owner_error(owner, f"it has the lock of {controller_launch.data_dir()}, and does not listen there")
    # What the controller says of itself has its cure in it.
    return UnavailableError(
        f"The controller could not be started: {controller_launch.last_log_line().rstrip('.') or 'no output'}.",
        field="controller",
        cure=f"Then try again; {controller_launch.log_path().name} in {controller_launch.data_dir()} has details.",
    )


def starting_error(seconds: float) -> UnavailableError:
    """Say that a controller is being started for ``seconds``."""
    return UnavailableError(
        f"The controller is still starting, {seconds:.0f} s.",
        rule="A first start reads many files, which takes long on a slow or busy disk.",
        cure="Wait; this message goes when it has started.",
        transient=True,
    )


def slow_start_error(pid: int, seconds: float) -> UnavailableError:
    """Say that the process of a controller lives and does not listen yet, and what to do."""
    if process_state(pid) in _STOPPED:
        return _owner_error(pid, f"it does not listen {seconds:.0f} s after its start")
    return UnavailableError(
        f"The controller, process {pid}, is still starting after {seconds:.0f} s.",
        field="controller",
        value=pid,
        rule="Its process lives, and reads its files slowly.",
        cure=f"Wait and try again. If that does not help, `kill {pid}` ends it; "
        f"{controller_launch.log_path().name} in {controller_launch.data_dir()} has details.",
        transient=True,
    )


def silent_error(seconds: float = ANSWER_LIMIT) -> UnavailableError:
    """Say that the controller did not answer for so long, which process it is, and what ends or continues it."""
    owner = lock_owner()
    if owner:
        return _owner_error(owner, f"it did not answer for {seconds:g} s")
    return UnavailableError(
        f"The controller did not answer for {seconds:g} s.",
        cure=f"See {controller_launch.log_path()}. Then try again.",
        transient=True,
    )


def is_fenced(status: int, body: bytes) -> bool:
    """Return True for the refusal of a controller that another one has replaced."""
    return status == _UNAVAILABLE and b'"code":"Fenced"' in body


def add_doubt(error: UnavailableError, submitted: str) -> UnavailableError:
    """Add that what has the id ``submitted`` may have been accepted; the same error for ""."""
    if not submitted:
        return error
    doubt = (
        f"It may have been accepted with the ID {submitted}, and may run: look for it with `%smx jobs` before you "
        "submit it again."
    )
    return UnavailableError(
        error.message,
        field=error.field,
        value=error.value,
        rule=error.rule,
        cure=f"{error.cure} {doubt}".strip(),
        transient=error.transient,
    )


def _owner_error(pid: int, problem: str) -> UnavailableError:
    kill = f"`kill -9 {pid}` ends it; jobs and pools go on, and the next command starts a new controller."
    if process_state(pid) in _STOPPED:
        problem = f"it is stopped (SIGSTOP), and {problem.removeprefix('it ')}"
        kill = f"`kill -CONT {pid}` continues it. {kill}"
    return UnavailableError(
        f"The controller, process {pid}, cannot be reached: {problem}.",
        field="controller",
        value=pid,
        cure=kill,
        transient=True,
    )


def lock_owner() -> int:
    """Give the process that holds the lock of the data folder; 0 where there is none."""
    words = read_holder(controller_launch.lock_path())
    return int(words[0]) if words and words[0].isdecimal() else 0


def starting_owner(now: float) -> int:
    """Give the process that took the lock so recently that it may still start; 0 where there is none."""
    owner = lock_owner()
    try:
        # A controller writes its process id into the lock once, when it takes it.
        age = now - controller_launch.lock_path().stat().st_mtime
    except OSError:
        return 0
    return owner if owner and age < START_LIMIT and process_state(owner) not in _STOPPED else 0


def process_state(pid: int) -> str:
    """Give the letter of a process's state, as ``T`` of one that is stopped; "" where the system does not say it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def _is_disk_full() -> bool:
    try:
        return shutil.disk_usage(controller_launch.data_dir()).free < _MIN_FREE_BYTES
    except OSError:
        return False
