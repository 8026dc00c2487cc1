"""A machine with accounts that exist only in its own namespaces, as several users of one hub share one machine.

Its files and its network are those of this machine. What differs is the list of accounts, and folders above the
checkout and its Python that are closed to other users here: there they are open, and have nothing else in them.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_PROGRAMS = ("mount", "setpriv", "unshare")
_PARENT_FOLDER = Path("/var/tmp")  # noqa: S108 - jobs have a /tmp of their own, and tests pass files to them
_MAY_ENTER = 0o001


class Account(NamedTuple):
    """A user of the machine."""

    name: str
    uid: int
    home: Path


class SharedMachine:
    """Namespaces of mounts and processes; whatever runs in them ends with them."""

    def __init__(self, users: Mapping[str, int]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="smx-hub-", dir=_PARENT_FOLDER))
        self.folder.chmod(0o755)
        self.accounts = {name: Account(name, uid, self.folder / "home" / name) for name, uid in users.items()}
        self._first_process: subprocess.Popen[bytes] | None = None

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], readable: Iterable[Path], log: Path
    ) -> None:
        """Run a command there as root, in the machine's folder. ``readable`` are folders that every user may read."""
        self._write_accounts()
        script = "\n".join(
            [
                "set -e; umask 022",
                *self._account_mounts(),
                *open_folders(readable, self.folder / "stash"),
                f"cd {shlex.quote(os.fspath(self.folder))}",
                '"$@" </dev/null &',
                "cat >/dev/null",
            ]
        )
        isolation = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        with log.open("ab") as file:
            self._first_process = subprocess.Popen(
                ["setpriv", "--pdeathsig=KILL", *isolation, "sh", "-c", script, "sh", *command],  # noqa: S607
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                env=dict(environment),
                cwd="/",
                start_new_session=True,
            )

    def stop(self) -> None:
        """End everything that runs there, and delete its files."""
        process = self._first_process
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(10)
            finally:
                process.kill()
                process.wait()
        self._remove_links()
        shutil.rmtree(self.folder)

    def _remove_links(self) -> None:
        """Remove the short names of hosts, whose agents ended with the namespaces."""
        for path in Path("/tmp").glob("smx-*"):  # noqa: S108 - where agents make them
            if path.is_symlink() and path.readlink().is_relative_to(self.folder):
                path.unlink()

    def _write_accounts(self) -> None:
        for kind, line in (("passwd", "{0}:x:{1}:{1}::{2}:/bin/sh\n"), ("group", "{0}:x:{1}:\n")):
            added = "".join(line.format(*account) for account in self.accounts.values())
            text = Path("/etc", kind).read_text(encoding="utf-8")
            (self.folder / kind).write_text(text + added, encoding="utf-8")
        (self.folder / "home").mkdir(mode=0o755)
        for account in self.accounts.values():
            account.home.mkdir(mode=0o700)
            os.chown(account.home, account.uid, account.uid)

    def _account_mounts(self) -> list[str]:
        return [
            f"mount --bind {shlex.quote(os.fspath(self.folder / kind))} /etc/{kind}" for kind in ("passwd", "group")
        ]


def unavailable_reason() -> str:
    """Return why this machine cannot make such a machine, "" if it can."""
    if os.geteuid() != 0:
        return "Only root can start servers as several users."
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    return f"The programs {', '.join(missing)} of util-linux are missing." if missing else ""


def open_folders(paths: Iterable[Path], stash: Path) -> list[str]:
    """Return the shell commands that let every user reach ``paths``, through folders that are closed now."""
    closed = {path: folder for path in paths if (folder := _closed_folder(path)) is not None}
    if not closed:
        return []
    kept, mounted = [f"mkdir -p {shlex.quote(os.fspath(stash))}"], []
    for number, path in enumerate(closed):
        place, target = shlex.quote(os.fspath(stash / str(number))), shlex.quote(os.fspath(path))
        kept.append(f"mkdir {place}; mount --rbind {target} {place}")
        mounted.append(f"mkdir -p {target}; mount --rbind {place} {target}")
    folders = sorted({shlex.quote(os.fspath(folder)) for folder in closed.values()})
    return [*kept, *(f"mount -t tmpfs -o mode=755 tmpfs {folder}" for folder in folders), *mounted]


def _closed_folder(path: Path) -> Path | None:
    """Return the topmost folder on the way to ``path`` that other users cannot enter."""
    return next((one for one in reversed((path, *path.parents)) if not one.stat().st_mode & _MAY_ENTER), None)
