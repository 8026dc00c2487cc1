"""Disks without room, in a job, in what it brings home and in what is written about it: said by name, nothing lost."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.channels import pack_outputs
from jupyter_smx.agent.host import host
from jupyter_smx.agent.system.files import rmtree
from jupyter_smx.agent.system.processes import process
from jupyter_smx.agent.system.resources import disk
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable

    from far_side import Agent

    from jupyter_smx.testing.servers.object_storage import Bucket

SMALL = "2m"
ON_ONE_DISK = ("slots", "spool", "trash")
SHM = "/dev/shm"  # noqa: S108 - shared memory
FILL = "import os\nwith open(os.path.join({place}, 'big'), 'wb') as file:\n    while True: file.write(bytes(65536))"
MODEL, TEMPORARY = "os.environ['SM_MODEL_DIR']", "os.environ['TMPDIR']"


@pytest.fixture
def small(start_agent: Callable[..., Agent], tmp_path: Path) -> Callable[..., Agent]:
    """Start an agent of which some folders lie on disks of two megabytes that only it and its jobs see."""
    if os.getuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root can mount a small disk")

    def start(*places: str, outside: str = "", disk_patience: float = 0.0) -> Agent:
        # The agent's folder is the first of this test; what has to lie on one disk is linked there.
        folder = tmp_path / "host-1"
        script = ""
        for one in [*(str(folder / place) for place in places), *filter(None, [outside])]:
            script += f"mkdir -p '{one}' && mount -t tmpfs -o size={SMALL} none '{one}' && "
        if "disk" in places:
            for name in ON_ONE_DISK:
                script += f"mkdir '{folder}/disk/{name}' && ln -s 'disk/{name}' '{folder}/{name}' && "
        program = ("unshare", "-m", "sh", "-c", script + 'exec "$@"', "sh", sys.executable, "-m", "jupyter_smx.agent")
        return start_agent(options={"program": program}, disk_patience=disk_patience)

    return start


@pytest.mark.parametrize(("place", "folder"), [(MODEL, "ml/model"), (TEMPORARY, "tmp")])
def test_a_full_disk_of_the_job_is_named_with_its_size(small: Callable[..., Agent], place: str, folder: str) -> None:
    agent = small(folder)
    record = agent.run(FILL.format(place=place))
    assert (record["cause"], record["exit_code"], record["exception"]["type"]) == ("exit", 1, "OSError")
    named = agent.json(f"import json, os; print(json.dumps({place}))")  # as the script names it
    assert (agent.folder / folder).samefile(named)
    said = f"No space left on device. The disk of {named} is full: 0 B of 2.0 MiB are free."
    assert record["failure"].endswith(said), record["failure"]
    agent.serves()


def test_a_full_disk_is_named_although_a_library_speaks_of_something_else(small: Callable[..., Agent]) -> None:
    agent = small("ml/model")
    source = FILL.replace("    while", "    try:\n     while").format(place=MODEL)
    record = agent.run(source + "\n    except OSError: raise RuntimeError('write failed')")
    assert record["failure"] == (
        f"RuntimeError: write failed. The disk of {agent.folder / 'ml/model'} is full: 0 B of 2.0 MiB are free."
    )


def test_a_disk_with_room_is_not_spoken_of(agent: Agent) -> None:
    assert agent.run("raise OSError(28, 'No space left on device')")["failure"] == (
        "OSError: [Errno 28] No space left on device"
    )


def test_full_shared_memory_is_named_where_only_a_signal_speaks(small: Callable[..., Agent]) -> None:
    agent = small(outside=SHM)
    source = """
