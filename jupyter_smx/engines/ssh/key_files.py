"""Find private keys that need a passphrase, which no person types into an ssh of the controller."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_BEGIN, _END = b"-----BEGIN OPENSSH PRIVATE KEY-----", b"-----END"
_MAGIC = b"openssh-key-v1\0"
_NO_CIPHER = b"\0\0\0\x04none"
_MAX_SIZE = 65_536


def find_locked_key(paths: Iterable[str]) -> str:
    """Return the first of these files that is a private key with a passphrase, "" if there is none."""
    return next((path for path in paths if has_passphrase(_read(Path(path).expanduser()))), "")


def has_passphrase(key: bytes) -> bool:
    """Return True if the text of a private key is encrypted; False if it is not, or is no private key."""
    if _BEGIN not in key:
        return b"PRIVATE KEY-----" in key and (b"ENCRYPTED" in key)
    text = key.partition(_BEGIN)[2].partition(_END)[0]
    try:
        data = base64.b64decode(text)
    except binascii.Error:
        return False
    return data.startswith(_MAGIC) and not data[len(_MAGIC) :].startswith(_NO_CIPHER)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_SIZE)
    except OSError:
        return b""
