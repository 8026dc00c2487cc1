"""Parse byte ranges of requests; a module of its own, so that its properties are tested without files."""

from __future__ import annotations

import re
from dataclasses import dataclass

from jupyter_smx.aws.service import AwsError

RANGE = re.compile(r"bytes=(\d{0,20})-(\d{0,20})", re.ASCII)
COPY_RANGE = re.compile(r"bytes=(\d{1,20})-(\d{1,20})", re.ASCII)


@dataclass(frozen=True)
class ByteRange:
    """The bytes from ``start`` to before ``stop``."""

    start: int
    stop: int

    @property
    def length(self) -> int:
        """Return the number of bytes."""
        return self.stop - self.start


def parse_range(header: str | None, size: int) -> ByteRange | None:
    """Return the range that a header ``Range`` asks of ``size`` bytes; None where the whole is the answer.

    As S3 does, ignore several ranges and malformed ones, and raise AwsError (416) for one without a byte in the object.
    """
    match = RANGE.fullmatch((header or "").replace(" ", ""))
    if match is None or match[0] == "bytes=-":
        return None
    first, last = match.groups()
    if not first:
        start, stop = max(0, size - int(last)), size
    elif last and int(last) < int(first):
        return None
    else:
        start, stop = int(first), min(size, int(last) + 1) if last else size
    if start >= stop:
        message = f"The range {header!r} has no byte of the object, whose size is {size}."
        raise AwsError("InvalidRange", message, 416)
    return ByteRange(start, stop)


def parse_copy_range(header: str | None, size: int) -> ByteRange:
    """Return the range of ``x-amz-copy-source-range``, which must lie in the source; without a header all of it."""
    if header is None:
        return ByteRange(0, size)
    match = COPY_RANGE.fullmatch(header)
    if match is None or int(match[1]) > int(match[2]) or int(match[2]) >= size:
        raise AwsError(
            "InvalidArgument",
            f"x-amz-copy-source-range is {header!r}; it must be bytes=<first>-<last> within the source's {size} bytes.",
        )
    return ByteRange(int(match[1]), int(match[2]) + 1)
