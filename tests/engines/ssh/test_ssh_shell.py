"""``jupyter smx shell`` opens a terminal on the machine, where the job has its files."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from typing import TYPE_CHECKING

from ssh_terminal import LIMIT

from jupyter_smx.engines.ssh.engine import SshEngine
from jupyter_smx.model.spec.instance import InstanceGroup

if TYPE_CHECKING:
    from pathlib import Path

    from ssh_controller import SshControllerWorld
    from worlds.ssh.ssh_world import SshWorld


def in_terminal(folder: Path, words: tuple[str, ...], typed: str) -> tuple[int, list[str]]:
    """Run ``jupyter smx`` in a terminal of its own, type lines there, and give its exit code and all lines."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "jupyter_smx.cli", *words]
    environment = {**os.environ, "SHELL": "/bin/sh", "TERM": "dumb"}
    with subprocess.Popen(
        command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    ) as process:
        os.close(theirs)
        os.write(ours, typed.encode())
        said = _read_to_end(ours)
        code = process.wait(LIMIT)
    os.close(ours)
    return code, said.replace("\r", "").splitlines()


def _read_to_end(terminal: int) -> str:
    said = b""
    try:
        while piece := os.read(terminal, 65_536):
            said += piece
    except OSError:  # the other side is closed
        pass
    return said.decode(errors="replace")


def test_a_shell_is_where_a_host_has_its_files_on_its_machine(ssh_controller: SshControllerWorld) -> None:
    gate = ssh_controller.gate()
    hosts = (InstanceGroup(instance_count=2),)
    job = ssh_controller.submit(gate=gate, engine="ssh", instance_groups=hosts, keep_alive=600)
    job.until_it_says("begun")
    typed = "tty; uname -n; pwd -P; cat input/config/resourceconfig.json; echo; exit 3\n"
    seen = {}
    for host in ("algo-1", "algo-2"):
        code, lines = in_terminal(ssh_controller.folder, ("shell", job.name, "--host", host), typed)
        assert code == 3, lines
        assert any(re.search(r"/dev/pts/\d+$", line) for line in lines), lines
        assert any(re.search(f'"current_host": ?"{host}"', line) for line in lines), lines
        (seen[host],) = {line for line in lines if re.fullmatch(r"box-\w+", line)}
    assert len({*seen.values()}) == 2
    gate.touch()
    job.wait()
    (pool,) = ssh_controller.pools()
    code, lines = in_terminal(ssh_controller.folder, ("shell", "--pool", pool.name), "uname -n; exit\n")
    assert (code, seen["algo-1"] in lines) == (0, True), lines


def test_the_variables_of_ssh_are_those_of_the_configuration(ssh_world: SshWorld, tmp_path: Path) -> None:
    variables = {"SSH_AUTH_SOCK": "/run/a b"}
    engine = SshEngine(data_dir=os.fspath(tmp_path), program=os.fspath(ssh_world.bin / "ssh"), variables=variables)
    words = engine.machine("smx-one").shell_words("true")
    assert words[:2] == ["env", "SSH_AUTH_SOCK=/run/a b"]
    assert subprocess.run(words, check=False, capture_output=True, stdin=subprocess.DEVNULL).returncode == 0
