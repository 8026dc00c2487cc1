"""Copy the files that an image has in ``/opt/ml`` to this machine, once for each image.

A host has a folder of its own at ``/opt/ml``, which hides those of the image. Its agent gets this copy beside it.
"""

from __future__ import annotations

import asyncio
import io
import os
import secrets
import tarfile
from contextlib import suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from jupyter_smx.agent.paths import ML
from jupyter_smx.agent.system.files import rmtree
from jupyter_smx.engines.docker.containers import image_parts, probe_container
from jupyter_smx.engines.docker.daemon.daemon_client import NOT_FOUND, DaemonError
from jupyter_smx.engines.machine.request_validation import not_writable_error
from jupyter_smx.model.errors import SmxError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon

_TIMEOUT = 3600.0
"""Seconds that the daemon may take to send the files: an image may have large models there."""
_READABLE, _OPEN_FOLDER = 0o444, 0o755
_PART = ".part-"


class _Chunks(io.RawIOBase):
    """A readable file of the pieces that a daemon sends."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        super().__init__()
        self._chunks: Iterator[bytes] = iter(chunks)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or next(self._chunks, b"")
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


async def provide(
    daemon: Daemon, under_way: set[str], data_dir: Path, image: str, config: Mapping[str, Any], seconds: float
) -> str:
    """Copy the files, unless that is done; return their folder, "" if the image has none that can be copied.

    ``config`` is the request for a container of the image, which is created and not started.

    :raises RefusedError: they cannot be written to the data folder.
    :raises UnavailableError: the daemon does not answer.
    """
    folder = image_parts.files_folder(data_dir, image)
    if await asyncio.to_thread(folder.is_dir):
        return os.fspath(folder)
    part = folder.parent.with_name(f"{folder.parent.name}{_PART}{secrets.token_hex(4)}")
    try:
        async with probe_container.Probe(daemon, under_way, seconds) as probe:
            await probe.create(config)
            count, trouble = await daemon.call(lambda api: _fetch(api, probe.name, part), _TIMEOUT, patience=_TIMEOUT)
        if trouble is not None:
            raise trouble
        if count:
            await asyncio.to_thread(_move, part, folder)
    except DaemonError as problem:
        if problem.status == NOT_FOUND:
            return ""
        raise daemon.operation_error(f"send the files that {image} has in {ML}", problem) from problem
    except OSError as problem:
        raise not_writable_error(data_dir, problem) from problem
    finally:
        await asyncio.to_thread(rmtree.remove_if_possible, os.fspath(part))
    return os.fspath(folder) if count else ""


def _fetch(api: Any, container: str, part: Path) -> tuple[int, OSError | None]:
    """Return the number of files, and the error of this machine's disk, which is none of the connection."""
    chunks, _facts = api.get_archive(container, ML)
    try:
        part.mkdir(mode=0o700, parents=True)
        with tarfile.open(fileobj=io.BufferedReader(_Chunks(chunks)), mode="r|") as archive:
            return extract(archive, part), None
    except tarfile.TarError as problem:
        raise ConnectionError(f"its archive of {ML} is incomplete ({problem})") from problem
    except OSError as problem:
        if problem.errno is None or isinstance(problem, (ConnectionError, TimeoutError)):
            raise
        return 0, problem


def _remove_unfinished(part: Path, now: float) -> None:
    """Delete what a kill has left of a copy."""
    with suppress(OSError):
        if now - part.stat().st_mtime > _TIMEOUT:
            rmtree.remove_if_possible(os.fspath(part))


def _move(part: Path, folder: Path) -> None:
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part.chmod(_OPEN_FOLDER)
    part.rename(folder)


def extract(archive: tarfile.TarFile, target: Path) -> int:
    """Write files, folders and links of the archive of one folder below ``target``; return the number of files.

    Nothing is written through a link, and each file can be read by every user of a container. Other kinds of files,
    and what lies outside, are left out.
    """
    folders, count = {PurePosixPath(): target}, 0
    files: dict[PurePosixPath, Path] = {}
    for member in archive:
        name = PurePosixPath(*PurePosixPath(member.name).parts[1:])
        parent = folders.get(name.parent)
        if name == PurePosixPath() or parent is None or ".." in name.parts:
            continue
        path = parent / name.name
        if member.isdir():
            path.mkdir(mode=_OPEN_FOLDER, exist_ok=True)
            folders[name] = path
            continue
        if os.path.lexists(path):
            continue
        if member.issym():
            path.symlink_to(member.linkname)
        elif member.islnk():
            first = files.get(PurePosixPath(*PurePosixPath(member.linkname).parts[1:]))
            if first is None:
                continue
            os.link(first, path, follow_symlinks=False)  # a link itself, and not a file of this machine
        elif not member.isfile():
            continue
        else:
            _write(archive, member, path)
        files[name] = path
        count += 1
    return count


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    content = archive.extractfile(member)
    assert content is not None  # noqa: S101 - it is a file
    with path.open("xb") as file:
        while piece := content.read(1 << 20):
            file.write(piece)
    path.chmod(member.mode & 0o777 | _READABLE)
    os.utime(path, (member.mtime, member.mtime))  # what compiled modules compare


async def prune(daemon_at: Callable[[str], Daemon], urls: Iterable[str], data_dir: Path, now: float) -> list[str]:
    """Delete the files of images that no daemon has any more; return the ids of these images.

    ``urls`` are addresses of daemons, which ``daemon_at`` finds. What a daemon that does not answer may have stays.
    ``now`` is in seconds since the epoch.
    """
    folder = data_dir / "images"
    paths = await asyncio.to_thread(lambda: [*folder.iterdir()] if folder.is_dir() else [])
    deleted = []
    for path in paths:
        image = f"sha256:{path.name}"
        if _PART in path.name:
            await asyncio.to_thread(_remove_unfinished, path, now)
        elif all([await _is_missing(daemon_at, url, image) for url in urls]):
            await asyncio.to_thread(rmtree.remove_if_possible, os.fspath(path))
            deleted.append(path.name[:12])
    return deleted


async def _is_missing(daemon_at: Callable[[str], Daemon], url: str, image: str) -> bool:
    try:
        await daemon_at(url).get(f"/images/{image}/json")
    except DaemonError as problem:
        return problem.status == NOT_FOUND
    except SmxError:
        return False
    return False
