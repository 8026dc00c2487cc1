"""Stopping jobs, what they leave, and their logs."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from far_side import FOREVER, PATIENCE, SHM, STUBBORN, is_alive

if TYPE_CHECKING:
    from collections.abc import Callable

    from far_side import Agent

pytestmark = pytest.mark.usefixtures("own_shared_memory")


@pytest.fixture
def agent(shared_agent: Agent) -> Agent:
    """Give the agent of the module."""
    return shared_agent


# Stop


def test_a_stop_is_polite_first(agent: Agent) -> None:
    # No print: Python forbids it in a handler that runs while the line before is being written.
    source = "import os, signal, sys\nsignal.signal(15, lambda *_: (os.write(1, b'bye\\n'), sys.exit(0)))\n" + FOREVER
    job, lease = agent.start(source)
    agent.wait_for_log(job, "on")
    agent.stop(job, lease)
    record = agent.end_of(job)
    assert (record["cause"], record["exit_code"], agent.log(job)) == ("stopped", 0, "on\nbye\n")


def test_a_job_that_ignores_sigterm_is_killed_after_the_grace_period(agent: Agent) -> None:
    job, lease = agent.start(STUBBORN)
    agent.wait_for_log(job, "on")
    agent.stop(job, lease, grace=0.1)
    record = agent.end_of(job)
    assert (record["cause"], record["signal"]) == ("stopped", 9)


def test_a_stop_at_once_after_the_start_stops(agent: Agent) -> None:
    for _ in range(5):
        job, lease = agent.start(FOREVER)
        agent.stop(job, lease, grace=2 * PATIENCE)
        record = agent.end_of(job)
        assert (record["cause"], record["signal"]) == ("stopped", signal.SIGTERM)


def test_a_stop_while_inputs_are_copied_stops(agent: Agent, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "never")
    (tmp_path / "folder").mkdir()
    with (tmp_path / "big").open("wb") as file:
        file.truncate(2**36)
    job, lease = agent.start(FOREVER, channels=[{"name": "train", "source": str(tmp_path / "big"), "mode": "File"}])
    assert agent.client.ask("hello", protocol=1, epoch=1)["jobs"][job]["phase"] == "staging"
    agent.stop(job, lease)
    record = agent.end_of(job)
    assert (record["cause"], record["exit_code"], record["at"]["first_line"]) == ("stopped", None, None)
    assert agent.run("print('next')")["text"] == "next\n"


def test_the_time_limit_is_the_agents_own_and_keeps_what_was_made(agent: Agent) -> None:
    source = "import os\nopen(os.environ['SM_MODEL_DIR'] + '/m', 'w').write('x')\n" + FOREVER
    record = agent.run(source, max_run=0.2, grace=1)
    assert record["cause"] == "max_runtime"
    assert [one["name"] for one in record["artifacts"]] == ["model.tar.gz"]


def test_what_a_job_leaves_running_is_killed_and_named(agent: Agent, wait_until: Callable[..., Any]) -> None:
    source = """
import os, socket, subprocess, sys
daemon = ("import os, socket, time; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen();"
          "print(os.getpid(), s.getsockname()[1], flush=True); time.sleep(1000)")
child = subprocess.Popen([sys.executable, "-c", daemon], start_new_session=True, env={}, stdout=subprocess.PIPE)
print(child.stdout.readline().decode())
"""
    record = agent.run(source)
    pid, port = record["text"].split()
    wait_until(lambda: not is_alive(int(pid)), "the daemon is dead")
    assert any(f"process {pid} " in text and f"port {port}" in text for text in record["left_behind"])


def test_bug_02_strangers_that_are_left_to_the_agent_harm_nobody(agent: Agent) -> None:
    source = """
