"""The command as a shell starts it, and one real controller with one warm pool for a whole file."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from command_server import CommandServer

from jupyter_smx import controller_launch
from jupyter_smx.kernel.client import autostart
from jupyter_smx.testing.data_folder import provide_data_folder
from jupyter_smx.testing.teardown import stop_everything, stop_jobs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMIT = 30.0
"""Seconds that any command may take here."""

COMMAND = (sys.executable, "-m", "jupyter_smx.cli")


class Terminal:
    """Runs commands in one folder; ``start`` leaves them running, ``run`` waits for them."""

    def __init__(self, folder: Path, commands: CommandServer) -> None:
        self.folder = folder
        self._commands = commands
        self.started: list[subprocess.Popen[str]] = []

    def script(self, name: str, code: str) -> str:
        (self.folder / name).write_text(code, encoding="utf-8")
        return name

    def run(self, *words: str, **how: Any) -> subprocess.CompletedProcess[str]:
        """Wait for a command. Only one with a keyword, as for its streams, starts an interpreter."""
        if not how:
            return self._commands.run(words, self.folder, LIMIT)
        streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = how.pop("command", COMMAND)
        return subprocess.run(
            [*command, *words], cwd=self.folder, timeout=LIMIT, check=False, text=True, **(streams | how)
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        made = subprocess.Popen(
            [*COMMAND, *words], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.started.append(made)
        return made

    def document(self, *words: str) -> Any:
        """Run with --json, which must succeed without errors on stderr, and parse its output: exactly one document."""
        done = self.run(*words, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        return json.loads(done.stdout)

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture(scope="module")
def commands() -> Iterator[CommandServer]:
    """Provide the process that forks commands for a whole file."""
    made = CommandServer()
    yield made
    made.close()


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory, commands: CommandServer) -> Iterator[Terminal]:
    """Provide a terminal in whose data folder a controller runs and a pool is warm after the job ``first``."""
    folder = tmp_path_factory.mktemp("cli")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(controller_launch.DATA_DIR_VARIABLE, str(folder / "smx"))
        provide_data_folder(folder / "smx")
        made = Terminal(folder, commands)
        try:
            made.script(
                "hello.py", 'import os\nprint("hello", os.environ.get("SM_HP_N"), os.environ.get("GREETING"))\n'
            )
            done = made.run("run", "hello.py", "-k", "10m", "--name", "first")
            assert done.returncode == 0, done.stderr
            yield made
        finally:
            made.close()
            stop_everything()


@pytest.fixture
def terminal(warm: Terminal) -> Iterator[Terminal]:
    """Provide the terminal to one test; no command and no job of that test outlives it, or the next finds no pool."""
    yield warm
    warm.close()
    warm.started.clear()
    with closing(autostart.client()) as client:
        stop_jobs(client)


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commands: CommandServer) -> Iterator[Terminal]:
    """Provide a terminal with a data folder of its own, where a controller may be killed."""
    monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, str(tmp_path / "smx"))
    provide_data_folder(tmp_path / "smx")
    made = Terminal(tmp_path, commands)
    yield made
    made.close()
    stop_everything()


@pytest.fixture
def no_controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder without a controller; a command that starts one leaves a data folder, which fails the test."""
    folder = tmp_path / "smx"
    monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, str(folder))
    monkeypatch.chdir(tmp_path)
    return folder
