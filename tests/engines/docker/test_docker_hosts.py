"""What a job finds in a container: SageMaker's folders, its type's limits, the other hosts, and nothing to break."""

from __future__ import annotations

import json
import os
import secrets
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from msgspec.structs import replace

from jupyter_smx.engines.docker.daemon import users
from jupyter_smx.model.errors import RefusedError
from jupyter_smx.testing.agent_client import AgentClient
from jupyter_smx.testing.docker import images
from jupyter_smx.testing.groups.transfer import last_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from jupyter_smx.engines.base import ClusterRequest
    from jupyter_smx.testing.docker.fixtures import Docker
    from jupyter_smx.testing.docker.harness import DockerHarness

LOOK = """
import json, os, shutil, socket, tempfile

def try_to(do):
    try:
        do()
    except OSError as error:
        return error.strerror
    return "done"

def processors():
    for names in (("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"), ("cpu.max",)):
        paths = [os.path.join("/sys/fs/cgroup", name) for name in names]
        if os.path.exists(paths[0]):
            quota, period = " ".join(open(path).read() for path in paths).split()
            return int(quota) / int(period)

def swap():
    path = "/sys/fs/cgroup/memory.swap.max"
    return open(path).read().strip() if os.path.exists(path) else "0"

status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
mounts = [line.split() for line in open("/proc/self/mounts")]
own = [row for row in mounts if not row[1].startswith(("/proc", "/sys", "/dev"))]
print(json.dumps({
    "uid": os.getuid(),
    "capabilities": [status[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
    "no_new_privileges": status["NoNewPrivs"].strip(),
    "root": try_to(lambda: open("/usr/ours", "w")),
    "socket": [path for path in ("/var/run/docker.sock", "/run/docker.sock") if os.path.exists(path)],
    "writable": sorted(row[1] for row in own if "rw" in row[3].split(",")),
    "tmp": try_to(lambda: open(os.path.join(tempfile.gettempdir(), "x"), "w")),
    "shm": shutil.disk_usage("/dev/shm").total,
    "base": os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml"),
    "cpus": os.environ["SM_NUM_CPUS"],
    "bound": processors(),
    "swap": swap(),
    "interface": os.environ["SM_NETWORK_INTERFACE_NAME"],
    "name": socket.gethostname(),
    "home": try_to(lambda: open(os.path.expanduser("~/y"), "w")),
}))
"""
SERVE = """
import socket
with socket.create_server((socket.gethostbyname("algo-1"), 7777)) as server:
    print("listens", flush=True)
    line, visitor = server.accept()
    print(line.recv(100).decode())
"""
VISIT = """
import os, socket
with socket.create_connection(("algo-1", 7777), timeout=20) as line:
    line.sendall(os.environ["SM_CURRENT_HOST"].encode())
"""
OUT = """
import json, os, socket
try:
    socket.create_connection(("192.0.2.1", 80), timeout=2)
    said = "connected"
except OSError as error:
    said = type(error).__name__
try:
    socket.gethostbyname("example.org")
    name = "known"
except OSError:
    name = "unknown"
me = socket.gethostbyname(socket.gethostname())
print(json.dumps({"name": name, "interfaces": sorted(os.listdir("/sys/class/net")), "outside": said, "me": me}))
"""
KEEP = """
import json, os, signal
path = "/opt/ml/config/processingjobconfig.json"
told = json.load(open(path))["Environment"] if os.path.exists(path) else os.environ
mounts = [line.split() for line in open("/proc/self/mounts")]
print(json.dumps({
    "has it": told["API_KEY"] == os.environ["API_KEY"],
    "kinds": [row[2] for row in mounts if row[1] in ("/opt/ml/config", "/opt/ml/input/config")],
}))
os.makedirs("/opt/ml/config/a/b")
os.chmod("/opt/ml/config/a", 0)
open("/opt/ml/input/config/mine", "w").write(os.environ["API_KEY"])
print("kept", flush=True)
signal.pause()
"""
LIST = """
import json, os
print(json.dumps({path: sorted(os.listdir(path)) for path in ("/opt/ml/config", "/opt/ml/input/config")}))
"""
CONFIG_FILES = ["hyperparameters.json", "inputdataconfig.json", "resourceconfig.json"]
READ = """
import json, os
there = os.environ["SM_CHANNEL_DATA"]
found = {}
for top, folders, files in os.walk(there):
    for name in files:
        path = os.path.join(top, name)
        try:
            open(path, "a").close()
            wrote = True
        except OSError:
            wrote = False
        found[os.path.relpath(path, there)] = [open(path).read(), wrote]
print(json.dumps(found))
"""


