"""One archive of those that several hosts wrote."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

from jupyter_smx.agent.channels import archive
from jupyter_smx.controller.transfer.merge_archives import merge

if TYPE_CHECKING:
    from pathlib import Path

LONG = "the name of more than a hundred letters, which a header of its own has, " * 2


def packed(tmp_path: Path, host: str, linked: str) -> Path:
    """Give what a host packs of a checkpoint, and of a second name of it unless that is ""."""
    folder, path = tmp_path / host, tmp_path / f"{host}.tar.gz"
    folder.mkdir()
    (folder / "checkpoint").write_text(f"of {host}")
    if linked:
        (folder / linked).hardlink_to(folder / "checkpoint")
        (folder / LONG).hardlink_to(folder / "checkpoint")
    assert archive.pack(str(folder), str(path)) == []
    return path


def test_a_second_name_of_a_file_keeps_its_content_where_another_host_has_the_first(tmp_path: Path) -> None:
    archives = [packed(tmp_path, "algo-1", "last"), packed(tmp_path, "algo-2", "")]
    merge(archives, tmp_path / "merged")
    with tarfile.open(tmp_path / "merged") as merged:
        found = {one.name: merged.extractfile(one).read() for one in merged}  # type: ignore[union-attr]
    assert found == {"checkpoint": b"of algo-2", "last": b"of algo-1", LONG: b"of algo-1"}
