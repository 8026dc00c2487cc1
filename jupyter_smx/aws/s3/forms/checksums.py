"""Compute and compare the checksums that S3 verifies: Content-MD5 and ``x-amz-checksum-…``."""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
import importlib
import zlib
from typing import TYPE_CHECKING, Any, Protocol

from jupyter_smx.aws.service import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PREFIX = "x-amz-checksum-"
ALGORITHMS = {"crc32": 4, "crc32c": 4, "crc64nvme": 8, "sha1": 20, "sha256": 32}
"""Algorithms and the number of bytes of their values."""
MEMBERS = {name: f"Checksum{name.upper()}" for name in ALGORITHMS}
"""The members of XML that hold a checksum."""
REFLECTED = {"crc32c": (0x82F63B78, 32), "crc64nvme": (0x9A6C9329AC4BC9B5, 64)}
"""Reflected polynomials and bits of the sums that no module of the standard library computes."""


class RunningChecksum(Protocol):
    """A checksum over pieces, with the methods of ``hashlib``."""

    def update(self, data: bytes, /) -> Any:
        """Add a piece."""

    def digest(self) -> bytes:
        """Return the value over all pieces."""


class CyclicChecksum:
    """A cyclic redundancy check over pieces."""

    def __init__(self, extend: Callable[[int, bytes], int], size: int) -> None:
        self._extend = extend
        self._size = size
        self._value = 0

    def update(self, data: bytes, /) -> None:
        """Add a piece."""
        self._value = self._extend(self._value, data)

    def digest(self) -> bytes:
        """Return the value over all pieces, the most significant byte first."""
        return self._value.to_bytes(self._size, "big")


def start_checksum(name: str) -> RunningChecksum:
    """Return a new running checksum of an algorithm."""
    if name == "md5":
        return hashlib.md5(usedforsecurity=False)
    if name == "sha1":
        return hashlib.sha1(usedforsecurity=False)
    if name == "sha256":
        return hashlib.sha256()
    return CyclicChecksum(_extend_function(name), ALGORITHMS[name])


@functools.cache
def _extend_function(name: str) -> Callable[[int, bytes], int]:
    """Return the function that adds a piece to a sum: that of a library where there is one, since Python's is slow."""
    if name == "crc32":
        return lambda value, data: zlib.crc32(data, value)
    libraries: list[tuple[str, Callable[[Any, int, bytes], int]]] = [
        ("awscrt.checksums", lambda module, value, data: int(getattr(module, name)(data, value)))
    ]
    if name == "crc32c":
        libraries.append(("google_crc32c", lambda module, value, data: int(module.extend(value, data))))
    for library, extend in libraries:
        if (module := _import(library)) is not None:
            return functools.partial(extend, module)
    return functools.partial(extend_by_table, name)


def _import(library: str) -> Any:
    try:
        return importlib.import_module(library)
    except ImportError:
        return None


@functools.cache
def _table(polynomial: int) -> tuple[int, ...]:
    values = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (polynomial if value & 1 else 0)
        values.append(value)
    return tuple(values)


def extend_by_table(name: str, value: int, data: bytes) -> int:
    """Add a piece to a reflected sum in plain Python, at some 10 MB/s."""
    polynomial, bits = REFLECTED[name]
    table, ones = _table(polynomial), (1 << bits) - 1
    value ^= ones
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ ones


def is_quick(name: str) -> bool:
    """Return True if an algorithm is computed by compiled code."""
    if name not in REFLECTED:
        return True
    function = _extend_function(name)
    return not (isinstance(function, functools.partial) and function.func is extend_by_table)


def encode(digest: bytes) -> str:
    """Return a checksum as headers and XML have it."""
    return base64.b64encode(digest).decode()


def expected_checksums(headers: Mapping[str, str]) -> dict[str, bytes]:
    """Return the checksums that headers or trailers name, ``md5`` among them; raise AwsError for malformed values."""
    expected = {}
    if (md5 := headers.get("content-md5")) is not None:
        expected["md5"] = _decode("Content-MD5", md5, 16)
    for name, size in ALGORITHMS.items():
        if (value := headers.get(PREFIX + name)) is not None:
            expected[name] = _decode(PREFIX + name, value, size)
    return expected


def trailer_algorithms(headers: Mapping[str, str]) -> list[str]:
    """Return the algorithms of the checksums that a header announces for the trailer."""
    names = [name.strip().lower().removeprefix(PREFIX) for name in headers.get("x-amz-trailer", "").split(",")]
    return [name for name in names if name in ALGORITHMS]


def _decode(header: str, value: str, size: int) -> bytes:
    try:
        digest = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        digest = b""
    if len(digest) != size:
        code = "InvalidDigest" if header == "Content-MD5" else "InvalidRequest"
        raise AwsError(code, f"Value for {header} header is invalid: {value!r} is not {size} bytes in Base64.")
    return digest


def bad_digest(name: str) -> AwsError:
    """Return the error of a checksum that differs from the client's."""
    label = "Content-MD5" if name == "md5" else name.upper()
    return AwsError("BadDigest", f"The {label} you specified did not match the calculated checksum.")
