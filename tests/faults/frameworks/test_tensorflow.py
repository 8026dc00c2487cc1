"""``--distribution parameter_server`` on real hosts, with a module in place of TensorFlow, which is too large here.

Its servers listen as TensorFlow's do, on all addresses, and send their name to each client.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.kernel.request import source_dir
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.distribution import Distribution
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.status import is_final
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from world import Ran, World

    Start = Callable[..., Ran]

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the script is forked on Linux only")

TWO = (InstanceGroup(instance_count=2),)
GROUPS = (InstanceGroup(name="data"), InstanceGroup(name="dnn", instance_count=2))
BOTH = ("algo-1", "algo-2")
TENSORFLOW = """
import os, socket, types
class Server:
    def __init__(self, cluster, job_name, task_index, config):
        assert (job_name, config) == ("ps", {"device_count": {"GPU": 0}})
        port = int(cluster["ps"][task_index].rpartition(":")[2])
        self.said = f"{task_index}"
        self.listener = socket.create_server(("0.0.0.0", port))
    def join(self):
        while True:
            visitor = self.listener.accept()[0]
            visitor.sendall(self.said.encode())
            visitor.close()
distribute = types.SimpleNamespace(Server=Server)
train = types.SimpleNamespace(ClusterSpec=dict)
compat = types.SimpleNamespace(v1=types.SimpleNamespace(ConfigProto=dict))
"""
ASK = """
import json, os, signal, socket, sys, time
found = json.loads(os.environ["TF_CONFIG"])
def ask(address, patience=30.0):
    host, _, port = address.rpartition(":")
    until = time.monotonic() + patience
    while True:
        try:
            with socket.create_connection((host, int(port)), 5) as server:
                return server.recv(100).decode().split()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
def come(address):
    host, _, port = address.rpartition(":")
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            return socket.create_connection((host, int(port)), 5).close()
        except OSError:
            time.sleep(0.02)
    raise SystemExit(address)
def say(*words):
    print("told " + json.dumps(words), flush=True)
"""
MEET = """
(leader,) = found["cluster"]["master"]
if found["task"]["type"] == "master":
    own = socket.create_server(("0.0.0.0", int(leader.rpartition(":")[2])))
    visitor = own.accept()
else:
    come(leader)
"""
"""Like a script with TensorFlow: the leader waits for the other task, and listens until it ends."""
PART = """
if found["task"]["type"] == "master":
    own.accept()
else:
    come(leader)
"""
"""For a script whose leader must not end first, because the servers end with it."""
REACH = ASK + MEET + 'say(found["task"], [ask(server)[0] for server in found["cluster"]["ps"]])\n' + PART
SHELL = "#!/bin/sh\npython3 train.py\nexit 7\n"


@pytest.fixture
def start(pools: World, tmp_path: Path) -> Start:
    """Return a function that starts a script on hosts of these pools, with ``tensorflow`` beside it."""

    def begin(script: str, tensorflow: str = TENSORFLOW, entry_point: str = "train.py", **fields: Any) -> Ran:
        folder = tmp_path / "code"
        folder.mkdir(exist_ok=True)
        for name, text in {"train.py": script, "tensorflow.py": tensorflow, "run.sh": SHELL}.items():
            (folder / name).write_text(text)
        packed = source_dir.pack(str(folder), pools.data / "payloads", entry_point)
        wish = {"instance_groups": TWO, "distribution": Distribution(runner="parameter_server")}
        code = (folder / entry_point).read_text()
        return pools.submit(source=code, source_dir=packed, entry_point=entry_point, **wish | fields)

    return begin


def log(ran: Ran, host: str) -> str:
    return ran.world.client.log(ran.id, host, 0).data.decode()


def said(ran: Ran, host: str) -> list[Any]:
    return [json.loads(line[5:]) for line in log(ran, host).splitlines() if line.startswith("told ")]


def samples(ran: Ran, host: str) -> tuple[float, ...]:
    (found,) = ran.world.client.usage(ran.id, host).hosts
    return found.at or (0.0,)


def task(kind: str, index: int) -> dict[str, Any]:
    return {"index": index, "type": kind}


def test_each_host_has_a_server_that_all_scripts_reach_and_nothing_is_left(start: Start) -> None:
    ran = start(REACH)
    job = ran.wait()
    assert job.state.value == "Completed", (job.failure_reason, log(ran, "algo-1"), log(ran, "algo-2"))
    assert said(ran, "algo-1") == [[task("master", 0), ["0", "1"]]]
    assert said(ran, "algo-2") == [[task("worker", 0), ["0", "1"]]]
    assert [end.left_behind for end in job.hosts] == [(), ()]


def test_of_several_groups_one_has_servers_and_the_others_run_the_script_plainly(start: Start) -> None:
    plain = "import os\nif 'TF_CONFIG' not in os.environ:\n    print('plain')\n    raise SystemExit(0)\n"
    wanted = Distribution(runner="parameter_server", groups=("dnn",))
    ran = start(plain + REACH, instance_groups=GROUPS, distribution=wanted)
    job = ran.wait()
    assert job.state.value == "Completed", (job.failure_reason, log(ran, "algo-2"), log(ran, "algo-3"))
    assert log(ran, "algo-1") == "plain\n"
    assert said(ran, "algo-2") == [[task("master", 0), ["0", "1"]]]
    assert said(ran, "algo-3") == [[task("worker", 0), ["0", "1"]]]


def test_a_server_works_until_the_script_of_the_leading_host_has_ended(start: Start, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    lead = f"""
if found["task"]["type"] == "master":
    while not os.path.exists({str(gate)!r}):
        time.sleep(0.02)
    say(ask(found["cluster"]["ps"][1], 0)[0])