import os, subprocess, sys
for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os._exit(7)
        os._exit(0)
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
print(subprocess.run([sys.executable, "-c", "raise SystemExit(5)"]).returncode)
"""
    for _ in range(3):
        record = agent.run(source)
        assert (record["exit_code"], record["text"]) == (0, "5\n")
    assert agent.process.poll() is None


@pytest.mark.parametrize("shared", ["shm", "sysv"])
def test_bug_20_shared_memory_of_a_job_does_not_stay(agent: Agent, shared: str) -> None:
    source = {
        "shm": "import os; open(f'/dev/shm/smx-test-{os.getpid()}', 'w').write('x'); print(os.getpid())",
        "sysv": "import ctypes; print(ctypes.CDLL(None).shmget(0, 4096, 0o1600))",
    }[shared]
    record = agent.run(source)
    number = record["text"].strip()
    assert any(number in text and "was removed" in text for text in record["left_behind"])
    assert not (SHM / f"smx-test-{number}").exists()


def test_bug_20_shared_memory_that_somebody_uses_is_left_alone(agent: Agent) -> None:
    path = SHM / f"smx-test-foreign-{os.getpid()}"
    job, lease = agent.start("import sys\nprint('on', flush=True)\nimport time\nwhile True: time.sleep(0.01)")
    agent.wait_for_log(job, "on")
    try:
        with path.open("w") as file:
            file.write("x")
            file.flush()
            agent.stop(job, lease, grace=0)
            assert agent.end_of(job)["left_behind"] == []
            assert path.exists()
    finally:
        path.unlink(missing_ok=True)


def test_bug_20_a_semaphore_that_somebody_has_just_made_is_left_alone(agent: Agent) -> None:
    """A process that multiprocessing spawns runs another program, and opens it by its name a moment later."""
    job, lease = agent.start(FOREVER)
    agent.wait_for_log(job, "on")
    lock = multiprocessing.get_context("spawn").Lock()
    agent.stop(job, lease, grace=0)
    assert agent.end_of(job)["left_behind"] == []
    assert (SHM / f"sem.{lock._semlock.name[1:]}").exists()  # type: ignore[attr-defined]


def test_temporary_files_are_removed_and_counted(agent: Agent) -> None:
    record = agent.run("import tempfile; print(tempfile.mkdtemp())")
    assert not Path(record["text"].strip()).exists()
    assert "1 temporary file(s) or folder(s) were removed" in record["left_behind"][0]


# Logs


def test_a_log_is_told_in_pieces_and_read_from_a_cursor(agent: Agent) -> None:
    source = "import sys\nfor line in range(3):\n    print(line)\n    while not open('/proc/self/stat'): pass"
    job, _lease = agent.start(source)
    agent.end_of(job)
    assert agent.read(job, "log", offset=2) == b"1\n2\n"
    assert agent.read(job, "log", offset=6) == b""
    frame = agent.client.frame("read", job=job, name="log", offset=0, limit=2)
    assert (frame.body, frame.header["total"]) == (b"0\n", 6)


def test_a_line_is_told_while_the_job_runs(agent: Agent) -> None:
    job, lease = agent.start(FOREVER)
    assert agent.client.event("grew", job)["total"] == 3
    agent.stop(job, lease)
    agent.end_of(job)


def test_five_megabytes_of_log_arrive_whole(agent: Agent) -> None:
    record = agent.run("for number in range(5 * 2**16):\n    print('%015d' % number)")
    assert record["log"] == 5 * 2**20
    assert record["text"] == "".join(f"{number:015d}\n" for number in range(5 * 2**16))


@pytest.mark.parametrize("name", ["../../host.json", "/etc/passwd", "no", "artifacts"])
def test_a_read_leads_nowhere_else(agent: Agent, name: str) -> None:
    record = agent.run("print(1)")
    answer = agent.client.ask("read", job=record["job"], name=name, offset=0, limit=10)
    assert (answer["ok"], answer["code"]) == (False, "ResourceNotFound")


def test_a_link_out_of_the_spool_is_not_followed(agent: Agent) -> None:
    record = agent.run("pass")
    (agent.folder / "spool" / record["job"] / "link").symlink_to("/etc/passwd")
    assert not agent.client.ask("read", job=record["job"], name="link", offset=0, limit=10)["ok"]
