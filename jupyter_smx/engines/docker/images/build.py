"""Build images from folders with a Dockerfile; Docker's library packs them, by their ``.dockerignore``."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast
from urllib.parse import urlencode

from docker.utils.build import tar

from jupyter_smx.engines.base import PullProgress
from jupyter_smx.engines.docker.daemon import cli_config
from jupyter_smx.engines.docker.daemon.error_patterns import ErrorPattern, first_match
from jupyter_smx.engines.docker.daemon.json_stream import JsonStream, StreamError
from jupyter_smx.engines.docker.images import registry
from jupyter_smx.engines.docker.images.build_progress import BuildProgress
from jupyter_smx.model.errors import RefusedError
from jupyter_smx.model.text import format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_smx.engines.docker.daemon.daemon_info import DaemonInfo

_DOCKERFILE = "Dockerfile"
_IGNORE = ".dockerignore"
_MAX_BUILDS = 2
"""Builds at the same time; the steps of one use all processors."""
_STEP_FAILED = "returned a non-zero code"
_FULL_DISK = ErrorPattern(
    ("no space left on device",),
    "The daemon stores images on its disk.",
    "Free some space on that disk; {program} system df shows its use.",
)
_NO_ACCESS = ErrorPattern(
    (
        *("pull access denied", "manifest .*unknown", "repository .*not (found|exist)", "unauthorized", "forbidden"),
        "no basic auth credentials",
    ),
    "The image after FROM is not on this machine, and its registry has no such image for this user.",
    "Check the name after FROM, or log in with {program} login.",
)
_REASONS = (
    ErrorPattern(
        ("buildkit", "unknown instruction: (eof|<<)", "unknown flag"),
        "The daemon's own builder does not have this feature of Dockerfiles.",
        "Build it with {program} build -t NAME {folder}, and use --image NAME.",
    ),
    _NO_ACCESS,
)
_OTHER = ErrorPattern((), "", "Correct the Dockerfile; {program} build {folder} shows the whole log.")


class ImageBuilder:
    """Builds of one daemon; ``seconds`` is the time limit of a connection."""

    def __init__(self, url: str, kind: DaemonInfo, seconds: float) -> None:
        self._url, self._kind = url, kind
        # A step may print nothing for as long as it takes.
        self._stream = JsonStream(url, kind, "the build of an image", seconds, is_patient=True)
        self._slots = asyncio.Semaphore(_MAX_BUILDS)
        self._threads = ThreadPoolExecutor(_MAX_BUILDS, thread_name_prefix="docker-build")

    async def build(self, path: str, say: Callable[[PullProgress], None]) -> str:
        """Build an image from a folder or a Dockerfile; return its id. Nothing of a failed build is left.

        :raises RefusedError: there is no Dockerfile, the folder cannot be packed, or a step failed.
        :raises UnavailableError: the daemon does not answer.
        """
        say(PullProgress("waiting for other builds"))
        async with self._slots:
            say(PullProgress("packing its folder"))
            in_thread = asyncio.get_running_loop().run_in_executor
            folder, name = await in_thread(self._threads, _locate, path)
            with await in_thread(self._threads, _pack, folder, name) as context:
                logins = await in_thread(self._threads, registry.read_all_logins)
                proxies = await in_thread(self._threads, cli_config.read_proxies, self._url)
                head = _build_request(name, _size_of(context), logins.header, proxies)
                return await self._send(path, context, head, say, logins.trouble)

    async def _send(
        self, path: str, context: IO[bytes], head: bytes, say: Callable[[PullProgress], None], trouble: str
    ) -> str:
        size = _size_of(context)
        progress = BuildProgress()

        def on_sent(sent: int) -> None:
            say(PullProgress(f"sending its folder, {format_size(sent)} of {format_size(size)}"))

        try:
            async with aclosing(self._stream.lines(head, context, on_sent)) as lines:
                async for line in lines:
                    progress.update(line)
                    say(PullProgress(progress.format_progress()))
        except StreamError as problem:
            raise _build_error(path, str(problem), progress, self._kind, trouble) from problem
        if not progress.image:
            raise _build_error(path, "the daemon reported no image", progress, self._kind)
        return progress.image


def _locate(path: str) -> tuple[Path, str]:
    """Return the folder that is sent, and the name of the Dockerfile in it. Blocks.

    :raises RefusedError: there is none.
    """
    found = Path(path)
    folder, name = (found.parent, found.name) if found.is_file() else (found, _DOCKERFILE)
    if (folder / name).is_file():
        return folder, name
    what = f"{path} has no file {_DOCKERFILE}" if found.is_dir() else f"there is no folder {path}"
    raise RefusedError(
        f"--build: {what}.",
        field="build",
        value=path,
        rule="An image is built from a folder with a Dockerfile, or from a Dockerfile with any name.",
        cure="Correct the path, or use --image with a finished image.",
    )


def _pack(folder: Path, name: str) -> IO[bytes]:
    """Pack a folder without the files that its ``.dockerignore`` names; in a thread. Blocks.

    :raises RefusedError: a file cannot be read, or there is no room for the archive.
    """
    try:
        ignore = folder / _IGNORE
        lines = ignore.read_text(encoding="utf-8", errors="replace").splitlines() if ignore.is_file() else []
        excluded = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
        packed = cast("IO[bytes]", tar(folder, exclude=excluded, dockerfile=(name, None)))
    except OSError as problem:
        raise RefusedError(
            f"--build: {folder} cannot be packed: {problem.__cause__ or problem}.",
            field="build",
            value=str(folder),
            rule=f"The folder is sent to the daemon, without the files in its {_IGNORE}.",
            cure=f"Name large and unreadable files in {folder / _IGNORE}.",
        ) from problem
    return packed


def _size_of(file: IO[bytes]) -> int:
    size = file.seek(0, 2)
    file.seek(0)
    return size


def _build_request(name: str, size: int, logins: str, proxies: Mapping[str, str]) -> bytes:
    arguments = {"buildargs": json.dumps(proxies)} if proxies else {}  # as docker build passes them
    query = urlencode({"dockerfile": name, "rm": 1, "forcerm": 1, **arguments})
    lines = [
        f"POST /build?{query} HTTP/1.1",
        *("Host: docker", "Connection: close", "Content-Type: application/x-tar", f"Content-Length: {size}"),
        *([f"X-Registry-Config: {logins}"] if logins else []),
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def _build_error(path: str, words: str, progress: BuildProgress, kind: DaemonInfo, trouble: str = "") -> RefusedError:
    """Return the error of a failed build; ``trouble`` is why the user's credentials were not sent."""
    # The log of a step that failed has the words of the user's own programs.
    of_daemon = () if _STEP_FAILED in words else _REASONS
    reason = first_match((_FULL_DISK,), f"{words} {progress.log_tail()}") or first_match(of_daemon, words) or _OTHER
    login = f"And {trouble}." if trouble and reason == _NO_ACCESS else ""
    place = f" at {progress.step}" if progress.step else ""
    log = f"Its log ends with: {progress.log_tail().rstrip('.')}." if progress.log_tail() else ""
    return RefusedError(
        f"--build: the image of {path} could not be built{place}: {words.strip().rstrip('.')}.",
        field="build",
        value=path,
        rule=" ".join(part for part in (reason.rule, login, log) if part),
        cure=reason.cure.format(program=kind.program, folder=path),
        transient=reason.transient,
    )
