"""Receive the body of a request: decode it, compute and compare its checksums, and write it to a file or memory."""

from __future__ import annotations

import hmac
import re
from typing import TYPE_CHECKING

from jupyter_smx.aws.s3.forms import checksums
from jupyter_smx.aws.s3.forms.aws_chunked import ChunkDecoder
from jupyter_smx.aws.s3.storage.disk_errors import translated
from jupyter_smx.aws.service import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jupyter_smx.aws.s3.storage.part_slot import PartSlot
    from jupyter_smx.aws.s3.storage.temporary_file import TemporaryFile
    from jupyter_smx.aws.signing.chunks import ChunkSignatures

HEX_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
UNSIGNED = "UNSIGNED-PAYLOAD"
SIGNED_CHUNKS = ("STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER")
UNSIGNED_CHUNKS = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
MAX_DOCUMENT = 8 * 1024 * 1024
"""Bytes of a body that is a document: a list of 10,000 parts with checksums has about 2 MB."""
MAX_SLOW = 4 * 1024 * 1024
"""Bytes up to which a checksum is computed that only plain Python can compute: about half a second."""


class ReceivedBody:
    """A body; its methods block, and callers call them one after the other.

    ``file`` gets the bytes of an object; without it, the body is a document in memory.
    """

    def __init__(
        self,
        headers: Mapping[str, str],
        file: TemporaryFile | PartSlot | None,
        chunk_signatures: Callable[[], ChunkSignatures],
    ) -> None:
        self.file = file
        self.checksums: dict[str, str] = {}
        """The verified checksums in Base64, by algorithm; complete after ``finish``."""
        self.size = 0
        self._document = bytearray()
        self._headers = headers
        self._payload = headers.get("x-amz-content-sha256", UNSIGNED)
        self._decoder = self._make_decoder(chunk_signatures)
        self._expected = checksums.expected_checksums(headers)
        self._trailer_names = checksums.trailer_algorithms(headers)
        names = {*self._expected, *self._trailer_names}
        if HEX_SHA256.fullmatch(self._payload):
            names.add("sha256")
        size = int(headers.get("content-length") or 0)
        self._sums = {
            name: checksums.start_checksum(name) for name in names if size <= MAX_SLOW or checksums.is_quick(name)
        }

    def _make_decoder(self, chunk_signatures: Callable[[], ChunkSignatures]) -> ChunkDecoder | None:
        if self._payload == UNSIGNED or HEX_SHA256.fullmatch(self._payload):
            return None
        if self._payload == UNSIGNED_CHUNKS:
            return ChunkDecoder()
        if self._payload in SIGNED_CHUNKS:
            return ChunkDecoder(chunk_signatures(), has_trailer=self._payload == SIGNED_CHUNKS[1])
        message = f"x-amz-content-sha256 is {self._payload!r}, which is no digest and no encoding known to S3."
        raise AwsError("InvalidArgument", message)

    @property
    def document(self) -> bytes:
        """Return a body without a file."""
        return bytes(self._document)

    def feed(self, pieces: Sequence[bytes]) -> None:
        """Add pieces as they came from the wire; raise AwsError for a malformed one or a full disk."""
        if self._decoder is not None:
            pieces = [self._decoder.feed(piece) for piece in pieces]
        for piece in pieces:
            self.size += len(piece)
            for running in self._sums.values():
                running.update(piece)
        if self.file is not None:
            with translated():
                self.file.write(pieces)
            return
        if self.size > MAX_DOCUMENT:
            raise AwsError("MaxMessageLengthExceeded", f"The body is larger than {MAX_DOCUMENT} bytes.")
        for piece in pieces:
            self._document += piece

    def finish(self) -> None:
        """Compare length and checksums; raise AwsError where the body is not what the client sent or signed."""
        expected = dict(self._expected)
        if self._decoder is not None:
            self._decoder.finish()
            expected.update(checksums.expected_checksums(self._decoder.trailers))
            length = self._headers.get("x-amz-decoded-content-length")
            if length is not None and length != str(self.size):
                message = f"The body has {self.size} bytes, and x-amz-decoded-content-length says {length}."
                raise AwsError("IncompleteBody", message)
            if missing := [name for name in self._trailer_names if name not in expected]:
                raise AwsError("MalformedTrailerError", f"The trailer has no x-amz-checksum-{missing[0]}.")
        digests = {name: running.digest() for name, running in self._sums.items()}
        if HEX_SHA256.fullmatch(self._payload) and not hmac.compare_digest(digests["sha256"].hex(), self._payload):
            raise AwsError(
                "XAmzContentSHA256Mismatch",
                "The provided 'x-amz-content-sha256' header does not match what was computed: the body was changed.",
                403,
            )
        for name, value in expected.items():
            if name in digests and not hmac.compare_digest(digests[name], value):
                raise checksums.bad_digest(name)
        verified = (name for name in expected if name in digests and name in checksums.ALGORITHMS)
        self.checksums = {name: checksums.encode(digests[name]) for name in verified}

    @property
    def is_open(self) -> bool:
        """Return True if there is a file that became no object yet."""
        return self.file is not None and self.file.is_open

    def discard(self) -> None:
        """Remove the file where it became no object."""
        if self.file is not None:
            self.file.discard()
