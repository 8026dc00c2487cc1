"""Real full disks, folders that cannot be written, and records that were damaged, under a real controller."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from disks import Disk, mounted
from world import PATIENCE, VARIABLE, World, surround

from jupyter_smx import controller_launch, controller_launch_errors
from jupyter_smx.controller import app, server
from jupyter_smx.controller.db import connection
from jupyter_smx.controller.db.store import Store
from jupyter_smx.controller.db.tables import REVISIONS
from jupyter_smx.kernel.request import payload
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.records.job import Job
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 2**20
MOUNT = shutil.which("mount") or "mount"
UNMOUNT = shutil.which("umount") or "umount"
ROOT = Path(__file__).parents[3]
assert server.ControllerServer, "imported here, where a child that is somebody else still can"
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a small disk or be somebody else")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """Mount 48 MiB."""
    with mounted(tmp_path / "disk", 48) as disk:
        yield disk


@pytest.fixture
def small_world(disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Give a world whose records, logs and payloads lie on the small disk, and whose hosts lie elsewhere."""
    hosts = tmp_path / "clusters"
    hosts.mkdir(mode=0o700)
    data = disk.path / "smx"
    data.mkdir(mode=0o700)
    (data / "clusters").symlink_to(hosts)
    surround(monkeypatch, tmp_path, "c.ControllerApp.grace = 0.5\nc.LocalEngine.grace = 0.5\n", data)
    made = World(tmp_path)
    yield made
    disk.make_room()
    made.close()


def fill_and_submit(world: World, disk: Disk, counts: list[int]) -> None:
    """Submit until that is refused, with the number of jobs before each: retention may just have given room back."""
    for _ in range(8):
        counts.append(len(world.client.jobs(100)))
        disk.fill()
        world.submit()


@as_root
def test_on_a_full_disk_a_submission_is_refused_what_runs_goes_on_and_all_is_told_later(
    small_world: World, disk: Disk
) -> None:
    world = small_world
    gate = world.gate()
    running = world.submit("for number in range(100_000): print('a long line', number)", gate=gate)
    running.until_it_says("begun")
    counts: list[int] = []
    with pytest.raises(UnavailableError, match=r"cannot be written: .*full.*[Ff]ree some space") as refusal:
        fill_and_submit(world, disk, counts)
    assert refusal.value.field == "data_dir"
    assert len(world.client.jobs(100)) == counts[-1], "nothing is half-created"
    gate.touch()
    record = next(Path(os.path.realpath(world.data / "clusters")).glob(f"*/algo-1/spool/{running.id}"))
    eventually_blocking((record / "end.json").exists, "the code went on to its end", within=PATIENCE)
    assert world.client.job(running.id).ended_at is None
    disk.make_room()
    ended = running.wait()
    assert (ended.state, running.runs()) == (SecondaryStatus.COMPLETED, 1), ended.failure_reason
    log = (world.data / "jobs" / running.id / "logs" / "algo-1.log").read_bytes()
    assert log.endswith(b"done\n")
    assert not (record / "log").exists() or (record / "log").stat().st_size == 0, "a long log lies there once"
    assert log.count(b"a long line") == 100_000
    assert world.run().why().startswith("Warm: ")


@as_root
def test_outputs_that_do_not_fit_wait_for_room_and_the_job_says_so(small_world: World, disk: Disk) -> None:
    world = small_world
    world.warm()
    job = world.submit(
        "open(os.environ['SM_MODEL_DIR'] + '/m', 'wb').write(os.urandom(12 * 2**20))", gate=(gate := world.gate())
    )
    job.until_it_says("begun")
    disk.fill(but=3 * MIB)
    gate.touch()
    told = job.until(lambda record: "waits" in record.transitions[-1].status_message, "the record says that it waits")
    assert told.transitions[-1].status_message == "Finalizing waits for free disk space."
    assert str(disk.path) not in told.transitions[-1].status_message
    disk.make_room()
    ended = job.wait()
    assert (ended.state, ended.failure_reason) == (SecondaryStatus.COMPLETED, "")
    assert [artifact.size > 12 * MIB for artifact in ended.artifacts] == [True]


@as_root
def test_variables_that_do_not_fit_are_refused_in_the_kernel_and_leave_no_half_file(
    small_world: World, disk: Disk
) -> None:
    small_world.warm()
    disk.fill(but=MIB)
    payloads = small_world.data / "payloads"
    before = {*payloads.glob("*")} if payloads.exists() else set()
    with pytest.raises(UnavailableError, match="No space left"):
        payload.pack({"table": os.urandom(8 * MIB)}, payloads)
    assert {*payloads.glob("*")} == before


# The data folder

NOBODY = 65_534


def refusal_of(data: Path, *, uid: int = 0) -> str:
    """Give what a controller says that cannot start in a folder, as the user with that number."""
    # Nor the packages: what reading a command line imports when it first does is imported before.
    app.ControllerApp().parse_command_line([])
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.dup2(writer, 2)
            sys.stderr = os.fdopen(2, "w")
            os.environ[VARIABLE] = str(data)
            # This environment, and its configuration with it, may lie where the other user may not look.
            vars(app)["jupyter_config_path"] = list
            if uid:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(uid)
            code = app.main([])
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as said:
        words = said.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1, words
    assert "Traceback" not in words
    return words


def test_a_data_folder_that_is_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = refusal_of(tmp_path / "file")
    assert str(tmp_path / "file") in said
    assert VARIABLE in said


