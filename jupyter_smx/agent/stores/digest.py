"""Digests of input channels before the job starts: of their content, or at least of their listing."""

from __future__ import annotations

import itertools
import os
import time
from typing import IO, Any, Callable, Dict, Iterator, List, Optional, Tuple, TypeVar, Union

from jupyter_smx.agent.system.files import safe_open
from jupyter_smx.agent.system.files.walk import descend, raise_unless_loop
from jupyter_smx.agent.system.named_tuple import NamedTuple

MAX_LISTED = 100_000
"""Maximum number of files to list; above it there is no digest, because the job would wait for the listing."""
LINKED_SHARE = 16
"""Part of the limit that is read of linked files, because only the job itself reads these otherwise."""
_PIECE = 1 << 20
RACY = 2.0
"""Seconds for which a file's time may stay the same although it is written again."""
MAX_REMEMBERED = 20_000
"""Maximum number of files whose digests a host keeps; further inputs are identified by their sources."""
_PARALLEL_BYTES = 16 << 20
_READERS = min(4, os.cpu_count() or 1)
_Result = TypeVar("_Result")


class ChannelFile(NamedTuple):
    """One file of a channel: its name in it, its path, and what shows that it was not changed."""

    name: str
    path: str
    size: int
    mtime_ns: int
    identity: Tuple[Union[int, str], ...]
    settled: bool
    """True if every later change gives the file another time."""


DigestCache = Dict[str, List[Any]]
"""SHA-256 of files that were read before, by path: ``[size, mtime_ns, [device, inode, ctime_ns], digest]``."""


DigestRow = Tuple[str, int, str]
"""Name, size, and what stands for the content."""


class TooManyFilesError(Exception):
    """A channel has more files than are listed."""


def list_files(
    folder: str, most: float = MAX_LISTED, drop_link: Optional[Callable[[str], bool]] = None
) -> Iterator[ChannelFile]:
    """Walk through a channel in the order of names; links are followed, but none back to a folder that it lies in.

    ``drop_link`` is called with the path of each link; the link is left out if it returns True.

    :raises TooManyError: more than ``most`` files.
    :raises OSError: a folder that cannot be read.
    """
    levels = descend(folder, follow=True, on_error=raise_unless_loop, drop_link=drop_link)
    everything = ((level.inner(entry), entry.path) for level in levels for entry in level.files)
    for count, (name, path) in enumerate(everything, start=1):
        if count > most:
            raise TooManyFilesError
        yield stat_file(name, path)


def stat_file(name: str, path: str) -> ChannelFile:
    """Describe one file; links are followed.

    :raises OSError: it does not exist.
    """
    now, found = time.time(), os.stat(path)
    identity = (found.st_dev, found.st_ino, found.st_ctime_ns)
    return ChannelFile(name, path, found.st_size, found.st_mtime_ns, identity, now - found.st_mtime > RACY)


def hash_file(file: IO[bytes]) -> str:
    """Return the SHA-256 of the rest of an open file, read in pieces to save memory."""
    import hashlib  # noqa: PLC0415 - see agent/forkserver/job_modules

    digest = hashlib.sha256()
    for piece in iter(lambda: file.read(_PIECE), b""):
        digest.update(piece)
    return digest.hexdigest()


def hash_path(path: str) -> str:
    """Return the SHA-256 of a file.

    :raises OSError: it cannot be read, or is no file.
    """
    with safe_open.open_to_read(path) as file:  # opening a pipe would block until it has a writer
        return hash_file(file)


def _content(file: ChannelFile, sources: Dict[str, ChannelFile], known: DigestCache, fresh: DigestCache) -> str:
    """Hash one file, or reuse the digest of the file that it is a copy of."""
    source = sources.get(file.name, file)
    true_copy = (file.size, file.mtime_ns) == (source.size, source.mtime_ns)
    before = known.get(source.path)
    same = [source.size, source.mtime_ns, list(source.identity)]
    if true_copy and before is not None and before[:3] == same:
        return str(before[3])
    digest = hash_path(file.path)
    if true_copy and source.settled:
        fresh[source.path] = [*same, digest]
    return digest


def map_parallel(read: Callable[[_Result], DigestRow], found: List[_Result], size: int) -> List[DigestRow]:
    """Read files side by side where there is much of them: hashing lets other threads run."""
    if size < _PARALLEL_BYTES or len(found) <= 1:
        return [read(file) for file in found]
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - takes longer than to hash a small channel

    with ThreadPoolExecutor(_READERS) as readers:
        return list(readers.map(read, found))


def channel_digest(rows: List[DigestRow]) -> str:
    """Hash the rows of a channel: name, size, and what stands for the content, sorted by name."""
    import hashlib  # noqa: PLC0415 - see agent/forkserver/job_modules

    digest = hashlib.sha256()
    for name, size, mark in sorted(rows):
        digest.update(f"{name}\0{size}\0{mark}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def unknown_description(channel: str) -> Dict[str, Any]:
    """Return the description of a channel without a digest."""
    return {"channel": channel, "method": "none", "sha256": "", "files": 0, "bytes": 0, "reason": ""}


def describe_channel(
    name: str, folder: str, sources: Dict[str, ChannelFile], limit: int, known: DigestCache
) -> Tuple[Dict[str, Any], DigestCache]:
    """Describe what a channel holds, and give the digests of files that were read for it.

    ``limit`` is the number of bytes above which the content is not read; ``sources`` are the files that those of the
    channel are copies of, by their names in it.
    """
    described = unknown_description(name)
    fresh: DigestCache = {}
    try:
        found = list(list_files(folder))
        described.update(files=len(found), bytes=sum(file.size for file in found))
        if described["bytes"] <= limit:
            rows = map_parallel(
                lambda file: (file.name, file.size, _content(file, sources, known, fresh)), found, described["bytes"]
            )
            described.update(method="content", sha256=channel_digest(rows))
        else:
            rows = [(file.name, file.size, str(file.mtime_ns)) for file in found]
            described.update(method="listing", sha256=channel_digest(rows))
    except TooManyFilesError:
        described["reason"] = f"It has more than {MAX_LISTED} files."
    except OSError as error:
        described["reason"] = f"{error.filename or folder} cannot be read ({error.strerror})."
    return described, fresh


def remember_digests(known: DigestCache, fresh: Optional[DigestCache]) -> None:
    """Remember digests of files for the next job, not more than are worth it."""
    known.update(fresh or {})
    for path in list(itertools.islice(known, max(0, len(known) - MAX_REMEMBERED))):
        del known[path]
