"""The front's port and key: both are drawn once for a data folder and stay the same, because kernels have them."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import string
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from jupyter_smx import controller_launch
from jupyter_smx.model.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

HOST = "127.0.0.1"
URL_PREFIX = f"http://{HOST}:"
"""Start of the address of each front."""
_NAME = "aws.json"
KEY_PREFIX = "SMX"
"""Start of each access key of a front; those of AWS begin with another word."""
_KEY_LETTERS = string.ascii_uppercase + string.digits
_SECRET_LETTERS = string.ascii_letters + string.digits
_KEY_DIGITS, _SECRET_DIGITS = 17, 40
_ONLY_OWNER = 0o600
_MAX_PORT = 65_535
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST_PORT, _END_PORT = 20_000, 32_768
_DRAWS = 100


class Endpoint(msgspec.Struct, frozen=True):
    """Where the front listens, and the one key that it takes."""

    port: int
    access_key: str
    secret_key: str

    @property
    def url(self) -> str:
        """The address that clients use."""
        return f"{URL_PREFIX}{self.port}"

    def __repr__(self) -> str:
        """Return a text without the secret key."""
        return f"Endpoint(port={self.port}, access_key={self.access_key!r})"


def endpoint_path(chosen: Path | None = None) -> Path:
    """Return the file; it is in the data folder that the user chose, since buckets are there, too."""
    return (chosen or controller_launch.chosen_data_dir()) / _NAME


def free_port(below: Callable[[int], int] = secrets.randbelow, ephemeral: Path = _EPHEMERAL) -> int:
    """Draw a port that no process listens on now, below those that the system gives to connections.

    A port of the system's own range may be a connection's whenever the front starts again. ``below`` draws a number
    below its argument.
    """
    ports = range(_FIRST_PORT, _first_ephemeral(ephemeral))
    for _ in range(_DRAWS if ports else 0):
        port = ports[below(len(ports))]
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((HOST, port))
            return port
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _first_ephemeral(path: Path) -> int:
    """Return the first port that the system itself gives away; Linux names it in a file."""
    try:
        return min(int(path.read_text(encoding="ascii").split()[0]), _END_PORT)
    except (OSError, ValueError, IndexError):
        return _END_PORT


def random_text(letters: str, length: int) -> str:
    """Return random letters that no other user can guess."""
    return "".join(secrets.choice(letters) for _ in range(length))


def read_endpoint(path: Path | None = None) -> Endpoint | None:
    """Return the endpoint of a data folder; None while there is none.

    :raises UnavailableError: the file cannot be read or is not one of these.
    """
    path = path or endpoint_path()
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Endpoint)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise _file_error(path, getattr(error, "strerror", None) or "it is not what jupyter_smx wrote") from error
    if not 0 < found.port <= _MAX_PORT:
        raise _file_error(path, f"{found.port} is not a port")
    return found


def ensure_endpoint(
    path: Path | None = None,
    port: Callable[[], int] = free_port,
    random: Callable[[str, int], str] = random_text,
) -> Endpoint:
    """Return the endpoint of a data folder; draw its port and key if there is none. Of several processes one does.

    :raises UnavailableError: the file cannot be read or written.
    """
    path = path or endpoint_path()
    found = read_endpoint(path)
    if found is not None:
        return found
    drawn = Endpoint(
        port(), f"{KEY_PREFIX}{random(_KEY_LETTERS, _KEY_DIGITS)}", random(_SECRET_LETTERS, _SECRET_DIGITS)
    )
    draft = path.with_name(f".{_NAME}.{random(_SECRET_LETTERS, 8)}")
    try:
        draft.write_bytes(b"")
        draft.chmod(_ONLY_OWNER)
        draft.write_bytes(msgspec.json.encode(drawn) + b"\n")
        # A link is made whole or not at all, and not over another process's.
        os.link(draft, path)
    except FileExistsError:
        pass
    except OSError as error:
        raise _file_error(path, error.strerror or str(error)) from error
    finally:
        draft.unlink(missing_ok=True)
    return read_endpoint(path) or drawn


def _file_error(path: Path, reason: str) -> UnavailableError:
    return UnavailableError(
        f"{path} cannot be used: {reason}.",
        field="data_dir",
        value=path,
        rule="It holds the port and the key of the front for clients of AWS.",
        cure=f"Make {path.parent} writable; if the file itself is broken, delete it, run `jupyter smx aws start`, and "
        "set the variables again.",
    )
