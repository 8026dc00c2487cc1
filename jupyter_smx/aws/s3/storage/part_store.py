"""Store uploads in parts, each part a file beside the buckets, until they become one object."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_smx.aws.s3.storage import metadata_files
from jupyter_smx.aws.s3.storage.disk_errors import translated
from jupyter_smx.aws.s3.storage.object_files import format_etag
from jupyter_smx.aws.service import AwsError

if TYPE_CHECKING:
    from jupyter_smx.aws.s3.storage.layout import S3Storage
    from jupyter_smx.aws.s3.storage.temporary_file import TemporaryFile

UPLOAD_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
PART_FILE = re.compile(r"\d{5}", re.ASCII)
RECORD = "upload.json"


@dataclass(frozen=True)
class UploadPart:
    """A part as it is on the disk."""

    number: int
    path: str
    size: int
    modified: float
    etag: str
    checksums: dict[str, str]


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

    def put(self, upload_id: str, number: int, file: TemporaryFile, checksums: dict[str, str]) -> UploadPart:
        """Make a complete file a part, replacing one of the same number."""
        path = f"{self.folder}/{upload_id}/{number:05}"
        stat = file.stat()
        with translated():
            try:
                metadata_files.write_json(f"{path}.json", checksums, self.storage.new_id())
                file.move(path)
            except FileNotFoundError:
                self.record(upload_id)  # aborted meanwhile
                raise
        return UploadPart(number, path, stat.st_size, stat.st_mtime, format_etag(stat), checksums)

    def parts(self, upload_id: str) -> dict[int, UploadPart]:
        """Return the parts of an upload by number, in order."""
        folder = f"{self.folder}/{upload_id}"
        with translated():
            names = sorted(name for name in os.listdir(folder) if PART_FILE.fullmatch(name))
            return {int(name): self._part(folder, name) for name in names}

    def _part(self, folder: str, name: str) -> UploadPart:
        path = f"{folder}/{name}"
        stat = os.stat(path)
        checksums = metadata_files.read_json(f"{path}.json")
        return UploadPart(int(name), path, stat.st_size, stat.st_mtime, format_etag(stat), checksums)

    def join(self, parts: list[UploadPart], file: TemporaryFile) -> None:
        """Append parts to a file, by the kernel; the parts stay, so that a full disk loses nothing."""
        with translated():
            for part in parts:
                descriptor = os.open(part.path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    file.append_range(descriptor, 0, part.size)
                finally:
                    os.close(descriptor)

    def remove(self, upload_id: str) -> None:
        """Remove an upload with its parts."""
        shutil.rmtree(f"{self.folder}/{upload_id}", ignore_errors=True)