def bounded(request: ClusterRequest, **changes: Any) -> ClusterRequest:
    return replace(request, hosts=tuple(replace(plan, **changes) for plan in request.hosts))


@pytest_asyncio.fixture
async def harness(nasty_path: Path, docker: Docker) -> AsyncIterator[DockerHarness]:
    from jupyter_smx.testing.docker.harness import DockerHarness  # noqa: PLC0415 - imports Docker's library

    harness = DockerHarness(nasty_path / "smx", docker.host, images.PYTHON.name)
    yield harness
    await harness.close()


async def test_a_job_is_closed_in_and_has_what_it_needs(harness: DockerHarness) -> None:
    request = bounded(harness.request(), memory=512 << 20)
    async with AgentClient(harness.engine, await harness.acquire(request)) as agent:
        seen = last_json(await agent.run_and_wait(LOOK))
        greeting = agent.hello
    assert isinstance(seen, dict)
    assert seen["uid"] == (os.getuid() or users.unused_id())
    assert {int(word, 16) for word in seen["capabilities"]} == {0}
    assert seen["no_new_privileges"] == "1"
    assert seen["root"] == "Read-only file system"
    assert seen["socket"] == []
    folders = {path for path in seen["writable"] if not path.startswith("/etc/")}  # there are files of Docker's own
    in_memory = {"/opt/ml/config", "/opt/ml/input/config"}
    assert folders == {"/opt/ml", "/run/smx", "/run/smx-packages", "/tmp"} | in_memory  # noqa: S108 - the container's own
    assert (seen["tmp"], seen["home"], seen["base"]) == ("done", "done", "/opt/ml")
    assert (seen["shm"], seen["cpus"], seen["bound"], seen["name"]) == (256 << 20, "1", 1.0, "algo-1")
    assert seen["swap"] == "0", "although its processors were bound when it ran, which made Docker forget this"
    assert seen["interface"] == "eth0", "although its network came after its agent"
    assert greeting["isolation"]["mode"] == "container"
    assert greeting["limits"] == {"cpus": 1, "memory": 512 << 20}


async def test_hosts_of_one_cluster_meet_by_their_names(harness: DockerHarness) -> None:
    handle = await harness.acquire(harness.request(2))
    async with (
        AgentClient(harness.engine, handle, "algo-1") as one,
        AgentClient(harness.engine, handle, "algo-2") as two,
    ):
        job = await one.run(SERVE)
        await one.wait_for_log(job, b"listens")
        assert (await two.run_and_wait(VISIT)).record["exit_code"] == 0
        assert (await one.wait_for_outcome(job)).text == "listens\nalgo-2\n"


