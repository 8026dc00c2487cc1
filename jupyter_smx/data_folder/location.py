"""Decide which folder has the records: the data folder, or one on a local disk if that is on a network file system.

Kernels, the Jupyter server, terminals and the controller decide it each for itself, and must agree. So the decision
depends on the user, the data folder and the disks alone, and on no variable that differs between them.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

SYSTEM_MOUNTS = Path("/proc/self/mounts")
_UNMAPPED_UID = Path("/proc/sys/kernel/overflowuid")
"""Says under which number the machine's root appears where only one user is mapped, as in Apptainer."""
_DATABASE = "smx.sqlite"

PARENT_FOLDERS = (Path("/var/tmp"), Path("/tmp"))  # noqa: S108 - only a private folder of this user is used in them
"""Where a local folder may be. ``XDG_RUNTIME_DIR`` is emptied at logout, and ``TMPDIR`` differs between programs."""

_NAMES_IN_EACH = 9
"""Names that are tried in each parent folder, since another user may have taken some of them."""

_DIGITS_FILE = ".records-token"
"""In a data folder on a network: random digits that are a part of the name of its local folder.

In containers that share ``/var/tmp`` people have the same number, and their homes the same path.
"""
_TOKEN = re.compile(r"[0-9a-f]{16}")
_TOKEN_TRIES, _TOKEN_PAUSE = 50, 0.01
"""How often, and after how many seconds each, the token is read that another process writes."""

_DIGITS = 16
_ESCAPED = re.compile(r"\\([0-7]{3})")

_NETWORK_TYPES = frozenset(
    {
        "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "fakeowner", "gfs2", "glusterfs", "gpfs",
        "lustre", "mmfs", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "prl_fs", "pvfs2", "smb2",
        "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs", "wekafs", "9p",
    }
)  # fmt: skip
"""File systems that several machines may have mounted, and folders of the machine outside a virtual one."""

_VIRTIOFS = "virtiofs"
"""As the root of a virtual machine it is that machine's own disk."""

_FUSE = "fuse."

_NETWORK_FUSE_TYPES = frozenset(
    {
        "alluxio-fuse", "azure_storage_fuse", "blobfuse", "blobfuse2", "ceph", "ceph-fuse", "curlftpfs",
        "cvmfs2", "davfs", "davfs2", "dbfs", "drivefs", "fuse_dfs", "gcsfuse", "geesefs", "glusterfs",
        "goofys", "google-drive-ocamlfuse", "grpcfuse", "hdfs", "jindo-fuse", "juicefs", "lizardfs",
        "mfs", "moosefs", "mount-s3", "mountpoint-s3", "objectivefs", "onedriver", "osxfs", "ossfs",
        "quobyte", "rclone", "rclonefs", "s3fs", "s3ql", "saunafs", "seaweedfs", "smbnetfs",
        "sshfs", "vmhgfs-fuse",
    }
)  # fmt: skip
"""What follows ``fuse.``. Other FUSE types, such as those of encrypted folders and containers, are local."""


class DataFolder(NamedTuple):
    """Where a user's data is: ``records`` has the database, sockets, locks and hosts, ``chosen`` the job folders."""

    records: Path
    chosen: Path
    network_type: str
    """Type of the network file system that holds ``chosen``; empty if that is local or not known."""

    @property
    def has_local_records(self) -> bool:
        """Return True if the records are on a local disk and the job folders are not."""
        return self.records != self.chosen

    @property
    def jobs(self) -> Path:
        """The folder with a folder for each job: its logs and outputs."""
        return self.chosen / "jobs"

    def note(self) -> str:
        """Say where the records are and how long they last; empty if they are in the data folder."""
        if not self.has_local_records:
            return ""
        note = (
            f"The records of jobs are in {self.records} on this machine, because {self.chosen} is on a network file "
            f"system ({self.network_type}). They are lost when this machine or container is deleted, or when it cleans "
            f"{self.records.parent}. Logs and outputs of jobs are in {self.jobs}."
        )
        if (self.chosen / _DATABASE).exists():
            note += (
                f" Records of an earlier version are in {self.chosen}. Install the same version of jupyter-smx in each "
                "environment, so that all of them find the same records."
            )
        return note


def locate(chosen: Path) -> DataFolder:
    """Find the folder of the records; on a network file system, make a private one on a local disk.

    It is ``chosen`` itself if that is local, if the system does not say what it is, or if no local folder can be made.
    """
    kind = mounted_network_type(chosen)
    local = _local_folder(chosen, os.getuid()) if kind else None
    return DataFolder(local or chosen, chosen, kind)


def mounted_network_type(folder: Path) -> str:
    """Return the type of the network file system that holds ``folder`` now; empty if it is local or not known."""
    real = Path(os.path.realpath(folder))  # before the mounts are read, because this mounts what automount has there
    try:
        mounts = SYSTEM_MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""  # only Linux has this file
    return network_type(real, mounts)


