"""Client of the Docker daemon: each request in a thread with a time limit, and two classes of errors.

A daemon that does not answer is :class:`UnavailableError`; one that refuses is :class:`DaemonError` with the status
and the message of its answer.
"""

from __future__ import annotations

import asyncio
import errno
import http.client
import json
import math
import os
import re
import socket
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import docker
from docker import errors
from requests.exceptions import RequestException

from jupyter_smx.controller_launch import restart_hint
from jupyter_smx.engines.docker.daemon import cli_config, daemon_info
from jupyter_smx.model.errors import RefusedError, UnavailableError
from jupyter_smx.model.text import format_duration

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from docker import APIClient

    from jupyter_smx.engines.docker.daemon.daemon_info import DaemonInfo

T = TypeVar("T")

_DEFAULT_ADDRESS = "unix:///var/run/docker.sock"
UNIX = "unix://"
_MAX_THREADS = 32
"""Threads: hosts of a cluster start in parallel, and a daemon that hangs blocks only its own engine."""
_MAX_STARTS = 8
"""Containers that are made and started at once, each with its network beside it: half of the threads are left for
questions that take a moment."""
_THREAD_TIMEOUT = 120
"""Seconds after which a thread gives up and removes what it created; its caller has given up before."""
_READ_MARGIN = 1.0
"""Seconds by which a thread that only reads waits longer than its caller."""
_BACKLOG_FULL = (errno.EAGAIN, errno.ENOTCONN)
"""Errors of a non-blocking connection while the daemon's backlog is full: at once, or with the first byte."""
_RETRY_DELAY = 0.02
"""Seconds until it is called again."""
_CHUNK_SIZE = 1 << 16
_STATUS_LINE = 2
"""Minimum number of words at the beginning of an answer: the protocol and a status."""
_start_slot_threads: ContextVar[list[Future[Any]] | None] = ContextVar("threads_of_turn", default=None)
NOT_FOUND, CONFLICT, NOT_MODIFIED = 404, 409, 304
_RULE = "Hosts of this engine are containers of that daemon."
_OTHER_VERSION = re.compile(r"client version .* is too (old|new)", re.IGNORECASE)
_NAME_IN_USE = "that name is already in use"
_IMPROPER_STATE = "container state improper"


