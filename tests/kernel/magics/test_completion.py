from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from jupyter_smx import controller_launch
from jupyter_smx.kernel.api import session
from jupyter_smx.kernel.client import autostart
from jupyter_smx.kernel.subcommands import completion
from jupyter_smx.model.records.event import PoolSummary

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Screenshots
    from scripted_controller import ScriptedController

POOL = PoolSummary(
    id="fe" * 8, name="m5-fefefe", engine="local", instances="local × 1", state="Available", created_at=0.0
)


def tab(shell: InteractiveShell, line: str) -> list[str]:
    _, found = shell.complete(None, line)
    return list(found)


@pytest.fixture
def names(shell: InteractiveShell, front_end: Screenshots, controller: ScriptedController) -> tuple[str, str]:  # noqa: ARG001 - a person is there
    """Give the names of a finished and of a running job; there is a pool, too."""
    for name in ("digits", "census"):
        assert shell.run_cell(f"%%train --name {name}\npass").success
    finished, running = controller.jobs.values()
    controller.end(finished.id)
    controller.pools[POOL.name] = POOL
    return finished.name, running.name


@pytest.mark.parametrize(
    "subcommand", ["logs", "logs -f", "logs --tail 5 -f", "logs --streams", "why", "rerun", "describe", "events -f"]
)
def test_tab_offers_the_names_of_jobs(shell: InteractiveShell, names: tuple[str, str], subcommand: str) -> None:
    assert set(names) <= set(tab(shell, f"%smx {subcommand} "))
    assert tab(shell, f"%smx {subcommand} dig") == [names[0]]
    assert tab(shell, f"%smx {subcommand} {names[0]} cen") == []


def test_no_name_is_offered_where_a_number_of_lines_stands(shell: InteractiveShell, names: tuple[str, str]) -> None:
    assert not set(names) & set(tab(shell, "%smx logs --tail "))


def test_only_what_runs_can_be_stopped(shell: InteractiveShell, names: tuple[str, str]) -> None:
    for subcommand in ("stop", "interrupt"):
        found = tab(shell, f"%smx {subcommand} ")
        assert names[1] in found
        assert names[0] not in found


@pytest.mark.parametrize("subcommand", ["extend", "release"])
@pytest.mark.usefixtures("names")
def test_tab_offers_the_names_of_pools(shell: InteractiveShell, subcommand: str) -> None:
    assert tab(shell, f"%smx {subcommand} m") == [POOL.name]


def test_tab_offers_subcommands_their_flags_and_what_config_takes(shell: InteractiveShell) -> None:
    assert tab(shell, "%smx rer") == ["rerun"]
    assert tab(shell, "%smx logs -") == ["-f", "--tail", "--host", "--streams"]
    assert tab(shell, "%smx logs -f --t") == ["--tail"]
    assert tab(shell, "%smx events -") == ["-f"]
    assert "keep_alive=" in tab(shell, "%smx config keep")


@pytest.fixture
def lonely(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:  # noqa: ARG001 - set first
    """Give a shell where no controller is, and where starting one is seen."""

    started: list[str] = []  # raising would not be seen: IPython swallows what completion raises
    monkeypatch.setattr(autostart, "start", lambda: started.append("a controller"))
    made = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    made.run_line_magic("load_ext", "jupyter_smx")
    yield made
    session.close_session()
    assert started == []


def test_tab_starts_no_controller(lonely: InteractiveShell, data_folder: Path) -> None:
    assert tab(lonely, "%smx stop zz") == []
    assert not data_folder.exists()


def test_tab_gives_up_on_a_controller_that_does_not_answer(lonely: InteractiveShell) -> None:
    controller_launch.ensure_folders()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.bind(os.fspath(controller_launch.socket_path()))
        silent.listen()
        began = time.monotonic()
        assert tab(lonely, "%smx stop zz") == []
        assert time.monotonic() - began < 3 * completion.QUERY_TIMEOUT + 1
