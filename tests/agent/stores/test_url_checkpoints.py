"""Checkpoints at a URL: a real object store, real hosts, and what becomes of them when either of the two goes away."""

from __future__ import annotations

import hashlib
import io
from typing import TYPE_CHECKING, Any

import pytest
from far_side import FOREVER, SAVES_AT_ITS_END

from jupyter_smx.agent.errors import CHANGED, DONE
from jupyter_smx.agent.stores import filesystems, scan, upload
from jupyter_smx.agent.system.processes import process
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from far_side import Agent

    from jupyter_smx.testing.servers.object_storage import Bucket

pytestmark = pytest.mark.heavy("stores")

URL = "s3://bucket/kept"
TWO_ROUNDS = 12
"""Connections, of which s3fs makes five before it gives up."""
FOLDER = "import os, sys\nfolder = os.environ['SM_MODEL_DIR'].replace('/model', '/checkpoints/')\n"
COUNTS = FOLDER + (
    "path = folder + 'deep/count'\n"
    "count = int(open(path).read()) if os.path.exists(path) else 0\n"
    "print(count)\n"
    "os.makedirs(folder + 'deep', exist_ok=True)\n"
    "open(path, 'w').write(str(count + 1))\n"
)
SAVE = FOLDER + "open(folder + 'step', 'w').write('1')\n"


@pytest.fixture(params=[True, False], ids=["a world of its own", "variables"])
def host(request: pytest.FixtureRequest) -> Agent:
    """Give a host that mounts, and one that does not."""
    found: Agent = request.getfixturevalue("isolated" if request.param else "agent")
    return found


def kept(bucket: Bucket) -> dict[str, str]:
    top = bucket.folder / "kept"
    whole = [path for path in sorted(top.rglob("*")) if not path.name.startswith(".rclone_temp")]  # half written
    return {path.relative_to(top).as_posix(): path.read_text() for path in whole if path.is_file()}


def wish(bucket: Bucket) -> dict[str, Any]:
    return {"checkpoint": URL, "environment": bucket.environment}


def test_a_job_finds_what_the_one_before_it_left(host: Agent, bucket: Bucket) -> None:
    for expected in range(3):
        record = host.run(COUNTS, **wish(bucket))
        assert (record["text"], record["errors"], record["notes"]) == (f"{expected}\n", [], [])
    assert kept(bucket) == {"deep/count": "3"}


def test_another_host_goes_on_from_them_and_writes_none_again(
    start_agent: Callable[..., Agent], bucket: Bucket
) -> None:
    assert start_agent().run(COUNTS, **wish(bucket))["text"] == "0\n"
    look = FOLDER + "print(open(folder + 'deep/count').read(), os.stat(folder + 'deep/count').st_mtime_ns)"
    before = (bucket.folder / "kept/deep/count").stat().st_mtime_ns
    text, when = start_agent().run(look, **wish(bucket))["text"].split()
    assert text == "1"
    assert abs(int(when) - before) < 2e9, "it has the time of the object, which is in seconds"
    assert (bucket.folder / "kept/deep/count").stat().st_mtime_ns == before


def test_they_are_kept_while_the_job_runs_and_what_is_deleted_goes(agent: Agent, bucket: Bucket) -> None:
    bucket.put("kept/old", "0")
    bucket.put("kept-not", "of another prefix")
    source = SAVE + "os.unlink(folder + 'old')\n" + FOREVER
    job, lease = agent.start(source, **wish(bucket))
    agent.wait_for_log(job, "on")
    eventually_blocking(lambda: kept(bucket) == {"step": "1"}, "the checkpoint is kept while the job runs")
    bucket.put("kept/later", "of somebody else")
    agent.stop(job, lease)
    assert agent.end_of(job)["errors"] == []
    assert kept(bucket) == {"later": "of somebody else", "step": "1"}
    assert (bucket.folder / "kept-not").exists()


@pytest.mark.parametrize("cause", ["stopped", "interrupted"])
def test_what_a_script_saves_when_it_is_told_to_end_is_kept(agent: Agent, bucket: Bucket, cause: str) -> None:
    job, lease = agent.start(FOLDER + SAVES_AT_ITS_END, **wish(bucket))
    agent.wait_for_log(job, "on")
    agent.stop(job, lease, cause=cause)
    assert agent.end_of(job)["cause"] == cause
    assert kept(bucket) == {"last": "saved"}


