"""A real agent as a process, and a small client that speaks its wire."""

from __future__ import annotations

import itertools
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent import wire
from jupyter_smx.agent.system.files import short_path
from jupyter_smx.testing import process_scan
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 30.0
ROOT = Path(__file__).parents[2]
NOBODY = 65534
FOREVER = "import signal\nprint('on', flush=True)\nwhile True: signal.pause()"
SHM = Path("/dev/shm")  # noqa: S108 - shared memory
ZYGOTE = "smx-zygote"
SAVES_AT_ITS_END = f"""
import signal
def save(*_):
    open(folder + "last", "w").write("saved")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
{FOREVER}
"""
"""Of a script that has a ``folder`` and is told to end."""
DEEP = """
import os
for top in (os.environ["TMPDIR"], os.path.dirname(os.environ["SM_MODEL_DIR"]) + "/checkpoints", os.getcwd()):
    os.chdir(top)
    for _ in range(1500):
        os.mkdir("d")
        os.chdir("d")
    os.mkdir("locked", 0)
"""
"""Deeper than Python calls itself, and than a path is long."""
STUBBORN = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + FOREVER


class Client:
    """One stream to an agent; keeps the events that came while it waited for an answer."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        folder = os.open(path.parent, os.O_PATH)
        try:
            self.socket.connect(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)
        self.numbers = itertools.count(1)
        self.events: list[dict[str, Any]] = []

    def send(self, op: str, **fields: Any) -> int:
        number = next(self.numbers)
        self.socket.sendall(wire.encode({"id": number, "op": op, **fields}))
        return number

    def frame(self, op: str, **fields: Any) -> wire.Frame:
        """Ask and give the answer, whatever it is."""
        return self.answer(self.send(op, **fields))

    def answer(self, number: int) -> wire.Frame:
        """Wait for the answer to a question."""
        while True:
            frame = wire.receive(self.socket)
            if frame.header.get("re") == number:
                return frame
            assert "event" in frame.header, frame
            self.events.append(frame.header)

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        header: dict[str, Any] = self.frame(op, **fields).header
        return header

    def event(self, kind: str, job: str | None = None) -> dict[str, Any]:
        """Take the first event of that kind, waiting for it when it has not come yet."""
        while True:
            for event in self.events:
                if event["event"] == kind and job in (None, event.get("job")):
                    self.events.remove(event)
                    return event
            header = wire.receive(self.socket).header
            assert "event" in header, header
            self.events.append(header)

    def is_closed(self) -> bool:
        """Wait until the other side closes."""
        try:
            while True:
                self.events.append(wire.receive(self.socket).header)
        except (EOFError, ConnectionError):
            return True

    def close(self) -> None:
        self.socket.close()


class Agent:
    """One agent process in a folder of its own."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self.folder = folder
        self.process = process
        self.client = self.connect()
        self.greeting = self.client.ask("hello", protocol=1, epoch=1)
        self.leases = itertools.count(1)
        self.last: tuple[str, int] | None = None

    def connect(self) -> Client:
        return Client(self.folder / "agent.sock")

    def spec(self, source: str, **fields: Any) -> dict[str, Any]:
        return {"name": "job-1", "kind": "train", "source": source, "filename": "<train-1>", **fields}

    def start(self, source: str, **fields: Any) -> tuple[str, int]:
        """Start a job; gives id and lease."""
        self.last = job, lease = secrets.token_hex(8), next(self.leases)
        answer = self.client.ask("run", job=job, lease=lease, spec=self.spec(source, **fields))
        assert answer["ok"], answer
        return job, lease

    def end_of(self, job: str) -> dict[str, Any]:
        record: dict[str, Any] = self.client.event("ended", job)["record"]
        return record

    def run(self, source: str, **fields: Any) -> dict[str, Any]:
        """Run a job to its end and give its record, with the text of its log as ``text``."""
        job, _lease = self.start(source, **fields)
        record = self.end_of(job)
        return {**record, "text": self.log(job)}

    def serves(self, after: str = "") -> None:
        """Check that this host is as good as before ``after``: it runs the next job, and the last one left nothing."""
        assert self.process.poll() is None, after
        record = self.run("import os; print(sum(range(5)), os.listdir('.'))")
        end = (record["cause"], record["exit_code"], record["text"], record["errors"], record["left_behind"])
        assert end == ("exit", 0, "10 ['train.py']\n", [], []), (after, record)

    def json(self, source: str, **fields: Any) -> Any:
        """Run a job and give what it printed as JSON."""
        record = self.run(source, **fields)
        assert record["exit_code"] == 0, record
        return json.loads(record["text"])

    def read(self, job: str, name: str = "log", offset: int = 0) -> bytes:
        data = b""
        while True:
            frame = self.client.frame("read", job=job, name=name, offset=offset + len(data), limit=wire.MAX_BODY)
            assert frame.header["ok"], frame.header
            data += frame.body
            if offset + len(data) >= frame.header["total"]:
                return data

    def log(self, job: str) -> str:
        return self.read(job).decode()

    def wait_for_log(self, job: str, text: str) -> str:
        while text not in (log := self.log(job)):
            self.client.event("grew", job)
        return log

    def stop(self, job: str, lease: int, grace: float = 5.0, cause: str = "stopped") -> None:
        assert self.client.ask("stop", job=job, lease=lease, grace=grace, cause=cause)["ok"]

    def end_last_job(self) -> None:
        """Stop the last job if it still runs, because its test failed, and wait for its end."""
        if self.last is not None:
            job, lease = self.last
            stop = {"job": job, "lease": lease, "grace": 0.0, "cause": "stopped"}

            def has_ended() -> bool:
                return self.client.ask("stop", **stop).get("phase", "ended") == "ended"  # no phase: it never started

            eventually_blocking(has_ended, "the end of the last job", within=PATIENCE)

    def mark(self) -> str:
        description = json.loads((self.folder / "host.json").read_text())
        return f"{description['cluster']}/{description['host']}"

    def processes(self) -> list[process_scan.ProcessInfo]:
        mark = self.mark()
        return [seen for seen in process_scan.processes(mark) if seen.host() == mark]

    def is_over(self) -> bool:
        return not self.processes()

    def zygotes(self) -> list[int]:
        """Find the zygotes that serve; what they have forked, and an orphan of one, is none."""
        return [seen.pid for seen in self.processes() if is_zygote(seen.pid) and parent(seen.pid) == self.process.pid]

    def wait(self) -> int:
        return self.process.wait(PATIENCE)


