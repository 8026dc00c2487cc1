"""Decode bodies in the encoding ``aws-chunked``, with or without signatures of chunks, and their trailers."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from jupyter_smx.aws.service import AwsError

if TYPE_CHECKING:
    from jupyter_smx.aws.signing.chunks import ChunkSignatures

CHUNK_LINE = re.compile(rb"([0-9a-fA-F]{1,16})(?:;chunk-signature=([0-9a-f]{64}))?(?:;.*)?", re.DOTALL)
MAX_LINE = 16 * 1024
"""Bytes of a line, and of all lines of a trailer."""
TRAILER_SIGNATURE = b"x-amz-trailer-signature"


class ChunkDecoder:
    """A decoder that gets a body in any pieces; ``signatures`` is None where chunks are not signed."""

    def __init__(self, signatures: ChunkSignatures | None = None, *, has_trailer: bool = False) -> None:
        self._signatures = signatures
        self._has_trailer = has_trailer
        self._buffer = bytearray()
        self._read = self._read_line
        self._missing = 0
        """Bytes of the present chunk that have not come."""
        self._digest = hashlib.sha256()
        self._signature = ""
        self._signed_trailer = bytearray()
        self._trailer_size = 0
        self._output: list[bytes] = []
        self.trailers: dict[str, str] = {}
        """The trailer's fields by name in lower case."""
        self.is_complete = False

    def feed(self, data: bytes) -> bytes:
        """Return the bytes that a piece of the body completes; raise AwsError where it is malformed or changed."""
        self._buffer += data
        while self._buffer and not self.is_complete and self._read():
            pass
        if self._buffer and self.is_complete:
            raise _malformed("bytes follow its end")
        output, self._output = b"".join(self._output), []
        return output

    def finish(self) -> None:
        """Raise AwsError where the body ended before its last chunk."""
        if not self.is_complete:
            raise AwsError("IncompleteBody", "The body ended before its last chunk.")

    def _take_line(self) -> bytes | None:
        end = self._buffer.find(b"\r\n")
        if end < 0 and len(self._buffer) > MAX_LINE:
            raise _malformed("a line is too long")
        if end < 0:
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    def _read_line(self) -> bool:
        line = self._take_line()
        if line is None:
            return False
        match = CHUNK_LINE.fullmatch(line)
        if match is None:
            raise _malformed("the size of a chunk is no hexadecimal number")
        self._missing = int(match[1], 16)
        self._signature = (match[2] or b"").decode()
        self._digest = hashlib.sha256()
        if self._missing:
            self._read = self._read_data
            return True
        self._check_chunk()
        self._read = self._read_trailer
        return True

    def _read_data(self) -> bool:
        piece = bytes(self._buffer[: self._missing])
        del self._buffer[: len(piece)]
        self._missing -= len(piece)
        if self._signatures is not None:
            self._digest.update(piece)
        self._output.append(piece)
        if not self._missing:
            self._check_chunk()
            self._read = self._read_end
        return True

    def _read_end(self) -> bool:
        if len(self._buffer) < len(b"\r\n"):
            return False
        if not self._buffer.startswith(b"\r\n"):
            raise _malformed("a chunk is longer than its size")
        del self._buffer[:2]
        self._read = self._read_line
        return True

    def _read_trailer(self) -> bool:
        line = self._take_line()
        if line is None:
            return False
        self._trailer_size += len(line)
        if self._trailer_size > MAX_LINE:
            raise _malformed("its trailer is too long")
        name, _, value = line.partition(b":")
        if name.lower() == TRAILER_SIGNATURE:
            self._check_trailer(value.strip().decode("latin-1"))
        elif line:
            self._signed_trailer += line + b"\n"
            self.trailers[name.decode("latin-1").strip().lower()] = value.decode("latin-1").strip()
        else:
            self._end()
        return True

    def _end(self) -> None:
        if self._signatures is not None and self._has_trailer and self._signed_trailer:
            raise _changed("trailer")  # a signature empties the list of lines that none covers
        self.is_complete = True

    def _check_chunk(self) -> None:
        signatures = self._signatures
        if signatures is not None and not signatures.is_valid_chunk(self._digest.hexdigest(), self._signature):
            raise _changed("chunk")

    def _check_trailer(self, signature: str) -> None:
        signatures = self._signatures
        if signatures is not None and not signatures.is_valid_trailer(bytes(self._signed_trailer), signature):
            raise _changed("trailer")
        self._signed_trailer.clear()


def _changed(part: str) -> AwsError:
    return AwsError("SignatureDoesNotMatch", f"The signature of a {part} of the body does not match.", 403)


def _malformed(reason: str) -> AwsError:
    return AwsError("InvalidRequest", f"The body is not in the form aws-chunked: {reason}.")