import mmap, os
fd = os.open('/dev/shm/segment', os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 8 << 20)
memory = mmap.mmap(fd, 8 << 20)
for offset in range(0, 8 << 20, 4096): memory[offset] = 1
"""
    record = agent.run(source)
    assert (record["cause"], record["signal"]) == ("signal", 7)
    assert record["failure"] == (
        "The job was ended by signal 7 (SIGBUS). The disk of /dev/shm is full: 0 B of 2.0 MiB are free."
    )
    assert "shared memory /dev/shm/segment was removed." in record["left_behind"]
    agent.serves()


def test_inputs_that_are_too_large_for_the_host_are_refused_with_its_size(
    small: Callable[..., Agent], tmp_path: Path
) -> None:
    (tmp_path / "large").write_bytes(os.urandom(3 << 20))
    agent = small("ml/input/data")
    channels = [{"name": "train", "source": str(tmp_path / "large"), "mode": "File"}]
    record = agent.run("print('never')", channels=channels)
    assert (record["cause"], record["text"]) == ("refused", "")
    assert "No space left on device" in record["failure"]
    assert f"The disk of {agent.folder / 'ml/input/data'} is full" in record["failure"]
    assert not record["failure"].startswith("host: "), "it is the wish that does not fit"
    agent.serves()


def test_a_folder_that_is_too_large_for_the_host_is_refused_at_the_first_file_that_does_not_fit(
    small: Callable[..., Agent], tmp_path: Path
) -> None:
    inner = tmp_path / "data" / "of" / "2026"
    inner.mkdir(parents=True)
    for number in range(300):
        (inner / str(number)).write_bytes(os.urandom(1 << 14))
    agent = small("ml/input/data")
    channels = [{"name": "train", "source": str(tmp_path / "data"), "mode": "File"}]
    record = agent.run("print('never')", channels=channels)
    assert (record["cause"], record["text"]) == ("refused", "")
    assert f"The disk of {agent.folder / 'ml/input/data'} is full" in record["failure"]
    (sentence,) = record["errors"]
    assert sentence.count(str(inner)) == 1, "one file is named, not all"
    agent.serves()


def test_a_host_whose_own_log_finds_no_room_works_and_ends(start_agent: Callable[..., Agent]) -> None:
    silent = ("sh", "-c", 'exec "$@" 2>/dev/full', "sh", sys.executable, "-m", "jupyter_smx.agent")
    agent = start_agent(options={"program": silent})
    assert agent.run("print('works')")["text"] == "works\n"
    agent.process.terminate()
    eventually_blocking(agent.is_over, "nothing of the host is alive")


def test_words_that_find_no_room_hold_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    with contextlib.suppress(OSError), open("/dev/full", "w") as full:  # noqa: PTH123 - no file, and it cannot be closed
        monkeypatch.setattr(sys, "stderr", full)
        process.print_line("a line")
        process.print_error(ValueError("an error"))
        host.exit_now(3)
    assert codes == [3]


def test_a_job_takes_the_room_of_what_nobody_has_deleted_yet(small: Callable[..., Agent]) -> None:
    agent = small("disk")
    left = Path(f"/proc/{agent.process.pid}/root{agent.folder}/trash/job-before")  # as the agent sees it
    left.mkdir()
    with (left / "big").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    record = agent.run("print('x' * 100_000)")
    assert (record["cause"], record["exit_code"], len(record["text"])) == ("exit", 0, 100_001), record["failure"]


def test_objects_take_the_room_of_what_earlier_jobs_brought_and_left(
    small: Callable[..., Agent], bucket: Bucket, wait_until: Callable[..., Any]
) -> None:
    """Two megabytes hold one of these, and not what an earlier job brought beside it, thrown away or not."""
    for name in ("a", "b", "c"):
        bucket.put(f"{name}/x", name * 1_200_000)
    agent = small("inputs")
    look = "import os; print(open(os.environ['SM_CHANNEL_TRAIN'] + '/x').read(3))"
    for name in ("a", "b", "c"):
        channels = [{"name": "train", "source": f"s3://bucket/{name}/", "mode": "File"}]
        record = agent.run(look, channels=channels, environment=bucket.environment)
        assert (record["text"], record["errors"]) == (name * 3 + "\n", []), record
    bucket.put("d/x", "d" * (3 << 20))
    channels = [{"name": "train", "source": "s3://bucket/d/", "mode": "File"}]
    record = agent.run(look, channels=channels, environment=bucket.environment)
    assert record["cause"] == "refused"
    assert "No space left on device: s3://bucket/d/" in record["failure"], record["failure"]
    agent.serves()
    inputs = agent.folder / "inputs"
    seen = f"/proc/{agent.process.pid}/root{inputs}/parts"
    wait_until(lambda: not os.listdir(seen), "what never became whole is deleted")  # noqa: PTH208 - names are compared


def test_a_log_that_fills_the_hosts_disk_fails_its_job_and_its_record_is_whole(small: Callable[..., Agent]) -> None:
    agent = small("disk")
    record = agent.run("while True: print('x' * 1000)")
    assert (record["cause"], record["exit_code"]) == ("exit", 1), record
    assert "The disk of the job's log and results is full" in record["failure"]
    assert record["exception"]["type"] == "OSError"
    assert record["log"] > 1 << 20
    assert json.loads(agent.read(record["job"], "end.json"))["failure"] == record["failure"], (
        "it is on the disk as well"
    )
    # Until the controller has fetched that log and lets it go a job may be lucky, and else it is told why it is not.
    second = agent.run("print('next')")
    lucky = (second["exit_code"], second["text"]) == (0, "next\n")
    assert lucky or "The disk of the job's log and results is full" in second["failure"], second
    for job in (record["job"], second["job"]):
        assert agent.client.ask("forget", job=job)["ok"]
    eventually_blocking(lambda: agent.run("print('next')")["text"] == "next\n", "the host serves again")


def test_what_a_job_printed_last_and_no_disk_took_is_said(small: Callable[..., Agent]) -> None:
    agent = small("disk")
    source = """
