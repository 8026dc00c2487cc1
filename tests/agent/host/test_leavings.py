"""What jobs leave behind, on purpose or not: removed and named, and a host that cannot be made clean ends."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from far_side import DEEP, NOBODY, SHM, count, is_alive

from jupyter_smx.agent.system.files.host_folder import HostFolder
from jupyter_smx.agent.system.isolation import host_cleanup
from jupyter_smx.engines.machine import agent_zipapp

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from far_side import Agent

pytestmark = pytest.mark.usefixtures("own_shared_memory")


@pytest.fixture
def agent(shared_agent: Agent) -> Agent:
    """Give the agent of the module."""
    return shared_agent


@pytest.fixture
def isolated(shared_isolated: Agent) -> Agent:
    """Give the agent of the module with a world of its own."""
    return shared_isolated


SEE = """
import json, os, stat
def tree(top): return sorted(os.path.relpath(os.path.join(t, n), top) for t, d, f in os.walk(top) for n in d + f)
ml = os.environ["SAGEMAKER_BASE_DIR"] if "SAGEMAKER_BASE_DIR" in os.environ else "/opt/ml"
modes = {oct(stat.S_IMODE(os.stat(os.path.join(ml, name)).st_mode)) for name in ("model", "output", "code")}
print(json.dumps([tree(os.environ["SM_MODEL_DIR"]), tree(os.environ["TMPDIR"]), os.listdir("."), sorted(modes)]))
"""
CLEAN = [[], [], ["train.py"], ["0o755"]]


# Processes


def test_a_daemon_that_hides_from_everybody_is_found_killed_and_named(
    agent: Agent, wait_until: Callable[..., Any]
) -> None:
    # Twice forked, its own session, no mark in its environment, no descriptor, and it ignores what can be ignored.
    source = """
import os, signal, sys
if not os.fork():
    os.setsid()
    if not os.fork():
        for number in range(1, 32):
            if number not in (signal.SIGKILL, signal.SIGSTOP): signal.signal(number, signal.SIG_IGN)
        os.write(1, b"%d\\n" % os.getpid())
        os.closerange(0, 256)
        os.execve("/bin/sleep", ["nothing-to-see", "1000"], {})
    os._exit(0)
os.wait()
"""
    job, _lease = agent.start(source)
    record = agent.end_of(job)
    (sentence,) = record["left_behind"]
    assert "was still running and was killed" in sentence
    wait_until(lambda: not [one for one in agent.processes() if "nothing-to-see" in one.command], "it is dead")
    assert not is_alive(int(sentence.split()[1]))


def test_a_stopped_process_does_not_stay(agent: Agent) -> None:
    record = agent.run(
        "import os, signal\npid = os.fork()\nif not pid: os.kill(os.getpid(), signal.SIGSTOP)\n"
        "os.waitpid(pid, os.WUNTRACED)\nprint(pid)"
    )
    assert not is_alive(int(record["text"]))
    assert f"process {record['text'].strip()} " in record["left_behind"][0]


def test_a_server_that_a_job_leaves_gives_its_port_back(agent: Agent) -> None:
    source = """
import os, socket
server = socket.create_server(("127.0.0.1", PORT))
print(server.getsockname()[1], flush=True)
if not os.fork():
    os.setsid()
    server.accept()
"""
    port = agent.run(source.replace("PORT", "0"))["text"].strip()
    assert agent.run(source.replace("PORT", port))["exit_code"] == 0, "the next job has the same port"


# Memory


@pytest.mark.parametrize("kind", ["shm", "sem", "msg"])
def test_bug_20_system_v_objects_of_an_own_world_are_all_removed(isolated: Agent, kind: str) -> None:
    call = {"shm": "shmget(0, 4096, 0o1600)", "sem": "semget(0, 3, 0o1600)", "msg": "msgget(0, 0o1600)"}[kind]
    record = isolated.run(f"import ctypes\nfor _ in range(3): print(ctypes.CDLL(None).{call})")
    numbers = record["text"].split()
    assert [f"System V {kind} {number} was removed." in record["left_behind"] for number in numbers] == [True] * 3
    seen = isolated.run(f"print(len(open('/proc/sysvipc/{kind}').readlines()))")["text"]
    assert seen == "1\n", "nothing but the heading"


POSIX = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
if not hasattr(libc, "mq_open"): libc = ctypes.CDLL("librt.so.1", use_errno=True)
libc.sem_open.restype = ctypes.c_void_p
"""


