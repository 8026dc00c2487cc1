"""Downloads images: one at a time for each name, shared by all who want it, and given up when nobody does any more.

The daemon is asked in the event loop. Docker's library would hold a thread for as long as a download takes, and
nothing but the daemon could end that; a connection that is closed ends the download there as well.
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from jupyter_smx.engines.base import Step
from jupyter_smx.engines.docker.daemon.daemon_client import UNIX, message_of
from jupyter_smx.engines.docker.daemon.daemon_info import Kind
from jupyter_smx.engines.docker.images import registry
from jupyter_smx.engines.docker.images.pull_progress import Layers
from jupyter_smx.engines.docker.images.registry import Login
from jupyter_smx.model.errors import SmxError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

_AT_ONCE = 4
"""Downloads; the daemon takes several layers of each at a time."""
_LOGINS = 2
_LOGIN_SECONDS = 30.0
_LARGEST = 1 << 20
"""Bytes of a line, and of a piece of an answer."""
_OK = 200


class _SaidNoError(Exception):
    """The daemon said why an image does not come."""


class _Pull:
    """One download, and who listens to it."""

    def __init__(self, *, is_here: bool) -> None:
        self.is_here = is_here
        """There is an image of that name, which may be an older one."""
        self.step = Step("waiting for other downloads")
        self.listeners: list[Callable[[Step], None]] = []
        self.task: asyncio.Task[None] | None = None

    def say(self, layers: Layers) -> None:
        """Tell all who listen how far it is."""
        self.step = Step(layers.words(), downloads=layers.are_fetched())
        for listener in self.listeners:
            listener(self.step)


class Pulls:
    """The downloads of one daemon: ``when`` there are any, by ``DockerEngine.pull``, and how long one may be silent."""

    def __init__(self, url: str, when: str, seconds: float, kind: Kind = Kind()) -> None:  # noqa: B008 - it is frozen
        self.when = when
        self._url = url
        self._kind = kind
        self._seconds = seconds
        self._under_way: dict[str, _Pull] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._threads = ThreadPoolExecutor(_LOGINS, thread_name_prefix="docker-login")

    def is_due(self, name: str) -> bool:
        """Say whether a name is asked for at its registry although the daemon has such an image."""
        return self.when == "always" and not registry.is_fixed(name)

    def may_have(self, name: str) -> bool:
        """Say whether an image that the daemon lacks may be downloaded."""
        return self.when != "never" and not registry.is_id(name)

    async def fetch(self, name: str, say: Callable[[Step], None], *, is_here: bool = False) -> None:
        """Download an image, with whoever does that already; it ``is_here`` where an older one may be.

        :raises RefusedError: it cannot be had, or not now.
        :raises UnavailableError: the daemon does not answer.
        """
        pull = self._under_way.get(name)
        if pull is None:
            pull = self._under_way[name] = _Pull(is_here=is_here)
            pull.task = asyncio.create_task(self._fetch(name, pull), name=f"download {name}")
            pull.task.add_done_callback(lambda task: self._is_over(name, task))
        assert pull.task is not None  # noqa: S101 - for the type checker
        pull.listeners.append(say)
        say(pull.step)
        try:
            await asyncio.shield(pull.task)
        finally:
            pull.listeners.remove(say)
            if not pull.listeners:
                pull.task.cancel()
                self._forget(name, pull.task)

    def _is_over(self, name: str, task: asyncio.Task[None]) -> None:
        self._forget(name, task)
        if not task.cancelled():
            task.exception()  # whoever waits gets it, and there may be nobody any more

    def _forget(self, name: str, task: asyncio.Task[None]) -> None:
        if name in self._under_way and self._under_way[name].task is task:
            del self._under_way[name]

    async def _fetch(self, name: str, pull: _Pull) -> None:
        async with self._room:
            layers = Layers()
            pull.say(layers)
            login = await self._login(name)
            try:
                async with aclosing(self._lines(name, login)) as lines:
                    async for line in lines:
                        layers.hear(line)
                        pull.say(layers)
            except _SaidNoError as problem:
                words, here = str(problem), pull.is_here
                refused = registry.refusal(name, self._url, words, login.trouble, self._kind, is_here=here)
                raise refused from problem

    async def _login(self, name: str) -> Login:
        asked = asyncio.get_running_loop().run_in_executor(self._threads, registry.login, name)
        try:
            return await asyncio.wait_for(asked, _LOGIN_SECONDS)
        except asyncio.TimeoutError:
            return Login(trouble=f"the helper for credentials said nothing for {_LOGIN_SECONDS:g} s")

    async def _lines(self, name: str, login: Login) -> AsyncGenerator[dict[str, Any], None]:
        """Have the daemon download an image, and give what it says of that."""
        try:
            calling = asyncio.open_unix_connection(self._url.removeprefix(UNIX))
            reader, writer = await asyncio.wait_for(calling, self._seconds)
        except asyncio.TimeoutError:
            raise self._away(f"it took no connection within {self._seconds:g} s") from None
        except OSError as problem:
            raise self._away(problem.strerror or str(problem)) from problem
        try:
            writer.write(_question(name, login))
            status, is_chunked = await self._head(reader)
            if status != _OK:
                raise _SaidNoError(message_of(await self._within(reader.read(_LARGEST))))
            waiting = b""
            async for piece in self._pieces(reader, is_chunked=is_chunked):
                *lines, waiting = (waiting + piece).split(b"\n")
                for line in lines:
                    yield _parsed(line)
                _check_size(len(waiting))
            yield _parsed(waiting)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as problem:
            why = "it hung up" if isinstance(problem, EOFError) else problem
            raise self._away(f"it broke off the download of an image ({why})") from problem
        finally:
            writer.close()

    async def _head(self, reader: asyncio.StreamReader) -> tuple[int, bool]:
        head = (await self._within(reader.readuntil(b"\r\n\r\n"))).decode("latin-1").lower()
        return int(head.split(None, 2)[1]), "transfer-encoding: chunked" in head

    async def _pieces(self, reader: asyncio.StreamReader, *, is_chunked: bool) -> AsyncIterator[bytes]:
        """Give the body of an answer; one in pieces has an end of its own, so that half of it is not taken for all."""
        while not is_chunked:
            piece = await self._within(reader.read(_LARGEST))
            if not piece:
                return
            yield piece
        while size := int((await self._within(reader.readuntil(b"\r\n"))).partition(b";")[0], 16):
            _check_size(size)
            yield (await self._within(reader.readexactly(size + 2)))[:-2]

    async def _within(self, answer: Any) -> Any:
        try:
            return await asyncio.wait_for(answer, self._seconds)
        except asyncio.TimeoutError:
            raise _SaidNoError(f"nothing came for {self._seconds:g} s") from None

    def _away(self, why: str) -> SmxError:
        return UnavailableError(
            f"{self._kind.name} does not answer at {self._url}: {why}.",
            field="docker_host",
            value=self._url,
            rule="Images are downloaded by that daemon.",
            cure=f"Start it ({self._kind.start()}); the download begins again then.",
            transient=True,
        )


def _question(name: str, login: Login) -> bytes:
    repository, tag = registry.split(name)
    lines = [
        f"POST /images/create?{urlencode({'fromImage': repository, 'tag': tag})} HTTP/1.1",
        *("Host: docker", "Connection: close", "Content-Length: 0"),
        *([f"X-Registry-Auth: {login.header}"] if login.header else []),
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def _check_size(size: int) -> None:
    if size > _LARGEST:
        raise ValueError("a line that is too long")


def _parsed(line: bytes) -> dict[str, Any]:
    """Read a line of the daemon's.

    :raises _SaidNoError: it says why the image does not come.
    """
    found = json.loads(line) if line.strip() else {}
    if not isinstance(found, dict):
        return {}
    if found.get("error"):
        raise _SaidNoError(str(found["error"]))
    return found