class DaemonError(Exception):
    """The daemon refused a request."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.message = words


def daemon_address(wish: str, environ: Mapping[str, str]) -> str:
    """Return the address of the daemon: the configured one, ``DOCKER_HOST``, Docker's context, or the usual one.

    Without any of these, a rootless daemon of this user is taken if there is no other, else Podman's socket.

    :raises RefusedError: it is no unix socket, or the chosen context does not exist.
    """
    found = (
        wish or environ.get("DOCKER_HOST", "") or cli_config.context_address(environ) or _find_default_address(environ)
    )
    if not found.startswith(f"{UNIX}/"):
        raise RefusedError(
            f"docker_host: {found!r} is not the address of a unix socket.",
            field="docker_host",
            value=found,
            rule="Hosts share folders with the controller, so the daemon must listen at a unix socket of this machine.",
            cure=f"Set DOCKER_HOST or DockerEngine.docker_host to {UNIX}/{_suggested_path(found)}. " + restart_hint(),
        )
    return found


def _suggested_path(found: str) -> str:
    """Return the path in a text that is nearly an address, without its first slash."""
    path = found.rpartition("unix:")[2].lstrip("/") if found.startswith(("/", "unix:", "http+unix:")) else ""
    return path or "path/of/socket"


def _find_default_address(environ: Mapping[str, str]) -> str:
    own = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    places = (
        _DEFAULT_ADDRESS,
        f"{UNIX}{own}/docker.sock",
        f"{UNIX}{own}/podman/podman.sock",
        f"{UNIX}/run/podman/podman.sock",
    )
    # Root's socket may be in a folder that other users may not read, which is no error.
    return next((place for place in places if os.access(place.removeprefix(UNIX), os.F_OK)), _DEFAULT_ADDRESS)


class Daemon:
    """One daemon, for requests from any number of tasks. ``seconds`` is the time limit of a usual request."""

    def __init__(self, url: str, seconds: float) -> None:
        self.url = url
        self.kind = daemon_info.guess_from_url(url)
        self._is_known = False
        self._seconds = seconds
        self._clients: dict[float, APIClient] = {}
        self._version: str | None = None
        self._threads = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="docker")
        self._thread_slots = asyncio.Semaphore(_MAX_THREADS)
        self._start_slots = asyncio.Semaphore(_MAX_STARTS)

    @asynccontextmanager
    async def start_slot(self) -> AsyncIterator[None]:
        """Wait until a container may be made and started, which takes the daemon long, and let no more do so at once.

        It is the next one's turn when all threads are done that were asked in this one, given up or not.
        """
        await self._start_slots.acquire()
        threads: list[Future[Any]] = []
        token = _start_slot_threads.set(threads)
        try:
            yield
        finally:
            _start_slot_threads.reset(token)
            busy = [asyncio.wrap_future(thread) for thread in threads if not thread.done()]
            if busy:
                asyncio.gather(*busy, return_exceptions=True).add_done_callback(
                    lambda _done: self._start_slots.release()
                )
            else:
                self._start_slots.release()

    async def call(self, question: Callable[[Any], T], seconds: float = 0.0, *, patience: float = 0.0) -> T:
        """Run a request in a thread; ``seconds`` raises the time limit of a slow one.

        The time limit begins when a thread is free, because our own queue is no timeout of the daemon. The thread is
        free again when the daemon has answered or after ``patience`` seconds, not when the caller gives up.

        :raises DaemonError: the daemon refused.
        :raises UnavailableError: the daemon does not answer.
        """
        limit, patience = max(seconds, self._seconds), patience or _THREAD_TIMEOUT
        await self._acquire_thread()
        thread = self._threads.submit(self._call_in_thread, question, patience)
        thread.add_done_callback(partial(self._release_thread, asyncio.get_running_loop()))
        threads = _start_slot_threads.get()
        if threads is not None:
            threads.append(thread)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(thread), limit)
        except asyncio.TimeoutError:
            raise self._unreachable_error(f"it did not answer within {format_duration(limit)}") from None

    async def _acquire_thread(self) -> None:
        if not self._thread_slots.locked():
            await self._thread_slots.acquire()  # at once: a time limit costs a task
            return
        try:
            await asyncio.wait_for(self._thread_slots.acquire(), _THREAD_TIMEOUT)
        except asyncio.TimeoutError:
            raise self._unreachable_error(
                f"it left {_MAX_THREADS} questions open for {format_duration(_THREAD_TIMEOUT)}"
            ) from None

    def _release_thread(self, loop: asyncio.AbstractEventLoop, _thread: Future[Any]) -> None:
        with suppress(RuntimeError):  # the loop is closed, and no task waits for a thread
            loop.call_soon_threadsafe(self._thread_slots.release)

    async def get(self, path: str, seconds: float = 0.0) -> dict[str, Any]:
        """Send a request that the daemon answers at once, without a thread: switching threads takes as long.

        ``seconds`` lowers the time limit.

        :raises DaemonError: the daemon refused.
        :raises UnavailableError: the daemon does not answer.
        """
        limit = seconds or self._seconds
        try:
            status, body = await asyncio.wait_for(_http_get(self.url.removeprefix(UNIX), path), limit)
            found: dict[str, Any] = json.loads(body) if status == http.client.OK else {}
        except asyncio.TimeoutError:
            raise self._unreachable_error(f"it did not answer within {format_duration(limit)}") from None
        except (OSError, ValueError) as problem:
            raise self._unreachable_error(_root_cause(problem)) from problem
        if status != http.client.OK:
            raise DaemonError(status, error_message(body))
        return found

    async def detect_kind(self) -> DaemonInfo:
        """Detect the kind of the daemon, once.

        :raises UnavailableError: it does not answer.
        """
        if not self._is_known:
            info = await self.info()
            self.kind = daemon_info.parse_info(
                info, await self._controllers() if daemon_info.is_podman_info_needed(info) else None
            )
            self._is_known = True
        return self.kind

    async def _controllers(self) -> tuple[str, ...] | None:
        try:
            return daemon_info.cgroup_controllers(await self.get(daemon_info.PODMAN_INFO_PATH))
        except DaemonError:
            return None

    async def info(self) -> dict[str, Any]:
        """Return the daemon's description of itself.

        :raises UnavailableError: it does not answer, or refuses.
        """
        return await self._query("tell of itself", lambda api: api.info())

    async def version(self) -> dict[str, Any]:
        """Return the daemon's version and its processor architecture.

        :raises UnavailableError: it does not answer, or refuses.
        """
        return await self._query("tell its version", lambda api: api.version())

    async def inspect(self, container: str, seconds: float = 0.0) -> dict[str, Any] | None:
        """Inspect one container, by its id or name; None if there is no such container.

        ``seconds`` lowers the time limit.

        :raises UnavailableError: the daemon does not answer.
        """
        try:
            return await self.get(f"/containers/{quote(container, safe='')}/json", seconds)
        except DaemonError as problem:
            if problem.status == NOT_FOUND:
                return None
            raise self.operation_error("look at a container", problem) from problem

    async def containers(self, *labels: str) -> list[dict[str, Any]]:
        """List containers, also those that ended, that have all these labels.

        :raises UnavailableError: the daemon does not answer.
        """
        filters = {"label": list(labels)}
        return await self._query("list containers", lambda api: api.containers(all=True, filters=filters))

    async def networks(self, *labels: str) -> list[dict[str, Any]]:
        """List networks that have all these labels.

        :raises UnavailableError: the daemon does not answer.
        """
        filters = {"label": list(labels)}
        return await self._query("list networks", lambda api: api.networks(filters=filters))

    async def _query(self, what: str, question: Callable[[Any], T]) -> T:
        """Send a request that every daemon supports; a refusal means that it is faulty, or behind a proxy."""
        try:
            return await self._call_read_only(question)
        except DaemonError as problem:
            raise self.operation_error(what, problem) from problem

    async def _call_read_only(self, question: Callable[[Any], T]) -> T:
        """Send a request that changes nothing, so that a caller that gave up can ignore its answer."""
        return await self.call(question, patience=self._seconds + _READ_MARGIN)

    def operation_error(self, what: str, problem: DaemonError) -> UnavailableError:
        """Return the error for an operation that the daemon could not do, although it usually can."""
        return UnavailableError(
            f"{self.kind.name} at {self.url} could not {what}: {problem.message}",
            field="docker_host",
            value=self.url,
            rule=_RULE,
            cure=f"Check {self.kind.program} info and the daemon's log; the controller will try again.",
            transient=True,
        )

    def _call_in_thread(self, question: Callable[[Any], T], patience: float, *, is_again: bool = False) -> T:
        try:
            return question(self._client(patience))
        except errors.APIError as problem:
            words = str(problem.explanation or problem)
            if _OTHER_VERSION.search(words) and not is_again:
                # The daemon was updated, and containers may have survived that.
                self._clients, self._version, self._is_known = {}, None, False
                return self._call_in_thread(question, patience, is_again=True)
            # Podman before 6 has one number for all that it cannot do.
            raise DaemonError(CONFLICT if _NAME_IN_USE in words else problem.status_code or 0, words) from problem
        except (errors.DockerException, RequestException, OSError) as problem:
            raise self._unreachable_error(_root_cause(problem)) from problem

    def _client(self, patience: float) -> APIClient:
        """Return a client; ask for the daemon's API version once, as Podman looks for its programs each time."""
        client = self._clients.get(patience)
        if client is None:
            client = docker.APIClient(base_url=self.url, version=self._version, timeout=math.ceil(patience))
            self._clients[patience], self._version = client, client.api_version
        return client

    def _unreachable_error(self, why: str) -> UnavailableError:
        self._is_known = False  # it may be another one when it is there again
        path = self.url.removeprefix(UNIX)
        cure = f"Start it ({self.kind.start_command()}), and check that this user can write to {path}."
        if why == os.strerror(errno.EACCES):
            cure = (
                f"Let this user write to {path}, as by the group that owns it. A new group applies from the "
                f"next login: log in again, start Jupyter, and end this controller (kill {os.getpid()}); jobs "
                "and pools continue."
            )
        return UnavailableError(
            f"{self.kind.name} does not answer at {self.url}: {why}.",
            field="docker_host",
            value=self.url,
            rule=_RULE,
            cure=cure,
            transient=True,
        )