def test_bug_20_posix_message_queues_of_an_own_world_are_removed_and_named(isolated: Agent) -> None:
    source = POSIX + "for name in (b'/b', b'/a'): print(libc.mq_open(name, os.O_CREAT | os.O_RDWR, 0o600, None) >= 0)"
    record = isolated.run(source)
    assert record["text"] == "True\nTrue\n"
    assert record["left_behind"] == ["message queue /a was removed.", "message queue /b was removed."]
    assert isolated.run(POSIX + "print(libc.mq_open(b'/a', os.O_RDWR), ctypes.get_errno())")["text"] == "-1 2\n"
    isolated.serves()


def test_bug_20_posix_semaphores_are_removed_and_named(agent: Agent) -> None:
    name = f"sem.smx-{os.getpid()}"
    source = POSIX + f"print(bool(libc.sem_open(b'/{name[4:]}', os.O_CREAT, 0o600, 1)))"
    record = agent.run(source)
    assert record["text"] == "True\n"
    assert record["left_behind"] == [f"semaphore /dev/shm/{name} was removed."]
    assert not (SHM / name).exists()


def test_bug_20_message_queues_of_a_machine_that_is_shared_are_removed_unless_somebody_has_them(
    host_folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A folder stands for the machine's queues: this machine may not show any.
    folder = HostFolder(str(host_folder()))
    monkeypatch.setattr(host_cleanup, "QUEUES", str(tmp_path / "queues"))
    (tmp_path / "queues").mkdir()
    (tmp_path / "queues" / "before").touch()
    before = host_cleanup.take_baseline(folder, private=False)
    (tmp_path / "queues" / "left").touch()
    with (tmp_path / "queues" / "used").open("w"):
        assert host_cleanup.remove_leftovers(folder, before, private=False) == ["message queue /left was removed."]
    assert sorted(os.listdir(tmp_path / "queues")) == ["before", "used"]  # noqa: PTH208 - names


def test_shared_memory_that_other_programs_wrote_while_a_host_was_idle_stays(agent: Agent) -> None:
    theirs = [SHM / f"smx-{os.getpid()}-{number}" for number in range(2)]
    try:
        for path in theirs:
            path.write_bytes(b"theirs")
            mine = f"smx-{os.getpid()}-mine"
            record = agent.run(f"open('/dev/shm/{mine}', 'w')")
            assert record["left_behind"] == [f"shared memory /dev/shm/{mine} was removed."]
        assert [path.read_bytes() for path in theirs] == [b"theirs", b"theirs"]
    finally:
        for path in theirs:
            path.unlink(missing_ok=True)


def test_what_lies_in_shared_memory_is_known_although_something_vanishes_while_it_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).touch()
    seen, vanishing, *_others = os.listdir(tmp_path)  # noqa: PTH208 - in the order of the system
    uid = os.getuid()

    def first_looked_at() -> int:
        (tmp_path / vanishing).unlink(missing_ok=True)
        return uid

    monkeypatch.setattr(os, "getuid", first_looked_at)
    assert host_cleanup._own_files(str(tmp_path)) == {"a", "b", "c"} - {vanishing}
    assert host_cleanup._own_files(str(tmp_path / seen / "nothing")) == set()


def test_bug_20_semaphores_and_shared_memory_of_multiprocessing_do_not_stay(agent: Agent) -> None:
    source = """
import multiprocessing as m, os
from multiprocessing import resource_tracker, shared_memory
segment = shared_memory.SharedMemory(create=True, size=1 << 20)
resource_tracker.unregister(segment._name, "shared_memory")
print(segment.name)
os._exit(0)
"""
    record = agent.run(source)
    name = record["text"].strip()
    assert f"shared memory /dev/shm/{name} was removed." in record["left_behind"]
    assert not (SHM / name).exists()


def test_bug_20_shared_memory_that_a_killed_job_filled_is_empty_for_the_next(isolated: Agent) -> None:
    source = """
import os
os.makedirs("/dev/shm/deep/er")
for name in ("/dev/shm/a", "/dev/shm/deep/er/b"):
    with open(name, "wb") as file: file.write(bytes(1 << 20))
os.chmod("/dev/shm/deep", 0)
print("on", flush=True)
os.kill(os.getpid(), 9)
"""
    record = isolated.run(source)
    assert sorted(record["left_behind"]) == [
        "shared memory /dev/shm/a was removed.",
        "shared memory /dev/shm/deep was removed.",
    ]
    assert isolated.run("import os; print(os.listdir('/dev/shm'), os.statvfs('/dev/shm').f_bfree > 1000)")["text"] == (
        "[] True\n"
    )