def is_zygote(pid: int) -> bool:
    """Say whether a process calls itself one; so does a child in its first moment, which has another parent."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == ZYGOTE
    except OSError:
        return False


def parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def pid_of_job(agent: Agent, job: str) -> int:
    return int(agent.wait_for_log(job, "\n").split()[0])


def count(folder: str) -> int:
    return len(list(Path(folder).iterdir()))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def description(**changes: Any) -> dict[str, Any]:
    hosts = changes.get("hosts", ["algo-1"])
    whole = {
        "protocol": 1,
        "cluster": secrets.token_hex(8),
        "host": "algo-1",
        "hosts": hosts,
        "groups": [{"instance_group_name": "homogeneousCluster", "instance_type": "local", "hosts": hosts}],
        "group": "homogeneousCluster",
        "instance_type": "local",
        "idle_limit": 120,
        "preload": [],
        "threads": 2,
        "gpus": 0,
        "start_method": "fork",
        "isolate": False,
        "grace": 5,
        "notice_grace": 0,
    }
    return whole | changes


def launch(
    folder: Path,
    *,
    user: int | None = None,
    environment: dict[str, str] | None = None,
    program: tuple[str, ...] = (sys.executable, "-m", "jupyter_smx.agent"),
    parent_fd: int | None = None,
) -> subprocess.Popen[bytes]:
    """Start an agent and wait until it says that it is ready, or has ended; ``parent_fd`` is its ``--parent-fd``."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    ours, theirs = os.pipe()
    parent = [] if parent_fd is None else ["--parent-fd", str(parent_fd)]
    with (folder / "agent.log").open("ab") as log:
        process = subprocess.Popen(
            [*program, "serve", str(folder), "--ready-fd", str(theirs), *parent],
            pass_fds=[theirs] if parent_fd is None else [theirs, parent_fd],
            stderr=log,
            stdout=log,
            cwd=ROOT,
            env={**inherited, **(environment or {})},
            user=user,
            group=user,
            extra_groups=[] if user is not None else None,
        )
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        pipe.read(1)
    return process


@pytest.fixture
def host_folder(tmp_path: Path, far_folder: Path) -> Callable[..., Path]:
    """Make folders with a ``host.json`` each."""
    del far_folder  # has to be there longer than an agent in it
    numbers = itertools.count(1)

    def make(parent: Path = tmp_path, **changes: Any) -> Path:
        folder = parent / f"host-{next(numbers)}"
        folder.mkdir()
        (folder / "host.json").write_text(json.dumps(description(**changes)))
        return folder

    return make


@pytest.fixture
def start_agent(host_folder: Callable[..., Path]) -> Iterator[Callable[..., Agent]]:
    """Start agents; those that still live are ended when the test is over."""
    started: list[Agent] = []

    def start(
        *, options: dict[str, Any] | None = None, environment: dict[str, str] | None = None, **changes: Any
    ) -> Agent:
        folder = host_folder(**changes)
        user = (options or {}).get("user")
        if user is not None:
            os.chown(folder, user, user)
        started.append(_started(folder, environment=environment, **(options or {})))
        return started[-1]

    yield start
    for agent in started:
        _end(agent)


