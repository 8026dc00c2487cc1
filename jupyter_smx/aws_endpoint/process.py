"""Start, find and stop the front: one process for a user and data folder, as the controller is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from jupyter_smx import controller_launch
from jupyter_smx.aws_endpoint.endpoint_file import URL_PREFIX, Endpoint, ensure_endpoint, read_endpoint
from jupyter_smx.data_folder.singleton_lock import read_holder
from jupyter_smx.model.errors import UnavailableError, ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from jupyter_smx.aws_endpoint.environment import S3Place

START_LIMIT = 60.0
"""Seconds until the front must listen while its process lives: imports from a cold network disk take long."""
STOP_LIMIT = 15.0
_PAUSE = 0.01
LOCK_LIMIT = 0.3
"""Seconds after which a lock is another front's; a process that only looks has it for microseconds."""
_HANDOVER_LIMIT = 10.0
"""Seconds until another process listens in whose favour the one that was started has left."""
_ONLY_OWNER = 0o600
_LOG_TAIL = 2048
_ALL_WORDS = 3
"""Number, buckets and images, before the port: a front writes them when it listens, an earlier version without it."""


class ReadyFront(NamedTuple):
    """A front that listens."""

    endpoint: Endpoint
    s3: S3Place


def lock_path() -> Path:
    """Return the file that the front has locked; it is on a local disk, since each machine has a front of its own."""
    return controller_launch.data_dir() / "aws.lock"


def log_path() -> Path:
    """Return the file with what the front reports."""
    return controller_launch.data_dir() / "aws.log"


class RunningFront(NamedTuple):
    """The process that has the lock."""

    pid: int
    s3: S3Place | None = None
    """Which buckets it has; None while it does not listen yet."""
    images: str = ""
    """``match`` if images are environments with their versions, else ``note``."""
    port: int = 0
    """Where it listens; 0 while it does not, or if its version does not write it."""

    @property
    def url(self) -> str:
        """The address that clients use; "" without a port."""
        return f"{URL_PREFIX}{self.port}" if self.port else ""


def find_front() -> RunningFront | None:
    """Return the process that is the front, None if there is none."""
    words = read_holder(lock_path())
    if not words or not words[0].isdecimal():
        return None
    if len(words) < _ALL_WORDS:
        return RunningFront(int(words[0]))
    port = int(words[_ALL_WORDS]) if words[_ALL_WORDS:] else 0
    return RunningFront(int(words[0]), "local" if words[1] == "local" else "aws", words[2], port)


def start_front(
    report: Callable[[str], None],
    s3: S3Place | None = None,
    images: str | None = None,
    python: str = sys.executable,
    settings: Sequence[str] = (),
) -> ReadyFront:
    """Start the front unless it runs, wait until it listens, and return it. Blocks for about a second.

    ``s3`` is where its buckets are, and ``images`` is ``match`` or ``note``; None for what the configuration says.
    ``settings`` are words with more of it, as a Jupyter server has it, for a front that is started.

    :raises ValidationError: it runs with other buckets or images.
    :raises UnavailableError: botocore is missing, the port is taken, or the process ended; its last words say why.
    """
    try:
        controller_launch.ensure_folders()
    except OSError as error:
        raise _start_error(f"{error.filename}: {error.strerror}") from error
    endpoint = ensure_endpoint()
    running = find_front()
    if running is not None and running.s3 is not None:
        return _check_choice(endpoint, running, s3, images)
    if find_spec("botocore") is None:
        raise UnavailableError(
            "The front for clients of AWS cannot be started: botocore is not installed.",
            field="python",
            value=python,
            rule="It reads the services' models of botocore.",
            cure='Install it beside jupyter_smx: pip install "jupyter-smx[aws]".',
        )
    report("Starting the front for clients of AWS …")
    words = [*settings, *([f"--SmxAws.s3={s3}"] if s3 else [])]
    words += [f"--SmxAws.match_images={images == 'match'}"] if images else []
    return _check_choice(endpoint, _wait_ready(_start_process(python, words)), s3, images)


