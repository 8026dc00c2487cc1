"""Get the packages of an environment on this machine, for a machine that reaches no package index.

Projects of this machine are built into wheels here. Everything else is downloaded as wheels for the Python, the
platform and the C library of the other machine. A package that has no such wheel is built here if it is pure Python.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import shutil
import sys
import sysconfig
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from jupyter_smx.agent.code import environment_build
from jupyter_smx.controller_launch import controller_environment
from jupyter_smx.engines.base import RequirementsError
from jupyter_smx.engines.machine import child_process
from jupyter_smx.engines.remote import requirement_lines
from jupyter_smx.policy.lifecycle import pip_output
from jupyter_smx.policy.lifecycle.environment import CONSTRAINT, format_for_pip, needs_pip

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_TAIL_LINES = 80
_GLIBC = re.compile(r"glibc (\d+)\.(\d+)")
_OLD_MANYLINUX = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
_OLDEST_GLIBC = 5
_NEW_GLIBC = 28
"""Minor version of the C library from which on most wheels of today run."""
_MUSL = ("musllinux_1_2", "musllinux_1_1")


class Base(Struct, frozen=True):
    """The interpreter of another machine, as it described itself: ``3.11.2``, ``linux-x86_64``, ``glibc 2.36``."""

    python: str
    version: str
    platform: str
    libc: str = ""
    root: str = ""
    """Folder of the account there."""
    uv: str = ""

    def name(self) -> str:
        """Return a name of the Python for messages."""
        return f"Python {self.minor()} on {self.platform}"

    def minor(self) -> str:
        """Return the version in names of wheels, as ``3.11``."""
        return ".".join(self.version.split(".")[:2])


class _Outcome(NamedTuple):
    """Result of a program: its name, its exit code, its last lines."""

    program: str
    code: int
    lines: list[str]


class WheelBuilder:
    """Gets the packages for one environment of ``machine`` into ``folder``; ``say`` gets each step in a few words."""

    def __init__(self, machine: str, folder: Path, say: Callable[[str], None]) -> None:
        self._machine = machine
        self._folder = folder
        self._say = say
        self._pip = _pip()
        self._uv = _uv()

    async def build_local(self, lines: Sequence[str]) -> dict[str, str]:
        """Copy or build the local requirements of the lines; return the name of each file by its path.

        :raises RequirementsError: a path does not exist, or cannot be built.
        """
        files: dict[str, str] = {}
        for path in requirement_lines.local_paths(lines):
            files[path] = await self._build_one(path, lines)
        return files

    async def _build_one(self, path: str, lines: Sequence[str]) -> str:
        source = Path(path)
        if not await asyncio.to_thread(source.exists):
            raise RequirementsError(
                f"--requirements: {path} does not exist any more.",
                field="requirements",
                value=path,
                cure="Submit the job again with the file of requirements, which names what is there now.",
            )
        if source.suffix == ".whl":
            await asyncio.to_thread(shutil.copy, source, self._folder)
            return source.name
        self._say(f"Building a wheel of {source.name}")
        before = self._names()
        if self._pip:
            words = [*self._pip, "wheel", "--no-deps", "--no-input", "--wheel-dir", str(self._folder)]
            files = self._files([*requirement_lines.index_lines(format_for_pip(lines)), path])
            outcome = await self._run("pip", [*words, *files])
        else:
            words = [*self._uv, "build", "--wheel", "--no-create-gitignore", "--out-dir", str(self._folder), path]
            outcome = await self._run("uv", words, requirement_lines.index_variables(lines, os.environ))
        wheels = [name for name in self._names() - before if name.endswith(".whl")]
        if outcome.code or len(wheels) != 1:
            raise self._error(outcome, f"--requirements: no wheel can be built of {path}")
        return wheels[0]

    async def download(self, lines: Sequence[str], base: Base) -> None:
        """Download wheels of everything that the lines need, for another machine.

        ``lines`` name files in the folder by :data:`~jupyter_smx.engines.remote.requirement_lines.TOKEN`.

        :raises RequirementsError: a package does not exist, or has no wheel that runs there.
        """
        if not self._pip:
            raise RequirementsError(
                f"--requirements: {self._machine} reaches no package index, and there is no pip here to download with.",
                field="requirements",
                cure="Install pip or uv in the environment of jupyter_smx.",
            )
        here = [line.replace(requirement_lines.TOKEN, str(self._folder)) for line in lines]
        if not self._uv or needs_pip(here):
            outcome = await self._download(format_for_pip(here), base)
            if outcome.code:
                raise self._no_wheel(outcome, base)
            return
        pins = await self._resolve(here, base)
        indexes = requirement_lines.index_lines(here)
        outcome = await self._download([*indexes, *pins], base, "--no-deps")
        if not outcome.code:
            return
        if pip_output.is_network_failure(outcome.lines):
            raise self._no_wheel(outcome, base)
        for pin in pins:
            await self._download_or_build([*indexes, pin], base)

    async def _resolve(self, lines: Sequence[str], base: Base) -> list[str]:
        """Choose a version of each package; those that have a wheel for the other machine come first.

        pip would look at the markers of requirements with the Python of this machine.
        """
        target = ["--python-version", base.version, *uv_platform(base)]
        form = ["--no-header", "--no-annotate", "--quiet", "--output-file", str(self._scratch("pins.txt"))]
        files = [word for word in self._files(lines) if word != "-r"]
        command = [*self._uv, "pip", "compile", *files, *target, *form]
        outcome = await self._run("uv", [*command, "--only-binary", ":all:"])
        if outcome.code and not pip_output.is_network_failure(outcome.lines):
            outcome = await self._run("uv", command)
        if outcome.code:
            raise self._no_wheel(outcome, base)
        text = await asyncio.to_thread(self._scratch("pins.txt").read_text, encoding="utf-8")
        return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("#", "-"))]

    async def _download_or_build(self, lines: Sequence[str], base: Base) -> None:
        outcome = await self._download(lines, base, "--no-deps")
        if not outcome.code:
            return
        before = self._names()
        words = [*self._pip, "wheel", "--no-deps", "--no-input", "--wheel-dir", str(self._folder)]
        built = await self._run("pip", [*words, *self._files(lines)])
        files = self._names() - before
        if built.code or not all(name.endswith("-none-any.whl") for name in files):
            raise self._no_wheel(outcome, base)

    async def _download(self, lines: Sequence[str], base: Base, *options: str) -> _Outcome:
        words = [*self._pip, "download", "--dest", str(self._folder), "--only-binary", ":all:", *options]
        form = ["--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
        return await self._run("pip", [*words, *form, *pip_platform(base), *self._files(lines)])

    async def _run(self, program: str, words: Sequence[str], variables: Mapping[str, str] | None = None) -> _Outcome:
        """Run a program to its end; a call that is cancelled leaves no process."""
        child = await child_process.start(
            *words,
            cwd=self._folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**environment_build.installer_variables(controller_environment(os.environ)), **(variables or {})},
        )
        last, progress = deque[str](maxlen=_TAIL_LINES), pip_output.InstallProgress()
        try:
            assert child.stdout is not None  # noqa: S101 - a pipe, as asked for
            async for line in child_process.read_lines(child.stdout):
                last.append(line)
                if step := progress.read_line(line):
                    self._say(f"{step} on this machine")
            code = await child.wait()
        finally:
            await child_process.end(child, with_descendants=True)
        return _Outcome(program, code, list(last))

    def _files(self, lines: Sequence[str]) -> list[str]:
        """Write the lines where pip and uv read them; constraints have a file of their own."""
        constraints = [line.removeprefix(CONSTRAINT) for line in lines if line.startswith(CONSTRAINT)]
        rest = [line for line in lines if not line.startswith(CONSTRAINT)]
        words = []
        for option, name, part in (("-r", "requirements.in", rest), ("-c", "constraints.in", constraints)):
            if part:
                path = self._scratch(name)
                path.write_text("".join(f"{line}\n" for line in part), encoding="utf-8")
                words += [option, str(path)]
        return words

    def _scratch(self, name: str) -> Path:
        return self._folder.parent / name

    def _names(self) -> set[str]:
        return {path.name for path in self._folder.iterdir()}

    def _error(self, outcome: _Outcome, what: str) -> RequirementsError:
        reason, cure = pip_output.failure_reason(
            outcome.lines, f"{outcome.program} ended with exit code {outcome.code}"
        )
        return RequirementsError(f"{what}: {reason}", field="requirements", cure=cure)

    def _no_wheel(self, outcome: _Outcome, base: Base) -> RequirementsError:
        error = self._error(outcome, "--requirements")
        if pip_output.is_network_failure(outcome.lines):
            rule = f"{self._machine} reaches no package index, and this machine reaches none either."
        else:
            rule = f"{self._machine} reaches no package index, so wheels for {base.name()} are downloaded here."
        return RequirementsError(error.message, field="requirements", rule=rule, cure=error.cure)


def pip_platform(base: Base) -> list[str]:
    """Return the options with which pip downloads wheels for another machine. Pure."""
    system, _, machine = base.platform.partition("-")
    if system != "linux":
        tags = [base.platform.replace("-", "_").replace(".", "_")]
    else:
        tags = [f"{name}_{machine}" for name in _linux_tags(base)]
    platforms = [word for tag in tags for word in ("--platform", tag)]
    return ["--python-version", base.version, "--implementation", "cp", *platforms]


def _linux_tags(base: Base) -> list[str]:
    found = _GLIBC.match(base.libc)
    if found is None:
        return [*_MUSL, "linux"]
    newest = range(int(found[2]), _OLDEST_GLIBC - 1, -1)
    tags = [tag for minor in newest for tag in (f"manylinux_2_{minor}", _OLD_MANYLINUX.get(minor, "")) if tag]
    return [*tags, "linux"]


def uv_platform(base: Base) -> list[str]:
    """Return the options with which uv resolves for another machine; none if uv has no name for it. Pure."""
    system, _, machine = base.platform.partition("-")
    if machine not in ("x86_64", "aarch64") or system != "linux":
        return []
    found = _GLIBC.match(base.libc)
    if found is None:
        return ["--python-platform", f"{machine}-unknown-linux-musl"]
    return ["--python-platform", f"{machine}-manylinux_2_{_NEW_GLIBC if int(found[2]) >= _NEW_GLIBC else 17}"]


def uv_for(base: Base) -> Path | None:
    """Return this machine's uv, if it runs on another one; None without uv, or if the platforms differ."""
    found = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    is_same = base.platform == sysconfig.get_platform() and bool(_GLIBC.match(base.libc))
    return Path(found) if found and is_same else None


def _pip() -> list[str]:
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    uv = _uv()
    return [*uv, "tool", "run", "pip"] if uv else []


def _uv() -> list[str]:
    found = shutil.which("uv")
    if found:
        return [found]
    return [sys.executable, "-m", "uv"] if importlib.util.find_spec("uv") else []