def network_type(path: Path, mounts: str) -> str:
    """Return the type of the network file system that holds ``path``; empty if it is a local one.

    ``mounts`` is the text of ``/proc/self/mounts``; of several mounts in one place the last one counts.
    """
    best, kind = "", ""
    for line in mounts.splitlines():
        _, point, found, *_ = line.split(" ")
        point = _ESCAPED.sub(_unescape, point)
        if len(point) >= len(best) and path.is_relative_to(point):
            best, kind = point, found
    is_fuse = kind.startswith(_FUSE) and kind[len(_FUSE) :] in _NETWORK_FUSE_TYPES
    is_own_disk = kind == _VIRTIOFS and best == "/"
    return kind if (is_fuse or kind in _NETWORK_TYPES) and not is_own_disk else ""


def _unescape(found: re.Match[str]) -> str:
    return chr(int(found[1], 8))


def local_folder_names(chosen: Path, uid: int, token: str) -> list[str]:
    """Give the names that a local folder may have, in the order in which they are tried. Pure.

    ``token`` is that of the data folder, "" if it has none.
    """
    digest = hashlib.sha256(os.fsencode(chosen) + token.encode()).hexdigest()[:_DIGITS]
    stem = f"jupyter-smx-{uid}-{digest}"
    return [stem, *(f"{stem}-{number}" for number in range(2, _NAMES_IN_EACH + 1))]


def _local_folder(chosen: Path, uid: int) -> Path | None:
    """Find this user's local folder, or make it; None if that is not possible.

    It is made at once: a name that is merely free could be taken by another user before the controller starts.
    """
    parents = [parent for parent in PARENT_FOLDERS if _is_safe_parent(parent, uid)]
    if not parents:
        return None
    real = Path(os.path.realpath(chosen))
    token = read_token(real)
    if not token:
        # A home that was full when its records began has no token, and keeps them when there is room again.
        existing = _find_folder(parents, local_folder_names(real, uid, ""), uid)
        if existing is not None:
            return existing
        token = _make_token(real)
    names = local_folder_names(real, uid, token)
    # One that exists comes first, so that the folder stays the same when another name becomes free.
    return _find_folder(parents, names, uid) or next(_make_folders(parents, names, uid), None)


def read_token(chosen: Path) -> str:
    """Return the random digits of a data folder; "" if it has none."""
    try:
        text = (chosen / _DIGITS_FILE).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
    return text if _TOKEN.fullmatch(text) else ""


def _make_token(chosen: Path) -> str:
    """Return the random digits of a data folder, made by one of several processes.

    They are "" where the folder cannot be written.
    """
    path = chosen / _DIGITS_FILE
    try:
        make_private(chosen)
        _write_new(path, f"{secrets.token_hex(8)}\n".encode())
    except FileExistsError:
        pass
    except OSError:
        return ""
    for _ in range(_TOKEN_TRIES):
        if token := read_token(chosen):
            return token
        time.sleep(_TOKEN_PAUSE)
    return ""


def _write_new(path: Path, content: bytes) -> None:
    """Write a file that does not exist yet; on a full disk none is left."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, content)
        os.fsync(file)  # a network file system says here at the latest that it is full
    except OSError:
        with suppress(OSError):
            path.unlink()
        raise
    finally:
        os.close(file)


def make_private(folder: Path) -> None:
    """Make a folder and the folders above it for this user only.

    :raises OSError: it cannot be made, or belongs to another user.
    """
    for parent in reversed(folder.parents):
        if not parent.is_dir():
            parent.mkdir(mode=0o700, exist_ok=True)  # mkdir(parents=True) leaves their mode to the umask
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise PermissionError(errno.EPERM, "it belongs to another user", os.fspath(folder))
    if status.st_mode & 0o077:
        folder.chmod(0o700)


def _find_folder(parents: Iterable[Path], names: Sequence[str], uid: int) -> Path | None:
    return next((path for path in _paths(parents, names) if _is_private(path, uid)), None)


def _paths(parents: Iterable[Path], names: Sequence[str]) -> Iterator[Path]:
    return (parent / name for parent in parents for name in names)


def _make_folders(parents: Iterable[Path], names: Sequence[str], uid: int) -> Iterator[Path]:
    for parent in parents:
        for name in names:
            try:
                (parent / name).mkdir(mode=0o700)
            except FileExistsError:
                pass  # another user's, or a process of this user made it a moment ago
            except OSError:
                break  # a full or read-only disk has no place under other names either
            if _is_private(parent / name, uid):
                yield parent / name


def _is_private(path: Path, uid: int) -> bool:
    """Return True for a folder of this user that is no link; :func:`controller_launch.ensure_folders` sets its mode."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == uid and not found.st_mode & 0o022


def _is_safe_parent(parent: Path, uid: int) -> bool:
    """Return True for a local folder in which other users cannot rename or delete what this user made."""
    try:
        found = parent.stat()
    except OSError:
        return False
    is_protected = bool(found.st_mode & stat.S_ISVTX) or not found.st_mode & 0o022
    is_owned = found.st_uid in (0, uid, _read_unmapped_uid())
    return stat.S_ISDIR(found.st_mode) and is_owned and is_protected and not mounted_network_type(parent)


def _read_unmapped_uid() -> int:
    try:
        return int(_UNMAPPED_UID.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0