def _started(folder: Path, **options: Any) -> Agent:
    process = launch(folder, **options)
    try:
        return Agent(folder, process)
    except OSError as error:
        process.kill()
        process.wait()
        pytest.fail(f"no agent: {error}\n{(folder / 'agent.log').read_text()}")


def _end(agent: Agent) -> None:
    agent.client.close()
    if agent.process.poll() is None:
        agent.process.send_signal(signal.SIGUSR1)  # a release: SIGTERM is a notice, and waits for its grace to be over
        agent.process.wait(PATIENCE)
    eventually_blocking(agent.is_over, "all processes of the host have ended")
    short_path.remove_link(str(agent.folder))  # as an engine does for an agent that was killed


@pytest.fixture
def agent(own_agent: Agent) -> Agent:
    """Give an agent without namespaces and without preloads."""
    return own_agent


@pytest.fixture
def own_agent(start_agent: Callable[..., Agent]) -> Agent:
    """Start an agent without namespaces and without preloads, which the test may end."""
    return start_agent()


def ready_for_next_test(agent: Agent) -> None:
    """Leave an agent that several tests share without a job and without events."""
    assert agent.process.poll() is None
    agent.end_last_job()
    agent.client.events.clear()


@pytest.fixture(scope="module")
def _agent_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    folder = tmp_path_factory.mktemp("shared") / "host"
    folder.mkdir()
    (folder / "host.json").write_text(json.dumps(description()))
    agent = _started(folder)
    yield agent
    _end(agent)


@pytest.fixture
def shared_agent(_agent_of_module: Agent, request: pytest.FixtureRequest) -> Iterator[Agent]:
    """Give an agent like ``agent`` that serves all tests of the module, which leave it alive.

    If one has ended it, each later test has an agent of its own: what starts in a test must end in it.
    """
    agent = _agent_of_module if _agent_of_module.process.poll() is None else request.getfixturevalue("own_agent")
    yield agent
    ready_for_next_test(agent)


@pytest.fixture(scope="module")
def start_shared_agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Agent]]:
    """Start agents for all tests of a module, in a fixture of the module: what a test starts ends with that test."""
    top = tmp_path_factory.mktemp("shared")
    started: list[Agent] = []

    def start(environment: dict[str, str] | None = None, **changes: Any) -> Agent:
        folder = top / f"host-{len(started) + 1}"
        folder.mkdir()
        (folder / "host.json").write_text(json.dumps(description(**changes)))
        started.append(_started(folder, environment=environment))
        return started[-1]

    yield start
    for agent in started:
        _end(agent)


@pytest.fixture(scope="module")
def _isolated_of_module(_far_folder_of_module: Path) -> Iterator[Agent]:
    folder = _far_folder_of_module / "host"
    folder.mkdir()
    (folder / "host.json").write_text(json.dumps(description(isolate=True, **_TWO_HOSTS)))
    agent = _started(folder)
    yield agent
    _end(agent)


@pytest.fixture
def shared_isolated(_isolated_of_module: Agent) -> Iterator[Agent]:
    """Give an agent like ``isolated`` that serves all tests of the module."""
    _skip_without_namespaces(_isolated_of_module)
    yield _isolated_of_module
    ready_for_next_test(_isolated_of_module)


@pytest.fixture
def far_folder() -> Iterator[Path]:
    """Give a folder that does not lie in ``/tmp``, so that a host in it may have a ``/tmp`` of its own."""
    yield from _made_far_folder()


@pytest.fixture(scope="module")
def _far_folder_of_module() -> Iterator[Path]:
    yield from _made_far_folder()


def _made_far_folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(dir="/var/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def isolated(own_isolated: Agent) -> Agent:
    """Give an agent with a world of its own, or skip where the machine does not allow one."""
    return own_isolated


@pytest.fixture
def own_isolated(start_agent: Callable[..., Agent], far_folder: Path) -> Agent:
    """Start an agent with a world of its own, which the test may end, or skip where the machine allows none."""
    agent = start_agent(isolate=True, parent=far_folder, **_TWO_HOSTS)
    _skip_without_namespaces(agent)
    return agent


_TWO_HOSTS = {"hosts": ["algo-1", "algo-2"], "addresses": {"algo-1": "127.9.9.1", "algo-2": "127.9.9.2"}}


def _skip_without_namespaces(agent: Agent) -> None:
    if agent.greeting["isolation"]["mode"] != "namespace":
        pytest.skip(f"no namespaces here: {agent.greeting['isolation']['reason']}")


@pytest.fixture
def wait_until() -> Callable[..., Any]:
    return eventually_blocking
