"""The ends of a host and of the processes that serve it, and what outlives what."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from far_side import DEEP, FOREVER, NOBODY, PATIENCE, STUBBORN, count, description, is_alive, launch

from jupyter_smx.engines.machine import agent_zipapp

if TYPE_CHECKING:
    from collections.abc import Callable

    from far_side import Agent


@pytest.fixture
def agent(shared_agent: Agent) -> Agent:
    """Give the agent of the module."""
    return shared_agent


def test_bug_10_a_host_ends_alone_at_its_deadline(own_agent: Agent) -> None:
    assert own_agent.client.ask("deadline", seconds=0.05)["deadline"] <= 0.05
    own_agent.client.close()
    assert own_agent.wait() == 0
    assert not (own_agent.folder / "agent.sock").exists()


def test_a_host_that_never_gets_a_job_ends_alone(host_folder: Callable[..., Path]) -> None:
    process = launch(host_folder(idle_limit=0.2))
    assert process.wait(PATIENCE) == 0


def test_a_deadline_does_not_end_a_job(agent: Agent) -> None:
    job, lease = agent.start(FOREVER)
    agent.client.ask("deadline", seconds=0)
    agent.wait_for_log(job, "on")
    assert agent.client.ask("ping")["ok"]
    agent.stop(job, lease)
    agent.end_of(job)
    left = agent.client.ask("deadline", seconds=None)
    assert left["deadline"] is None


def test_the_keep_alive_counts_from_the_end_of_the_job(agent: Agent) -> None:
    agent.run("pass", keep_alive=600)
    assert 590 < agent.client.ask("hello", protocol=1, epoch=1)["deadline"] <= 600


def test_a_host_ends_whatever_its_job_leaves(own_agent: Agent) -> None:
    """Even folders deeper than Python's recursion limit: an agent that failed to remove them did not exit."""
    job, _lease = own_agent.start(DEEP + FOREVER)
    own_agent.wait_for_log(job, "on")
    assert own_agent.client.ask("end")["ok"]
    assert own_agent.wait() == 0


BROKEN = """
from jupyter_smx.agent.__main__ import main
from jupyter_smx.agent.system.files import short_path
def remove(*_words): raise RuntimeError("nobody thought of this")
short_path.remove_link = remove
main()
"""


def test_a_host_ends_at_its_deadline_whatever_goes_wrong_on_the_way_out(host_folder: Callable[..., Path]) -> None:
    folder = host_folder(idle_limit=0.2)
    assert launch(folder, program=(sys.executable, "-c", BROKEN)).wait(PATIENCE) == 0
    assert "clean-up is incomplete: RuntimeError: nobody thought of this" in (folder / "agent.log").read_text()


def test_end_kills_the_job_and_keeps_its_record(own_agent: Agent) -> None:
    job, _lease = own_agent.start("import os\nprint(os.getpid(), flush=True)\n" + STUBBORN)
    pid = int(own_agent.wait_for_log(job, "on").split()[0])
    assert own_agent.client.ask("end")["ok"]
    assert own_agent.wait() == 0
    assert not is_alive(pid)
    record = json.loads((own_agent.folder / "spool" / job / "end.json").read_text())
    assert (record["cause"], record["job"]) == ("stopped", job)
    assert (own_agent.folder / "spool" / job / "log").read_text().startswith(f"{pid}\non\n")


DAWDLES = """
from jupyter_smx.agent.__main__ import main
from jupyter_smx.agent.forkserver.pool import ForkServerPool
from jupyter_smx.agent.system.processes import process
close = ForkServerPool.close
def slowly(nursery):
    zygotes = nursery._zygotes
    pids = [one.pid for zygote in zygotes for one in (zygote, *zygote.children.values())]
    close(nursery)
    process.wait_gone(pids, 5.0)
ForkServerPool.close = slowly
main()
"""
HIDES = """
import os, signal, subprocess
hidden = subprocess.Popen(["sleep", "99"], start_new_session=True, env={})
os.write(1, b"%d\\n" % hidden.pid)
"""
HOPS = """
import os, signal
if not os.fork():
    for _ in range(250):  # five seconds, so that not even a host that lets it go has it for ever
        os.setsid()  # whoever is seen is gone in a moment, and has left another one
        signal.sigtimedwait([], 0.02)
        if os.fork():
            os._exit(0)
    os._exit(0)
"""


@pytest.mark.parametrize("leaves", [HIDES, HOPS], ids=["who hides", "who is somebody else all the time"])
def test_end_kills_whatever_the_job_started(start_agent: Callable[..., Agent], leaves: str) -> None:
    """A process in a session of its own was missed: its parents had exited when the agent searched for descendants."""
    agent = start_agent(options={"program": (sys.executable, "-c", DAWDLES)})
    job, _lease = agent.start(leaves + STUBBORN)
    said = agent.wait_for_log(job, "on").split()
    assert agent.client.ask("end")["ok"]
    assert agent.wait() == 0
    assert not agent.processes()
    assert not any(is_alive(int(pid)) for pid in said[:-1])


def test_a_second_agent_for_the_same_host_leaves_at_once(agent: Agent) -> None:
    assert launch(agent.folder).wait(PATIENCE) == 3
    assert agent.client.ask("ping")["ok"]


def test_a_host_without_a_description_is_refused(tmp_path: Path) -> None:
    (tmp_path / "host.json").write_text(json.dumps(description(protocol=9)))
    assert launch(tmp_path).wait(PATIENCE) == 2
    assert "protocol: 9" in (tmp_path / "agent.log").read_text()


def test_agent_json_names_the_process(agent: Agent) -> None:
    told = json.loads((agent.folder / "agent.json").read_text())
    assert told["pid"] == agent.process.pid
    assert told["start_time"] == int(Path(f"/proc/{told['pid']}/stat").read_text().rpartition(")")[2].split()[19])
    assert os.getsid(told["pid"]) == told["pid"]


