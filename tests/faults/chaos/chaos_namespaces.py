"""Run a function in mount and process namespaces of its own: nothing of the machine is touched, nothing is left.

The first process of the process namespace collects what is left to it. When it ends, or when the time is over, the
kernel ends every other process there.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MEBIBYTES = 400
"""Room on the disk of the data folder; a data folder with some hundred jobs needs less."""
MEBIBYTES_PER_MINUTE = 60
"""Room for the jobs of each minute, whose records and outputs stay: a loop of 15 minutes filled the disk by itself."""
_UNSHARE = shutil.which("unshare") or "unshare"
_MOUNT = shutil.which("mount") or "mount"
_UNMOUNT = shutil.which("umount") or "umount"
_BUSY_SECONDS = 5.0
_INSIDE = "JUPYTER_SMX_CHAOS_FOLDER"
NOT_POSSIBLE = 77
"""Exit code where this machine gives no namespaces."""
FOLDER_DELETED = 78
"""Exit code where a program outside deleted the folder of the run, which takes the disks away, too."""
_KEPT = "kept"


def is_inside() -> bool:
    """Say whether this process is in the namespaces already."""
    return _INSIDE in os.environ


def _options() -> list[str]:
    root = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    return [_UNSHARE, *root, "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


def is_possible() -> bool:
    """Say whether this machine gives such namespaces, and disks in them."""
    probe = [*_options(), _MOUNT, "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(probe, capture_output=True, check=False, timeout=30).returncode == 0


def enter(words: Sequence[str], seconds: float) -> int:
    """Run this script again in the namespaces, for ``seconds`` at most; give its exit code, 124 where time was over."""
    if not is_possible():
        sys.stderr.write("This machine gives no mount and process namespaces.\n")
        return NOT_POSSIBLE
    # Sockets have short names, and what is in /tmp may be this very checkout.
    folder = tempfile.mkdtemp(prefix="chaos-", dir="/var/tmp")
    # Outside it would be empty, and a program that tidies up may delete empty folders.
    kept = Path(folder, _KEPT)
    kept.touch()
    try:
        inside = subprocess.Popen([*_options(), sys.executable, *words], env={**os.environ, _INSIDE: folder})
        try:
            code = inside.wait(seconds)
        except subprocess.TimeoutExpired:
            sys.stderr.write(f"The run was ended after {seconds:g} s.\n")
            return 124
        finally:
            _end(inside)
        if kept.exists():
            return code
        sys.stderr.write(f"A program outside deleted {folder} during the run, so the run proves nothing.\n")
        return FOLDER_DELETED
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _end(unshare: subprocess.Popen[bytes]) -> None:
    """End the first process of the namespace, and with it all others; return when the kernel has ended them.

    ``unshare`` waits for that process, so its own end says so. Were ``unshare`` killed, the others would end some
    milliseconds later.
    """
    if unshare.poll() is not None:
        return
    with contextlib.suppress(psutil.NoSuchProcess):
        for first in psutil.Process(unshare.pid).children() or [unshare]:
            first.kill()
    unshare.wait()


def run_inside(main: Callable[[Path], int], minutes: float) -> int:
    """Mount the disks, with room for the jobs of so many minutes, and run ``main`` with their folder in a child.

    Collects processes until it has ended.
    """
    folder = Path(os.environ[_INSIDE])
    mount("tmpfs", folder, "mode=0700")
    mount("tmpfs", data_folder(folder), f"size={MEBIBYTES + round(MEBIBYTES_PER_MINUTE * minutes)}m,mode=0700")
    child = os.fork()
    if child == 0:
        code = 70
        try:
            code = main(folder)
        except Exception:  # noqa: BLE001 - nothing else prints it in a child that ends by _exit
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    while True:
        ended, status = os.wait()
        if ended == child:
            return os.waitstatus_to_exitcode(status)


def data_folder(folder: Path) -> Path:
    """Give the folder of the small disk that holds the data folder."""
    return folder / "disk"


def mount(kind: str, folder: Path, options: str) -> None:
    """Mount an empty disk; the folder is made."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([_MOUNT, "-t", kind, "-o", options, kind, folder], check=True)


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Let a folder be read-only; what is open stays open for writing."""
    subprocess.run([_MOUNT, "--bind", folder, folder], check=True)
    try:
        remount = [_MOUNT, "-o", "remount,bind,ro", os.fspath(folder)]
        end = time.monotonic() + _BUSY_SECONDS
        # The kernel refuses it while a file is open for writing that was opened after the bind.
        while subprocess.run(remount, capture_output=True, check=False).returncode and time.monotonic() < end:
            time.sleep(0.05)
        yield
    finally:
        subprocess.run([_UNMOUNT, "-l", folder], check=True)