def test_a_large_file_comes_whole_and_goes_back_whole(agent: Agent, bucket: Bucket) -> None:
    size = 40_000_003
    """More than two blocks."""
    write = FOLDER + f"open(folder + 'model.pt', 'wb').write(bytes(range(256)) * {size // 256} + b'end')\n"
    assert agent.run(write, **wish(bucket))["errors"] == []
    content = (bucket.folder / "kept/model.pt").read_bytes()
    assert content == bytes(range(256)) * (size // 256) + b"end"
    look = FOLDER + "import hashlib; print(hashlib.sha256(open(folder + 'model.pt', 'rb').read()).hexdigest())"
    assert agent.run(look, **wish(bucket))["text"].strip() == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("size", [3, 40_000_003])
def test_of_a_file_that_changes_while_it_is_read_nothing_is_seen(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    for name, value in bucket.environment.items():
        monkeypatch.setenv(name, value)
    # A courier is a process of its own; here the one before is remembered, with a server that is gone.
    pytest.importorskip("s3fs").S3FileSystem.clear_instance_cache()
    bucket.put("kept/model.pt", "the last whole one")
    path = tmp_path / "model.pt"
    path.write_bytes(b"x" * size)
    read: list[int] = []

    class Growing(io.FileIO):
        """A file to which another process still writes while it is read."""

        def read(self, size: int | None = -1, /) -> bytes | None:
            data = super().read(-1 if size is None else size)
            with path.open("ab") as file:
                file.write(b"" if read else b"more")
            read.append(len(data or b""))
            return data

    before = scan.read_stamp(str(path))
    with monkeypatch.context() as patch:
        patch.setattr(upload, "open", lambda name, _mode: Growing(name), raising=False)
        assert upload.upload(URL, [[str(path), "model.pt", before]]) == [(CHANGED, "")]
    assert read[0] == min(size, 1 << 24), "it was read as it was at first"
    assert kept(bucket) == {"model.pt": "the last whole one"}
    now = scan.read_stamp(str(path))
    assert upload.upload(URL, [[str(path), "model.pt", now]]) == [(DONE, "")]
    assert (bucket.folder / "kept" / "model.pt").stat().st_size == size + 4
    assert not filesystems.find_filesystem(URL)[0].transaction.files, "fsspec holds none of them in memory"


def test_hosts_of_a_job_share_the_prefix(start_agent: Callable[..., Agent], bucket: Bucket) -> None:
    hosts = [start_agent(host=name, hosts=["algo-1", "algo-2"]) for name in ("algo-1", "algo-2")]
    source = FOLDER + "name = os.environ['SM_CURRENT_HOST']\nopen(folder + name, 'w').write(name)\n"
    for one in hosts:
        assert one.run(source, **wish(bucket))["errors"] == []
    assert kept(bucket) == {"algo-1": "algo-1", "algo-2": "algo-2"}
    listed = FOLDER + "print(sorted(os.listdir(folder)))"
    assert hosts[0].run(listed, **wish(bucket))["text"] == "['algo-1', 'algo-2']\n"


def test_a_host_that_is_killed_leaves_what_it_had_kept_and_no_process(
    start_agent: Callable[..., Agent], bucket: Bucket
) -> None:
    first = start_agent()
    job, _ = first.start(COUNTS + FOREVER, **wish(bucket))
    first.wait_for_log(job, "on")
    eventually_blocking(lambda: kept(bucket) == {"deep/count": "1"}, "it is kept")
    first.process.kill()
    first.wait()
    eventually_blocking(first.is_over, "nothing of the host is alive, its courier neither")
    assert start_agent().run(COUNTS, **wish(bucket))["text"] == "1\n"
    assert kept(bucket) == {"deep/count": "2"}


def test_a_courier_that_is_killed_is_replaced(agent: Agent, bucket: Bucket) -> None:
    job, lease = agent.start(SAVE + FOREVER, **wish(bucket))
    agent.wait_for_log(job, "on")
    eventually_blocking(lambda: kept(bucket) == {"step": "1"}, "it is kept")
    couriers = [seen.pid for seen in agent.processes() if "courier" in seen.command]
    assert len(couriers) == 1
    process.kill(couriers)
    (agent.folder / "ml" / "checkpoints" / "late").write_text("2")
    agent.stop(job, lease)
    assert agent.end_of(job)["errors"] == []
    assert kept(bucket) == {"late": "2", "step": "1"}


def test_a_store_that_is_away_for_a_while_fails_nobody_and_is_told_of(agent: Agent, bucket: Bucket) -> None:
    given = {**bucket.environment, "AWS_MAX_ATTEMPTS": "1"}
    job, lease = agent.start(SAVE + FOREVER, checkpoint=URL, environment=given)
    agent.wait_for_log(job, "on")
    eventually_blocking(lambda: kept(bucket) == {"step": "1"}, "it is kept")
    bucket.proxy.disconnect()
    folder = agent.folder / "ml" / "checkpoints"
    (folder / "late").write_text("2")
    (folder / "step").unlink()
    eventually_blocking(lambda: bucket.proxy.refused_count > TWO_ROUNDS, "it is tried again", within=60)
    assert kept(bucket) == {"step": "1"}
    bucket.proxy.restore()
    eventually_blocking(lambda: kept(bucket) == {"late": "2"}, "all is as in the job", within=60)
    agent.stop(job, lease)
    record = agent.end_of(job)
    assert record["errors"] == []
    (note,) = record["notes"]
    assert note.startswith("checkpoint: the store did not answer between ")
    assert "cannot be reached" in note


def test_a_store_that_is_away_before_the_start_is_waited_for(agent: Agent, bucket: Bucket) -> None:
    bucket.put("kept/deep/count", "7")
    bucket.proxy.disconnect()
    job, _ = agent.start(COUNTS, checkpoint=URL, environment={**bucket.environment, "AWS_MAX_ATTEMPTS": "1"})
    eventually_blocking(lambda: bucket.proxy.refused_count > TWO_ROUNDS, "it is tried again", within=60)
    bucket.proxy.restore()
    assert agent.end_of(job)["errors"] == []
    assert agent.log(job) == "7\n"
    assert kept(bucket) == {"deep/count": "8"}


@pytest.mark.parametrize(
    ("place", "changes", "said"),
    [
        ("s3://elsewhere/kept", {}, "checkpoint: s3://elsewhere/kept: the bucket, object or server does not exist"),
        (URL, {"AWS_SECRET_ACCESS_KEY": "x" * 40}, f"checkpoint: {URL}: access is denied"),
        ("nosuch://x/y", {}, "fsspec does not support 'nosuch'"),
    ],
)
def test_a_place_that_cannot_be_used_is_refused_before_the_code_begins(
    agent: Agent, bucket: Bucket, place: str, changes: dict[str, str], said: str
) -> None:
    record = agent.run("print('ran')", checkpoint=place, environment={**bucket.environment, **changes})
    assert (record["cause"], record["text"]) == ("refused", "")
    assert said in record["failure"]
    agent.serves()