# Files


LOCK = """
import os
for top in (os.environ["SM_MODEL_DIR"], os.environ["TMPDIR"], os.environ["SM_OUTPUT_DATA_DIR"], os.getcwd()):
    os.makedirs(top + "/locked/inside/deep")
    open(top + "/locked/inside/file", "w").write("x")
    os.chmod(top + "/locked/inside", 0)
    os.chmod(top + "/locked", 0)
"""
LOCK_ALL = (
    LOCK
    + """
    os.chmod(top, 0)
os.chmod(os.path.dirname(os.environ["SM_MODEL_DIR"]), 0)
"""
)


def nobodys(start_agent: Callable[..., Agent], far_folder: Path) -> Agent:
    """Start an agent whose rights permissions can take away."""
    python = shutil.which("python3", path="/usr/bin:/bin")
    if os.getuid() != 0 or python is None:
        pytest.skip("only root can start an agent of another user, who needs a Python")
    far_folder.chmod(0o777)
    return start_agent(
        options={"user": NOBODY, "program": (python, "-I", str(agent_zipapp.write_archive(far_folder)))},
        parent=far_folder,
        environment={"HOME": str(far_folder)},
    )


@pytest.mark.parametrize("lock", [LOCK, LOCK_ALL, DEEP], ids=["what it made", "the host's own folders", "deep ones"])
def test_locked_folders_are_gone_for_the_next_job_and_from_the_disk(
    start_agent: Callable[..., Agent], far_folder: Path, wait_until: Callable[..., Any], lock: str
) -> None:
    agent = nobodys(start_agent, far_folder)
    record = agent.run(lock)
    assert (record["cause"], record["exit_code"]) == ("exit", 0), record
    if lock is LOCK:
        assert "model.tar.gz: the folder locked cannot be read and its content was skipped." in record["errors"]
    if lock is LOCK_ALL:
        assert "model.tar.gz: the folder /opt/ml/model cannot be read and its content was skipped." in record["errors"]
    assert agent.json(SEE) == CLEAN
    wait_until(lambda: not count(str(agent.folder / "trash")), "the trash is empty")


def test_permissions_of_the_hosts_folders_are_as_before(agent: Agent) -> None:
    agent.run(LOCK_ALL)
    assert agent.json(SEE) == CLEAN
    assert (agent.folder / "tmp").stat().st_mode & 0o7777 == 0o1777


def test_a_hundred_thousand_files_do_not_hold_the_next_job_up(agent: Agent, wait_until: Callable[..., Any]) -> None:
    source = """
import os
for group in range(100):
    folder = f"{os.environ['TMPDIR']}/{group}"
    os.mkdir(folder)
    for number in range(1000):
        os.close(os.open(f"{folder}/{number}", os.O_CREAT))
"""
    record = agent.run(source)
    assert record["left_behind"] == ["100 temporary file(s) or folder(s) were removed: 0, 1, 10, 11, 12 …"]
    after = agent.run("print('next')")
    assert after["at"]["first_line"] - record["at"]["ended"] < 1.0, "seconds; deleting so many takes longer"
    assert agent.json(SEE) == CLEAN
    wait_until(lambda: not count(str(agent.folder / "trash")), "the trash is empty", within=60)


@pytest.fixture
def chattr() -> Callable[[str, Path], None]:
    """Give ``chattr(flag, path)``, or skip where files cannot be made immutable."""
    program = shutil.which("chattr")
    if os.getuid() != 0 or program is None:
        pytest.skip("only root can make files immutable, with chattr")

    def change(flag: str, path: Path) -> None:
        subprocess.run([program, flag, str(path)], check=True, capture_output=True)

    return change