@pytest.mark.parametrize("kind", ["process", "train"])
async def test_what_a_job_is_given_in_secret_lies_in_memory_alone_and_goes_with_it(
    harness: DockerHarness, kind: str
) -> None:
    handle = await harness.acquire()
    secret, folder = secrets.token_hex(8), harness.cluster_folder(handle.cluster)
    async with AgentClient(harness.engine, handle) as agent:
        job = await agent.run(KEEP, kind=kind, environment={"API_KEY": secret})
        await agent.wait_for_log(job, b"kept")
        on_disk = [path for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
        await agent.call("stop", job=job, lease=1, grace=5, cause="stopped")
        log = (await agent.wait_for_outcome(job)).text
        after = last_json(await agent.run_and_wait(LIST, lease=2))
        on_disk += [path for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert on_disk == []
    assert json.loads(log.splitlines()[0]) == {"has it": True, "kinds": ["tmpfs", "tmpfs"]}
    assert after == {"/opt/ml/config": [], "/opt/ml/input/config": CONFIG_FILES}


@pytest.mark.parametrize("hosts", [1, 2])
async def test_with_network_isolation_there_is_no_way_out_but_to_each_other(harness: DockerHarness, hosts: int) -> None:
    """The administrator asks for it where there is one host, and a job where there are two."""
    harness.traits["network_isolation"] = hosts == 1
    engine = harness.new_engine()
    handle = await harness.acquire(replace(harness.request(hosts), network_isolation=hosts > 1), engine=engine)
    async with AgentClient(engine, handle) as agent:
        seen = last_json(await agent.run_and_wait(OUT))
        assert isinstance(seen, dict)
        assert seen["outside"] != "connected"
        assert seen["name"] != "known"
        assert "eth0" not in seen["interfaces"] if hosts == 1 else "eth0" in seen["interfaces"]
        assert seen["me"].startswith("127.") == (hosts == 1)
        if hosts > 1:
            async with AgentClient(engine, handle, "algo-2") as other:
                job = await agent.run(SERVE, lease=2)
                await agent.wait_for_log(job, b"listens")
                assert (await other.run_and_wait(VISIT)).record["exit_code"] == 0
                assert (await agent.wait_for_outcome(job)).text == "listens\nalgo-2\n"
    machine = [sentence for host in handle.hosts for sentence in host.given_up if "servers of this machine" in sentence]
    assert len(machine) in ({0} if hosts == 1 else {0, 2})


async def test_gpus_that_the_daemon_cannot_give_are_refused_at_once_and_nothing_stays(harness: DockerHarness) -> None:
    wish = bounded(harness.request(), gpus=1, devices=(0,), instance_type="lab.gpu")
    with pytest.raises(RefusedError, match=r"cannot give GPUs to hosts of lab\.gpu") as told:
        await harness.acquire(wish)
    assert not told.value.transient
    assert "nvidia-container-toolkit" in told.value.cure


async def test_processes_are_counted(harness: DockerHarness) -> None:
    harness.traits["pids_limit"] = 80
    engine = harness.new_engine()
    bomb = "import os, signal\nfor _ in range(200):\n    if os.fork() == 0:\n        signal.pause()"
    async with AgentClient(engine, await harness.acquire(engine=engine)) as agent:
        record = (await agent.run_and_wait(bomb)).record
        assert record["exit_code"] == 1
        assert "BlockingIOError" in record["reason"]
        assert (await agent.run_and_wait("print('alive')", lease=2)).text == "alive\n"


@pytest.mark.parametrize("mode", ["File", "FastFile"])
async def test_inputs_are_there_and_only_a_copy_can_be_written_to(
    harness: DockerHarness, tmp_path: Path, mode: str
) -> None:
    source = tmp_path / "it's\nthe data"
    (source / "inner").mkdir(parents=True)
    (source / "a.csv").write_text("1")
    (source / "inner" / "b.csv").write_text("2")
    for path in (source, source / "inner", source / "a.csv", source / "inner" / "b.csv"):
        path.chmod(0o777)  # so that nothing but the mount protects it
    handle = await harness.acquire()
    [there] = (await harness.engine.provide_files(handle, "algo-1", [str(source)])).values()
    async with AgentClient(harness.engine, handle) as agent:
        outcome = await agent.run_and_wait(READ, channels=[{"name": "data", "source": there, "mode": mode}])
    wrote = mode == "File"
    assert last_json(outcome) == {"a.csv": ["1", wrote], "inner/b.csv": ["2", wrote]}
    assert (source / "a.csv").read_text() == "1"
    assert "the job can write to" not in json.dumps(outcome.record)


async def test_jobs_run_as_the_user_that_the_administrator_names(harness: DockerHarness) -> None:
    harness.traits["user"] = "4321:1234"
    engine = harness.new_engine()
    async with AgentClient(engine, await harness.acquire(engine=engine)) as agent:
        outcome = await agent.run_and_wait("import getpass, os; print(os.getuid(), os.getgid(), getpass.getuser())")
    assert outcome.text == "4321 1234 smx\n"