import os, sys
log = os.path.dirname(os.readlink("/proc/self/fd/1"))
with open(os.path.join(log, "ballast"), "wb", 0) as file:
    try:
        while True: file.write(bytes(4096))
    except OSError: pass
sys.stdout.write("no end of line")
"""
    record = agent.run(source)
    assert (record["cause"], record["exit_code"], record["text"]) == ("exit", 0, "")
    assert record["errors"][0].startswith("log: the last lines are lost: No space left on device. The disk of")


def test_a_model_that_the_host_cannot_keep_is_no_success(small: Callable[..., Agent]) -> None:
    agent = small("disk")
    record = agent.run(
        "import os\nopen(os.environ['SM_MODEL_DIR'] + '/m', 'wb').write(os.urandom(4 << 20))\nprint('trained')"
    )
    assert (record["cause"], record["artifacts"], record["text"]) == ("refused", [], "trained\n")
    assert record["failure"].startswith("host: the job's outputs could not be stored: No space left on device")
    assert "The disk of the job's log and results is full" in record["failure"]
    assert agent.run("print('next')")["text"] == "next\n", "half an archive takes no room"


def test_variables_that_the_host_cannot_keep_are_named(small: Callable[..., Agent]) -> None:
    agent = small("disk")
    record = agent.run("import os\nweights = os.urandom(4 << 20)\nbest = 1", receive=["weights", "best"])
    assert (record["cause"], record["exit_code"], record["received"]) == ("exit", 0, {})
    weights, best = record["errors"]
    assert weights.startswith(
        "receive: 'weights' could not be kept: No space left on device. The disk of the job's log"
    )
    assert best.startswith("receive: 'best' could not be kept: No space left on device.")
    agent.serves()


BALLAST = """
import os, sys
log = os.path.dirname(os.readlink("/proc/self/fd/1"))
with open(os.path.join(log, "ballast"), "wb", 0) as file:
    try:
        while True: file.write(bytes(4096))
    except OSError: pass
"""
"""Fills the disk of the job's log and results."""