def test_the_socket_is_for_its_owner_and_works_with_a_long_path(
    start_agent: Callable[..., Agent], nasty_path: Path
) -> None:
    folder = nasty_path / ("x" * 120)
    folder.mkdir()
    agent = start_agent(parent=folder)
    assert (agent.folder / "agent.sock").stat().st_mode & 0o777 == 0o600
    assert agent.run("print(1)")["text"] == "1\n"


def test_a_zygote_that_dies_while_idle_is_replaced(agent: Agent, wait_until: Callable[..., Any]) -> None:
    (old,) = agent.zygotes()
    os.kill(old, signal.SIGKILL)
    wait_until(lambda: agent.zygotes() not in ([], [old]), "there is a new zygote")
    assert agent.run("print('alive')")["text"] == "alive\n"


def test_a_running_job_survives_its_zygote(agent: Agent, wait_until: Callable[..., Any]) -> None:
    source = "import sys, signal\nsignal.signal(15, lambda *_: sys.exit(6))\n" + FOREVER
    job, lease = agent.start(source)
    agent.wait_for_log(job, "on")
    (old,) = agent.zygotes()
    os.kill(old, signal.SIGKILL)
    wait_until(lambda: agent.zygotes() not in ([], [old]), "there is a new zygote")
    assert agent.client.ask("hello", protocol=1, epoch=1)["jobs"][job]["phase"] == "running"
    agent.stop(job, lease)
    assert agent.end_of(job)["exit_code"] == 6
    assert agent.run("print('next')")["text"] == "next\n"


@pytest.mark.parametrize("zygote_first", [False, True])
def test_when_the_agent_is_killed_everything_of_it_dies(
    own_agent: Agent, wait_until: Callable[..., Any], *, zygote_first: bool
) -> None:
    source = (
        "import subprocess\nprint(subprocess.Popen(['sleep', '99'], start_new_session=True, env={}).pid)\n" + STUBBORN
    )
    job, _lease = own_agent.start(source)
    hidden = int(own_agent.wait_for_log(job, "on").split()[0])
    if zygote_first:
        (old,) = own_agent.zygotes()
        os.kill(old, signal.SIGKILL)
        wait_until(lambda: own_agent.zygotes() not in ([], [old]), "there is a new zygote")
        own_agent.client.ask("ping")
    own_agent.process.kill()
    own_agent.process.wait()
    wait_until(lambda: not own_agent.processes() and not is_alive(hidden), "nothing of the host is alive")


def test_a_parked_child_that_is_killed_is_replaced(own_agent: Agent, wait_until: Callable[..., Any]) -> None:
    own_agent.run("pass")

    def parked() -> list[int]:
        return [
            one.pid for one in own_agent.processes() if one.pid not in [own_agent.process.pid, *own_agent.zygotes()]
        ]

    (old,) = wait_until(parked, "a child is parked")
    os.kill(old, signal.SIGKILL)
    wait_until(lambda: parked() not in ([], [old]), "another one is parked")
    assert own_agent.run("print('alive')")["text"] == "alive\n"


def test_the_agent_has_one_thread_and_jobs_yield_to_it(agent: Agent) -> None:
    source = "import os; print(os.nice(0), open('/proc/self/oom_score_adj').read())"
    nice, score = agent.run(source)["text"].split()
    assert (int(nice), int(score) >= 500) == (min(19, os.nice(0) + 5), True)
    assert count(f"/proc/{agent.process.pid}/task") == 1


def test_bug_19_memory_and_descriptors_do_not_creep(agent: Agent, wait_until: Callable[..., Any]) -> None:
    def size() -> tuple[int, int]:
        pid = agent.process.pid
        status = Path(f"/proc/{pid}/status").read_text()
        rss = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
        return rss, count(f"/proc/{pid}/fd")

    for _ in range(30):
        agent.run("pass")
    before = size()
    for _ in range(150):
        agent.run("pass")
    assert size()[0] - before[0] < 1024, "kilobytes that 150 jobs leave in the agent"
    wait_until(lambda: size()[1] <= before[1], "no descriptor is left open")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start an agent of another user")
@pytest.mark.parametrize("isolate", [False, True])
def test_an_unprivileged_user_with_the_packed_agent_has_a_host_too(
    start_agent: Callable[..., Agent], far_folder: Path, *, isolate: bool
) -> None:
    python = shutil.which("python3", path="/usr/bin:/bin")
    if python is None:
        pytest.skip("this machine has no Python that every user may run")
    far_folder.chmod(0o777)
    archive = agent_zipapp.write_archive(far_folder)
    agent = start_agent(
        options={"user": NOBODY, "program": (python, "-I", str(archive))},
        isolate=isolate,
        parent=far_folder,
        environment={"HOME": str(far_folder)},
    )
    record = agent.run("import os; print(os.getuid(), os.environ['SM_MODEL_DIR'], open('/proc/self/status').read())")
    isolation = agent.greeting["isolation"]
    where = "/opt/ml" if isolation["mode"] == "namespace" else f"{agent.folder}/ml"
    assert record["text"].startswith(f"65534 {where}/model ")
    assert isolate == (isolation["mode"] == "namespace"), isolation
    assert "CapEff:\t0000000000000000" in record["text"]
    assert agent.run("open('/opt/ml/model/m', 'w').write('x')" if isolate else "pass")["cause"] == "exit"


def test_an_idle_agent_whose_folder_was_removed_ends(own_agent: Agent) -> None:
    (own_agent.folder / "claim").unlink()
    own_agent.client.send("deadline", seconds=600)
    assert own_agent.wait() == 0
