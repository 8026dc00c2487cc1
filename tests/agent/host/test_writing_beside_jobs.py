"""What an agent writes where jobs can write, too: it blocks on no pipe, and follows no link to another file."""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.channels import pack_outputs
from jupyter_smx.agent.host.spool import Spool
from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.agent.system.files.host_layout import END_RECORD
from jupyter_smx.agent.system.processes.event_loop import Loop
from jupyter_smx.agent.system.resources import disk
from jupyter_smx.agent.telemetry import sampler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from far_side import Agent

PRECIOUS = "the user's own"


@pytest.fixture
def precious(tmp_path: Path) -> Iterator[Path]:
    """Make a file that must not change."""
    path = tmp_path / "precious"
    path.write_text(PRECIOUS)
    yield path
    assert path.read_text() == PRECIOUS


@pytest.fixture(params=["a pipe", "a pipe that somebody reads", "a link", "a link that leads nowhere", "a socket"])
def put(request: pytest.FixtureRequest, precious: Path) -> Iterator[Callable[[Path], None]]:
    """Return a function that puts something in the place of a file, as a job may."""
    opened: list[int] = []

    def put_there(path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if request.param == "a socket":
            with socket.socket(socket.AF_UNIX) as made:
                os.chdir(path.parent)  # the whole path is too long for a socket
                made.bind(path.name)
        elif "link" in request.param:
            path.symlink_to(precious.parent / "lost" if "nowhere" in request.param else precious)
        else:
            os.mkfifo(path)
            if "reads" in request.param:
                opened.append(os.open(path, os.O_RDONLY | os.O_NONBLOCK))

    before = os.getcwd()  # noqa: PTH109 - as text
    yield put_there
    os.chdir(before)
    for fd in opened:
        os.close(fd)
    assert not (precious.parent / "lost").exists()


def test_the_record_of_an_end_is_a_file(tmp_path: Path, put: Callable[[Path], None]) -> None:
    spool = Spool(str(tmp_path / "spool"))
    put(tmp_path / "spool" / "job" / f"{END_RECORD}.part")
    record = {"job": "job"}
    spool.write_record("job", record)
    assert spool.record("job") == record
    assert not (tmp_path / "spool" / "job" / END_RECORD).is_symlink()


def test_what_is_held_back_for_last_words_is_a_file(tmp_path: Path, put: Callable[[Path], None]) -> None:
    put(tmp_path / "spool" / ".reserve")
    disk.keep_reserve(str(tmp_path / "spool"))
    assert (tmp_path / "spool" / ".reserve").lstat().st_size == 1 << 18


def test_a_link_to_a_file_as_large_holds_nothing_back(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(1 << 18))
    (tmp_path / ".reserve").symlink_to("large")
    disk.keep_reserve(str(tmp_path))
    assert not (tmp_path / ".reserve").is_symlink()


def test_samples_go_nowhere_else(tmp_path: Path, put: Callable[[Path], None]) -> None:
    told: list[dict[str, float]] = []
    put(tmp_path / "spool" / host_layout.SAMPLES)
    one = sampler.Sampler(Loop(), str(tmp_path / "spool"), str(tmp_path), lambda: [os.getpid()], told.append)
    one.start(os.getpid())
    one._take_first()
    one.finish()
    assert told, "they are told all the same"


def test_an_archive_is_a_file(tmp_path: Path, put: Callable[[Path], None]) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").touch()
    put(tmp_path / "job" / "model.tar.gz.part")
    assert pack_outputs.pack(str(tmp_path / "model"), str(tmp_path / "job" / "model.tar.gz")) == []
    assert (tmp_path / "job" / "model.tar.gz").lstat().st_size > 0


@pytest.mark.parametrize("harm", ["os.mkfifo(path)", "os.symlink(PRECIOUS, path)"])
def test_a_job_that_puts_other_things_where_its_host_writes_harms_nobody(
    agent: Agent, precious: Path, harm: str
) -> None:
    source = f"""
import os
open(os.environ["SM_MODEL_DIR"] + "/weights", "w").close()
folder = os.path.dirname(os.readlink("/proc/self/fd/1"))
os.makedirs(folder + "/artifacts", exist_ok=True)
for name in ("samples", "end.json.part", "../.reserve", "artifacts/model.tar.gz.part"):
    path = os.path.join(folder, name)
    while True:
        if os.path.lexists(path): os.unlink(path)
        try: {harm.replace("PRECIOUS", repr(str(precious)))}
        except FileExistsError: continue  # its host wrote there meanwhile
        break
"""
    record = agent.run(source)
    assert (record["cause"], record["exit_code"], record["errors"]) == ("exit", 0, [])
    assert [one["name"] for one in record["artifacts"]] == ["model.tar.gz"]
    assert json.loads(agent.read(record["job"], END_RECORD))["job"] == record["job"]
    assert agent.run("print('next')")["text"] == "next\n"
