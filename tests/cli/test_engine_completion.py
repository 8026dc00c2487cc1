"""Shell Tab after ``--engine``, ``--python`` and ``-t``: a real controller reads the configurations of SSH."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Terminal

CONFIG = """\
Host gpu-box gpu-2.lab.example.org
    HostName 192.0.2.7
Host *.example.org !old
    User me
Include {included}
Host *
    ServerAliveInterval 10
"""
MACHINES = {"gpu-box": {"environments": {"torch": "true"}, "cpus": 8, "memory_gib": 32}, "cpu-box": {}}
BOXES = ["ssh:cpu-box", "ssh:gpu-2.lab.example.org", "ssh:gpu-box", "ssh:included"]


@pytest.fixture
def terminal_with_machines(alone: Terminal, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Give a terminal whose controller runs, with machines in both configurations."""
    folder = alone.folder
    (folder / "more").write_text("Host included\n")
    (folder / "ssh_config").write_text(CONFIG.format(included=folder / "more"))
    traits = {"config_file": os.fspath(folder / "ssh_config"), "machines": MACHINES, "environments": {"tf": "true"}}
    text = "".join(f"c.SshEngine.{name} = {value!r}\n" for name, value in traits.items())
    (folder / "jupyter_smx_config.py").write_text(text)
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", os.fspath(folder))
    assert alone.run("pools").returncode == 0
    return alone


def tab(terminal: Terminal, line: str) -> list[str]:
    """Give what argcomplete answers to a shell that breaks words as bash does not, at spaces only."""
    answer = terminal.folder / "completions"
    asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_IFS": "\n"}
    command = (str(Path(sys.executable).with_name("jupyter-smx")),)
    terminal.run(command=command, env=os.environ | asked | {"_ARGCOMPLETE_STDOUT_FILENAME": str(answer)})
    return sorted(word.strip() for word in answer.read_text().splitlines())


@pytest.mark.processes
def test_tab_offers_engines_machines_environments_and_types(terminal_with_machines: Terminal) -> None:
    pytest.importorskip("argcomplete")
    expected = {
        "run --engine ": ["docker", "local", "slurm", "ssh"],
        "run --engine s": ["slurm", "ssh"],
        "run --engine ss": ["ssh", *BOXES],
        "run --engine ssh:": BOXES,
        "doctor --engine ssh:g": BOXES[1:3],
        "run --engine ssh:gpu-box --python t": ["tf", "torch"],
        "run --engine ssh:cpu-box --python t": ["tf"],
        "run --engine ssh:gpu-box -t gpu": ["gpu-box"],
        "run --engine local -t gpu": [],
        "run --engine slurm --engine-option ex": ["exclusive="],
        "run --engine slurm --engine-option exclusive=": ["exclusive=false", "exclusive=true"],
        "run --engine local --engine-option ex": [],
    }
    assert {line: tab(terminal_with_machines, f"jupyter-smx {line}") for line in expected} == expected
