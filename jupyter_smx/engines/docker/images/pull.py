"""Pull images: one download for each name, shared by all jobs that need it, and canceled when none does."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from jupyter_smx.engines.base import PullProgress
from jupyter_smx.engines.docker.daemon.daemon_info import DaemonInfo
from jupyter_smx.engines.docker.daemon.json_stream import JsonStream, StreamError
from jupyter_smx.engines.docker.images import registry
from jupyter_smx.engines.docker.images.pull_progress import LayerProgress
from jupyter_smx.engines.docker.images.registry import Login
from jupyter_smx.model.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_PULLS = 4
"""Downloads; the daemon takes several layers of each at a time."""
_LOGINS = 2
_LOGIN_SECONDS = 30.0


class _Pull:
    """One download, and the callbacks for its progress."""

    def __init__(self, *, is_here: bool) -> None:
        self.is_present = is_here
        """There is an image of that name, which may be an older one."""
        self.step = PullProgress("waiting for other downloads")
        self.listeners: list[Callable[[PullProgress], None]] = []
        self.task: asyncio.Task[None] | None = None

    def report(self, layers: LayerProgress) -> None:
        """Report the progress to all callbacks."""
        self.step = PullProgress(layers.format_progress(), downloads=layers.is_downloading())
        for listener in self.listeners:
            listener(self.step)


class ImagePuller:
    """Downloads of one daemon: ``when`` to download (``DockerEngine.pull``), and the time limit without progress."""

    def __init__(self, url: str, when: str, seconds: float, kind: DaemonInfo = DaemonInfo()) -> None:  # noqa: B008 - it is frozen
        self.when = when
        self._url = url
        self._kind = kind
        self._stream = JsonStream(url, kind, "the download of an image", seconds)
        self._under_way: dict[str, _Pull] = {}
        self._slots = asyncio.Semaphore(_MAX_PULLS)
        self._threads = ThreadPoolExecutor(_LOGINS, thread_name_prefix="docker-login")

    def is_due(self, name: str) -> bool:
        """Return True if a name is looked up at its registry although the daemon has such an image."""
        return self.when == "always" and not registry.is_immutable(name)

    def can_pull(self, name: str) -> bool:
        """Return True if an image that the daemon lacks may be downloaded."""
        return self.when != "never" and not registry.is_id(name)

    async def pull(self, name: str, say: Callable[[PullProgress], None], *, is_here: bool = False) -> None:
        """Download an image, or join a running download; ``is_local`` if an older one may exist here.

        :raises RefusedError: it cannot be downloaded, or not now.
        :raises UnavailableError: the daemon does not answer.
        """
        pull = self._under_way.get(name)
        if pull is None:
            pull = self._under_way[name] = _Pull(is_here=is_here)
            pull.task = asyncio.create_task(self._run_pull(name, pull), name=f"download {name}")
            pull.task.add_done_callback(lambda task: self._on_done(name, task))
        assert pull.task is not None  # noqa: S101 - for the type checker
        pull.listeners.append(say)
        say(pull.step)
        try:
            await asyncio.shield(pull.task)
        finally:
            pull.listeners.remove(say)
            if not pull.listeners:
                pull.task.cancel()
                self._discard(name, pull.task)

    def _on_done(self, name: str, task: asyncio.Task[None]) -> None:
        self._discard(name, task)
        if not task.cancelled():
            task.exception()  # retrieved for asyncio: no caller may be left that waits for it

    def _discard(self, name: str, task: asyncio.Task[None]) -> None:
        if name in self._under_way and self._under_way[name].task is task:
            del self._under_way[name]

    async def _run_pull(self, name: str, pull: _Pull) -> None:
        async with self._slots:
            layers = LayerProgress()
            pull.report(layers)
            login = await self._login(name)
            try:
                async with aclosing(self._stream.lines(_pull_request(name, login))) as lines:
                    async for line in lines:
                        layers.update(line)
                        pull.report(layers)
            except StreamError as problem:
                words, here = str(problem), pull.is_present
                refused = registry.refusal(name, self._url, words, login.trouble, self._kind, is_here=here)
                raise refused from problem

    async def _login(self, name: str) -> Login:
        asked = asyncio.get_running_loop().run_in_executor(self._threads, registry.read_login, name)
        try:
            return await asyncio.wait_for(asked, _LOGIN_SECONDS)
        except asyncio.TimeoutError:
            return Login(trouble=f"the credential helper did not answer within {format_duration(_LOGIN_SECONDS)}")


def _pull_request(name: str, login: Login) -> bytes:
    repository, tag = registry.split_name(name)
    lines = [
        f"POST /images/create?{urlencode({'fromImage': repository, 'tag': tag})} HTTP/1.1",
        *("Host: docker", "Connection: close", "Content-Length: 0"),
        *([f"X-Registry-Auth: {login.header}"] if login.header else []),
    ]
    return "\r\n".join([*lines, "", ""]).encode()
