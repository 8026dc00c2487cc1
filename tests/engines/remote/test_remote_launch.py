"""Launches on machines that are asked side by side: the agent is packed once, and no slot is given to two clusters.

Releases there wait for no folder of many files.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import signal
import subprocess
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from shell_engine import ShellEngine, ShellMachine

from jupyter_smx.agent.remote import allocation, release
from jupyter_smx.agent.remote.cluster_store import ClusterStore, HostName
from jupyter_smx.agent.system.files import rmtree
from jupyter_smx.engines.base import ClusterRequest, HostSpec, stopped_process
from jupyter_smx.engines.machine import agent_zipapp
from jupyter_smx.engines.remote import account
from jupyter_smx.engines.remote.account import Account
from jupyter_smx.engines.remote.cluster_register import ClusterRegister, Intention
from jupyter_smx.engines.remote.machine import NoAnswerError, NoSessionError, NotStartedError
from jupyter_smx.model.errors import RefusedError, UnavailableError
from jupyter_smx.model.records.cluster import Handle
from jupyter_smx.model.spec.instance import HOMOGENEOUS, InstanceGroup
from jupyter_smx.testing.eventually import eventually, eventually_blocking

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from jupyter_smx.engines.remote.machine import Completed

pytestmark = pytest.mark.processes
VERB = re.compile(r" remote ([a-z_]+) ")
AWAY = NotStartedError("b does not answer.", transient=True)
FOLDER = ".local/share/jupyter_smx"


class SilentMachine(ShellMachine):
    """A machine that answers nothing."""

    async def run(self, command: str, data: bytes = b"", timeout: float = 20.0) -> Completed:
        del command, data, timeout
        (self._home / "asked").touch()
        await asyncio.Event().wait()
        raise AssertionError


class FaultyMachine(ShellMachine):
    """A machine that raises an error in place of the commands which contain a word, and notes all commands."""

    def __init__(self, name: str, home: Path, faults: dict[str, Exception], ran: list[tuple[str, str]]) -> None:
        super().__init__(name, home)
        self._faults = faults
        self._ran = ran

    async def run(self, command: str, data: bytes = b"", timeout: float = 20.0) -> Completed:
        self._ran.append((self.name, command))
        for word, error in self._faults.items():
            if word in command:
                raise error
        return await super().run(command, data, timeout)


class FaultyEngine(ShellEngine):
    """An engine with machines whose ``faults`` are set by name."""

    def __init__(self, **traits: object) -> None:
        super().__init__(**traits)
        self.faults: dict[str, dict[str, Exception]] = {name: {} for name in self.homes}
        self.ran: list[tuple[str, str]] = []

    def machine(self, name: str) -> FaultyMachine:
        return FaultyMachine(name, Path(self.homes[name]), self.faults[name], self.ran)

    def verbs(self) -> list[str]:
        """Give what the machines were asked, as ``a launch``, and forget it."""
        ran, self.ran[:] = [*self.ran], []
        return [f"{name} {(VERB.search(command) or ['', command])[1]}" for name, command in ran]


class HalfSilentEngine(ShellEngine):
    """An engine whose machine of the name ``silent`` answers nothing."""

    def machine(self, name: str) -> ShellMachine:
        made = super().machine(name)
        return SilentMachine(name, made._home) if name == "silent" else made


@pytest.fixture
async def engine_of(tmp_path: Path) -> AsyncIterator[Callable[..., HalfSilentEngine]]:
    """Give ``engine_of(*machines)``: engines that share a data folder and machines."""
    made: list[ShellEngine] = []

    def make(*names: str, kind: type[ShellEngine] = HalfSilentEngine) -> ShellEngine:
        homes = {name: os.fspath(tmp_path / name) for name in names}
        for home in homes.values():
            Path(home).mkdir(exist_ok=True)
        made.append(kind(data_dir=os.fspath(tmp_path / "controller"), homes=homes))
        return made[-1]

    yield make
    for engine in made:
        for cluster, intention in register_of(tmp_path).live().items():
            if {*intention.machines()} <= {*engine.homes}:
                await engine.release(Handle(engine="shell", cluster=cluster))
        await engine.close()


def register_of(folder: Path) -> ClusterRegister:
    return ClusterRegister(folder / "controller", folder / "controller/engines/shell/clusters")


async def launch(engine: ShellEngine, cluster: str) -> Mapping[str, str]:
    """Launch one host; gives the machine of each."""
    return {each.host: str(each.data["machine"]) for each in (await launch_handle(engine, cluster)).hosts}


async def launch_handle(engine: ShellEngine, cluster: str) -> Handle:
    """Launch one host; gives the cluster."""
    host = HostSpec(host="algo-1", group=HOMOGENEOUS, instance_type="local", vcpus=1)
    request = ClusterRequest(
        cluster=cluster, hosts=(host,), instance_groups=(InstanceGroup(),), python="", idle_limit=120.0
    )
    async for step in engine.acquire(request):
        assert isinstance(step, Handle)
        last = step
    return last


async def test_machines_that_need_the_agent_at_once_get_one_that_is_packed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = []
    pack = agent_zipapp.pack
    monkeypatch.setattr(agent_zipapp, "pack", lambda content: packed.append(1) or pack(content))
    monkeypatch.setattr(account, "_packed", [])
    homes = [tmp_path / name for name in "abc"]
    for home in homes:
        home.mkdir()
    accounts = [Account(ShellMachine(home.name, home)) for home in homes]
    await asyncio.gather(*(each.ask("observe", {"clusters": []}) for each in accounts))
    assert len(packed) == 1
    assert all((home / FOLDER / agent_zipapp.file_name()).exists() for home in homes)


@pytest.mark.parametrize("is_writable", [True, False])
async def test_the_archive_of_the_data_folder_is_sent_and_written_there_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_writable: bool
) -> None:
    monkeypatch.setattr(account, "_packed", [])
    home, data_dir = tmp_path / "home", tmp_path / "data"
    home.mkdir()
    if is_writable:
        data_dir.mkdir()
    await Account(ShellMachine("box", home), data_dir=data_dir).ask("observe", {"clusters": []})
    sent = (home / FOLDER / agent_zipapp.file_name()).read_bytes()
    assert data_dir.exists() == is_writable
    if is_writable:
        assert sent == (data_dir / agent_zipapp.file_name()).read_bytes()
        monkeypatch.setattr(account, "_packed", [])
        monkeypatch.setattr(agent_zipapp, "pack", None)
        assert zlib.decompress(account.packed_archive(data_dir)) == sent


@pytest.mark.parametrize("kind", ["link", "writable", "other owner"])
async def test_a_checked_folder_that_is_not_this_users_alone_runs_nothing(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "hosts"
    agent = tmp_path / "other" / agent_zipapp.file_name()
    agent.parent.mkdir()
    agent.write_text("open('ran', 'w')")
    if kind == "link":
        folder.symlink_to(agent.parent)
    else:
        folder.mkdir()
        agent.rename(folder / agent.name)
    if kind == "writable":
        folder.chmod(0o770)
    elif kind == "other owner":
        if os.getuid():
            pytest.skip("only root can give a folder away")
        os.chown(folder, 65_534, -1)
    checked = Account(ShellMachine("box", tmp_path), os.fspath(folder), is_checked=True)
    with pytest.raises(RefusedError, match="cannot be used"):
        await checked.ask("observe", {"clusters": []})
    with pytest.raises(RefusedError, match="cannot be used"):
        await checked._send_archive()


@pytest.mark.parametrize(("cure", "words"), [("", "c.SshEngine.machines"), ("Set c.X.python.", "Set c.X.python.")])
async def test_a_missing_python_has_the_cure_of_its_engine(tmp_path: Path, cure: str, words: str) -> None:
    found = Account(ShellMachine("box", tmp_path), "", "/no/python", python_cure=cure)
    with pytest.raises(RefusedError) as error:
        await found.ask("observe", {"clusters": []})
    assert words in (error.value.cure or "")


async def test_a_checked_folder_is_created_for_this_user_alone(tmp_path: Path) -> None:
    checked = Account(ShellMachine("box", tmp_path), os.fspath(tmp_path / "a" / "hosts"), is_checked=True)
    await checked.ask("observe", {"clusters": []})
    assert (tmp_path / "a" / "hosts").stat().st_mode & 0o777 == 0o700
    assert account.EXIT_FOLDER == allocation.EXIT_FOLDER


async def test_an_agent_that_is_stopped_is_named_with_its_machine_until_it_goes_on(
    engine_of: Callable[..., HalfSilentEngine],
) -> None:
    engine = engine_of("a")
    handles = [await launch_handle(engine, "one"), await launch_handle(engine, "two")]
    pid = int(handles[0].hosts[0].data["pid"])
    os.kill(pid, signal.SIGSTOP)
    await eventually(lambda: process_state(pid) == "T", "it is stopped")
    assert engine.stopped_agent(handles[0], "algo-1") is None, "nothing was asked yet"
    await engine.observe_all(handles)
    await engine.observe_all(handles[1:])
    found = [engine.stopped_agent(handle, "algo-1") for handle in handles]
    assert found == [stopped_process(pid, "a"), None]
    assert found[0] is not None
    assert found[0].cure == f"`kill -CONT {pid}` on a continues it."
    os.kill(pid, signal.SIGCONT)
    await eventually(lambda: process_state(pid) != "T", "it goes on")
    await engine.observe_all(handles)
    assert engine.stopped_agent(handles[0], "algo-1") is None


def process_state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def test_a_placement_waits_for_the_one_of_another_process_and_sees_what_it_took(
    tmp_path: Path, engine_of: Callable[..., HalfSilentEngine]
) -> None:
    register = register_of(tmp_path)
    engine = engine_of("a", "b")
    async with register.placement_lock():
        launching = asyncio.create_task(launch(engine, "ours"))
        facts = [tmp_path / f"controller/engines/shell/machines/{name}.json" for name in "ab"]
        await eventually(lambda: all(path.exists() for path in facts), "both machines were asked", within=30)
        (register.folder / "theirs").mkdir(parents=True, exist_ok=True)
        register.write("theirs", Intention({"algo-1": "a"}))
    assert await launching == {"algo-1": "b"}
    register.release("theirs")


async def test_a_machine_that_is_silent_holds_up_no_placement_on_another_one(
    tmp_path: Path, engine_of: Callable[..., HalfSilentEngine]
) -> None:
    waiting = asyncio.create_task(launch(engine_of("silent"), "waits"))
    await eventually((tmp_path / "silent/asked").exists, "the silent machine was asked")
    assert await asyncio.wait_for(launch(engine_of("a"), "runs"), 30) == {"algo-1": "a"}
    assert not waiting.done()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


async def test_a_cluster_that_is_released_while_machines_are_asked_is_not_launched(
    tmp_path: Path, engine_of: Callable[..., HalfSilentEngine]
) -> None:
    register = register_of(tmp_path)
    async with register.placement_lock():
        launching = asyncio.create_task(launch(engine_of("a"), "ours"))
        facts = tmp_path / "controller/engines/shell/machines/a.json"
        await eventually(facts.exists, "the machine was asked", within=30)
        register.release("ours")
    with pytest.raises(RefusedError, match="was released"):
        await launching
    assert register.read("ours") is None


@pytest.fixture
def faulty(engine_of: Callable[..., FaultyEngine], monkeypatch: pytest.MonkeyPatch) -> FaultyEngine:
    """Give an engine with machines ``b`` and ``a``; each placement asks both."""
    monkeypatch.setattr("jupyter_smx.engines.remote.contacts.FRESH", -1.0)
    return engine_of("b", "a", kind=FaultyEngine)


async def test_a_host_whose_machine_is_not_reached_at_the_launch_goes_to_another_one(
    tmp_path: Path, faulty: FaultyEngine
) -> None:
    faulty.faults["b"] = {" launch ": AWAY, "true": AWAY}
    assert await launch(faulty, "ours") == {"algo-1": "a"}
    assert register_of(tmp_path).read("ours") == Intention({"algo-1": "a"})
    faulty.verbs()
    await faulty.release(Handle(engine="shell", cluster="ours"))
    assert faulty.verbs() == ["a release"]


async def test_a_machine_that_is_off_gets_no_host_until_it_answers_again(faulty: FaultyEngine) -> None:
    faulty.faults["b"] = {"": AWAY}
    assert await launch(faulty, "first") == {"algo-1": "a"}
    faulty.faults["b"].clear()
    await faulty._contacts.refresh("b")
    assert await launch(faulty, "second") == {"algo-1": "b"}


async def test_a_host_whose_launch_has_no_answer_is_not_launched_elsewhere(
    tmp_path: Path, faulty: FaultyEngine
) -> None:
    faulty.faults["b"] = {" launch ": NoAnswerError("b did not answer.", transient=True)}
    with pytest.raises(NoAnswerError):
        await launch(faulty, "ours")
    assert "a launch" not in faulty.verbs()
    assert register_of(tmp_path).read("ours") == Intention({"algo-1": "b"})


async def test_a_machine_without_a_free_session_keeps_its_turn(faulty: FaultyEngine) -> None:
    faulty.faults["b"] = {" launch ": NoSessionError("b opened no session.", transient=True)}
    with pytest.raises(RefusedError, match="b opened no session") as refused:
        await launch(faulty, "first")
    assert refused.value.transient
    faulty.faults["b"].clear()
    assert await launch(faulty, "second") == {"algo-1": "b"}


async def test_a_machine_that_dies_while_it_gets_the_agent_has_not_launched_anything(
    tmp_path: Path, faulty: FaultyEngine
) -> None:
    asked = faulty.faults["b"]
    await faulty._contacts.refresh("ba")
    (tmp_path / "b" / FOLDER / agent_zipapp.file_name()).unlink()
    asked["mkdir -p"] = NoAnswerError("b did not answer.", transient=True)
    asked["true"] = AWAY
    faulty._contacts.note_answer("b")
    assert await launch(faulty, "ours") == {"algo-1": "a"}


async def test_of_a_single_machine_the_launch_is_the_only_question(engine_of: Callable[..., FaultyEngine]) -> None:
    engine = engine_of("b", kind=FaultyEngine)
    await launch(engine, "first")
    engine.verbs()
    await launch(engine, "second")
    assert engine.verbs() == ["b launch"]


async def test_a_single_machine_that_is_off_is_waited_for_with_since_when(
    tmp_path: Path, engine_of: Callable[..., FaultyEngine]
) -> None:
    engine = engine_of("b", kind=FaultyEngine)
    await launch(engine, "first")
    engine.faults["b"][""] = AWAY
    with pytest.raises(RefusedError, match=r"^Not reachable since .*\d\d:\d\d: b does not answer") as refused:
        await launch(engine, "second")
    assert refused.value.transient
    assert register_of(tmp_path).is_released("second"), "nothing is left for a release to ask"
    with pytest.raises(UnavailableError, match=r"^Not reachable since .*\d\d:\d\d: b does not answer") as away:
        await launch(engine, "third")
    assert away.value.transient
    engine.faults["b"].clear()
    assert await launch(engine, "fourth") == {"algo-1": "b"}


@pytest.fixture
def ended_host(tmp_path: Path) -> tuple[ClusterStore, Path]:
    """Give a machine's records with a host that has ended, and the host's folder."""
    store, name = ClusterStore(os.fspath(tmp_path / "machine")), HostName("c", "algo-1")
    store.describe(name, {"hosts": ["algo-1"]})
    root = Path(store.folder(name).root)
    for each in ("ml/files", "tmp", "spool"):
        (root / each).mkdir(parents=True)
    return store, root


RELEASE = {"cluster": "c", "machine": "a", "timeout": 5.0}


def test_a_release_on_a_machine_does_not_wait_for_many_files(
    ended_host: tuple[ClusterStore, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, root = ended_host
    real, gate = rmtree.remove, tmp_path / "gate"
    os.mkfifo(gate)

    def remove(path: str) -> None:
        if path.endswith("/ml"):
            gate.read_text()
        real(path)

    monkeypatch.setattr(rmtree, "remove", remove)
    monkeypatch.setattr(release, "PATIENCE", 0.01)
    assert release.release(store, RELEASE) == {"left": []}
    assert (root / "ml").exists()
    gate.write_text("go on")
    eventually_blocking(lambda: not (root / "ml").exists() and not (root / "tmp").exists(), "they are deleted")
    assert (root / "spool").exists()


def test_a_release_on_a_machine_names_what_it_cannot_delete(
    ended_host: tuple[ClusterStore, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, root = ended_host
    real = rmtree.remove

    def remove(path: str) -> None:
        if path.endswith("/ml"):
            raise OSError(errno.EBUSY, "Device or resource busy", path)
        real(path)

    monkeypatch.setattr(rmtree, "remove", remove)
    assert release.release(store, RELEASE) == {"left": [f"{root}/ml: Device or resource busy"]}
    monkeypatch.setattr(rmtree, "remove", real)
    assert release.release(store, RELEASE) == {"left": []}
    assert sorted(path.name for path in root.iterdir()) == ["claim", "host.json", "spool"]


def test_the_process_that_deletes_files_keeps_no_connection_open(ended_host: tuple[ClusterStore, Path]) -> None:
    """A session of ssh ends when all copies of its streams are closed."""
    store, root = ended_host
    gate = root / "gate"
    os.mkfifo(gate)
    code = (
        "import json, sys; from jupyter_smx.agent.remote import release;"
        "from jupyter_smx.agent.system.files import rmtree;"
        "from jupyter_smx.agent.remote.cluster_store import ClusterStore; real = rmtree.remove;"
        "rmtree.remove = lambda path: (path.endswith('/ml') and open(sys.argv[2]).read(), real(path));"
        "release.PATIENCE = 0.01; print(release.release(ClusterStore(sys.argv[1]), json.loads(sys.argv[3])))"
    )
    words = [sys.executable, "-c", code, store.root, gate, json.dumps(RELEASE)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "{'left': []}\n"
    assert (root / "ml").exists()
    gate.write_text("go on")
    eventually_blocking(lambda: not (root / "ml").exists(), "it is deleted")
