"""Remove the files of a job, whatever their permissions and however deep the folders."""

from __future__ import annotations

import contextlib
import os
import stat

_OPEN = 0o755
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def remove(path: str) -> None:
    """Delete a file or a folder; no process may write to it meanwhile.

    :raises OSError: it cannot be deleted; ``filename`` has its path.
    """
    import shutil  # noqa: PLC0415 - see `startup.AFTER_START`

    if not stat.S_ISDIR(os.lstat(path).st_mode):
        os.unlink(path)
        return
    try:
        shutil.rmtree(path)
    except (OSError, RecursionError) as first:  # closed to us, or deeper than Python goes
        try:
            _remove_folder(path)
        except OSError as error:
            raise OSError(error.errno, error.strerror, getattr(first, "filename", None) or path) from first


def remove_if_possible(path: str) -> None:
    """Delete a file or a folder as far as that is possible."""
    with contextlib.suppress(OSError):
        remove(path)


def _remove_folder(path: str) -> None:
    """Delete a folder without a call, a descriptor or a longer path for each folder below another one.

    Whatever lies in one of its folders is deleted, or moved up beside that where it is a folder itself.
    """
    os.chmod(path, _OPEN)
    top = os.open(path, _FOLDER)
    try:
        mark, count = os.urandom(8).hex(), 0
        while True:
            names = os.listdir(top)
            if not names:
                break
            for name in names:
                if _is_folder(name, top):
                    count = _flatten(name, top, mark, count)
                else:
                    os.unlink(name, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(path)


def _flatten(name: str, top: int, mark: str, count: int) -> int:
    """Delete a folder in ``top`` when its own folders have come to lie beside it, by names with a mark and a number."""
    os.chmod(name, _OPEN, dir_fd=top)
    folder = os.open(name, _FOLDER, dir_fd=top)
    try:
        for each in os.listdir(folder):
            if _is_folder(each, folder):
                os.chmod(each, _OPEN, dir_fd=folder)  # moving a folder changes its "..", which needs write permission
                os.rename(each, f"{mark}-{count}", src_dir_fd=folder, dst_dir_fd=top)
                count += 1
            else:
                os.unlink(each, dir_fd=folder)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=top)
    return count


def _is_folder(name: str, folder: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
