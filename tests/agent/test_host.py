"""Many jobs on one host, and the ends of the processes that serve it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from conftest import NOBODY, PATIENCE, description, launch

from jupyter_smx.agent import wire
from jupyter_smx.engines import pack
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Agent

FOREVER = "import signal\nprint('on', flush=True)\nwhile True: signal.pause()"
SHM = Path("/dev/shm")  # noqa: S108 - shared memory
STUBBORN = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + FOREVER


def pid_of_job(agent: Agent, job: str) -> int:
    return int(agent.wait_for_log(job, "\n").split()[0])


def count(folder: str) -> int:
    return len(list(Path(folder).iterdir()))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


# Stop


def test_a_stop_is_polite_first(agent: Agent) -> None:
    source = "import signal, sys\nsignal.signal(15, lambda *_: (print('bye'), sys.exit(0)))\n" + FOREVER
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
    job, _lease = agent.start("import sys\nprint('on', flush=True)\nimport time\nwhile True: time.sleep(0.01)")
    agent.wait_for_log(job, "on")
    try:
        with path.open("w") as file:
            file.write("x")
            file.flush()
            agent.stop(job, 1, grace=0)
            assert agent.end_of(job)["left_behind"] == []
            assert path.exists()
    finally:
        path.unlink(missing_ok=True)


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


# The wire


def test_a_job_that_is_known_is_never_started_again(agent: Agent) -> None:
    job, lease = agent.start("print('once')")
    spec = agent.spec("print('twice')")
    assert agent.client.ask("run", job=job, lease=lease, spec=spec)["ok"]
    agent.end_of(job)
    assert agent.client.ask("run", job=job, lease=lease, spec=spec)["phase"] == "ended"
    assert agent.client.ask("forget", job=job)["ok"]
    assert agent.client.ask("run", job=job, lease=lease, spec=spec)["phase"] == "ended"
    assert not (agent.folder / "spool" / job).exists()


def test_another_job_in_the_way_is_busy(agent: Agent) -> None:
    job, lease = agent.start(FOREVER)
    answer = agent.client.ask("run", job="other", lease=lease + 1, spec=agent.spec("pass"))
    assert (answer["code"], job in answer["message"]) == ("Busy", True)
    assert agent.client.ask("forget", job=job)["code"] == "Busy"
    agent.stop(job, lease)
    agent.end_of(job)


def test_bug_01_and_03_old_leases_and_epochs_are_fenced(agent: Agent) -> None:
    job, lease = agent.start(FOREVER)
    assert agent.client.ask("stop", job=job, lease=lease + 1, grace=0, cause="stopped")["code"] == "Fenced"
    agent.stop(job, lease)
    agent.end_of(job)
    assert agent.client.ask("run", job="older", lease=lease - 1, spec=agent.spec("pass"))["code"] == "Fenced"
    newer = agent.connect()
    assert newer.ask("hello", protocol=1, epoch=5)["ok"]
    assert agent.client.is_closed()
    late = agent.connect()
    assert late.ask("hello", protocol=1, epoch=4)["code"] == "Fenced"
    assert late.ask("ping")["code"] == "Refused"
    assert newer.ask("ping")["ok"]
    late.close()
    newer.close()


def test_bug_01_no_event_of_a_job_is_read_as_one_of_the_next(agent: Agent) -> None:
    for number in range(50):
        job, lease = agent.start(f"print({number})")
        record = agent.end_of(job)
        assert (record["job"], record["lease"], agent.log(job)) == (job, lease, f"{number}\n")
        assert {(one["job"], one["lease"]) for one in agent.client.events} <= {(job, lease)}
        agent.client.events.clear()


def test_a_stream_that_breaks_at_any_byte_does_not_end_the_agent(agent: Agent) -> None:
    whole = wire.encode({"id": 1, "op": "hello", "protocol": 1, "epoch": 1})
    for cut in (0, 1, 4, 10, len(whole)):
        client = agent.connect()
        client.socket.sendall(whole[:cut])
        client.close()
    for garbage in (b"\xff\xff\xff\xff", b"\x00\x00\x00\x02[]", b"\x00\x00\x00\x02{]", b"GET / HTTP/1.1\r\n\r\n"):
        client = agent.connect()
        client.socket.sendall(garbage)
        assert client.is_closed()
        client.close()
    fresh = agent.connect()
    assert fresh.ask("hello", protocol=1, epoch=1)["ok"]
    fresh.close()


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ({"op": "run", "job": "../x", "lease": 1, "spec": {"source": ""}}, "ResourceNotFound"),
        ({"op": "run", "job": "x", "lease": 1, "spec": {"kind": "train"}}, "ValidationException"),
        ({"op": "run", "job": "x", "lease": 1, "spec": {"source": "", "kind": "tune"}}, "ValidationException"),
        ({"op": "run", "job": "x", "lease": "many", "spec": {"source": ""}}, "ValidationException"),
        ({"op": "dance"}, "ValidationException"),
        ({"op": "stop", "job": "nobody", "lease": 1}, "ResourceNotFound"),
        ({"op": "hello", "protocol": 99, "epoch": 1}, "Protocol"),
    ],
)
def test_a_bad_request_is_answered_with_a_sentence(agent: Agent, header: dict[str, Any], code: str) -> None:
    answer = agent.client.ask(**header)
    assert (answer["ok"], answer["code"]) == (False, code)
    assert ":" in answer["message"]
    assert agent.run("print(1)")["text"] == "1\n"


def test_a_new_controller_reads_on_where_the_old_one_stopped(agent: Agent) -> None:
    job, lease = agent.start(FOREVER)
    agent.wait_for_log(job, "on")
    agent.client.close()
    agent.client = agent.connect()
    greeting = agent.client.ask("hello", protocol=1, epoch=2)
    known = greeting["jobs"][job]
    assert (known["phase"], known["lease"], known["log"]) == ("running", lease, 3)
    assert known["at"]["received"] < known["at"]["first_line"]
    agent.stop(job, lease)
    assert agent.end_of(job)["cause"] == "stopped"


# Ends


def test_bug_10_a_host_ends_alone_at_its_deadline(agent: Agent) -> None:
    assert agent.client.ask("deadline", seconds=0.05)["deadline"] <= 0.05
    agent.client.close()
    assert agent.wait() == 0
    assert not (agent.folder / "agent.sock").exists()


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


def test_end_kills_the_job_and_keeps_its_record(agent: Agent) -> None:
    job, _lease = agent.start("import os\nprint(os.getpid(), flush=True)\n" + STUBBORN)
    pid = pid_of_job(agent, job)
    assert agent.client.ask("end")["ok"]
    assert agent.wait() == 0
    assert not is_alive(pid)
    record = json.loads((agent.folder / "spool" / job / "end.json").read_text())
    assert (record["cause"], record["job"]) == ("stopped", job)
    assert (agent.folder / "spool" / job / "log").read_text().startswith(f"{pid}\non\n")


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
    agent: Agent, wait_until: Callable[..., Any], *, zygote_first: bool
) -> None:
    source = (
        "import subprocess\nprint(subprocess.Popen(['sleep', '99'], start_new_session=True, env={}).pid)\n" + STUBBORN
    )
    job, _lease = agent.start(source)
    hidden = int(agent.wait_for_log(job, "on").split()[0])
    if zygote_first:
        (old,) = agent.zygotes()
        os.kill(old, signal.SIGKILL)
        wait_until(lambda: agent.zygotes() not in ([], [old]), "there is a new zygote")
        agent.client.ask("ping")
    agent.process.kill()
    agent.process.wait()
    wait_until(lambda: not agent.processes() and not is_alive(hidden), "nothing of the host is alive")


def test_a_parked_child_that_is_killed_is_replaced(agent: Agent, wait_until: Callable[..., Any]) -> None:
    agent.run("pass")

    def parked() -> list[int]:
        return [one.pid for one in agent.processes() if one.pid not in [agent.process.pid, *agent.zygotes()]]

    (old,) = wait_until(parked, "a child is parked")
    os.kill(old, signal.SIGKILL)
    wait_until(lambda: parked() not in ([], [old]), "another one is parked")
    assert agent.run("print('alive')")["text"] == "alive\n"


def test_the_agent_has_one_thread_and_jobs_yield_to_it(agent: Agent) -> None:
    source = "import os; print(os.nice(0), open('/proc/self/oom_score_adj').read())"
    nice, score = agent.run(source)["text"].split()
    assert (nice, int(score) >= 500) == ("5", True)
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
    archive = pack.place(far_folder)
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


def test_a_client_that_never_reads_does_not_stop_the_host(agent: Agent) -> None:
    deaf = agent.connect()
    deaf.ask("hello", protocol=1, epoch=1)
    deaf.socket.settimeout(0.2)
    job = "deaf-1"
    deaf.send("run", job=job, lease=1, spec=agent.spec("print('x' * 200000)"))
    eventually_blocking((agent.folder / "spool" / job / "end.json").exists, "the job has ended")
    with contextlib.suppress(TimeoutError, OSError):
        for _ in range(200):
            deaf.send("read", job=job, name="log", offset=0, limit=262_144)
    agent.client = agent.connect()
    assert agent.client.ask("hello", protocol=1, epoch=2)["ok"]
    deaf.close()