def test_a_host_that_cannot_be_made_clean_ends_and_says_what_was_in_the_way(
    own_agent: Agent, chattr: Callable[[str, Path], None], tmp_path: Path
) -> None:
    (tmp_path / "try").touch()
    try:
        chattr("+i", tmp_path / "try")
        chattr("-i", tmp_path / "try")
    except subprocess.CalledProcessError:
        pytest.skip("this file system knows no immutable files")
    stone = own_agent.folder / "ml" / "checkpoints" / "stone"
    freeze = f"import subprocess\nopen({str(stone)!r}, 'w')\nsubprocess.run(['chattr', '+i', {str(stone)!r}])"
    job, _lease = own_agent.start(freeze)
    try:
        assert own_agent.end_of(job)["exit_code"] == 0
        assert own_agent.client.is_closed()
        assert own_agent.wait() == 4
        said = (own_agent.folder / "agent.log").read_text()
        assert f"{stone} of job {job} cannot be removed (Operation not permitted)" in said
    finally:
        chattr("-i", stone)


def test_a_mapped_file_and_an_inherited_descriptor_hold_nothing(agent: Agent, wait_until: Callable[..., Any]) -> None:
    source = """
import mmap, os, subprocess, sys
fd = os.open(os.environ["TMPDIR"] + "/mapped", os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 1 << 20)
memory = mmap.mmap(fd, 1 << 20)
memory[:4] = b"held"
os.set_inheritable(fd, True)
subprocess.Popen(["sleep", "1000"], close_fds=False, start_new_session=True)
"""
    record = agent.run(source)
    assert any("sleep 1000" in sentence for sentence in record["left_behind"])
    assert agent.json(SEE) == CLEAN
    wait_until(lambda: not count(str(agent.folder / "trash")), "the trash is empty")
    assert not [one for one in agent.processes() if one.command.startswith("sleep")]


def test_a_folder_that_became_something_else_is_a_folder_again(agent: Agent, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "treasure").touch()
    source = f"""
import os, shutil
ml = os.environ["SAGEMAKER_BASE_DIR"]
for name in ("model", "input/data", "processing", "checkpoints"):
    shutil.rmtree(os.path.join(ml, name))
os.symlink({str(outside)!r}, ml + "/model")
os.mkfifo(ml + "/input/data")
open(ml + "/processing", "w")
os.symlink("/", ml + "/checkpoints")
"""
    agent.run(source)
    assert agent.json(SEE) == CLEAN
    assert [path.name for path in outside.iterdir()] == ["treasure"]
    folders = ("input/data", "processing/input", "processing/output", "checkpoints")
    assert all((agent.folder / "ml" / name).is_dir() for name in folders)


@pytest.mark.parametrize(
    "instead",
    ["pass", "os.symlink(outside, tmp)", "open(tmp, 'w').write('x')", "os.mkfifo(tmp)", "os.symlink('/nowhere', tmp)"],
    ids=["nothing", "a link", "a file", "a pipe", "a link to nothing"],
)
def test_the_folder_for_temporary_files_is_there_for_the_next_job_whatever_took_its_place(
    agent: Agent, tmp_path: Path, wait_until: Callable[..., Any], instead: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o700)
    (outside / "treasure").touch()
    source = f"""
import os, shutil, tempfile
outside, tmp = {str(outside)!r}, tempfile.gettempdir()
shutil.rmtree(tmp)
{instead}
"""
    record = agent.run(source)
    assert (record["cause"], record["exit_code"], record["left_behind"]) == ("exit", 0, []), record
    assert agent.json(SEE) == CLEAN
    place = agent.folder / "tmp"
    assert not place.is_symlink()
    assert place.stat().st_mode & 0o7777 == 0o1777
    assert (outside.stat().st_mode & 0o7777, [path.name for path in outside.iterdir()]) == (0o700, ["treasure"])
    wait_until(lambda: not count(str(agent.folder / "trash")), "the trash is empty")


@pytest.mark.parametrize("place", ["input", "output", ""])
def test_what_a_link_in_the_place_of_an_outer_folder_leads_to_is_left_alone(
    agent: Agent, tmp_path: Path, place: str
) -> None:
    outside = tmp_path / "outside"
    (outside / "data").mkdir(parents=True, mode=0o700)
    (outside / "data").chmod(0o700)
    (outside / "data" / "treasure").touch()
    source = f"""
import os, shutil
place = os.path.normpath(os.path.join(os.environ["SAGEMAKER_BASE_DIR"], {place!r}))
os.rename(place, place + "-moved")
os.symlink({str(outside)!r}, place)
"""
    assert agent.run(source)["cause"] == "exit"
    assert agent.json(SEE) == CLEAN
    assert [path.name for path in (outside / "data").iterdir()] == ["treasure"]
    assert (outside / "data").stat().st_mode & 0o7777 == 0o700
    assert (agent.folder / "ml" / "input" / "data").is_dir()
