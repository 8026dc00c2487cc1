"""Send files of this machine to a host over its agent's stream: by content, each once, several pieces in flight."""

from __future__ import annotations

import asyncio
from collections import deque
from types import MappingProxyType
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from msgspec import Struct

from jupyter_smx.agent.wire import MAX_BODY
from jupyter_smx.controller.transfer.file_items import FileDigests, FileItem
from jupyter_smx.controller.transfer.read_ahead import WINDOW
from jupyter_smx.model.errors import RefusedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from io import FileIO

    from jupyter_smx.agent.frames import HaveAnswer
    from jupyter_smx.agent.wire import Frame
    from jupyter_smx.controller.agents.stream import AgentStream

MAX_BYTES = 8 << 30
"""Bytes of files on a host beyond which those are deleted that the next job does not need."""
NO_DIGESTS: Mapping[str, str] = MappingProxyType({})
_TIMEOUT = 300.0
"""Seconds for one piece, which may wait for those before it on a slow line."""


class _HostFiles(Struct):
    """Files of a host since its stream was opened."""

    root: str
    items: set[str]
    sizes: dict[str, int]
    """Bytes of each file, by SHA-256."""
    partial: dict[str, int]
    """Received bytes of incomplete files."""


class FileSender:
    """Sends sources to hosts; remembers what each stream's host has, so that an unchanged source costs nothing."""

    def __init__(self) -> None:
        self._hosts: WeakKeyDictionary[AgentStream, _HostFiles] = WeakKeyDictionary()
        self._failures: WeakKeyDictionary[AgentStream, int] = WeakKeyDictionary()
        """Number of times in a row that a source did not arrive."""
        self._digests = FileDigests()

    async def send(
        self, stream: AgentStream, sources: Sequence[str], known: Mapping[str, str] = NO_DIGESTS
    ) -> Mapping[str, str]:
        """Provide each source on the host; return the path for its jobs, for reading.

        ``known`` has the SHA-256 of files by path, where it is known.

        :raises RefusedError: a source does not exist or cannot be read.
        :raises UnavailableError: the host cannot be reached, its disk is full, or a file changed while it was sent.
        """
        items = await asyncio.to_thread(self._digests.items, sources, known)
        here = self._hosts.get(stream)
        if here is None or _bytes_after(here, items) > MAX_BYTES:
            # A host that takes no source again and again may have no room: what other jobs needed goes first.
            only = here is not None or self._failures.get(stream, 0) > 1
            here = self._hosts[stream] = await self._ask(stream, items, only=only)
        for item in items:
            if item.id not in here.items:
                await self._send_item(stream, here, item)
        self._failures.pop(stream, None)
        return {item.source: f"{here.root}/items/{item.id}/{item.name}" for item in items}

    async def _ask(self, stream: AgentStream, items: Sequence[FileItem], *, only: bool) -> _HostFiles:
        sizes = {name: size for item in items for name, (_path, size) in item.contents.items()}
        answer = await stream.have(items=[item.id for item in items], files=[*sizes], only=only)
        found: HaveAnswer = answer.header  # type: ignore[assignment]  # the header of this answer
        whole = {name: sizes[name] for name in found["files"]}
        return _HostFiles(str(found["root"]), {*found["items"]}, whole, dict(found["partial"]))

    async def _send_item(self, stream: AgentStream, here: _HostFiles, item: FileItem) -> None:
        waiting: deque[asyncio.Future[Frame]] = deque()
        try:
            for name, (path, size) in item.contents.items():
                if name not in here.sizes:
                    await self._put(stream, waiting, (name, path, size), here.partial.pop(name, 0))
            placed = stream.place(_TIMEOUT, item=item.id, name=item.name, entries=[*item.entries])
            await asyncio.gather(*waiting, placed)
        except UnavailableError as error:
            # Ask the host again: a part may have arrived, or a file here may have changed meanwhile.
            self._hosts.pop(stream, None)
            self._failures[stream] = self._failures.get(stream, 0) + 1
            self._digests.forget()
            raise UnavailableError(error.message, cure=error.cure, transient=True) from error
        here.sizes |= {name: size for name, (_path, size) in item.contents.items()}
        here.items.add(item.id)

    async def _put(
        self, stream: AgentStream, waiting: deque[asyncio.Future[Frame]], content: tuple[str, str, int], offset: int
    ) -> None:
        """Write a file (digest, path, bytes) to the stream from ``offset`` on; ``waiting`` has the pending answers."""
        name, path, size = content
        try:
            file = await asyncio.to_thread(_open, path)
        except OSError as problem:
            raise RefusedError(f"source: {path!r} cannot be read ({problem.strerror}).", field="source") from problem
        with file:
            file.seek(offset)
            while True:
                data = await asyncio.to_thread(_read, file, min(MAX_BODY, size - offset))
                if len(data) < min(MAX_BODY, size - offset):
                    raise UnavailableError(f"{path!r} changed while it was sent.", transient=True)
                while len(waiting) >= WINDOW:
                    await waiting.popleft()
                waiting.append(stream.put(data, _TIMEOUT, sha256=name, offset=offset, total=size))
                offset += len(data)
                if offset >= size:
                    return


def _bytes_after(here: _HostFiles, items: Sequence[FileItem]) -> int:
    more = {name: size for item in items for name, (_path, size) in item.contents.items()}
    return sum((here.sizes | more).values()) if more.keys() - here.sizes.keys() else 0


def _open(path: str) -> FileIO:
    return open(path, "rb", buffering=0)  # noqa: PTH123 - as text; the caller closes it


def _read(file: FileIO, size: int) -> bytes:
    """Read so many bytes, fewer at the end of the file only."""
    pieces: list[bytes] = []
    while size and (piece := file.read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)
