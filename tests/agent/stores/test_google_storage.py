"""Google Cloud Storage: channels, brought by gcsfs or mounted by rclone, and checkpoints, written by gcsfs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.stores import fuse_mount

if TYPE_CHECKING:
    from pathlib import Path

    from far_side import Agent

    from jupyter_smx.testing.servers.google_storage import GoogleBucket

pytestmark = pytest.mark.heavy("stores")

SEE = """
import json, os
top = os.environ["SM_CHANNEL_TRAIN"]
print(json.dumps(sorted(os.path.relpath(os.path.join(t, n), top) for t, _, names in os.walk(top) for n in names)))
"""
READ = "import os; print(open(os.environ['SM_CHANNEL_TRAIN'] + '/sub/b').read())"


def wish(source: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": "train", "source": source, **fields}]


@pytest.fixture
def full(google: GoogleBucket) -> GoogleBucket:
    for key in ("d/train/a", "d/train/sub/b", "d/train#2/c", "d/test"):
        google.put(key, key)
    return google


def test_a_prefix_of_google_is_brought_and_each_object_once(agent: Agent, full: GoogleBucket) -> None:
    for _time in range(2):
        seen = agent.json(SEE, channels=wish("gs://bucket/d/tr"), environment=full.environment)
        assert seen == ["train#2/c", "train/a", "train/sub/b"]
    assert full.read_keys() == ["d/train#2/c", "d/train/a", "d/train/sub/b"]


def test_a_folder_of_google_is_mounted(isolated: Agent, full: GoogleBucket) -> None:
    if not os.access(fuse_mount.DEVICE, os.R_OK | os.W_OK):
        pytest.skip("this machine has no FUSE")
    channels = wish("gs://bucket/d/train/", mode="FastFile")
    record = isolated.run(SEE + READ, channels=channels, environment=full.environment)
    assert record["notes"] == []
    names, text = record["text"].splitlines()
    assert (json.loads(names), text) == (["a", "sub/b"], "d/train/sub/b")
    assert full.read_keys() == ["d/train/sub/b"]


def test_an_object_of_google_may_take_long_and_its_server_may_not_be_silent_for_ever(full: GoogleBucket) -> None:
    code = """
from jupyter_smx.agent.stores import fsspec_worker
from jupyter_smx.agent.stores import filesystems
patience = filesystems.find_filesystem("gs://bucket/d/test")[0].requests_timeout
print(fsspec_worker.read_object("gs://bucket/d/test"), patience.total, patience.sock_read)
"""
    given = {**os.environ, **full.environment}
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True, env=given)
    assert done.stdout == "d/test None 300.0\n"


def test_what_is_no_folder_of_google_is_brought(isolated: Agent, full: GoogleBucket) -> None:
    record = isolated.run(SEE, channels=wish("gs://bucket/d/tr", mode="FastFile"), environment=full.environment)
    assert len(json.loads(record["text"])) == 3
    assert "FastFile cannot mount gs://bucket/d/tr here" in record["notes"][0]


COUNTS = (
    "import os\n"
    "path = os.environ['SM_MODEL_DIR'].replace('/model', '/checkpoints/deep/count')\n"
    "count = int(open(path).read()) if os.path.exists(path) else 0\n"
    "print(count)\n"
    "os.makedirs(os.path.dirname(path), exist_ok=True)\n"
    "open(path, 'w').write(str(count + 1))\n"
)
KEEP = """
import json, sys
from jupyter_smx.agent.stores import scan
from jupyter_smx.agent.stores import upload
path = sys.argv[1]
before = scan.read_stamp(path)
with open(path, "ab") as file:
    file.write(b"more")
for stamp in (before, scan.read_stamp(path)):
    print(upload.upload("gs://bucket/kept", [[path, "deep/model.pt", stamp]])[0].status)
    print(json.dumps([name for name, _changed in upload.list_files("gs://bucket/kept")["rows"]]))
print(*(one.status for one in upload.delete("gs://bucket/kept", ["deep/model.pt", "deep/never"])))
"""


def test_checkpoints_are_kept_in_google_and_found_there(agent: Agent, google: GoogleBucket) -> None:
    for expected in range(3):
        record = agent.run(COUNTS, checkpoint="gs://bucket/kept", environment=google.environment)
        assert (record["text"], record["errors"], record["notes"]) == (f"{expected}\n", [], [])
    assert (google.keys(), (google.folder / "kept/deep/count").read_text()) == (["kept/deep/count"], "3")


@pytest.mark.parametrize("size", [3, 40_000_003])
def test_of_a_file_that_changes_nothing_is_seen_in_google_and_no_upload_is_left(
    google: GoogleBucket, tmp_path: Path, size: int
) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(b"x" * size)
    given = {**os.environ, **google.environment}
    words = [sys.executable, "-c", KEEP, str(path)]
    said = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=given).stdout
    assert said.splitlines() == ["changed", "[]", "done", '["deep/model.pt"]', "done done"]
    assert (google.keys(), google.uploads) == ([], {})
    sent = [one for one in google.requests if one.startswith(("/resume/", "/upload/"))]
    assert len(sent) == (1 if size == 3 else 2 * 5)
