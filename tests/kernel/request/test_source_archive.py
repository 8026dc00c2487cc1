"""Archives of source folders: any tool reads them, and equal files make equal bytes."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.kernel.request import source_archive
from jupyter_smx.kernel.request.source_archive import SourceFile, file_state

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PIECE = source_archive._PIECE


def noise(size: int) -> bytes:
    """Make bytes that cannot be compressed, the same ones each time."""
    return hashlib.shake_128(b"noise").digest(size)


CONTENTS: dict[str, Mapping[str, bytes]] = {
    "nothing": {},
    "small": {"a.py": b"a = 1\n", "empty": b""},
    "text": {"a.csv": b"1,2,3\n" * 700_000},
    "noise": {"weights.bin": noise(3 * PIECE + 17)},
    "mixed": {"a.py": b"a = 1\n", "b.bin": noise(PIECE), "c.csv": b"1,2\n" * 900_000, "d.bin": noise(5)},
    "a piece": {"a.bin": noise(PIECE - 3 * 512 - 10_240 + 512)},
}


def describe(folder: Path, contents: Mapping[str, bytes]) -> list[SourceFile]:
    for name, data in contents.items():
        (folder / name).write_bytes(data)
    return [SourceFile(name, str(folder / name), file_state((folder / name).stat())) for name in contents]


def fail(file: SourceFile, error: OSError) -> Exception:
    return AssertionError(f"{file.name}: {error}")


def archive(files: list[SourceFile]) -> bytes:
    sink = io.BytesIO()
    assert source_archive.write(files, sink, fail)
    return sink.getvalue()


@pytest.mark.parametrize("mode", ["r:gz", "r|gz"], ids=["as a file", "as a stream"])
@pytest.mark.parametrize("contents", CONTENTS.values(), ids=CONTENTS)
def test_an_archive_has_the_files_whole(tmp_path: Path, contents: Mapping[str, bytes], mode: str) -> None:
    data = archive(describe(tmp_path, contents))
    found = {}
    with tarfile.open(fileobj=io.BytesIO(data), mode=mode) as opened:  # type: ignore[call-overload]  # one of its modes
        for member in opened:
            found[member.name] = opened.extractfile(member).read()
    assert found == contents
    gzip.decompress(data)  # which compares the checksum and the size


def test_the_number_of_threads_changes_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = describe(tmp_path, CONTENTS["mixed"])
    first = archive(files)
    monkeypatch.setattr(source_archive, "_THREADS", 1)
    assert archive(files) == first


def test_text_is_compressed_and_noise_is_not_made_larger(tmp_path: Path) -> None:
    assert len(archive(describe(tmp_path, CONTENTS["text"]))) < 100_000
    size = 3 * PIECE + 17
    assert size < len(archive(describe(tmp_path, CONTENTS["noise"]))) < size + 10_000


def test_a_file_that_changed_since_it_was_seen_is_reported(tmp_path: Path) -> None:
    files = describe(tmp_path, CONTENTS["small"])
    (tmp_path / "a.py").write_bytes(b"b = 22\n")
    assert not source_archive.write(files, io.BytesIO(), fail)


def test_a_full_disk_is_no_fault_of_a_file(tmp_path: Path) -> None:
    class Full(io.BytesIO):
        def write(self, _data: object) -> int:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        source_archive.write(describe(tmp_path, CONTENTS["text"]), Full(), fail)
