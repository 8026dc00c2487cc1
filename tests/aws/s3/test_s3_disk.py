"""What the disk has after faults: other machines' files, full disks, short writes, and failed renames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.aws.s3.storage.layout import S3Storage
from jupyter_smx.aws.s3.storage.temporary_file import TemporaryFile, remove_temporary_files

if TYPE_CHECKING:
    from pathlib import Path


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
