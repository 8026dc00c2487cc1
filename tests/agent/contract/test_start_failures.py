"""A program that a shell starts, on a host without one: the sentence names the shell."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_smx.agent.contract.entry_point import start_failure

MISSING = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def test_a_host_without_a_shell_is_named_as_the_cause() -> None:
    said = start_failure("/no/such/sh", MISSING)
    assert said.startswith("No such file or directory; this host has no /no/such/sh, which starts scripts of a shell: ")
    assert said.endswith("use an image with one, or a script in Python")


@pytest.mark.processes
def test_a_program_needs_no_shell(tmp_path: Path) -> None:
    program = tmp_path / "train"
    program.write_text(f"#!{sys.executable} -S\nimport sys\nprint(sys.argv[1:])\n")
    program.chmod(0o755)
    code = "import sys; from jupyter_smx.agent.contract import entry_point; entry_point.exec_program(sys.argv[1:], '')"
    words = [sys.executable, "-c", code, "/no/such/sh", "-c", "train 'a b' c"]
    variables = {"PATH": str(tmp_path), "PYTHONPATH": os.fspath(Path(__file__).parents[3])}
    done = subprocess.run(words, env=variables, capture_output=True, text=True, check=True)
    assert done.stdout == "['a b', 'c']\n"


def test_another_cause_keeps_its_words() -> None:
    assert start_failure("/bin/sh", OSError(errno.E2BIG, os.strerror(errno.E2BIG))) == "Argument list too long"
    assert start_failure("/bin/sh", OSError("odd")) == "odd"
