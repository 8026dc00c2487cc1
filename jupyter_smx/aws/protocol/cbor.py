"""Read and write CBOR as ``smithy-rpc-v2-cbor`` has it: the protocol that CloudWatch's model lists first."""

from __future__ import annotations

import struct
from datetime import datetime
from typing import TYPE_CHECKING, Any

from jupyter_smx.aws.protocol.json_form import read_document, write_document
from jupyter_smx.aws.protocol.values import read_epoch, serialization_error, write_epoch

if TYPE_CHECKING:
    from collections.abc import Callable

_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _ARRAY, _MAP, _TAG, _SIMPLE = range(8)
_EPOCH_TAG = 1
_INDEFINITE = 31
_BREAK = 0xFF
_SIMPLE_VALUES = {20: False, 21: True, 22: None, 23: None}
_FLOATS = {25: ">e", 26: ">f", 27: ">d"}
_MAX_SMALL = 24
_MAX_DEPTH = 64


def parse_cbor(shape: Any, body: bytes) -> dict[str, Any]:
    """Return the members of a body.

    :raises AwsError: it is not CBOR, or a member has another type.
    """
    return read_document(shape, _Reader(body).read() if body else {})


def format_cbor(shape: Any, members: dict[str, Any]) -> bytes:
    """Return the body of an answer."""
    return encode_cbor(write_document(shape, members))


class _Reader:
    """Reads one item after another of a body."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0
        self._readers: dict[int, Callable[[int, int], Any]] = {
            _UNSIGNED: lambda info, _: self._number(info),
            _NEGATIVE: lambda info, _: -1 - self._number(info),
            _BYTES: lambda info, _: self._bytes(info),
            _TEXT: lambda info, _: self._text(info),
            _ARRAY: self._array,
            _MAP: self._map,
            _TAG: self._tag,
            _SIMPLE: lambda info, _: self._simple(info),
        }

    def read(self, depth: int = 0) -> Any:
        """Return the next item.

        :raises AwsError: the body ends too early, is nested too deeply, or has an item that AWS does not use.
        """
        if depth > _MAX_DEPTH:
            raise serialization_error("The body of the request is nested too deeply.")
        first = self._take(1)[0]
        return self._readers[first >> 5](first & 0x1F, depth)

    def _take(self, count: int) -> bytes:
        found = self._body[self._at : self._at + count]
        if len(found) < count:
            raise serialization_error("The body of the request is not CBOR: it ends too early.")
        self._at += count
        return found

    def _number(self, info: int) -> int:
        if info < _MAX_SMALL:
            return info
        if info > _MAX_SMALL + 3:
            raise serialization_error("The body of the request is not CBOR: a length has no known form.")
        return int.from_bytes(self._take(1 << (info - _MAX_SMALL)), "big")

    def _has_break(self) -> bool:
        if self._body[self._at : self._at + 1] != bytes([_BREAK]):
            return False
        self._at += 1
        return True

    def _bytes(self, info: int) -> bytes:
        if info != _INDEFINITE:
            return self._take(self._number(info))
        pieces = []
        while not self._has_break():
            pieces.append(self._take(self._number(self._take(1)[0] & 0x1F)))
        return b"".join(pieces)

    def _text(self, info: int) -> str:
        try:
            return self._bytes(info).decode()
        except UnicodeDecodeError as error:
            raise serialization_error("The body of the request has text that is not UTF-8.") from error

    def _array(self, info: int, depth: int) -> list[Any]:
        if info != _INDEFINITE:
            return [self.read(depth + 1) for _ in range(self._number(info))]
        items = []
        while not self._has_break():
            items.append(self.read(depth + 1))
        return items

    def _map(self, info: int, depth: int) -> dict[str, Any]:
        items: dict[str, Any] = {}
        left = None if info == _INDEFINITE else self._number(info)
        while not self._has_break() if left is None else left > 0:
            key = self.read(depth + 1)
            if not isinstance(key, str):
                raise serialization_error("The body of the request has a key that is no text.")
            items[key] = self.read(depth + 1)
            left = None if left is None else left - 1
        return items

    def _tag(self, info: int, depth: int) -> Any:
        tag, value = self._number(info), self.read(depth + 1)
        if tag != _EPOCH_TAG or isinstance(value, bool) or not isinstance(value, int | float):
            raise serialization_error("The body of the request has a CBOR tag other than that of a time.")
        return read_epoch(value)

    def _simple(self, info: int) -> Any:
        if info in _SIMPLE_VALUES:
            return _SIMPLE_VALUES[info]
        form = _FLOATS.get(info)
        if form is None:
            raise serialization_error("The body of the request has a CBOR value that AWS does not use.")
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]


def encode_cbor(value: Any) -> bytes:
    """Return one item; members that are None are left out.

    :raises TypeError: CBOR has no such value here.
    """
    for kind, write in _WRITERS:
        if isinstance(value, kind):
            return write(value)
    raise TypeError(f"CBOR has no {type(value).__name__}")


def _head(major: int, size: int) -> bytes:
    if size < _MAX_SMALL:
        return bytes([major << 5 | size])
    width = next(width for width in range(4) if size < 1 << (8 << width))
    return bytes([major << 5 | _MAX_SMALL + width]) + size.to_bytes(1 << width, "big")


def _encode_bool(value: bool) -> bytes:
    return bytes([_SIMPLE << 5 | (21 if value else 20)])


def _encode_integer(value: int) -> bytes:
    return _head(_UNSIGNED, value) if value >= 0 else _head(_NEGATIVE, -1 - value)


def _encode_float(value: float) -> bytes:
    return bytes([_SIMPLE << 5 | 27]) + struct.pack(">d", value)


def _encode_time(value: datetime) -> bytes:
    return _head(_TAG, _EPOCH_TAG) + encode_cbor(write_epoch(value))


def _encode_text(value: str) -> bytes:
    encoded = value.encode()
    return _head(_TEXT, len(encoded)) + encoded


def _encode_bytes(value: bytes) -> bytes:
    return _head(_BYTES, len(value)) + value


def _encode_list(value: list[Any]) -> bytes:
    return _head(_ARRAY, len(value)) + b"".join(map(encode_cbor, value))


def _encode_map(value: dict[str, Any]) -> bytes:
    members = {key: item for key, item in value.items() if item is not None}
    return _head(_MAP, len(members)) + b"".join(_encode_text(key) + encode_cbor(item) for key, item in members.items())


_WRITERS: tuple[tuple[type, Callable[[Any], bytes]], ...] = (
    (bool, _encode_bool),
    (int, _encode_integer),
    (float, _encode_float),
    (str, _encode_text),
    (bytes, _encode_bytes),
    (datetime, _encode_time),
    (dict, _encode_map),
    (list, _encode_list),
    (tuple, _encode_list),
)
