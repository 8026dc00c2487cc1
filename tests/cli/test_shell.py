"""``jupyter smx shell``: where the job runs, beside it, as long as its hosts are there."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Terminal

WAITS = """\
import os
open(os.environ["SM_MODEL_DIR"] + "/m", "w").write("m")
print("begun", flush=True)
open(os.environ["SM_HP_GATE"]).read()
"""


def test_a_shell_is_where_the_job_has_its_files_and_gives_its_own_exit_code(terminal: Terminal) -> None:
    done = terminal.run("shell", "first", input="test -d /proc && pwd -P; ls; exit 3\n", stdin=None, env=plain())
    assert done.returncode == 3, done.stderr
    folder, *names = done.stdout.splitlines()
    assert folder.endswith("/ml")
    assert {"input", "model", "output"} <= {*names}


def test_with_json_the_command_is_said_and_not_started(terminal: Terminal) -> None:
    command = terminal.document("shell", "first", "--host", "algo-1")["command"]
    before = terminal.run("--json", "shell", "first", "--host", "algo-1")
    assert json.loads(before.stdout)["command"] == command
    assert command[-2] == "-c"
    assert 'exec "${SHELL:-sh}"' in command[-1]


def test_a_shell_sees_what_a_job_that_runs_sees(alone: Terminal) -> None:
    script = alone.script("waits.py", WAITS)
    path = alone.folder / "gate"
    os.mkfifo(path)
    running = alone.start("run", script, "--name", "live", "--hp", f"gate={path}")
    assert running.stdout is not None
    assert running.stdout.readline() == "begun\n"
    done = alone.run("shell", "live", input="cat model/m\n", stdin=None, env=plain())
    path.write_text("go")
    assert (done.stdout, done.returncode) == ("m", 0), done.stderr
    running.wait(20)
    gone = alone.run("shell", "live")
    assert gone.returncode == 1
    assert "has no hosts" in gone.stderr


def test_a_host_or_a_job_that_is_none_is_named(terminal: Terminal) -> None:
    wrong = terminal.run("shell", "first", "--host", "algo-2")
    assert (wrong.returncode, "has no host 'algo-2'" in wrong.stderr) == (2, True)
    assert terminal.run("shell", "nobody").returncode == 1


def test_a_pool_is_entered_without_naming_a_job(terminal: Terminal) -> None:
    pool = terminal.document("pools")["pools"][0]["name"]
    done = terminal.run("shell", "--pool", pool, input="pwd -P\n", stdin=None, env=plain())
    assert (done.returncode, done.stdout.strip().endswith("/ml")) == (0, True), done.stderr
    assert "There is no pool 'nobody'" in terminal.run("shell", "--pool", "nobody").stderr


def test_neither_a_job_nor_a_pool_or_both_is_refused(terminal: Terminal) -> None:
    for words, said in (
        ((), "no job or pool was given"),
        (("first", "--pool", "local"), "first and --pool local was given"),
    ):
        wrong = terminal.run("shell", *words)
        assert (wrong.returncode, said in wrong.stderr) == (2, True), wrong.stderr


def plain() -> dict[str, str]:
    return {**os.environ, "SHELL": "/bin/sh"}
