"""Build one environment in its folder: a virtual environment over a base interpreter, then uv or pip.

The controller starts this file as a program, writes an order of one line to its input, and reads what is reported. The
end of that input ends everything here at once. :mod:`jupyter_smx.agent.remote.environments` builds in the same way on
another machine. Only the holder of the folder's lock writes in it, and ``ready.json`` is written last.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, Mapping, NoReturn, Optional, Sequence, TextIO, Tuple

READY = "ready.json"
LOG = "build.log"
VENV = "venv"
LOCK = "lock"
OVERLAY = "_jupyter_smx_base.pth"
BASE = "base-python.txt"
"""File of an environment that names the interpreter below it; ``agent.system.processes.environment`` reads it."""
_STUB_MARKER = "jupyter-smx: this stands for a package of the base"
_DESCRIBE_BASE = """\
import json, os, sys, sysconfig
sites = [path for path in sys.path if path.rstrip("/").endswith(("site-packages", "dist-packages"))]
programs = [os.path.dirname(sys.executable), sysconfig.get_path("scripts")]
print(json.dumps({"executable": sys.executable, "sites": sites, "programs": programs}))
"""
_HEADER_BYTES = 1024
"""Bytes of a program in which its interpreter is named."""
_MAX_SHEBANG = 120
"""Bytes behind ``#!`` that each Linux reads."""
_UNCOPIED = re.compile(r"(?:conda|mamba)(?:-env)?|activate.*")
"""Programs that find the base by the folder of their interpreter, and would manage the environment instead."""
_SHELL_HEADER = re.compile(rb"#!/bin/sh\n'''exec' (?P<interpreter>[^\n]+?) \"\$0\" \"\$@\"\n' '''\n")
"""How installers begin a Python program if the path of its interpreter is long; to Python it is a string."""
_BESIDE = b'"$(dirname'
"""How the interpreter is written in an environment that may be moved: it is the one beside the program."""
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_PUNCTUATION = re.compile(r"[-_.]+")
_VERSION = re.compile(
    r"(?:\d+!)?\d+(?:\.\d+)*(?:(?:a|b|rc)\d+)?(?:\.post\d+)?(?:\.dev\d+)?(?:\+[a-z0-9]+(?:[._-][a-z0-9]+)*)?",
    re.IGNORECASE | re.ASCII,
)
_CONSTRAINT = "-c "
_UNSAFE_VARIABLES = (
    "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT",
    "PIP_PYTHON", "PIP_REQUIRE_VIRTUALENV", "PIP_REQUIREMENT", "UV_SYSTEM_PYTHON", "UV_PYTHON", "UV_PROJECT",
)  # fmt: skip
"""Variables that would have packages installed somewhere else than in the environment."""
_MIN_FREE_BYTES = 1 << 16
"""Bytes; less than that is no room on a disk."""
_NICE = 5
"""Niceness of an installer, as of jobs: notebooks come first."""


