"""Store uploads in parts, each part a file beside the buckets, until they become one object."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from jupyter_smx.aws.s3.storage import metadata_files
from jupyter_smx.aws.s3.storage.disk_errors import translated
from jupyter_smx.aws.s3.storage.object_files import format_etag
from jupyter_smx.aws.s3.storage.part_slot import ClaimTable, JoinedFile, PartSlot
from jupyter_smx.aws.s3.storage.temporary_file import TemporaryFile
from jupyter_smx.aws.service import AwsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_smx.aws.s3.storage.layout import S3Storage

UPLOAD_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
PART_RECORD = re.compile(r"(\d{5})\.json", re.ASCII)
RECORD = "upload.json"
SIZE_RECORD = "part-size.json"
DATA = "data"
"""The file in which parts of one size have the places that they have in the object."""
MIN_SLOT = 5 * 1024 * 1024
"""Bytes of the smallest part that is not the last, so that a short last part never sets the size."""
_claims = ClaimTable()


@dataclass(frozen=True)
class UploadPart:
    """A part as it is on the disk."""

    number: int
    path: str
    size: int
    modified: float
    etag: str
    checksums: dict[str, str]
    offset: int = 0
    """Where its bytes begin in the file."""
    is_placed: bool = False
    """True if its bytes are at their place in the file of the upload."""


@dataclass(frozen=True)
class PartStore:
    """The uploads in parts of one bucket."""

    storage: S3Storage
    bucket: str

    @property
    def folder(self) -> str:
        """Return the folder of all uploads of the bucket, which may not exist."""
        return f"{self.storage.state_path(self.bucket)}/uploads"

    def create(self, record: dict[str, Any]) -> str:
        """Begin an upload and return its id; ``record`` has its key and metadata."""
        upload_id = self.storage.new_id()
        with translated():
            os.makedirs(f"{self.folder}/{upload_id}")
            metadata_files.write_json(f"{self.folder}/{upload_id}/{RECORD}", record, self.storage.new_id())
        return upload_id

    def record(self, upload_id: str, key: str | None = None) -> dict[str, Any]:
        """Return what ``create`` got; raise AwsError (404) for no upload of the key."""
        valid = UPLOAD_ID.fullmatch(upload_id) is not None
        record = metadata_files.read_json(f"{self.folder}/{upload_id}/{RECORD}") if valid else {}
        if not record or (key is not None and record["key"] != key):
            message = "The specified upload does not exist. The upload may have been aborted or completed."
            raise AwsError("NoSuchUpload", message, 404)
        return record

    def uploads(self) -> list[tuple[str, dict[str, Any]]]:
        """Return ids and records of all uploads, by key and time."""
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        records = [(name, metadata_files.read_json(f"{self.folder}/{name}/{RECORD}")) for name in names]
        found = [(name, record) for name, record in records if record]
        return sorted(found, key=lambda upload: (upload[1]["key"], upload[1]["initiated"]))

    def open_part(self, upload_id: str, number: int, length: int | None) -> TemporaryFile | PartSlot:
        """Return a file for the body of a part: its place in the object where its size is that of the others."""
        upload = f"{self.folder}/{upload_id}"
        with translated():
            if length is None or length != self._part_size(upload, length) or not _claims.claim(upload, number):
                return TemporaryFile(self.storage)
            release = partial(_claims.release, upload, number)
            try:
                # A part that is stored stays until the new one is verified, so it is not written over.
                if not os.path.exists(f"{upload}/{number:05}.json"):
                    return PartSlot(f"{upload}/{DATA}", (number - 1) * length, length, release)
            except OSError:
                release()
                raise
            release()
            return TemporaryFile(self.storage)

    def _part_size(self, upload: str, length: int) -> int:
        """Return the size of placed parts, which the first long enough part sets."""
        size = metadata_files.read_json(f"{upload}/{SIZE_RECORD}").get("size", 0)
        if not size and length >= MIN_SLOT:
            with contextlib.suppress(FileExistsError):
                metadata_files.create_json(f"{upload}/{SIZE_RECORD}", {"size": length})
            size = metadata_files.read_json(f"{upload}/{SIZE_RECORD}").get("size", 0)
        return int(size)

    def put(self, upload_id: str, number: int, file: TemporaryFile | PartSlot, checksums: dict[str, str]) -> UploadPart:
        """Make a complete file a part, replacing one of the same number."""
        path = f"{self.folder}/{upload_id}/{number:05}"
        fields: dict[str, Any] = {"checksums": checksums}
        if isinstance(file, PartSlot):
            if file.size != file.length:
                raise AwsError("IncompleteBody", f"The body has {file.size} bytes, and {file.length} were announced.")
            placed = {"offset": file.offset, "size": file.size, "modified": self.storage.clock()}
            fields |= {**placed, "etag": f'"{self.storage.new_id()}"'}
        with translated():
            try:
                if isinstance(file, TemporaryFile):
                    file.move(path)
                metadata_files.write_json(f"{path}.json", fields, self.storage.new_id(), makes_folder=False)
            except FileNotFoundError:
                self.record(upload_id)  # aborted meanwhile
                raise
        return self._part(f"{self.folder}/{upload_id}", number)

    def parts(self, upload_id: str) -> dict[int, UploadPart]:
        """Return the parts of an upload by number, in order."""
        folder = f"{self.folder}/{upload_id}"
        with translated():
            numbers = sorted(int(match[1]) for name in os.listdir(folder) if (match := PART_RECORD.fullmatch(name)))
            return {number: self._part(folder, number) for number in numbers}

    def _part(self, folder: str, number: int) -> UploadPart:
        path = f"{folder}/{number:05}"
        record = metadata_files.read_json(f"{path}.json")
        checksums = record.get("checksums", {})
        if "offset" in record:
            facts = (record["size"], record["modified"], record["etag"], checksums, record["offset"], True)
            return UploadPart(number, f"{folder}/{DATA}", *facts)
        stat = os.stat(path)
        return UploadPart(number, path, stat.st_size, stat.st_mtime, format_etag(stat), checksums)

    @contextlib.contextmanager
    def joined(self, upload_id: str, parts: list[UploadPart]) -> Iterator[TemporaryFile]:
        """Give a file with the bytes of all parts; they stay parts unless the file is moved.

        Parts at their places are not copied, unless others are among them that a failure must not lose.
        """
        upload = f"{self.folder}/{upload_id}"
        is_quiet = _claims.begin_completion(upload)
        try:
            count = count_placed(parts)
            others = [part for part in self.parts(upload_id).values() if part.is_placed and part not in parts[:count]]
            with translated():
                if count and is_quiet and not others:
                    file: TemporaryFile = JoinedFile(f"{upload}/{DATA}", sum(part.size for part in parts[:count]))
                else:
                    file, count = TemporaryFile(self.storage), 0
            try:
                _append(parts[count:], file)
                yield file
            finally:
                file.discard()
        finally:
            _claims.end_completion(upload)

    def remove(self, upload_id: str) -> None:
        """Remove an upload with its parts."""
        shutil.rmtree(f"{self.folder}/{upload_id}", ignore_errors=True)


def count_placed(parts: list[UploadPart]) -> int:
    """Return how many of the first parts lie at their places one after the other."""
    end = 0
    for count, part in enumerate(parts):
        if not part.is_placed or part.offset != end:
            return count
        end += part.size
    return len(parts)


def _append(parts: list[UploadPart], file: TemporaryFile) -> None:
    with translated():
        for part in parts:
            descriptor = os.open(part.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                file.append_range(descriptor, part.offset, part.size)
            finally:
                os.close(descriptor)
