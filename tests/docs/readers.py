"""Readers that follow a page: a notebook with a user, and a terminal, both in one empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_client.manager import start_new_kernel

from jupyter_smx.kernel.display.card import MIME
from jupyter_smx.testing.teardown import stop_everything

if TYPE_CHECKING:
    from blocks import Block

CELL = 60.0
"""Seconds that a block may take."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_VARYING = [
    (re.compile(r"(?<=-)[0-9a-f]{6}\b"), "<digits>"),
    (re.compile(r"\b\d+(\.\d+)? (ms|s|min|h|d)\b( \d+ (s|min|h))?"), "<time>"),
    (re.compile(r"\$\d+\.\d+"), "<dollars>"),
    (re.compile(r"\b\d\d:\d\d\b(?!:)"), "<clock>"),
]
"""What differs on each run: digits of ids, durations, costs, times of day."""


def form(text: str) -> str:
    """Return a text with everything that varies replaced by a placeholder."""
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return "\n".join(re.sub(r" {2,}", "  ", line).rstrip() for line in text.strip().splitlines())


def same(wanted: str, got: str) -> bool:
    """Compare a page's text with the output; ``...`` stands for anything, and as a line for any lines or none."""
    pattern = re.escape(form(wanted)).replace(re.escape("\n...") + "\\\n", r"\n(?s:.*\n)?")
    pattern = re.sub(re.escape(re.escape("\n...")) + r"\Z", lambda _: r"(?s:\n.*)?", pattern)
    return re.fullmatch(pattern.replace(re.escape("..."), "(?s:.*)"), form(got)) is not None


class Desk:
    """A folder, an environment, and what a reader has started in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        self.config = folder / "config"
        self.config.mkdir()
        self.ipython = folder / "ipython"
        self._notebook: Notebook | None = None

    @property
    def notebook(self) -> Notebook:
        """The notebook, started when the page has its first cell."""
        if self._notebook is None:
            self._notebook = Notebook(self.folder)
        return self._notebook

    def write(self, block: Block) -> None:
        """Write the file that a block shows; configuration files go where Jupyter and IPython read them."""
        name = block.option("file")
        homes = {"jupyter_smx_config.py": self.config, "ipython_config.py": self.ipython / "profile_default"}
        path = homes.get(name, self.folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{block.text}\n", encoding="utf-8")

    def limit_hosts(self, limit: int) -> None:
        """Configure the controller to run so many hosts at most: tasks of an array follow each other on a warm one.

        Each further host would import the libraries of the page again.
        """
        path = self.config / "jupyter_smx_config.py"
        path.write_text(f"c.ControllerApp.max_hosts = {limit}\n", encoding="utf-8")

    def close(self) -> None:
        """End the notebook, the jobs, the pools and the controller."""
        if self._notebook is not None:
            self._notebook.close()
        stop_everything()


class Notebook:
    """A kernel, and a front end that can be asked for input, as JupyterLab can."""

    def __init__(self, folder: Path) -> None:
        self._manager, self._client = start_new_kernel(kernel_name="python3", env=dict(os.environ), cwd=str(folder))

    def run(self, code: str) -> tuple[str, str]:
        """Run a cell; return what it printed and showed, and the name of the error that it raised."""
        shown: list[str] = []

        def take(message: dict[str, Any]) -> None:
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                shown.append(content["text"])
            elif kind in ("display_data", "execute_result") and MIME not in content["data"]:
                shown.append(content["data"].get("text/plain", "") + "\n")
            elif kind == "error":
                shown.append(_COLOURS.sub("", "\n".join(content["traceback"])) + "\n")

        reply = self._client.execute_interactive(
            code, allow_stdin=True, stdin_hook=_refuse, output_hook=take, timeout=CELL
        )
        return "".join(shown), reply["content"].get("ename", "")

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


def _refuse(message: dict[str, Any]) -> None:
    raise AssertionError(f"A cell asked the reader: {message['content']}")


class Terminal:
    """A shell whose commands are those of this environment."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self._environment = {**os.environ, "PATH": path, "COLUMNS": "120"}

    def run(self, command: str) -> tuple[str, int]:
        """Run one command; return its output, including errors, and its exit code."""
        done = subprocess.run(
            ["/bin/bash", "-c", command],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=CELL,
            check=False,
        )
        return done.stdout, done.returncode


def commands(text: str) -> list[tuple[str, str]]:
    """Parse a console block: each command after ``$``, with its continued lines, and its expected output."""
    found: list[tuple[str, str]] = []
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.split("\n")
        count = 1 + next((number for number, line in enumerate(lines) if not line.endswith("\\")), 0)
        found.append(("\n".join(lines[:count]), "\n".join(lines[count:]).strip("\n")))
    return found


class Stopwatch:
    """Measures the seconds since it was made."""

    def __init__(self) -> None:
        self._begun = time.monotonic()

    def seconds(self) -> float:
        return time.monotonic() - self._begun
