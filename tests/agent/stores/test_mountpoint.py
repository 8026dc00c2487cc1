"""FastFile by ``mount-s3``: a program of that name stands for it, since it cannot be had from a package index.

What it is called with is what Mountpoint documents for a device that is open already; behind it rclone serves that.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.stores import fuse_mount
from jupyter_smx.testing.servers.object_storage import rclone

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from far_side import Agent

    from jupyter_smx.testing.servers.object_storage import Bucket

LOOK = """
import errno, json, os
top = os.environ["SM_CHANNEL_TRAIN"]
kinds = [row.split() for row in open("/proc/self/mounts") if top in row]
try:
    open(top + "/new", "w")
except OSError as error:
    refused = errno.errorcode[error.errno]
print(json.dumps({"names": sorted(os.listdir(top)), "b": open(top + "/sub/b").read(), "refused": refused,
    "kind": kinds[-1][2]}))
"""
PROGRAM = """#!/bin/sh
[ "$1" = --version ] && {{ echo "mount-s3 {version}"; exit; }}
printf '%s\\n' "$@" > {folder}/words
readlink "/proc/self/fd/${{2#/dev/fd/}}" > {folder}/device
exec {rclone} mount "smx:$1/d" /opt/ml/input --read-only --allow-non-empty --config /dev/null
"""


def install(folder: Path, version: str) -> Path:
    """Put a program there that has the name, the version and the ways of Mountpoint."""
    folder.mkdir()
    program = folder / "mount-s3"
    program.write_text(PROGRAM.format(version=version, folder=folder, rclone=rclone()))
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize(("version", "kind"), [("1.14.0", "fuse.mount-s3"), ("1.13.9", "fuse.rclone")])
def test_it_serves_a_folder_of_s3_where_it_is_installed_and_takes_a_device(
    start_agent: Callable[..., Agent], far_folder: Path, bucket: Bucket, version: str, kind: str
) -> None:
    if not os.access(fuse_mount.DEVICE, os.R_OK | os.W_OK):
        pytest.skip("this machine has no FUSE")
    for key in ("d/a", "d/sub/b", "dx/e"):
        bucket.put(key, key)
    programs = install(far_folder / "bin", version)
    search = f"{programs}{os.pathsep}{os.environ['PATH']}"
    host = start_agent(isolate=True, parent=far_folder, environment={"PATH": search})
    if host.greeting["isolation"]["mode"] != "namespace":
        pytest.skip("no namespaces here")
    channels = [{"name": "train", "source": "s3://bucket/d/", "mode": "FastFile"}]
    record = host.run(LOOK, channels=channels, environment=bucket.environment)
    assert record["notes"] == []
    assert json.loads(record["text"]) == {"names": ["a", "sub"], "b": "d/sub/b", "refused": "EROFS", "kind": kind}
    assert bucket.read_keys() == ["d/sub/b"], "only what is read is fetched"
    assert (programs / "words").exists() == (version == "1.14.0")
    if version == "1.14.0":
        told, device, *words = (programs / "words").read_text().splitlines()
        assert (told, device[:8], (programs / "device").read_text()) == ("bucket", "/dev/fd/", "/dev/fuse\n")
        assert words == [
            "--read-only",
            "--foreground",
            "--prefix=d/",
            "--region=us-east-1",
            f"--endpoint-url={bucket.environment['AWS_ENDPOINT_URL']}",
            "--force-path-style",
        ]
    host.serves()


@pytest.mark.parametrize(
    ("source", "given", "words"),
    [
        ("s3://b", {}, ["b", "/dev/fd/", "--read-only", "--foreground"]),
        ("s3://b/x/y/", {}, ["b", "/dev/fd/", "--read-only", "--foreground", "--prefix=x/y/"]),
        (
            "s3a://b/x",
            {"AWS_DEFAULT_REGION": "eu-west-1"},
            ["b", "/dev/fd/", "--read-only", "--foreground", "--prefix=x/", "--region=eu-west-1"],
        ),
    ],
)
def test_a_prefix_ends_with_a_slash_and_a_bucket_has_none(source: str, given: dict[str, str], words: list[str]) -> None:
    assert fuse_mount.mount_s3_command("/bin/mount-s3", source, given) == ["/bin/mount-s3", *words]


def test_one_that_cannot_say_its_version_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert fuse_mount.find_mount_s3() == ""
    (tmp_path / "mount-s3").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "mount-s3").chmod(0o755)
    assert fuse_mount.find_mount_s3() == ""
    assert "rclone is not installed" in fuse_mount.mount_obstacle("s3://b/", "")
    (tmp_path / "mount-s3").write_text("#!/bin/sh\necho mount-s3 2.0.1\n")
    assert fuse_mount.find_mount_s3() == str(tmp_path / "mount-s3")
    assert "rclone" not in fuse_mount.mount_obstacle("s3://b/", "")
    assert "rclone is not installed" in fuse_mount.mount_obstacle("gs://b/", "")
