"""What the disk has after faults: other machines' files, full disks, short writes, and failed renames."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from jupyter_smx.aws.s3.storage import metadata_files
from jupyter_smx.aws.s3.storage.layout import S3Storage
from jupyter_smx.aws.s3.storage.temporary_file import TemporaryFile, remove_temporary_files

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import S3Server


def make_storage(root: Path, machine: str = "here") -> S3Storage:
    return S3Storage(root, lambda: 0.0, lambda: f"{0:032x}", machine)


def test_a_start_removes_no_upload_of_another_machine(tmp_path: Path) -> None:
    files = [TemporaryFile(make_storage(tmp_path, machine)) for machine in ("here", "there", "../odd")]
    paths = [tmp_path / file.path for file in files]
    remove_temporary_files(tmp_path, "here")
    assert [path.exists() for path in paths] == [False, True, True]
    assert len({path.parent.parent for path in paths}) == 1, "no name of a machine leaves the folder"
    for file in files:
        file.discard()


def test_an_object_that_cannot_be_replaced_keeps_its_metadata(
    client: Any, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.put_object(Bucket="data", Key="a", Body=b"old", Metadata={"version": "1"})
    replace = os.replace

    def fail(source: str, target: str) -> None:
        if target == str(s3.path("data", "a")):
            raise OSError(errno.EIO, "Input/output error")
        replace(source, target)

    for metadata in ({"version": "2"}, {}):
        with monkeypatch.context() as patched:
            patched.setattr(os, "replace", fail)
            with pytest.raises(ClientError):
                client.put_object(Bucket="data", Key="a", Body=b"new", Metadata=metadata)
        found = client.get_object(Bucket="data", Key="a")
        assert (found["Body"].read(), found["Metadata"]) == (b"old", {"version": "1"})
    assert len(list((s3.root / ".smx/buckets/data/objects").glob("*/*"))) == 1, "no temporary file is left"


def test_a_file_of_state_is_whole_after_short_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda descriptor, data: write(descriptor, bytes(data[:3])))
        metadata_files.write_json(str(tmp_path / "state.json"), {"key": "model"}, "new")
    assert metadata_files.read_json(str(tmp_path / "state.json")) == {"key": "model"}
