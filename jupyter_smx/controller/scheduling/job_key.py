"""Keys by which hosts of a job on several machines recognize each other.

They follow from one secret of the records, so that each host of a job gets the same key, also from the next controller.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECRET_FILE = "hosts.secret"  # noqa: S105 - the name of a file
"""File in the folder of the records."""
_ONLY_OWNER = 0o600
_LENGTH = 64

_log = logging.getLogger(__name__)


def derive_key(secret: str, job: str, cluster: str, lease: int) -> str:
    """Return the key of a job for one lease of a cluster; it says nothing about those of other jobs and attempts.

    Each cluster counts its leases, so a host of a lost attempt would have the key of the next one by the lease alone.
    """
    return hmac.new(secret.encode(), f"{job}/{cluster}/{lease}".encode(), hashlib.sha256).hexdigest()


def read_secret(path: Path, new_secret: Callable[[], str]) -> str:
    """Read the secret, which is written at the first call.

    :raises OSError: it can be neither read nor written.
    """
    text = _read(path)
    if len(text) == _LENGTH:
        return text
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _ONLY_OWNER)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(new_secret())
            file.flush()
            os.fsync(descriptor)
        temporary.replace(path)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
    return _read(path)


def _read(path: Path) -> str:
    with suppress(FileNotFoundError):
        return path.read_text(encoding="ascii")
    return ""


class JobKeys:
    """Gives out keys; the secret is read when a job first needs one."""

    def __init__(self, path: Path, new_secret: Callable[[], str] = lambda: secrets.token_hex(_LENGTH // 2)) -> None:
        self._path = path
        self._new_secret = new_secret
        self._secret = ""

    def key_of(self, job: str, cluster: str, lease: int) -> str:
        """Return the key of a job; "" if the secret cannot be read, so that its hosts say that they lack one."""
        try:
            self._secret = self._secret or read_secret(self._path, self._new_secret)
        except OSError as error:
            _log.warning("job=%s its hosts get no key for each other: %s", job, error)
            return ""
        return derive_key(self._secret, job, cluster, lease)