def test_the_end_of_a_job_waits_for_room_for_its_variables_and_its_model(small: Callable[..., Agent]) -> None:
    agent = small("disk", disk_patience=60.0)
    code = "weights = os.urandom(100_000)\nopen(os.environ['SM_MODEL_DIR'] + '/m', 'wb').write(weights)\n"
    job, _lease = agent.start(f"{BALLAST}{code}", receive=["weights"])
    wait = agent.client.event("disk_wait", job)
    assert wait["reason"].startswith("The disk of the job's log and results is full: 0 B of 2.0 MiB")
    Path(f"/proc/{agent.process.pid}/root{agent.folder}/disk/spool/{job}/ballast").unlink()
    record = agent.end_of(job)
    assert (record["cause"], record["exit_code"], record["errors"]) == ("exit", 0, [])
    assert record["received"]["weights"] > 100_000
    assert sorted(each["name"] for each in record["artifacts"]) == ["model.tar.gz", "result.pkl"]
    assert agent.client.event("disk_wait", job)["reason"] == "", "and it is taken back"


def test_the_end_of_a_job_without_variables_waits_for_room_for_its_model(small: Callable[..., Agent]) -> None:
    agent = small("disk", disk_patience=60.0)
    # The model does not fit into the reserve.
    code = "open(os.environ['SM_MODEL_DIR'] + '/m', 'wb').write(os.urandom(500_000))\n"
    job, _lease = agent.start(f"{BALLAST}{code}")
    agent.client.event("exited", job)
    wait = agent.client.event("disk_wait", job)
    assert "The disk of the job's log and results is full" in wait["reason"]
    Path(f"/proc/{agent.process.pid}/root{agent.folder}/disk/spool/{job}/ballast").unlink()
    record = agent.end_of(job)
    assert (record["cause"], [each["name"] for each in record["artifacts"]]) == ("exit", ["model.tar.gz"]), record
    agent.serves()


def test_outputs_that_are_small_in_an_archive_take_the_reserve_of_a_full_disk(small: Callable[..., Agent]) -> None:
    agent = small("disk", disk_patience=60.0)
    job, _lease = agent.start(f"{BALLAST}open(os.environ['SM_MODEL_DIR'] + '/m', 'wb').write(bytes(500_000))\n")
    record = agent.end_of(job)
    assert (record["cause"], [each["name"] for each in record["artifacts"]]) == ("exit", ["model.tar.gz"]), record
    Path(f"/proc/{agent.process.pid}/root{agent.folder}/disk/spool/{job}/ballast").unlink()
    agent.serves()


@pytest.mark.parametrize(
    "left",
    [
        "os._exit(0)",
        "threading.Thread(target=os._exit, args=(0,)).start()\nwhile True: signal.pause()",
        "os.execv('/bin/true', ['true'])",
    ],
)
def test_a_process_that_leaves_early_says_that_no_variable_was_kept(agent: Agent, left: str) -> None:
    record = agent.run(f"import os, signal, threading\nx = 1\n{left}", receive=["x", "y"])
    assert (record["cause"], record["exit_code"], record["received"]) == ("exit", 0, {})
    why = (
        "was not kept, because the process of the job ended before the end of its code, as os._exit ends it, "
        "or went on as another program (exec)."
    )
    assert record["errors"] == [f"receive: 'x' {why}", f"receive: 'y' {why}"]


def test_variables_are_kept_where_an_exit_handler_leaves_at_once(agent: Agent) -> None:
    record = agent.run("import atexit, os\nx = 1\natexit.register(os._exit, 0)", receive=["x"])
    assert (record["exit_code"], list(record["received"]), record["errors"]) == (0, ["x"], [])


@pytest.fixture
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[str, Any]]:
    """Make an output with a folder on another file system than the spool; gives what packs it."""
    folder = tmp_path / "ml/scores/run"
    folder.mkdir(parents=True)
    for name in "ab":
        (folder / name).write_text(name)
    rename = os.rename

    def rename_on_one_disk(source: str, target: str) -> None:
        if os.fspath(source).startswith(f"{tmp_path}/ml/") != os.fspath(target).startswith(f"{tmp_path}/ml/"):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), source, None, target)
        rename(source, target)

    monkeypatch.setattr(os, "rename", rename_on_one_disk)
    ml, job = str(tmp_path / "ml"), str(tmp_path / "job")
    return lambda: pack_outputs.stage_out(ml, [("scores", str(folder.parent))], job, [])


def packed_names(answer: dict[str, Any]) -> list[str]:
    assert answer["errors"] == []
    return [each["name"] for each in answer["artifacts"]]


