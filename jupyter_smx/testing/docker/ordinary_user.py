"""An ordinary user for tests that run as root: an account that exists only in its own namespaces.

Nothing of this machine is changed. All processes of the user end with the process that created the user, however that
ends. Files that were left then are removed when the next user is made.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

UID = 54_321
"""A number that no account of a usual machine has, and neither has any of the range below."""
_NAME = "smx"
_PARENT_FOLDER = Path("/var/tmp")  # noqa: S108 - with names of our own
"""On a disk, which ``/tmp`` need not be: not every kernel stacks the layers of images on memory."""
_PREFIX = "smx-user-"
_RANGE = (7_000_000, 65_536)
_TUN = os.makedev(10, 200)
_PROGRAMS = ("setpriv", "unshare", "nsenter")

_INIT_SCRIPT = """
set -e
folder=$1; shift
mount --make-rshared /
for name in passwd subuid subgid; do mount --bind "$folder/$name" "/etc/$name"; done
for path; do number=$((number + 1)); mount --bind "$path" "$folder/shown/$number"; done
test ! -e /dev/net/tun || mount --bind "$folder/tun" /dev/net/tun
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs -o mode=1777 tmpfs /tmp
echo begun
cat >/dev/null
"""
"""Program of process 1 of the namespaces: it mounts the user's own folders, and ends with all processes when abandoned.

Daemons keep locks and sockets in ``/tmp`` and ``/dev/shm``, and leave them there when they are killed. The device of
networks is root's alone on some machines, and everybody's on most.
"""


class OrdinaryUser:
    """An account with a home, a runtime folder and other users' numbers to give away, as ``useradd`` makes one.

    ``shown`` are folders that the user may read even if their parent folders are closed.
    """

    def __init__(self, shown: Sequence[Path] = ()) -> None:
        _clean_up()
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_PARENT_FOLDER))
        self._lock = _lock(self.folder)
        self.home = self.folder / "home"
        self.runtime = self.folder / "run"
        self.readable_folders = [self.folder / "shown" / str(number) for number in range(1, len(shown) + 1)]
        self._sources = shown
        self._init_process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Create the user.

        :raises RuntimeError: this machine does not allow it; the text has its message.
        """
        self._make()
        words = ["setpriv", "--pdeathsig=KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        given = [os.fspath(path) for path in (self.folder, *self._sources)]
        pipe = subprocess.PIPE
        self._init_process = subprocess.Popen(
            [*words, "sh", "-c", _INIT_SCRIPT, "sh", *given],
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self._init_process.stdout is not None
        said = self._init_process.stdout.readline()
        if said != b"begun\n":
            raise RuntimeError(f"There can be no user of our own here: {said.decode(errors='replace').strip()}")

    def _make(self) -> None:
        self.folder.chmod(0o755)
        line = f"{_NAME}:x:{UID}:{UID}::{self.home}:/bin/sh\n"
        (self.folder / "passwd").write_text(Path("/etc/passwd").read_text() + line)
        for name in ("subuid", "subgid"):
            (self.folder / name).write_text(":".join(map(str, (_NAME, *_RANGE))) + "\n")
        os.mknod(self.folder / "tun", 0o020666, _TUN)
        (self.folder / "tun").chmod(0o666)
        for path in (self.home, self.runtime):
            self.make_folder(path)
        for path in self.readable_folders:
            path.mkdir(parents=True)

    def make_folder(self, path: Path) -> Path:
        """Make a folder of the user's, with those above it that are missing."""
        if not path.exists():
            self.make_folder(path.parent)
            path.mkdir(mode=0o700)
            os.chown(path, UID, UID)
        return path

    def popen(self, words: Sequence[str], environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
        """Start a program as the user, with these variables and those of a login; its output goes to a file."""
        if self._init_process is None:
            raise RuntimeError("The user was not started.")
        mine = f"/proc/{self._init_process.pid}/ns"
        enter = ["nsenter", f"--mount={mine}/mnt", f"--pid={mine}/pid_for_children"]
        become = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--"]
        login = {"HOME": os.fspath(self.home), "XDG_RUNTIME_DIR": os.fspath(self.runtime), "USER": _NAME}
        usual = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin", "LANG": "C.UTF-8"}
        with log.open("wb") as file:
            return subprocess.Popen(
                [*enter, *become, *words],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**usual, **login, **environment},
                start_new_session=True,
            )

    def stop(self) -> None:
        """End the user with all that it started, and remove all that it kept."""
        if self._init_process is not None:
            for pipe in (self._init_process.stdin, self._init_process.stdout):
                if pipe is not None:
                    pipe.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._init_process.wait(10)
            self._init_process.kill()
            self._init_process.wait()
        shutil.rmtree(self.folder)
        self._lock.close()


def _lock(folder: Path) -> BinaryIO:
    """Lock a folder to mark it as in use; the lock ends when the returned file is closed."""
    lock = (folder / "new").open("wb")
    fcntl.flock(lock, fcntl.LOCK_EX)
    (folder / "new").rename(folder / "lock")
    return lock


def _clean_up() -> None:
    """Remove the folders of users whose creating process was killed."""
    for path in _PARENT_FOLDER.glob(f"{_PREFIX}*/lock"):
        with contextlib.suppress(OSError), path.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path.parent, ignore_errors=True)


@functools.cache
def unavailable_reason() -> str:
    """Return a sentence on why there can be no such user here, empty if there can."""
    if os.geteuid() != 0:
        return "Only root can make an ordinary user."
    if not all(map(shutil.which, _PROGRAMS)):
        return f"This needs {', '.join(_PROGRAMS)} of util-linux."
    become = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--"]
    words = ["unshare", "--mount", "--pid", "--fork", *become, "unshare", "--user", "true"]
    tried = subprocess.run(words, check=False, capture_output=True, text=True)
    return f"Root, or others, have no namespaces here: {tried.stderr.strip()}" if tried.returncode else ""
