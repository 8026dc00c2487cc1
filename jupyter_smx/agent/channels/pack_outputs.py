"""Pack outputs as SageMaker does: archives with members at the root, and outputs that are copied unchanged."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from jupyter_smx.agent.errors import TEMPORARY, is_full, is_temporary
from jupyter_smx.agent.paths import ARCHIVES, ML, format_name
from jupyter_smx.agent.system.files import host_layout, rmtree, safe_open
from jupyter_smx.agent.system.files.host_folder import is_folder
from jupyter_smx.agent.system.files.walk import descend
from jupyter_smx.agent.system.resources import disk

if TYPE_CHECKING:
    import tarfile

_LEVEL = 1
"""Compression of models rarely pays: the fastest level."""
_SMALL_FILES, _SMALL_BYTES = 16, 65_536
"""Files, and bytes of them, that are packed in about a millisecond, less than a process takes to start."""
_PART = "outputs.part"
"""Name, beside the archives, of the copy of an output that is not whole."""
_MAX_NAME_LENGTH = 200
"""Characters of a name in a sentence."""


def is_empty(folder: str) -> bool:
    """Return True if a folder is empty or does not exist."""
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is None
    except OSError as error:
        return not (isinstance(error, PermissionError) or is_temporary(error))  # else its content is unknown


def _members(folder: str, closed: Optional[List[str]] = None) -> List[str]:
    """List everything in a folder; paths that cannot be read are added to ``closed``.

    :raises OSError: the disk fails, possibly only for a while.
    """

    def miss(error: OSError) -> None:
        if is_temporary(error):
            raise error
        if closed is not None:
            closed.append(os.path.relpath(error.filename, folder))

    levels = descend(folder, on_error=miss)
    return sorted(level.inner(entry) for level in levels for entry in [*level.folders, *level.files])


def _mode(path: str) -> int:
    """Return the type and mode of a file, 0 if the file does not exist.

    :raises OSError: the disk fails, possibly only for a while.
    """
    try:
        return os.stat(path).st_mode
    except OSError as error:
        if is_temporary(error):
            raise
        return 0


def _can_read(path: str) -> bool:
    """Return True if a file can be read; raise as :func:`_mode` does."""
    return os.access(path, os.R_OK) or (_mode(path) != 0 and os.access(path, os.R_OK))


def _member(source: str, name: str, first_names: Dict[Tuple[int, int], str]) -> tarfile.TarInfo:
    """Describe a file, folder or link for an archive, without its owner and its time.

    ``tarfile`` would look up the names of its owner, which a directory service may answer late or never. It keeps the
    name of each file in ``first_names``: further names of one file are links to the first.
    """
    import tarfile  # noqa: PLC0415 - loaded already, see `startup.AFTER_START`

    status = os.lstat(source)
    info = tarfile.TarInfo(name)
    info.mode = status.st_mode
    if stat.S_ISDIR(status.st_mode):
        info.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(status.st_mode):
        info.type, info.linkname = tarfile.SYMTYPE, os.readlink(source)
    else:
        first = first_names.setdefault((status.st_dev, status.st_ino), name)
        if first == name:
            info.size = status.st_size
        else:
            info.type, info.linkname = tarfile.LNKTYPE, first
    return info


def _add(archive: tarfile.TarFile, source: str, info: tarfile.TarInfo) -> None:
    if info.isreg():
        with open(source, "rb") as file:
            archive.addfile(info, file)
    else:
        archive.addfile(info)


def pack(folder: str, path: str, title: str = "") -> List[str]:
    """Write a ``tar.gz`` that depends on names and contents only; return a sentence for each file left out.

    ``title`` is the name that users have for the folder, in a sentence about the folder itself.

    :raises OSError: the archive cannot be written.
    """
    import gzip  # noqa: PLC0415 - loaded already, see `startup.AFTER_START`
    import tarfile  # noqa: PLC0415 - likewise

    errors: List[str] = []
    closed: List[str] = []
    first_names: Dict[Tuple[int, int], str] = {}
    with contextlib.ExitStack() as files:
        raw = files.enter_context(safe_open.open_to_write(path + ".part"))
        zipped = files.enter_context(gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0))
        archive = files.enter_context(tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT))
        for name in _members(folder, closed):
            source = os.path.join(folder, name)
            if not os.path.islink(source) and not _can_read(source):
                errors.append(f"{_shorten_name(name)} cannot be read and was skipped.")
            elif not (os.path.islink(source) or os.path.isfile(source) or os.path.isdir(source)):
                errors.append(f"{_shorten_name(name)} is not a file or folder and was skipped.")
            else:
                _add(archive, source, _member(source, name, first_names))
    os.replace(path + ".part", path)
    names = [title or folder if name == os.curdir else _shorten_name(name) for name in closed]
    return errors + [f"the folder {name} cannot be read and its content was skipped." for name in names]


def _shorten_name(name: str) -> str:
    """Return a name for a line of a message; of a very long one, the beginning and the end."""
    is_short = len(name) <= _MAX_NAME_LENGTH
    return format_name(name if is_short else f"{name[: _MAX_NAME_LENGTH // 2]}…{name[-_MAX_NAME_LENGTH // 2 :]}")


def _skip_reason(folder: str, ml: str) -> str:
    """Return why an output's folder cannot be collected, '' if it can: only what lies below ``ml`` is the job's.

    SageMaker follows no links there either. A channel in FastFile mode has links to the user's own folders.
    """
    real = os.path.realpath(folder)
    if not stat.S_ISDIR(_mode(folder)):
        return "is not a folder at the end of the job"
    if not real.startswith(os.path.realpath(ml) + os.sep):
        return f"is a link out of {ML}, to {real}; its files were not collected"
    return ""


def _move_output(folder: str, target: str, part: str) -> None:
    """Move an output's content; a rename where both lie on one file system, else a copy at ``part``."""
    os.makedirs(target, exist_ok=True)
    _grant_access(folder)
    for name in sorted(os.listdir(folder)):
        _grant_access(os.path.join(folder, name))
        _move(os.path.join(folder, name), os.path.join(target, name), part)