BOTH = ["outputs/scores/run/a", "outputs/scores/run/b"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO], ids=errno.errorcode.get)
def test_a_copied_folder_whose_disk_fails_leaves_no_half_and_is_whole_later(
    output: Callable[[], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def copy_half(_source: str, target: str, **_more: bool) -> None:
        Path(target).mkdir()
        (Path(target) / "a").write_text("a")
        raise shutil.Error([("a", "b", f"[Errno {number}] {os.strerror(number)}: 'b'")])

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copytree", copy_half)
        answer = output()
    assert answer["later"].startswith(f"{os.strerror(number)}: {tmp_path}/ml/scores/run.")
    assert [path for path in (tmp_path / "job").rglob("*") if path.is_file()] == []
    assert packed_names(output()) == BOTH


def test_a_copied_folder_whose_source_cannot_be_removed_is_whole(
    output: Callable[[], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove_half(path: str) -> None:
        (Path(path) / "a").unlink()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", remove_half)
        patch.setattr(rmtree, "_remove_folder", remove_half)
        assert packed_names(output()) == BOTH
    assert packed_names(output()) == BOTH, "what is left of the source is no newer output"
    assert not (tmp_path / "ml/scores/run").exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_quota_is_said_where_no_disk_is_full(number: int, tmp_path: Path) -> None:
    with pytest.raises(disk.DiskError) as raised:
        disk.with_disk_errors(lambda: fail(number), [("here", str(tmp_path))])
    assert "The disk is unknown; there may be a quota." in str(raised.value)
    assert disk.format_error(PermissionError(errno.EACCES, "Permission denied", "f"), []) == "Permission denied: f."
    with pytest.raises(PermissionError):
        disk.with_disk_errors(lambda: fail(errno.EACCES), [])


def fail(number: int) -> dict[str, Any]:
    raise OSError(number, os.strerror(number), "file")


def test_last_words_take_the_reserve_and_the_reserve_comes_back(tmp_path: Path, monkeypatch: Any) -> None:
    disk.keep_reserve(str(tmp_path))
    (reserve,) = tmp_path.iterdir()
    write = disk._write

    def only_without_reserve(path: str, text: str) -> None:
        if reserve.exists():
            fail(errno.ENOSPC)
        write(path, text)

    monkeypatch.setattr(disk, "_write", only_without_reserve)
    disk.write_whole(str(tmp_path / "end.json"), "{}", str(tmp_path))
    assert (tmp_path / "end.json").read_text() == "{}"
    assert not reserve.exists()
    disk.keep_reserve(str(tmp_path))
    assert reserve.stat().st_size == 1 << 18


NO_NAMES = """
import errno, os
from jupyter_smx.agent.__main__ import main
rename, rmdir = os.rename, os.rmdir
def without_room(source, target, **more):
    if "forgotten-" in str(target):
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), source)
    rename(source, target, **more)
def at_the_gate(path, **more):
    if os.path.exists({gate!r}):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
    rmdir(path, **more)
os.rename, os.rmdir = without_room, at_the_gate
main()
"""


def test_a_job_is_forgotten_where_the_trash_takes_no_name_and_known_until_it_can_be(
    start_agent: Callable[..., Agent], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    agent = start_agent(options={"program": (sys.executable, "-c", NO_NAMES.format(gate=str(gate)))})
    job = agent.run("pass")["job"]
    gate.touch()
    answer = agent.client.ask("forget", job=job)
    assert (answer["ok"], answer["code"]) == (False, "ServiceUnavailable")
    assert answer["message"].startswith("forget: this host cannot do it now. Read-only file system: ")
    assert job in agent.client.ask("hello", protocol=1, epoch=1)["jobs"]
    gate.unlink()
    assert agent.client.ask("forget", job=job)["ok"]
    assert not (agent.folder / "spool" / job).exists()
    assert job not in agent.client.ask("hello", protocol=1, epoch=1)["jobs"]
    assert agent.client.ask("forget", job=job)["ok"], "who asks twice was not heard"