else:
    say("done")
"""
    ran = start(ASK + MEET + lead)
    eventually_blocking(lambda: said(ran, "algo-2") == [["done"]], "the worker's script has ended", within=30.0)
    ended = time.time()
    eventually_blocking(lambda: samples(ran, "algo-2")[-1] > ended + 1, "its server is still measured", within=30.0)
    assert not is_final(ran.job().state)
    gate.touch()
    job = ran.wait()
    assert job.state.value == "Completed", (job.failure_reason, log(ran, "algo-1"), log(ran, "algo-2"))
    assert said(ran, "algo-1") == [["1"]]


def test_the_leading_script_may_end_first_and_no_worker_hangs_on_it(start: Start) -> None:
    work = """
def left(address):
    host, _, port = address.rpartition(":")
    while True:
        try:
            socket.create_connection((host, int(port)), 5).close()
        except OSError:
            return True
        time.sleep(0.02)
if found["task"]["type"] == "worker":
    say(left(leader), left(found["cluster"]["ps"][0]), ask(found["cluster"]["ps"][1], 0)[0])
"""
    ran = start(ASK + MEET + work)
    job = ran.wait()
    assert job.state.value == "Completed", (job.failure_reason, log(ran, "algo-1"), log(ran, "algo-2"))
    assert said(ran, "algo-2") == [[True, True, "1"]], "its own server was there to the end"


def test_the_next_job_on_the_same_hosts_has_servers_at_the_same_ports(start: Start) -> None:
    script = REACH + 'say(found["cluster"])\n'
    first = start(script)
    before = first.wait()
    second = start(script)
    after = second.wait()
    assert (before.state.value, after.state.value) == ("Completed", "Completed"), after.failure_reason
    assert before.cluster == after.cluster
    assert said(second, "algo-1") == said(first, "algo-1")
    assert [end.left_behind for end in (*before.hosts, *after.hosts)] == [()] * 4


def test_a_script_that_is_stopped_still_has_its_server_while_it_tidies_up(start: Start) -> None:
    wait = """
def stop(*_):
    say("stopped", ask(found["cluster"]["ps"][0 if found["task"]["type"] == "master" else 1], 0)[0])
    raise SystemExit(0)
signal.signal(signal.SIGTERM, stop)
ask(found["cluster"]["ps"][0]), ask(found["cluster"]["ps"][1])
say("waits")
while True:
    signal.pause()
