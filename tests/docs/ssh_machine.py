"""A machine of the test world under the name that the page on SSH uses, for its ``ssh`` commands and for jobs."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from worlds.ssh.ssh_world import SshWorld

ALIASES = {"smx-one": "gpu-box", "smx-two": "cpu-box", "smx-*": "*"}
"""What the world calls its machines, and what the page does."""


def name_machines(world: SshWorld, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write ``.ssh/config`` into a reader's home, and put an ``ssh`` first on ``PATH`` that reads it.

    The real one looks into the home of the account, whatever ``HOME`` says, and this account's is not the reader's.
    """
    there = world["one"].plan.version
    if there != "{}.{}".format(*sys.version_info[:2]):
        pytest.skip(f"The page sends variables, and Python {there} of the machine cannot read those of this one.")
    original = world.folder / "ssh_config.direct"
    text = original.read_text(encoding="utf-8")
    for name, alias in ALIASES.items():
        text = text.replace(f"Host {name}\n", f"Host {alias}\n")
    config = home / ".ssh" / "config"
    config.parent.mkdir(mode=0o700)
    config.write_text(text, encoding="utf-8")
    program = home / "bin" / "ssh"
    program.parent.mkdir()
    script = (world.bin / "ssh").read_text(encoding="utf-8")
    program.write_text(script.replace(os.fspath(original), os.fspath(config)), encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
