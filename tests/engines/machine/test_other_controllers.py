"""Which controllers of this machine are found, by what ``/proc`` has of their processes."""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING

from jupyter_smx.engines.machine.other_controllers import ControllerProcess, find_other_controllers

if TYPE_CHECKING:
    from pathlib import Path

OWN = 100
CONTROLLER = "/opt/jupyter/bin/python\0-m\0jupyter_smx.controller\0"
ME = pwd.getpwuid(os.getuid()).pw_name


def add_process(proc: Path, pid: int, command: str, parent: int = 1) -> Path:
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    (folder / "cmdline").write_text(command)
    (folder / "stat").write_text(f"{pid} (py (thon)) S {parent} {pid} {pid} {'0 ' * 14}0 4711 0\n")
    return folder


def test_controllers_of_other_data_folders_are_found_and_other_processes_are_not(tmp_path: Path) -> None:
    add_process(tmp_path, OWN, CONTROLLER)
    add_process(tmp_path, 200, CONTROLLER)
    add_process(tmp_path, 300, "python\0-m\0jupyter_smx.cli\0")
    add_process(tmp_path, 301, "grep\0-m\0" + "1\0jupyter_smx.controller\0")
    add_process(tmp_path, 302, "")
    (tmp_path / "self").mkdir()
    assert find_other_controllers(OWN, tmp_path) == [ControllerProcess(200, ME)]


def test_a_child_that_runs_no_program_yet_is_no_controller_of_its_own(tmp_path: Path) -> None:
    add_process(tmp_path, OWN, CONTROLLER)
    add_process(tmp_path, 101, CONTROLLER, parent=OWN)
    add_process(tmp_path, 200, CONTROLLER)
    add_process(tmp_path, 201, CONTROLLER, parent=200)
    assert [one.pid for one in find_other_controllers(OWN, tmp_path)] == [200]


def test_a_process_that_ends_meanwhile_is_left_out(tmp_path: Path) -> None:
    (add_process(tmp_path, 200, CONTROLLER) / "stat").unlink()
    (add_process(tmp_path, 201, CONTROLLER) / "stat").write_text("")
    assert find_other_controllers(OWN, tmp_path) == []


def test_a_system_without_proc_has_none(tmp_path: Path) -> None:
    assert find_other_controllers(OWN, tmp_path / "none") == []