def _check_choice(endpoint: Endpoint, running: RunningFront, s3: S3Place | None, images: str | None) -> ReadyFront:
    for option, found, chosen in (("s3", running.s3, s3), ("images", running.images, images)):
        if chosen not in (None, found):
            raise ValidationError(
                f"The front for clients of AWS runs with --{option} {found}.",
                field=option,
                value=chosen,
                rule="One front serves all clients of a user, so that it has one choice.",
                cure=f"Run `jupyter smx aws stop`, then `jupyter smx aws start --{option} {chosen}`; running jobs "
                "go on.",
            )
    return ReadyFront(endpoint, running.s3 or "local")


def _start_process(python: str, words: list[str]) -> subprocess.Popen[bytes]:
    environment = controller_launch.controller_environment(os.environ)
    environment[controller_launch.DATA_DIR_VARIABLE] = os.fspath(controller_launch.chosen_data_dir())
    try:
        log = os.open(log_path(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, _ONLY_OWNER)
        try:
            return subprocess.Popen(
                [python, "-m", "jupyter_smx.aws", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=controller_launch.data_dir(),
                env=environment,
                start_new_session=True,
            )
        finally:
            os.close(log)
    except OSError as error:
        raise _start_error(f"{error.filename}: {error.strerror}") from error


def _wait_ready(process: subprocess.Popen[bytes]) -> RunningFront:
    end, left_at = time.monotonic() + START_LIMIT, 0.0
    while True:
        running = find_front()
        if running is not None and running.s3 is not None:
            return running
        code = process.poll()
        # With 0 it has left because another process became the front at the same time.
        if code not in (None, 0):
            raise _start_error(last_log_line())
        if code == 0:
            left_at = left_at or time.monotonic()
            end = min(end, left_at + _HANDOVER_LIMIT)
        if time.monotonic() >= end:
            raise _start_error("it does not listen in time")
        time.sleep(_PAUSE)


def stop_front() -> bool:
    """End the front and wait for that; False if there is none. Jobs go on.

    :raises UnavailableError: it does not end.
    """
    running = find_front()
    if running is None:
        return False
    pid = running.pid
    with suppress(ProcessLookupError):  # it may have left by itself
        os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + STOP_LIMIT
    while (found := find_front()) is not None and found.pid == pid:
        if time.monotonic() >= end:
            raise UnavailableError(
                f"The front for clients of AWS, process {pid}, does not end.",
                field="process",
                value=pid,
                cure=f"`kill -9 {pid}` ends it; jobs go on, and its port and key stay.",
            )
        time.sleep(_PAUSE)
    return True


def describe_front() -> dict[str, object]:
    """Return what is known of the front, without its secret."""
    endpoint, running = read_endpoint(), find_front()
    return {
        "running": running is not None and running.s3 is not None,
        "pid": running.pid if running else None,
        "buckets": running.s3 if running else None,
        "images": running.images if running else None,
        "url": endpoint.url if endpoint else None,
        "access_key": endpoint.access_key if endpoint else None,
        "log": str(log_path()),
    }


def last_log_line() -> str:
    """Return the last line of the front's log."""
    try:
        with log_path().open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_TAIL))
            lines = log.read().decode(errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def port_taken_message(port: int, path: Path) -> str:
    """Return what the front reports if another process listens on its port."""
    return (
        f"Port {port} of 127.0.0.1 is taken by another process, and the front for clients of AWS has no other one, "
        f"because kernels and terminals have this port in their variables. End that process, or delete {path} for a "
        "new port and key and set the variables again."
    )


def _start_error(reason: str) -> UnavailableError:
    return UnavailableError(
        f"The front for clients of AWS could not be started: {reason.rstrip('.') or 'no output'}.",
        field="aws",
        cure=f"{log_path()} has details.",
    )