def _move(source: str, target: str, part: str) -> None:
    """Move a file or a folder, to another file system by a copy at ``part``, which lies on that of ``target``.

    ``target`` is complete if it exists. Parts of ``source`` that cannot be removed stay there.
    :raises OSError: it cannot be copied; nothing is at ``part``.
    """
    if not os.path.lexists(target):
        try:
            os.rename(source, target)
        except OSError:
            _copy(source, part)
            os.rename(part, target)
        else:
            return
    rmtree.remove_if_possible(source)


def _copy(source: str, part: str) -> None:
    import shutil  # noqa: PLC0415 - see `startup.AFTER_START`

    rmtree.remove_if_possible(part)
    try:
        if os.path.islink(source):
            os.symlink(os.readlink(source), part)
        elif os.path.isdir(source):
            shutil.copytree(source, part, symlinks=True)
        else:
            shutil.copy2(source, part)
    except OSError as error:
        rmtree.remove_if_possible(part)
        # The error of a folder has those of its files as texts only.
        numbers = (error.errno,) if error.errno else TEMPORARY
        number = next((number for number in numbers if os.strerror(number) in str(error)), 0)
        if number not in TEMPORARY:
            raise
        raise OSError(number, os.strerror(number), source) from error


def _grant_access(path: str) -> None:
    """Give the owner access to a folder: a copied mode may be read-only, and a move needs write access."""
    if is_folder(path) and not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | stat.S_IRWXU)


def _listing(folder: str) -> List[Dict[str, Any]]:
    found = []
    for name in _members(folder):
        path = os.path.join(folder, name)
        info = os.lstat(path)
        if stat.S_ISREG(info.st_mode):
            found.append({"name": name, "path": path, "size": info.st_size})
    return found