@as_root
@pytest.mark.parametrize(("owner", "says"), [(NOBODY, "Permission denied"), (1, "it belongs to another user")])
def test_a_data_folder_that_is_read_only_or_somebody_elses_is_said(owner: int, says: str) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as top:
        os.chmod(top, 0o755)  # noqa: PTH101, S103
        data = Path(top) / "smx"
        data.mkdir()
        os.chown(data, owner, NOBODY)
        data.chmod(0o555)
        (data / "controller.lock").touch(mode=0o400)
        said = refusal_of(data, uid=NOBODY)
    assert str(data) in said
    assert says in said


# The records


def spoilt(path: Path, how: str) -> None:
    """Damage records in one of the ways in which disks and people do it."""
    if how == "a page in the middle":
        with path.open("r+b") as file:
            for page in range(2, path.stat().st_size // 4096):
                file.seek(page * 4096)
                file.write(b"\xde\xad" * 2048)
    elif how == "cut in half":
        os.truncate(path, path.stat().st_size // 2 // 4096 * 4096 + 100)
    elif how == "no tables":
        raw = sqlite3.connect(path)
        raw.execute("DROP TABLE jobs")
        raw.commit()
        raw.close()
    else:
        path.write_bytes(b"My diary, part one. " * 1000)


def recorded(world: World) -> Path:
    """Give a file with the records of 50 jobs."""
    controller_launch.ensure_folders()
    path = world.data / "smx.sqlite"
    store = Store.open(path)
    spec = JobSpec(kind="train", source="x = 1\n" * 500, base_name="t")
    store.write([Job(id=f"{n:032x}", name=f"t-{n}", spec=spec, created_at=float(n), cluster="x") for n in range(50)])
    store.checkpoint()
    store.close()
    return path


def test_records_that_are_none_are_left_out_and_stay_as_they_are(world: World) -> None:
    path = recorded(world)
    raw = sqlite3.connect(path)
    raw.execute("UPDATE jobs SET record = '{\"id\": 7}', summary = '7'")
    raw.commit()
    assert world.controller()
    assert world.client.jobs() == ()
    assert "unreadable record skipped" in controller_launch.log_path().read_text()
    assert raw.execute("SELECT count(*) FROM jobs WHERE record = '{\"id\": 7}'").fetchone() == (50,)
    raw.close()


def check_untouched(path: Path, how: str, content: bytes) -> None:
    """Check that damaged records are there as they were; to look for a table that is missing writes to them."""
    assert path.exists()
    if how != "no tables":
        assert path.read_bytes() == content, "not a byte of it was changed"


@pytest.mark.parametrize("how", ["a page in the middle", "cut in half", "no tables", "a diary"])
def test_damaged_records_are_said_and_never_touched(own_world: World, how: str) -> None:
    path = recorded(own_world)
    spoilt(path, how)
    content = path.read_bytes()
    said = refusal_of(own_world.data)
    assert str(path) in said, said
    check_untouched(path, how, content)


def test_a_kernel_says_that_records_are_damaged_and_the_cure_works(own_world: World) -> None:
    path = recorded(own_world)
    spoilt(path, "a diary")
    content = path.read_bytes()
    with pytest.raises(UnavailableError) as refusal:
        own_world.client.controller_info()
    said = str(refusal.value)
    assert str(path) in said, said
    assert "Traceback" not in said
    check_untouched(path, "a diary", content)
    log = controller_launch.log_path().read_text()
    assert "Traceback" not in log, log[-2000:]
    # The cure that it names works: moved away, and a new one begins.
    for each in own_world.data.glob("smx.sqlite*"):
        shutil.move(each, own_world.folder / f"old-{each.name}")
    assert own_world.controller()


def run_cut(path: Path, cut: str) -> None:
    """Open records in a process that ``cut`` makes kill itself."""
    lines = (
        "import os, pathlib",
        "from alembic import command",
        "from jupyter_smx.controller.db import connection",
        cut,
        f"connection.connect(pathlib.Path({str(path)!r}))",
    )
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False
    )
    assert done.returncode == -9


def test_a_migration_that_is_cut_off_leaves_the_records_of_before(tmp_path: Path) -> None:
    """Killed in the middle of an upgrade: the next controller finds the old version whole and upgrades it."""
    path = tmp_path / "smx.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        connection.migrate(raw, REVISIONS[0])
        before = raw.execute("SELECT * FROM sqlite_master").fetchall()
    run_cut(
        path,
        "upgrade = command.upgrade\n"
        "def cut(*arguments):\n"
        "    upgrade(*arguments)\n"
        "    os.kill(os.getpid(), 9)\n"
        "command.upgrade = cut",
    )
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("SELECT * FROM sqlite_master").fetchall() == before, "nothing of it is there"
        assert raw.execute("SELECT version_num FROM alembic_version").fetchall() == [(REVISIONS[0],)]
    store = Store.open(path)
    assert store.epoch == 1
    store.close()


def test_a_creation_that_is_cut_off_leaves_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "smx.sqlite"
    run_cut(path, "connection.WRITE_VERSION.run = lambda *_, **__: os.kill(os.getpid(), 9)")
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,), "nothing of it is there"
    store = Store.open(path)
    assert store.epoch == 1
    store.close()


def test_tables_that_somebody_made_by_hand_are_refused_with_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "smx.sqlite"
    raw = sqlite3.connect(path)
    raw.execute("CREATE TABLE jobs (id TEXT)")
    raw.commit()
    raw.close()
    with pytest.raises(UnavailableError, match="already exists"):
        connection.connect(path)
    assert controller_launch_errors.START_LIMIT > 0
