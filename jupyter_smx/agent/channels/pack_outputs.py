"""Pack outputs as SageMaker does: archives with members at the root, and outputs that are copied unchanged."""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import stat
import tarfile
from typing import Any, Dict, List, Optional, Tuple

from jupyter_smx.agent.paths import ARCHIVES, ML
from jupyter_smx.agent.system.files import host_layout, safe_open
from jupyter_smx.agent.system.files.host_folder import is_folder
from jupyter_smx.agent.system.files.walk import descend
from jupyter_smx.agent.system.resources import disk

_LEVEL = 1
"""Compression of models rarely pays: the fastest level."""
_MAX_NAME_LENGTH = 200
"""Characters of a name in a sentence."""


def is_empty(folder: str) -> bool:
    """Say whether a folder has nothing in it, or is not there."""
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is None
    except PermissionError:
        return False  # nobody knows what is in it
    except OSError:
        return True


def _members(folder: str, closed: Optional[List[str]] = None) -> List[str]:
    """Name everything in a folder; what of it cannot be looked into goes to ``closed``."""

    def miss(error: OSError) -> None:
        if closed is not None:
            closed.append(os.path.relpath(error.filename, folder))

    levels = descend(folder, on_error=miss)
    return sorted(level.inner(entry) for level in levels for entry in [*level.folders, *level.files])


def _anonymize(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mtime = 0
    return info


def pack(folder: str, path: str) -> List[str]:
    """Write a ``tar.gz`` that depends on names and contents only; gives a sentence for each file left out.

    :raises OSError: the archive cannot be written.
    """
    errors: List[str] = []
    closed: List[str] = []
    with contextlib.ExitStack() as files:
        raw = files.enter_context(safe_open.open_to_write(path + ".part"))
        zipped = files.enter_context(gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0))
        archive = files.enter_context(tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT))
        for name in _members(folder, closed):
            source = os.path.join(folder, name)
            if not os.path.islink(source) and not os.access(source, os.R_OK):
                errors.append(f"{_shorten_name(name)} cannot be read and was skipped.")
            elif not (os.path.islink(source) or os.path.isfile(source) or os.path.isdir(source)):
                errors.append(f"{_shorten_name(name)} is not a file or folder and was skipped.")
            else:
                archive.add(source, arcname=name, recursive=False, filter=_anonymize)
    os.replace(path + ".part", path)
    return errors + [f"the folder {_shorten_name(name)} cannot be read and its content was skipped." for name in closed]


def _shorten_name(name: str) -> str:
    """Give a name for a sentence: of one that is too long to be opened the beginning and the end tell enough."""
    return (
        name if len(name) <= _MAX_NAME_LENGTH else f"{name[: _MAX_NAME_LENGTH // 2]}…{name[-_MAX_NAME_LENGTH // 2 :]}"
    )


def _skip_reason(folder: str, ml: str) -> str:
    """Say why nothing can be moved out of an output's folder, '' when it can: only what lies below ``ml`` is the job's.

    SageMaker follows no links there either. A channel in FastFile mode has links to the user's own folders.
    """
    real = os.path.realpath(folder)
    if not os.path.isdir(folder):
        return "is not a folder at the end of the job"
    if not real.startswith(os.path.realpath(ml) + os.sep):
        return f"is a link out of {ML}, to {real}; its files were not collected"
    return ""


def _move_output(folder: str, target: str) -> None:
    """Move an output's content; a rename where both lie on one file system."""
    os.makedirs(target, exist_ok=True)
    _grant_access(folder)
    for name in sorted(os.listdir(folder)):
        _grant_access(os.path.join(folder, name))
        shutil.move(os.path.join(folder, name), os.path.join(target, name))


def _grant_access(path: str) -> None:
    """Give its owner the rights that a move needs, as root has them, because read-only modes of folders are copied."""
    if is_folder(path) and not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | stat.S_IRWXU)


def _listing(folder: str) -> List[Dict[str, Any]]:
    found = []
    for name in _members(folder):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and not os.path.islink(path):
            found.append({"name": name, "path": path, "size": os.path.getsize(path)})
    return found


def archive(ml: str, outputs: List[Tuple[str, str]], job_folder: str) -> Dict[str, Any]:
    """Fill the job's ``artifacts``: gives their list (path within the job's folder) and sentences about trouble.

    :raises OSError: the spool cannot be written.
    """
    target = os.path.join(job_folder, host_layout.ARTIFACTS)
    os.makedirs(target, exist_ok=True)
    errors: List[str] = []
    # Outputs come first, so that a processing job's that lies in one of the others comes home once.
    for name, folder in outputs:
        why = _skip_reason(folder, ml)
        if why:
            errors.append(f"output {name}: {os.path.join(ML, os.path.relpath(folder, ml))} {why}.")
        else:
            _move_output(folder, os.path.join(target, "outputs", name))
    for source, name in ARCHIVES:
        folder = os.path.join(ml, source)
        if not is_empty(folder):
            errors += [f"{name}: {text}" for text in pack(folder, os.path.join(target, name))]
    artifacts = _listing(target)
    for artifact in artifacts:
        artifact["path"] = os.path.relpath(artifact["path"], job_folder)
    return {"artifacts": artifacts, "errors": errors}


def stage_out(ml: str, outputs: List[Tuple[str, str]], job_folder: str, places: disk.DiskPaths) -> Dict[str, Any]:
    """Do what :func:`archive` does, and leave no half where it fails; ``places`` are where a disk may be full.

    :raises DiskError: one of them is.
    """
    try:
        return disk.with_disk_errors(lambda: archive(ml, outputs, job_folder), places)
    except Exception:
        remove_partial_archives(job_folder)
        raise


def remove_partial_archives(job_folder: str) -> None:
    """Delete incomplete archives: on a full disk they take the space that the next job needs.

    The caller does this if the process of :func:`stage_out` was killed.
    """
    for _source, name in ARCHIVES:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(job_folder, host_layout.ARTIFACTS, name + ".part"))


def has_work(ml: str, outputs: List[Tuple[str, str]], job_folder: str) -> bool:
    """Say whether there is anything to archive."""
    folders = [os.path.join(ml, source) for source, _name in ARCHIVES]
    folders.append(os.path.join(job_folder, host_layout.ARTIFACTS))
    return bool(outputs) or not all(is_empty(folder) for folder in folders)