def archive(ml: str, outputs: List[Tuple[str, str]], job_folder: str) -> Dict[str, Any]:
    """Fill the job's ``artifacts``; return their list (paths in the job's folder) and error messages.

    :raises OSError: the spool cannot be written.
    """
    target = os.path.join(job_folder, host_layout.ARTIFACTS)
    os.makedirs(target, exist_ok=True)
    errors: List[str] = []
    # Outputs come first, so that an output inside one of the other folders is collected only once.
    for name, folder in outputs:
        why = _skip_reason(folder, ml)
        if why:
            errors.append(f"output {name}: {os.path.join(ML, os.path.relpath(folder, ml))} {why}.")
        else:
            _move_output(folder, os.path.join(target, "outputs", name), os.path.join(target, _PART))
    for source, name in ARCHIVES:
        folder = os.path.join(ml, source)
        if not is_empty(folder):
            left_out = pack(folder, os.path.join(target, name), os.path.join(ML, source))
            errors += [f"{name}: {text}" for text in left_out]
    artifacts = _listing(target)
    for artifact in artifacts:
        artifact["path"] = os.path.relpath(artifact["path"], job_folder)
    return {"artifacts": artifacts, "errors": errors}


def stage_out(ml: str, outputs: List[Tuple[str, str]], job_folder: str, places: disk.DiskPaths) -> Dict[str, Any]:
    """Do the same as :func:`archive`, but leave no partial archive on errors; ``places`` are disks that may be full.

    If a disk is full, read-only or fails, return ``{"later": message, "is_full": bool}``. Outputs that were moved
    already stay moved, so a later call continues.
    """
    try:
        return archive(ml, outputs, job_folder)
    except OSError as error:
        why = disk.format_error(error, places)  # while half of an archive still fills the disk
        remove_partial_archives(job_folder)
        if not is_temporary(error):
            raise
        return {"later": why, "is_full": is_full(error)}
    except Exception:
        remove_partial_archives(job_folder)
        raise


def remove_partial_archives(job_folder: str) -> None:
    """Delete incomplete archives and copies: on a full disk they take the space that the next job needs.

    The caller does this if the process of :func:`stage_out` was killed.
    """
    for _source, name in ARCHIVES:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(job_folder, host_layout.ARTIFACTS, name + ".part"))
    rmtree.remove_if_possible(os.path.join(job_folder, host_layout.ARTIFACTS, _PART))


def has_work(ml: str, outputs: List[Tuple[str, str]], job_folder: str) -> bool:
    """Return True if there is anything to archive."""
    folders = [os.path.join(ml, source) for source, _name in ARCHIVES]
    folders.append(os.path.join(job_folder, host_layout.ARTIFACTS))
    return bool(outputs) or not all(is_empty(folder) for folder in folders)


def is_small(ml: str, outputs: List[Tuple[str, str]], job_folder: str) -> bool:
    """Return True if packing takes no longer than starting a process, and reads only the host's own disk."""
    if outputs:
        return False
    received = os.path.join(job_folder, host_layout.ARTIFACTS)
    try:
        device = os.stat(ml).st_dev
        sizes = [_size(entry, device) for source, _name in ARCHIVES for entry in os.scandir(os.path.join(ml, source))]
        # Variables lie where they stay, so they are only listed.
        listed = [*os.scandir(received)] if is_folder(received) else []
        is_flat = not any(entry.is_dir(follow_symlinks=False) for entry in listed)
    except OSError:
        return False
    return is_flat and len(sizes) + len(listed) <= _SMALL_FILES and sum(sizes) <= _SMALL_BYTES


def _size(entry: os.DirEntry[str], device: int) -> int:
    """Return the size of a plain file on a disk in bytes; for anything else, a size above the limit."""
    state = entry.stat(follow_symlinks=False)
    return state.st_size if stat.S_ISREG(state.st_mode) and state.st_dev == device else _SMALL_BYTES + 1
