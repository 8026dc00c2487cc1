"""Provide environments of requirements on other machines: built there once, with packages of this machine if needed.

An engine calls :func:`provide` in ``acquire``, and :mod:`jupyter_smx.agent.remote.environments` builds there. If that
machine reaches no package index, the packages are downloaded here and sent. Wheels of the user's own projects are built
here and sent in any case.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import tempfile
from collections import deque
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from jupyter_smx.engines.base import RequirementsError
from jupyter_smx.engines.remote import requirement_lines
from jupyter_smx.engines.remote.wheels import Base, WheelBuilder, uv_for
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.records.cluster import QueueStatus
from jupyter_smx.model.spec.job_spec import PythonEnvironment
from jupyter_smx.model.text import format_duration, format_size
from jupyter_smx.policy.lifecycle import pip_output
from jupyter_smx.policy.lifecycle.environment import environment_id, format_for_pip, needs_pip

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Mapping

    from jupyter_smx.engines.base import ClusterRequest
    from jupyter_smx.engines.remote.account import Account

DEFAULT_LIMIT = 3_600.0
"""Seconds that an environment may take."""
_PROGRESS_INTERVAL = 0.5
"""Seconds between two reports: each is written to a record."""
_TAIL_LINES = 80
_PIECE = 8 * 2**20
"""Bytes of a package that one command takes."""
_BLOCK = 65_536
"""Bytes that are written at once there, of which a piece has a whole number."""
_SEND_TIMEOUT = 300.0
"""Seconds that a piece may take, which is 27 KiB/s at least."""


class EnvironmentRequest(Struct, frozen=True, kw_only=True):
    """The environment of a request for hosts.

    ``python`` is a path on the machine, "" for the Python of the agent; ``setup`` are lines of a shell that come before
    it. ``identity`` is the same for equal requests. ``variables`` are those that lines name, from this machine.
    """

    lines: tuple[str, ...]
    identity: str
    only: bool = False
    python: str = ""
    setup: str = ""
    variables: dict[str, str] = {}


class RemoteEnvironment(Struct, frozen=True, kw_only=True):
    """An environment that is ready: its interpreter, the version of that, and whether this request has built it."""

    python: str
    version: str
    seconds: float = 0.0
    built: bool = False


def environment_request(
    request: ClusterRequest, python: str, setup: str, environ: Mapping[str, str]
) -> EnvironmentRequest | None:
    """Return what a request for hosts needs beside its interpreter; None if that is nothing. Pure."""
    if not request.requirements:
        return None
    environment = PythonEnvironment(requirements=request.requirements, only=request.requirements_only)
    return EnvironmentRequest(
        lines=request.requirements,
        identity=environment_id(request.python, environment),
        only=request.requirements_only,
        python=python,
        setup=setup,
        variables=requirement_lines.variables(request.requirements, environ),
    )


async def provide(
    requests: Mapping[str, tuple[Account, EnvironmentRequest]], limit: float = DEFAULT_LIMIT
) -> AsyncGenerator[QueueStatus | dict[str, RemoteEnvironment], None]:
    """Provide one environment on each machine in parallel; yield the progress, and the environments last.

    Environments that are ready yield no progress. Closing the generator ends all processes, here and there.

    :raises RequirementsError: the requirements cannot be installed on one of the machines.
    :raises RefusedError: a machine cannot be used, or its interpreter cannot be started.
    :raises UnavailableError: a machine cannot be reached, or an environment took longer than ``limit`` seconds.
    """
    steps: dict[str, str] = {}
    changed = asyncio.Event()

    def report(machine: str, step: str) -> None:
        steps[machine] = step
        changed.set()

    builds = {
        machine: asyncio.create_task(_build_within(account, wanted, report, limit), name=f"environment on {machine}")
        for machine, (account, wanted) in requests.items()
    }
    try:
        async with aclosing(_reports(builds, steps, changed)) as reports:
            async for status in reports:
                yield status
        yield {machine: build.result() for machine, build in builds.items()}
    finally:
        for build in builds.values():
            build.cancel()
        await asyncio.gather(*builds.values(), return_exceptions=True)


async def _reports(
    builds: Mapping[str, asyncio.Task[RemoteEnvironment]], steps: Mapping[str, str], changed: asyncio.Event
) -> AsyncGenerator[QueueStatus, None]:
    """Report the current steps, at most twice a second, until all builds have ended or one has failed."""
    end = asyncio.ensure_future(asyncio.wait(builds.values(), return_when=asyncio.FIRST_EXCEPTION))
    try:
        while not end.done():
            news = asyncio.ensure_future(changed.wait())
            await asyncio.wait([news, end], return_when=asyncio.FIRST_COMPLETED)
            news.cancel()
            if changed.is_set() and not end.done():
                changed.clear()
                yield _status([name for name, build in builds.items() if not build.done()], steps)
                await asyncio.wait([end], timeout=_PROGRESS_INTERVAL)
    finally:
        end.cancel()


def _status(machines: Iterable[str], steps: Mapping[str, str]) -> QueueStatus:
    lines = [f"{machine}: {steps[machine]}" for machine in machines if machine in steps]
    return QueueStatus(f"Installs requirements on {'; '.join(lines)}")


async def _build_within(
    account: Account, wanted: EnvironmentRequest, report: Callable[[str, str], None], limit: float
) -> RemoteEnvironment:
    machine = account.machine.name
    build = _Build(account, wanted, lambda step: report(machine, step))
    try:
        return await asyncio.wait_for(build.run(), limit)
    except asyncio.TimeoutError:
        raise UnavailableError(
            f"--requirements: the environment on {machine} took longer than {format_duration(limit)}.",
            field="requirements",
            cure="Run the job again; finished downloads are reused.",
            transient=True,
        ) from None


class _Build:
    """Provides one environment on one machine; ``say`` gets each step in a few words."""

    def __init__(self, account: Account, wanted: EnvironmentRequest, say: Callable[[str], None]) -> None:
        self._account = account
        self._machine = account.machine
        self._wanted = wanted
        self._say = say
        self._base: Base | None = None
        self._last = deque[str](maxlen=_TAIL_LINES)

    async def run(self) -> RemoteEnvironment:
        """Provide it: as it is there, by an index that the machine reaches, or with packages from here."""
        answer = await self._build()
        if _has_failed(answer) and pip_output.lacks_venv(self._last) and await self._send_uv():
            answer = await self._build()
        if _has_failed(answer) and pip_output.is_network_failure(self._last):
            answer = await self._build_with_packages(no_index=True)
        if _has_failed(answer):
            raise self._error(answer)
        return msgspec.convert(answer, RemoteEnvironment)

    async def _build(self) -> dict[str, Any]:
        lines = self._wanted.lines
        no_index = requirement_lines.has_local_index(lines)
        answer = await self._ask({"check": no_index or bool(requirement_lines.local_paths(lines))}, lines)
        return await self._build_with_packages(no_index=no_index) if answer["state"] == "missing" else answer

    async def _build_with_packages(self, *, no_index: bool) -> dict[str, Any]:
        """Send packages, then build: those that lie here only, or with ``no_index`` all of them."""
        assert self._base is not None  # noqa: S101 - the first question has asked for it
        scratch = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="jupyter-smx-wheels-"))
        try:
            folder = scratch / "wheels"
            folder.mkdir()
            builder = WheelBuilder(self._machine.name, folder, self._say)
            files = await builder.build_local(self._wanted.lines)
            lines = requirement_lines.replace_paths(self._wanted.lines, files)
            if no_index:
                await builder.download(lines, self._base)
                lines = requirement_lines.without_indexes(lines)
            sizes = await self._send(folder, f"{self._base.root}/wheels/{scratch.name}")
        finally:
            await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)
        wheels = {"folder": scratch.name, "files": sizes, "token": requirement_lines.TOKEN, "no_index": no_index}
        return await self._ask({"wheels": wheels}, lines)

    async def _ask(self, more: Mapping[str, Any], lines: Iterable[str]) -> dict[str, Any]:
        """Run the build on the machine, and follow the output of its installer."""
        self._last.clear()
        progress = pip_output.InstallProgress()
        question = {
            "python": self._wanted.python,
            "setup": self._wanted.setup,
            "identity": self._wanted.identity,
            "lines": [*lines],
            "pip_lines": format_for_pip(lines),
            "only": self._wanted.only,
            "installer": "pip" if needs_pip(lines) else "auto",
            "variables": self._wanted.variables,
            **more,
        }
        async with aclosing(self._account.stream("environment", question)) as frames:  # type: ignore[type-var]
            async for frame in frames:
                if "answer" in frame:
                    answer: dict[str, Any] = frame["answer"]
                    return answer
                self._follow(frame.get("progress", {}), progress)
        raise UnavailableError(f"{self._machine.name} gave no answer about the environment.", transient=True)

    def _follow(self, reported: Mapping[str, Any], progress: pip_output.InstallProgress) -> None:
        if "base" in reported:
            self._base = msgspec.convert(reported["base"], Base)
        if reported.get("waits"):
            self._say("Waiting for another build of the same environment")
        if reported.get("creates"):
            self._say("Creating a virtual environment")
        if line := reported.get("line", ""):
            self._last.append(line)
            if step := progress.read_line(line):
                self._say(step)

    async def _send(self, folder: Path, target: str) -> dict[str, int]:
        """Send the packages in a folder; return the size of each in bytes."""
        files = await asyncio.to_thread(_sizes, folder)
        sent, total = 0, sum(files.values())
        for file, size in files.items():
            self._say(f"Sending packages, {format_size(sent)} of {format_size(total)}")
            await self._send_file(folder / file, size, f"{target}/{file}")
            sent += size
        return files

    async def _send_file(self, file: Path, size: int, target: str) -> None:
        """Send a file in pieces, none of which waits in memory for the others."""
        with file.open("rb") as source:
            for offset in range(0, max(size, 1), _PIECE):
                data = await asyncio.to_thread(source.read, _PIECE)
                await self._write(target, data, offset)

    async def _send_uv(self) -> bool:
        """Send uv to a machine whose Python cannot create virtual environments; False if that cannot help."""
        assert self._base is not None  # noqa: S101 - as above
        found = await asyncio.to_thread(uv_for, self._base)
        if found is None or needs_pip(self._wanted.lines):
            return False
        self._say("Sending uv, which creates virtual environments")
        target = f"{self._base.root}/bin/uv"
        part = f"{target}.{self._wanted.identity}.part"
        await self._send_file(found, found.stat().st_size, part)
        old, new = shlex.quote(part), shlex.quote(target)
        await self._command(f"chmod 700 {old} && mv {old} {new}", b"", target)
        return True

    async def _write(self, path: str, data: bytes, offset: int) -> None:
        """Write a piece at its place, since a command may run twice where a connection is lost."""
        folder, file = shlex.quote(os.path.dirname(path)), shlex.quote(path)  # noqa: PTH120 - a path of another machine
        block = f"bs={_BLOCK} seek={offset // _BLOCK} conv=notrunc"
        await self._command(f"umask 077; mkdir -p {folder} && dd of={file} {block}", data, path)

    async def _command(self, script: str, data: bytes, path: str) -> None:
        done = await self._machine.run(f"exec sh -c {shlex.quote(script)}", data, _SEND_TIMEOUT)
        if done.code:
            raise UnavailableError(
                f"--requirements: packages cannot be written to {self._machine.name} "
                f"({(done.errors.strip().splitlines() or ['it gave no reason'])[0]}).",
                field="requirements",
                value=path,
                cure="Free some space there, or make the folder writable.",
                transient=True,
            )

    def _error(self, answer: Mapping[str, Any]) -> RequirementsError:
        ended = f"{answer['installer']} ended with exit code {answer['code']} on {self._machine.name}"
        reason, cure = pip_output.failure_reason([*self._last], ended, self._machine.name)
        return RequirementsError(
            f"--requirements: {reason}",
            field="requirements",
            cure=f"{cure} The full log is {answer['log']} there.",
        )


def _has_failed(answer: Mapping[str, Any]) -> bool:
    return bool(answer["state"] == "failed")


def _sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
