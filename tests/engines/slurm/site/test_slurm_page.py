"""The commands of the page for users run as a reader types them, on a login node and on a laptop."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurm_controller import SlurmControllerWorld

PAGE = Path(__file__).parents[4] / "docs" / "users" / "howto" / "slurm.md"
NOT_HERE = ("pip install", "mkdir -p ~/.jupyter && echo")
"""Commands whose effect the test has: the package is here, and the configuration of the controller names the login."""


def commands_of(login: str) -> list[str]:
    """Read the commands for a login node ("node"), or for a laptop."""
    text = PAGE.read_text(encoding="utf-8").partition("## From nothing to a warm cell")[2]
    blocks = re.findall(r"^```console[^\n]*\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^\$ (.*)$", blocks[0 if login == "node" else 1], flags=re.MULTILINE)


def run(command: str, folder: Path) -> str:
    words = shlex.split(command)
    assert words[:2] == ["jupyter", "smx"], command
    done = subprocess.run(
        [sys.executable, "-m", "jupyter_smx.cli", *words[2:]],
        cwd=folder,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_five_commands_lead_from_nothing_to_a_warm_start(
    controller_of_login: SlurmControllerWorld, login: str, tmp_path: Path
) -> None:
    before = controller_of_login.submissions()
    (tmp_path / "train.py").write_text("import socket\nprint('hello from', socket.gethostname())\n")
    commands = commands_of(login)
    assert len(commands) == 5
    outputs = {
        place: run(command, tmp_path) for place, command in enumerate(commands) if not command.startswith(NOT_HERE)
    }
    doctor = next(outputs[place] for place, command in enumerate(commands) if " doctor " in command)
    assert "partitions: main" in doctor
    if login == "node":
        assert re.search(r"^main +\d+", outputs[2], flags=re.MULTILINE), outputs[2]
    assert "hello from algo-1" in outputs[3]
    assert "hello from algo-1" in outputs[4]
    last, first = controller_of_login.client.jobs(2)
    assert (first.start, last.start) == ("cold", "warm")
    assert len([name for name in controller_of_login.submissions() if name not in before]) == 1


def test_options_of_a_job_reach_slurm_and_make_a_pool_of_their_own(shared_controller: SlurmControllerWorld) -> None:
    before = shared_controller.submissions()
    options = {"time": "15m", "partition": "main", "words": "--nice=7"}
    shared_controller.run(keep_alive=600, engine_options=options)
    shown = shared_controller.slurm.run(f"scontrol --oneliner show job {shared_controller.job_id()}")
    assert "TimeLimit=00:15:00" in shown
    assert "Nice=7" in shown
    assert shared_controller.run(keep_alive=600, engine_options=options).why().startswith("Warm")
    other = shared_controller.run()
    assert "engine options" in other.why()
    assert len([name for name in shared_controller.submissions() if name not in before]) == 2
