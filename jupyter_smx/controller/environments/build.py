"""Build one environment in its folder, as a separate program: a virtual environment, then pip or uv.

The controller starts it, writes an order of one line to its input, and reads what is said. The end of that input is
the controller's end, or its change of mind, and ends everything here at once: nobody but the one who holds the folder's
lock ever writes in it. ``ready.json`` is written last. Only the standard library is used.
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
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

READY = "ready.json"
LOG = "build.log"
VENV = "venv"
LOCK = "lock"
OVERLAY = "_jupyter_smx_base.pth"
_STUB_MARKER = "jupyter-smx: this stands for a package of the base"
_SITES = (
    "import json, sys; "
    "print(json.dumps([p for p in sys.path if p.rstrip('/').endswith(('site-packages', 'dist-packages'))]))"
)
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_PUNCTUATION = re.compile(r"[-_.]+")
_VERSION = re.compile(
    r"(?:\d+!)?\d+(?:\.\d+)*(?:(?:a|b|rc)\d+)?(?:\.post\d+)?(?:\.dev\d+)?(?:\+[a-z0-9]+(?:[._-][a-z0-9]+)*)?",
    re.IGNORECASE | re.ASCII,
)
_CONSTRAINT = "-c "
_MIN_FREE_BYTES = 1 << 16
"""Bytes; less than that is no room on a disk."""
_NICE = 5
"""As jobs: whoever uses a notebook meanwhile comes first."""


class EnvironmentBuild:
    """One build; ``order`` has ``python`` (the base), ``requirements``, ``only`` and ``uv`` (its command, or none)."""

    def __init__(self, folder: Path, order: dict[str, Any], log: BinaryIO, lock: int) -> None:
        self._folder = folder
        self._base: str = order["python"]
        self._lines: list[str] = order["requirements"]
        self._only: bool = order["only"]
        self._uv: list[str] = order["uv"]
        self._log = log
        self._lock = lock
        self._venv = folder / VENV
        self._python = self._venv / "bin" / "python"

    def run(self) -> None:
        """Make everything anew.

        :raises SystemExit: a program failed; its exit code.
        """
        begun = time.monotonic()
        self.clear()
        files = self._write_files()
        if self._uv:
            self._call([*self._uv, "venv", "--quiet", "--no-project", "--python", self._base, str(self._venv)])
        else:
            self._call([self._base, "-I", "-m", "venv", str(self._venv)])
        sites = [] if self._only else self._overlay()
        if self._uv:
            shadows = self._write_stub_metadata(sites)
            self._call([*self._uv, "pip", "install", "--python", str(self._python), *files])
            for shadow in shadows:
                _remove_stub(shadow)
        else:
            pip = [str(self._python), "-I", "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
            self._call([*pip, "--progress-bar", "off", *files])
        self._finish(time.monotonic() - begun)

    def clear(self) -> None:
        """Remove what is there of it; the log stays."""
        shutil.rmtree(self._venv, ignore_errors=True)

    def _write_files(self) -> list[str]:
        """Write the lines where the installer reads them; constraints stand in a file of their own."""
        constraints = [line.removeprefix(_CONSTRAINT) for line in self._lines if line.startswith(_CONSTRAINT)]
        rest = [line for line in self._lines if not line.startswith(_CONSTRAINT)]
        words = []
        for option, name, lines in (("-r", "requirements.txt", rest), ("-c", "constraints.txt", constraints)):
            if lines:
                path = self._folder / name
                path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
                words += [option, str(path)]
        return words

    def _call(self, command: Sequence[str]) -> None:
        """Run a program and pass on what it says, to the log and to the controller.

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
            pass_fds=(self._lock,),  # so that the lock is free only when the last of them is gone
        )
        if child.stdout is not None:
            for line in child.stdout:
                self.report(line.rstrip("\r\n"))
        code = child.wait()
        if code:
            if shutil.disk_usage(self._folder).free < _MIN_FREE_BYTES:  # not every program says it
                self.report(f"error: {os.strerror(errno.ENOSPC)}")
            raise SystemExit(code if code > 0 else 128 - code)

    def report(self, line: str) -> None:
        """Write a line to the log and to the controller; what a full disk does not take is lost there."""
        with contextlib.suppress(OSError):
            self._log.write(f"{line}\n".encode())
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    # The packages of the base

    def _overlay(self) -> list[Path]:
        """Let the environment see what jobs on the base see, behind its own packages.

        A venv in a venv with ``--system-site-packages`` would see the base's own base instead.
        """
        answer = subprocess.run(
            [self._base, "-I", "-c", _SITES], check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        sites = [Path(entry) for entry in json.loads(answer.stdout) if Path(entry).is_dir()]
        text = "".join(f"import site; site.addsitedir({os.fspath(site)!r})\n" for site in sites)
        (self._own_site() / OVERLAY).write_text(text, encoding="utf-8")
        return sites

    def _own_site(self) -> Path:
        return next(self._venv.glob("lib/python*/site-packages"))

    def _write_stub_metadata(self, sites: Sequence[Path]) -> list[Path]:
        """Show uv the packages of the base, which it does not look for: what satisfies is then not installed again.

        A shadow is the metadata of a package without its files; where uv replaces one it removes nothing but that.
        """
        own, shadows, seen = self._own_site(), list[Path](), set[str]()
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

    def _finish(self, seconds: float) -> None:
        facts = {"seconds": round(seconds, 3), "installer": "uv" if self._uv else "pip", "python": self._base}
        part = self._folder / f".{READY}"
        part.write_text(json.dumps({**facts, "requirements": self._lines, "only": self._only}), encoding="utf-8")
        part.replace(self._folder / READY)


def _metadata(sites: Sequence[Path]) -> Iterator[Path]:
    for site in sites:
        # Behind another letter pip hides what it did not remove to its end.
        yield from sorted(site.glob("[A-Za-z0-9]*.dist-info/METADATA"))
        yield from sorted(site.glob("[A-Za-z0-9]*.egg-info/PKG-INFO"))


def _name_and_version(metadata: Path) -> tuple[str, str]:
    """Give the name and the version of a package as a wheel has them, "" where uv would read neither and give up.

    The folder of an older package is called otherwise: ``name.egg-info``, or ``name-1.0-py3.11.egg-info``.
    """
    head = metadata.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
    facts = dict(line.partition(": ")[::2] for line in head.splitlines())
    name, version = (facts.get(field, "").strip() for field in ("Name", "Version"))
    if not (_NAME.fullmatch(name) and _VERSION.fullmatch(version)):
        return "", ""
    return _PUNCTUATION.sub("_", name).lower(), version


def _remove_stub(shadow: Path) -> None:
    try:
        is_ours = (shadow / "INSTALLER").read_text(encoding="utf-8") == _STUB_MARKER
    except OSError:  # replaced by the package itself, or by another version of it
        return
    if is_ours:
        shutil.rmtree(shadow)


def _exit_with_controller(controller: TextIO) -> NoReturn:
    """Wait for the end of the controller's pipe and end with it, and everything that was started here."""
    while controller.read(1):
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)
    raise SystemExit(1)


def main(folder: Path) -> int:
    """Build what the order on the standard input asks for; 0 when the environment is ready."""
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=_exit_with_controller, args=(sys.stdin,), daemon=True).start()
    os.nice(_NICE)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    # Whoever built here before, for a controller that was killed, is gone when this returns.
    fcntl.flock(lock, fcntl.LOCK_EX)
    (folder / READY).unlink(missing_ok=True)
    with (folder / LOG).open("wb", buffering=0) as log:
        build = EnvironmentBuild(folder, order, log, lock)
        try:
            build.run()
        except SystemExit:
            build.clear()
            raise
        except (OSError, subprocess.SubprocessError, StopIteration, ValueError) as error:
            build.clear()
            build.report(f"error: {type(error).__name__}: {error}")
            return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