class EnvironmentBuild:
    """One build; ``order`` has ``python`` (the base), ``requirements``, ``only`` and ``uv`` (its command, or none).

    If ``order`` has ``wheels``, a folder, packages come from it and from no index. ``report`` gets each line that an
    installer prints, as does ``log``. The installers inherit ``lock``, a descriptor.
    """

    def __init__(
        self, folder: Path, order: Dict[str, Any], log: BinaryIO, lock: int, report: Callable[[str], None]
    ) -> None:
        self._folder = folder
        self._base: str = order["python"]
        self._lines: List[str] = order["requirements"]
        self._only: bool = order["only"]
        self._uv: List[str] = order["uv"]
        self._wheels: str = order.get("wheels", "")
        self._log = log
        self._lock = lock
        self._report = report
        self._venv = folder / VENV
        self._python = self._venv / "bin" / "python"
        self._program_folders: List[str] = []

    def run(self) -> None:
        """Build from the beginning.

        :raises SystemExit: a program failed; its exit code.
        """
        begun = time.monotonic()
        self.clear()
        files = [*self._index_options(), *self._write_files()]
        if self._uv:
            self._call([*self._uv, "venv", "--quiet", "--no-project", "--python", self._base, str(self._venv)])
        else:
            self._call([self._base, "-I", "-m", "venv", str(self._venv)])
        sites = [] if self._only else self._overlay()
        if self._uv:
            shadows = write_stub_metadata(self._own_site(), sites)
            self._call([*self._uv, "pip", "install", "--python", str(self._python), *files])
            for shadow in shadows:
                remove_stub(shadow)
        else:
            pip = [str(self._python), "-I", "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
            self._call([*pip, "--progress-bar", "off", *files])
        if not self._only:
            self._copy_programs()
        self._finish(time.monotonic() - begun)

    def clear(self) -> None:
        """Remove the environment, but keep the log."""
        shutil.rmtree(self._venv, ignore_errors=True)

    def _index_options(self) -> List[str]:
        return ["--no-index", "--find-links", self._wheels] if self._wheels else []

    def _write_files(self) -> List[str]:
        """Write the lines where the installer reads them; constraints stand in a file of their own."""
        constraints = [line[len(_CONSTRAINT) :] for line in self._lines if line.startswith(_CONSTRAINT)]
        rest = [line for line in self._lines if not line.startswith(_CONSTRAINT)]
        words = []
        for option, name, lines in (("-r", "requirements.txt", rest), ("-c", "constraints.txt", constraints)):
            if lines:
                path = self._folder / name
                path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
                words += [option, str(path)]
        return words

    def _call(self, command: Sequence[str]) -> None:
        """Run a program and report what it prints.

        :raises SystemExit: it failed; its exit code.
        """
        child = subprocess.Popen(
            command,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            pass_fds=(self._lock,),  # so that the lock is free only when the last of them has exited
        )
        if child.stdout is not None:
            for line in child.stdout:
                self.report(line.rstrip("\r\n"))
        code = child.wait()
        if code:
            if shutil.disk_usage(self._folder).free < _MIN_FREE_BYTES:  # not every program reports it
                self.report(f"error: {os.strerror(errno.ENOSPC)}")
            raise SystemExit(code if code > 0 else 128 - code)

    def report(self, line: str) -> None:
        """Write a line to the log, and report it; on a full disk the line is missing in the log only."""
        with contextlib.suppress(OSError):
            self._log.write(f"{line}\n".encode())
        self._report(line)

    # The packages of the base

    def _overlay(self) -> List[Path]:
        """Add the packages that jobs on the base see to the environment, after its own packages.

        A venv in a venv with ``--system-site-packages`` would see the base's own base instead.
        """
        words = [self._base, "-I", "-c", _DESCRIBE_BASE]
        answer = subprocess.run(words, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        described = json.loads(answer.stdout)
        sites = [Path(entry) for entry in described["sites"] if Path(entry).is_dir()]
        text = "".join(f"import site; site.addsitedir({os.fspath(site)!r})\n" for site in sites)
        (self._own_site() / OVERLAY).write_text(text, encoding="utf-8")
        (self._venv / BASE).write_text(described["executable"], encoding="utf-8", errors="surrogateescape")
        self._program_folders = [entry for entry in dict.fromkeys(described["programs"]) if os.path.isdir(entry)]
        return sites

    def _copy_programs(self) -> None:
        """Copy the programs that the base's Python runs, so that they run in the environment and find its packages.

        What the installer wrote stays. Other programs, as mpirun, are no copies: ``PATH`` leads to the base's folder.
        """
        executable = (self._venv / BASE).read_text(encoding="utf-8", errors="surrogateescape")
        names = ("python", "python3", self._own_site().parent.name)  # the folder is named after the interpreter
        for path in (path for folder in self._program_folders for path in _list_files(folder)):
            copy = self._python.with_name(os.path.basename(path))
            if os.path.lexists(copy) or _UNCOPIED.fullmatch(copy.name):
                continue
            program = _read_program(path, executable, names, os.fspath(self._python))
            if program is not None:
                copy.write_bytes(program)
                copy.chmod(0o755)

    def _own_site(self) -> Path:
        return next(self._venv.glob("lib/python*/site-packages"))

    def _finish(self, seconds: float) -> None:
        facts = {"seconds": round(seconds, 3), "installer": "uv" if self._uv else "pip", "python": self._base}
        part = self._folder / f".{READY}"
        part.write_text(json.dumps({**facts, "requirements": self._lines, "only": self._only}), encoding="utf-8")
        part.replace(self._folder / READY)


def _list_files(folder: str) -> List[str]:
    """Return the paths of the files in a folder, sorted; what cannot be read is left out."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    # Unlike `DirEntry.is_file`, this raises nothing for a link that leads to itself or into a closed folder.
    return [path for path in (os.path.join(folder, name) for name in names) if os.path.isfile(path)]


def _read_program(path: str, base: str, names: Sequence[str], python: str) -> Optional[bytes]:
    """Read a program that the interpreter ``base`` runs, as ``python`` runs it; None for any other file.

    ``names`` are those of ``base`` for ``env``.
    """

    def is_base(interpreter: str) -> bool:
        if not os.path.dirname(interpreter):
            return interpreter in names
        folder, own = os.path.dirname(interpreter), os.path.dirname(base)
        return os.path.realpath(folder) == os.path.realpath(own) and _is_same_file(interpreter, base)

    try:
        with open(path, "rb") as file:
            head = file.read(_HEADER_BYTES)
            if set_interpreter(head, python, is_base) is None:
                return None
            return set_interpreter(head + file.read(), python, is_base)
    except OSError:  # one that another account alone may read
        return None


def _is_same_file(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def set_interpreter(program: bytes, python: str, is_base: Callable[[str], bool]) -> Optional[bytes]:
    """Return the text of a program with ``python`` as its interpreter; None if the base does not run it. Pure.

    ``is_base`` returns True for the path of the base's interpreter, and for its names: ``#!/usr/bin/env python3`` is
    the first Python in ``PATH``, hence the base's own.
    """
    found = _SHELL_HEADER.match(program)
    if found is not None:
        named = found["interpreter"]
        is_ours = named.startswith(_BESIDE) or is_base(os.fsdecode(named.strip(b"\"'")))
        return _header(python, "") + program[found.end() :] if is_ours else None
    first, _, rest = program.partition(b"\n")
    interpreter, _, option = os.fsdecode(first[2:]).strip().partition(" ")
    if first[:2] != b"#!":
        return None
    if os.path.basename(interpreter) == "env":
        return _header(python, "") + rest if is_base(option.strip()) else None
    return _header(python, option.strip()) + rest if is_base(interpreter) else None


def _header(python: str, option: str) -> bytes:
    """Write the first lines of a program; Python reads them as well, where a caller names the interpreter itself."""
    words = f"{python} {option}".rstrip()
    if " " not in python and len(os.fsencode(words)) <= _MAX_SHEBANG:
        return os.fsencode(f"#!{words}\n")
    command = " ".join([f'"{python}"', *option.split(), '"$0"', '"$@"'])
    return os.fsencode(f"#!/bin/sh\n'''exec' {command}\n' '''\n")


def write_stub_metadata(own: Path, sites: Sequence[Path]) -> List[Path]:
    """Show uv the packages of ``sites`` in the folder ``own``, so that what satisfies is not installed again.

    A shadow is the metadata of a package without its files; where uv replaces one it removes nothing but that.
    """
    shadows: List[Path] = []
    seen = {_name_and_version(metadata)[0] for metadata in _metadata([own])}
    for metadata in _metadata(sites):
        name, version = _name_and_version(metadata)
        info = own / f"{name}-{version}.dist-info"
        if not name or name in seen or info.exists():
            continue
        seen.add(name)
        info.mkdir()
        shutil.copyfile(metadata, info / "METADATA")
        (info / "INSTALLER").write_text(_STUB_MARKER, encoding="utf-8")
        rows = [f"{info.name}/{file},,\n" for file in ("METADATA", "INSTALLER", "RECORD")]
        (info / "RECORD").write_text("".join(rows), encoding="utf-8")
        shadows.append(info)
    return shadows


def _metadata(sites: Sequence[Path]) -> Iterator[Path]:
    for site in sites:
        # Behind another letter pip hides what it did not remove to its end.
        yield from sorted(site.glob("[A-Za-z0-9]*.dist-info/METADATA"))
        yield from sorted(site.glob("[A-Za-z0-9]*.egg-info/PKG-INFO"))


def _name_and_version(metadata: Path) -> Tuple[str, str]:
    """Return the name and the version of a package as a wheel has them, "" where uv would read neither and give up.

    The folder of an older package is called otherwise: ``name.egg-info``, or ``name-1.0-py3.11.egg-info``.
    """
    head = metadata.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
    facts = dict(line.partition(": ")[::2] for line in head.splitlines())
    name, version = (facts.get(field, "").strip() for field in ("Name", "Version"))
    if not (_NAME.fullmatch(name) and _VERSION.fullmatch(version)):
        return "", ""
    return _PUNCTUATION.sub("_", name).lower(), version


def remove_stub(shadow: Path) -> None:
    """Remove a shadow of :func:`write_stub_metadata`, unless an installer has put a package in its place."""
    try:
        is_ours = (shadow / "INSTALLER").read_text(encoding="utf-8") == _STUB_MARKER
    except OSError:  # replaced by the package itself, or by another version of it
        return
    if is_ours:
        shutil.rmtree(shadow)


def installer_variables(environ: Mapping[str, str]) -> Dict[str, str]:
    """Return the variables of an installer: those of ``environ`` that leave it in its environment, and its settings."""
    kept = {name: value for name, value in environ.items() if name not in _UNSAFE_VARIABLES}
    # A base that is gone must be an error, not the reason to download another Python.
    return {**kept, "UV_PYTHON_DOWNLOADS": "never", "PYTHONUNBUFFERED": "1"}


def _exit_with_controller(controller: TextIO) -> NoReturn:
    """Wait for the end of the controller's pipe and end with it, and everything that was started here."""
    while controller.read(1):
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)
    raise SystemExit(1)


def build_locked(folder: Path, order: Dict[str, Any], lock: int, report: Callable[[str], None]) -> int:
    """Build in a folder whose lock this process holds; return an exit code, 0 if the environment is ready.

    If the build fails, everything is removed except the log.
    """
    (folder / READY).unlink(missing_ok=True)
    with (folder / LOG).open("wb", buffering=0) as log:
        build = EnvironmentBuild(folder, order, log, lock, report)
        try:
            build.run()
        except SystemExit as end:
            build.clear()
            return int(end.code or 0)
        except (OSError, subprocess.SubprocessError, StopIteration, ValueError) as error:
            build.clear()
            build.report(f"error: {type(error).__name__}: {error}")
            return 1
    return 0


def open_lock(folder: Path) -> int:
    """Open the lock of a folder, which is made if it is not there; return the descriptor, not locked yet.

    :raises OSError: the disk is full, or the folder cannot be written.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def be_nice() -> None:
    """Leave the processors to jobs and notebooks first."""
    os.nice(_NICE)


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(folder: Path) -> int:
    """Build what the order on the standard input asks for; 0 when the environment is ready."""
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=_exit_with_controller, args=(sys.stdin,), daemon=True).start()
    be_nice()
    lock = open_lock(folder)
    # An earlier build here, of a controller that was killed, has ended when this returns.
    fcntl.flock(lock, fcntl.LOCK_EX)
    return build_locked(folder, order, lock, _print)


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
