"""The process that forks commands for tests: an error of one command is not the next one's."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from command_server import CommandServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMIT = 30.0


@pytest.fixture
def server() -> Iterator[CommandServer]:
    server = CommandServer()
    yield server
    server.close()


def test_the_command_after_a_timeout_gets_its_own_exit_code(server: CommandServer, tmp_path: Path) -> None:
    with pytest.raises(TimeoutError):
        server.run(("no-such-subcommand",), tmp_path, 0.001)
    assert server.run(("--version",), tmp_path, LIMIT).returncode == 0


def test_a_process_that_does_not_start_is_an_error(
    server: CommandServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/bin/true")
        with pytest.raises(AssertionError, match="ended before the command did"):
            server.run(("--version",), tmp_path, LIMIT)
    assert server.run(("--version",), tmp_path, LIMIT).returncode == 0
