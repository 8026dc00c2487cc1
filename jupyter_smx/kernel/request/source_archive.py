"""Write files into a ``.tar.gz``: equal content makes equal bytes, and several processors compress it.

The archive is one gzip member, as tools expect that read it as a stream. Its pieces are compressed apart, as ``pigz``
does it. Pieces that compression does not make smaller are stored as they are.
"""

from __future__ import annotations

import os
import stat
import struct
import tarfile
import zlib
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

_PIECE = 1 << 20
_SAMPLE = 1 << 14
"""Bytes of a piece that show whether compression is worth its time."""
_WORTHWHILE = 0.95
"""Share of the size below which a sample has to come."""
_LEVEL = 1
"""Compression level: code is small, and large files in the folder rarely shrink more at a higher level."""
_THREADS = min(4, os.cpu_count() or 1)
_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
"""Header of gzip (RFC 1952): deflate, no name, no time, the fastest level, no operating system."""
_LAST_BLOCK = b"\x03\x00"
"""Empty, and marked as the last one of the deflate stream."""


class Sink(Protocol):
    """Destination of an archive."""

    def write(self, data: Any) -> int:
        """Take a piece of bytes and give its size."""


class FileState(NamedTuple):
    """Status of a file; any change of its content changes it.

    ``ctime_ns`` cannot be set, so a change is detected even if a program restores the time of the last write. The
    device number is left out, as in git: it changes with each mount of a network file system.
    """

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    is_executable: bool


class SourceFile(NamedTuple):
    """One file to pack: its name in the archive, its path, and its state before it was read."""

    name: str
    path: str
    state: FileState


def file_state(found: os.stat_result) -> FileState:
    """Take the state of a file from the answer of ``stat``."""
    is_executable = bool(found.st_mode & stat.S_IXUSR)
    return FileState(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, is_executable)


def write(files: Iterable[SourceFile], sink: Sink, on_error: Callable[[SourceFile, OSError], Exception]) -> bool:
    """Write an archive; return True if no file changed since its state was taken.

    ``on_error`` makes the exception for a file that cannot be read.

    :raises OSError: the disk of the ``sink`` is full.
    """
    is_unchanged = True
    with ThreadPoolExecutor(_THREADS) as threads:
        zipped = _GzipStream(sink, threads)
        with tarfile.open(fileobj=zipped, mode="w|", format=tarfile.PAX_FORMAT) as archive:  # type: ignore[call-overload]  # it writes only
            for file in files:
                is_unchanged &= _add(archive, file, on_error)
        zipped.finish()
    return is_unchanged


def _add(archive: tarfile.TarFile, file: SourceFile, on_error: Callable[[SourceFile, OSError], Exception]) -> bool:
    member = tarfile.TarInfo(file.name)
    member.mode = 0o755 if file.state.is_executable else 0o644
    try:
        with open(file.path, "rb") as content:  # noqa: PTH123 - as text; a Path for each of many files takes time
            member.size = os.fstat(content.fileno()).st_size
            archive.addfile(member, content)
            return file_state(os.fstat(content.fileno())) == file.state
    except OSError as error:
        if error.errno and not error.filename:
            raise  # the disk is full, which is no fault of this file
        raise on_error(file, error) from error


class _GzipStream:
    """A file to write to that compresses its pieces in threads and writes them in their order."""

    def __init__(self, sink: Sink, threads: ThreadPoolExecutor) -> None:
        self._sink = sink
        self._threads = threads
        self._buffer = bytearray()
        self._waiting: deque[Future[bytes]] = deque()
        self._crc = self._size = 0
        sink.write(_HEADER)

    def write(self, data: bytes) -> int:
        """Take bytes; compress them once there is enough for a piece."""
        self._buffer += data
        while len(self._buffer) >= _PIECE:
            self._compress(bytes(memoryview(self._buffer)[:_PIECE]))
            del self._buffer[:_PIECE]
        return len(data)

    def finish(self) -> None:
        """Write the rest and the checksum."""
        self._compress(bytes(self._buffer))
        while self._waiting:
            self._sink.write(self._waiting.popleft().result())
        self._sink.write(_LAST_BLOCK + struct.pack("<II", self._crc, self._size & 0xFFFFFFFF))

    def _compress(self, piece: bytes) -> None:
        self._crc = zlib.crc32(piece, self._crc)
        self._size += len(piece)
        self._waiting.append(self._threads.submit(_deflate, piece))
        while len(self._waiting) > _THREADS:
            self._sink.write(self._waiting.popleft().result())


def _deflate(piece: bytes) -> bytes:
    """Compress a piece into whole bytes of a deflate stream that continues after it."""
    sample = piece[:_SAMPLE]
    is_worthwhile = len(zlib.compress(sample, _LEVEL)) < len(sample) * _WORTHWHILE
    compressor = zlib.compressobj(_LEVEL if is_worthwhile else 0, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(piece) + compressor.flush(zlib.Z_FULL_FLUSH)
