"""Format of frames: a big-endian length, a JSON header, and ``size`` raw bytes."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, Dict, Iterator, NamedTuple, Optional

from jupyter_smx.agent import __version__

if TYPE_CHECKING:
    import asyncio
    import socket

PROTOCOL = 1
VERSION = __version__
"""Version of the agent in its greeting."""
MAX_BODY = 262_144
MAX_HEADER = 16 * 1024 * 1024 - 1
"""Maximum bytes of a header: the first byte of its length is 0, and no tag of a child's message is."""
MAX_RECORD = 96 * 1024 * 1024
"""Maximum bytes of the record of a job's end: it may name a million files with names of sixty characters."""
_JSON = json.JSONEncoder(separators=(",", ":"))
_LENGTH = struct.Struct(">I")

Header = Dict[str, Any]


class WireError(Exception):
    """The other side sent something that is no frame; the stream cannot be used any more."""


class Frame(NamedTuple):
    """One message: its JSON object and the raw bytes that followed it."""

    header: Header
    body: bytes = b""


def encode(header: Header, body: Optional[bytes] = None) -> bytes:
    """Write one frame; ``body`` may be empty, None means that the frame has no bytes.

    :raises WireError: the header has more than ``MAX_HEADER`` bytes, or the body more than ``MAX_BODY``.
    """
    if body is not None:
        header = dict(header, size=len(body))
        if len(body) > MAX_BODY:
            raise WireError(f"size: {len(body)} bytes exceed the limit of {MAX_BODY} bytes per frame.")
    text = _JSON.encode(header).encode()
    if len(text) > MAX_HEADER:
        raise WireError(f"header: {len(text)} bytes exceed the limit of {MAX_HEADER} bytes per frame.")
    return _LENGTH.pack(len(text)) + text + (body or b"")


def _header(text: bytes) -> Header:
    try:
        header = json.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise WireError(f"header: not JSON ({error}).") from error
    if not isinstance(header, dict):
        raise WireError(f"header: {type(header).__name__} is not a JSON object.")
    size = header.get("size", 0)
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= MAX_BODY:
        raise WireError(f"size: {size!r} is not a number of bytes from 0 to {MAX_BODY}.")
    return header


def _length(four: bytes) -> int:
    length = int(_LENGTH.unpack(four)[0])
    if length > MAX_HEADER:
        raise WireError(f"header: {length} bytes exceed the limit of {MAX_HEADER} bytes per frame.")
    return length


class Decoder:
    """Collects received bytes and returns whole frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._header: Optional[Header] = None

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Take bytes and give every frame that is complete now.

        :raises WireError: the bytes are no frame.
        """
        self._buffer += data
        frame = self._next()
        while frame is not None:
            yield frame
            frame = self._next()

    def _take(self, count: int) -> bytes:
        with memoryview(self._buffer) as view, view[:count] as head:
            data = bytes(head)
        del self._buffer[:count]
        return data

    def _next(self) -> Optional[Frame]:
        if self._header is None:
            if len(self._buffer) < _LENGTH.size:
                return None
            length = _length(bytes(self._buffer[: _LENGTH.size]))
            if len(self._buffer) < _LENGTH.size + length:
                return None
            self._header = _header(self._take(_LENGTH.size + length)[_LENGTH.size :])
        size = self._header.get("size", 0)
        if len(self._buffer) < size:
            return None
        header, self._header = self._header, None
        return Frame(header, self._take(size))


def _read_exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def receive(sock: socket.socket) -> Frame:
    """Read one frame from a blocking socket and not a byte more.

    :raises EOFError: the other side closed.
    :raises WireError: the bytes are no frame.
    """
    header = _header(_read_exactly(sock, _length(_read_exactly(sock, _LENGTH.size))))
    return Frame(header, _read_exactly(sock, header.get("size", 0)))


async def read(reader: asyncio.StreamReader) -> Frame:
    """Read one frame from an asyncio stream.

    :raises asyncio.IncompleteReadError: the other side closed.
    :raises WireError: the bytes are no frame.
    """
    header = _header(await reader.readexactly(_length(await reader.readexactly(_LENGTH.size))))
    return Frame(header, await reader.readexactly(header.get("size", 0)))