def remove(api: Any, container: str) -> None:
    """Remove a container, running or not; Podman takes none that ends at this very moment, and does a moment later."""
    try:
        api.remove_container(container, force=True, v=True)
    except errors.APIError as problem:
        if _IMPROPER_STATE not in str(problem.explanation):
            raise
        api.wait(container, timeout=_THREAD_TIMEOUT)
        api.remove_container(container, force=True, v=True)


async def _http_get(address: str, path: str) -> tuple[int, bytes]:
    """Send an HTTP/1.0 request, whose answer is complete when the peer closes the connection.

    :raises OSError, ValueError: nothing listens, or the answer is invalid.
    """
    while (said := await _receive_response(address, path)) is None:  # noqa: ASYNC110 - no event reports free room
        await asyncio.sleep(_RETRY_DELAY)
    head, end, body = said
    words = head.split(None, 2)
    if not end or not head.startswith(b"HTTP/") or len(words) < _STATUS_LINE:
        raise ValueError("it closed the connection" if not head else "the process at this socket is not Docker")
    return int(words[1]), body


async def _receive_response(address: str, path: str) -> tuple[bytes, bytes, bytes] | None:
    """Return status line, headers and body of an answer; None if the system allows no more waiting connections.

    Without asyncio's streams, which take a fifth of the time that a warm start spends with this.
    """
    loop, said = asyncio.get_running_loop(), bytearray()
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.setblocking(False)
            line.connect(address)  # a unix socket answers at once: yes, no, or its queue is full
            await loop.sock_sendall(line, f"GET {path} HTTP/1.0\r\nHost: docker\r\n\r\n".encode())
            while data := await loop.sock_recv(line, _CHUNK_SIZE):
                said += data
    except OSError as problem:
        if problem.errno in _BACKLOG_FULL:
            return None
        raise
    return bytes(said).partition(b"\r\n\r\n")


def error_message(body: bytes) -> str:
    """Read the message of a daemon's refusal; the body may begin with the message's length."""
    start = body.find(b"{")
    try:
        return str(json.JSONDecoder().raw_decode(body[max(0, start) :].decode(errors="replace"))[0]["message"])
    except (ValueError, TypeError, KeyError):
        return body.decode(errors="replace").strip()


def _root_cause(problem: BaseException) -> str:
    """Return the text of the first cause: the layers above repeat each other."""
    while True:
        inner = problem.__cause__ or problem.__context__
        if inner is None:
            break
        problem = inner
    return problem.strerror or str(problem) if isinstance(problem, OSError) else str(problem)