"""
    ran = start(ASK + wait)
    eventually_blocking(lambda: all(said(ran, host) == [["waits"]] for host in BOTH), "both wait", within=30.0)
    ran.world.client.stop(ran.id)
    job = ran.wait()
    assert job.state.value == "Stopped"
    assert [said(ran, host)[1:] for host in BOTH] == [[["stopped", "0"]], [["stopped", "1"]]]
    assert [end.left_behind for end in job.hosts] == [(), ()]


def test_a_shell_script_has_a_server_too_and_its_exit_code_is_the_hosts(start: Start) -> None:
    ran = start(REACH, entry_point="run.sh")
    job = ran.wait()
    assert [end.exit_code for end in job.hosts if end.cause == "exit"], (log(ran, "algo-1"), log(ran, "algo-2"))
    assert {end.exit_code for end in job.hosts if end.cause == "exit"} == {7}
    assert job.state.value == "Failed"


def test_what_a_script_raises_is_the_jobs_failure(start: Start) -> None:
    ran = start(REACH + 'raise KeyError("lost")\n')
    job = ran.wait()
    assert job.state.value == "Failed"
    assert "KeyError: 'lost'" in job.failure_reason


def test_a_server_that_cannot_begin_ends_the_script_and_says_why(start: Start) -> None:
    broken = TENSORFLOW.replace("assert (job", 'raise ValueError("no such port")\n        assert (job')
    ran = start("import signal\nprint('waits', flush=True)\nsignal.pause()\n", broken)
    job = ran.wait()
    assert job.state.value == "Failed"
    assert "ended before the script (ValueError: no such port). Its log has details." in job.failure_reason
    assert "The parameter server of algo-" in job.failure_reason
    assert [end.left_behind for end in job.hosts] == [(), ()], "the script was told, and is gone"


def test_a_server_that_is_killed_ends_the_script_and_memory_is_named(start: Start) -> None:
    killed = TENSORFLOW.replace("while True:", "import signal\n        while not os.kill(os.getpid(), signal.SIGKILL):")
    ran = start("import signal\nprint('waits', flush=True)\nsignal.pause()\n", killed)
    job = ran.wait()
    assert job.state.value == "Failed"
    assert "ended before the script (killed by signal 9, which often means that memory" in job.failure_reason
    assert [end.left_behind for end in job.hosts] == [(), ()]


def test_a_job_without_tensorflow_says_so(pools: World) -> None:
    wanted = Distribution(runner="parameter_server")
    ran = pools.submit("pass", instance_groups=TWO, distribution=wanted)
    job = ran.wait()
    assert job.state.value == "Failed"
    assert "parameter_server needs TensorFlow, which the job's Python does not have" in job.failure_reason
    assert "--python" in job.failure_reason


def test_workers_of_the_mirrored_strategy_find_each_other_without_any_server(start: Start) -> None:
    meet = """
own = found["cluster"]["worker"][found["task"]["index"]]
listener = socket.create_server(("0.0.0.0", int(own.rpartition(":")[2])))
for address in found["cluster"]["worker"]:
    come(address)
for _ in found["cluster"]["worker"]:
    listener.accept()
say(found["task"], len(found["cluster"]["worker"]))
"""
    ran = start(ASK + meet, distribution=Distribution(runner="multi_worker_mirrored_strategy"))
    job = ran.wait()
    assert job.state.value == "Completed", (job.failure_reason, log(ran, "algo-1"), log(ran, "algo-2"))
    assert [said(ran, host) for host in BOTH] == [[[task("worker", 0), 2]], [[task("worker", 1), 2]]]


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"kind": "process"}, "parameter_server is for training jobs only"),
        ({"contract": "v3"}, "SDK 3 supports torchrun and mpi only"),
        ({"distribution": Distribution(runner="parameter_server", processes=2)}, "TensorFlow runs one worker on each"),
        ({"instance_groups": GROUPS}, "exactly one group is distributed"),
    ],
)
def test_what_has_no_such_strategy_is_refused_with_the_rule(pools: World, fields: dict[str, Any], rule: str) -> None:
    wish = {"instance_groups": TWO, "distribution": Distribution(runner="parameter_server")}
    with pytest.raises(ValidationError, match=rule):
        pools.submit("pass", **wish | fields)
