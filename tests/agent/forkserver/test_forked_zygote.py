"""A zygote that is forked from the agent's own process is one as a started one is."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

FORKS = """
import os, sys
sys.path[:0] = {path!r}
from jupyter_smx.agent.forkserver import spawn
os.environ["OF_THE_AGENT"] = "1"
found = spawn.fork({{"OF_THE_ZYGOTE": "2", "PATH": os.environ["PATH"]}})
import socket
from jupyter_smx.agent import wire
control = socket.socket(fileno=found.control)
"""
BEGINS = """
begin = {"place": {"base": "nowhere"}, "start_method": "spawn", "marker": "none/none", "modules": []}
control.sendall(wire.encode(begin))
print(wire.receive(control).header["event"], flush=True)
name = open(f"/proc/{found.pid}/comm").read().strip()
print(name, "OF_THE_AGENT" in os.environ, sys.argv)
control.close()
print(os.waitpid(found.pid, 0)[1])
"""
CANNOT_BE_LOADED = """
control.close()
print(os.waitpid(found.pid, 0)[1] >> 8)
"""


def run(code: str, before: str = "") -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", before + FORKS.format(path=sys.path) + code]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)


def test_it_serves_until_its_agent_closes_its_socket_and_leaves_the_agent_as_it_is() -> None:
    done = run(BEGINS)
    assert done.stdout.splitlines() == ["ready", "smx-zygote True ['-c']", "0"], done.stderr


def test_one_that_cannot_be_loaded_says_why_and_does_not_go_on_as_an_agent() -> None:
    done = run(CANNOT_BE_LOADED, "import sys; sys.modules['jupyter_smx.agent.forkserver.zygote'] = None\n")
    assert done.stdout == "1\n"
    assert "import of jupyter_smx.agent.forkserver.zygote halted" in done.stderr


CHOOSES = """
import sys, threading
from jupyter_smx.agent import serve
for name in ("spawn", "fork"):
    setattr(serve, name, lambda *words, name=name: sys.exit(f"{{name}} {{words[-1]['TMPDIR']}}"))
{before}
serve.main(sys.argv[1:])
"""
THREAD = "threading.Thread(target=threading.Event().wait, daemon=True).start()"


@pytest.mark.parametrize(
    ("options", "before", "way"),
    [
        (["--contained"], "", "spawn"),
        (["--contained", "--fork-zygote"], "", "fork"),
        (["--contained", "--fork-zygote"], THREAD, "spawn"),
    ],
)
def test_an_agent_forks_it_where_its_engine_says_so_and_no_thread_runs(
    tmp_path: Path, options: list[str], before: str, way: str
) -> None:
    words = [sys.executable, "-c", CHOOSES.format(before=before), os.fspath(tmp_path), *options]
    subprocess.run(words, check=False, env={**os.environ, "JUPYTER_SMX_HOST": "c/algo-1"}, timeout=60)
    assert (tmp_path / "agent.log").read_text() == f"{way} /tmp\n"
