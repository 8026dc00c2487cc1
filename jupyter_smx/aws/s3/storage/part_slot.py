"""Write parts to their final place in the file that becomes the object, so that no byte is written twice."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jupyter_smx.aws.s3.storage.temporary_file import TemporaryFile
from jupyter_smx.aws.service import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass
class UploadClaims:
    """The parts of one upload that requests of this process write to their places."""

    numbers: set[int] = field(default_factory=set)
    is_completing: bool = False


class ClaimTable:
    """The claims of all uploads; only one front's clients have the id of an upload, so they need no file."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._uploads: dict[str, UploadClaims] = {}

    def claim(self, upload: str, number: int) -> bool:
        """Claim the place of a part; return False where another request has it, or the upload is being completed."""
        with self._lock:
            claims = self._uploads.setdefault(upload, UploadClaims())
            if claims.is_completing or number in claims.numbers:
                return False
            claims.numbers.add(number)
            return True

    def release(self, upload: str, number: int) -> None:
        """End a claim."""
        with self._lock:
            claims = self._uploads.get(upload)
            if claims is not None:
                claims.numbers.discard(number)
                self._drop(upload, claims)

    def begin_completion(self, upload: str) -> bool:
        """Refuse further claims; return False where parts are being written. Raise AwsError for a second completion."""
        with self._lock:
            claims = self._uploads.setdefault(upload, UploadClaims())
            if claims.is_completing:
                raise AwsError("OperationAborted", "Another request completes this upload; wait for it.", 409)
            claims.is_completing = True
            return not claims.numbers

    def end_completion(self, upload: str) -> None:
        """Allow claims again."""
        with self._lock:
            claims = self._uploads.get(upload)
            if claims is not None:
                claims.is_completing = False
                self._drop(upload, claims)

    def _drop(self, upload: str, claims: UploadClaims) -> None:
        if not claims.numbers and not claims.is_completing:
            del self._uploads[upload]


class PartSlot:
    """The place of one part in the file of its upload, with the methods of ``TemporaryFile`` that a body needs."""

    def __init__(self, path: str, offset: int, length: int, release: Callable[[], None]) -> None:
        self.offset = offset
        self.length = length
        self.size = 0
        self._release = release
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)

    @property
    def is_open(self) -> bool:
        """Return True until the part is stored or given up."""
        return self._descriptor >= 0

    def write(self, pieces: Sequence[bytes]) -> None:
        """Append pieces to the part; raise AwsError where they would reach into the next one."""
        for piece in pieces:
            view = memoryview(piece)
            if self.size + len(view) > self.length:
                raise AwsError("IncompleteBody", f"The body has more than the {self.length} bytes that were announced.")
            while view:
                written = os.pwrite(self._descriptor, view, self.offset + self.size)
                view = view[written:]
                self.size += written

    def discard(self) -> None:
        """Give the place back; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
            self._release()


class JoinedFile(TemporaryFile):
    """The file of an upload from which an object is made; ``discard`` takes back what was appended to its parts."""

    def __init__(self, path: str, size: int) -> None:
        self.path = path
        self.size = size
        self._parts_size = size
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        os.ftruncate(self._descriptor, size)
        os.lseek(self._descriptor, size, os.SEEK_SET)

    def discard(self) -> None:
        """Close the file; where it became no object, leave its parts as they were."""
        if self.path:
            os.ftruncate(self._descriptor, self._parts_size)
            self.path = ""
        super().discard()
