"""Connections between the hosts of a job; across machines both sides prove that they have the key of the job.

The key is never sent. Each side sends random bytes, and a code (HMAC) of those of both sides by the key. Each later
frame has a code by a key of the connection and the frame's number: nothing can be changed, added or repeated on the
way. Frames are not encrypted.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import socket
import time
from typing import Callable

from jupyter_smx.agent import wire

_NONCE = 32
_CODE = hashlib.sha256().digest_size
_LISTENER, _CONNECTOR, _FRAMES, _SECRET = b"listener", b"connector", b"frames", b"secret"
PROOF_TIMEOUT = 10.0
"""Seconds in which a host that listens must prove that it has the key; it may have other visitors before."""
VISITOR_TIMEOUT = 2.0
"""Seconds in which a visitor must prove it: a host does so at once and would come again, and others may wait."""
_IDLE, _INTERVAL, _PROBES = 30, 10, 3
"""Seconds until a silent machine is asked whether it is there, and between and number of such questions."""


class AuthenticationError(OSError):
    """The other side does not have the key of the job, or something changed its words."""


def derive(key: str, purpose: str) -> str:
    """Return a secret for one purpose, which every host of the job can compute and no other program."""
    return _code(key.encode(), _SECRET, purpose.encode()).hex()


def _code(key: bytes, *parts: bytes) -> bytes:
    text = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hmac.new(key, text, hashlib.sha256).digest()


class HostConnection:
    """A connection between two hosts on one machine, where the folder of its socket belongs to one user."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock

    def send(self, header: wire.Header) -> None:
        """Send a JSON object."""
        self.socket.sendall(wire.encode(header))

    def receive(self) -> wire.Header:
        """Wait for a JSON object.

        :raises EOFError: the other side closed.
        :raises OSError: the connection is lost.
        """
        return wire.receive(self.socket).header


class KeyedConnection(HostConnection):
    """A connection between two machines after both sides have proved that they have the key of the job."""

    def __init__(self, sock: socket.socket, key: bytes, own: bytes, other: bytes) -> None:
        super().__init__(sock)
        self._key = key
        self._own, self._other = own, other
        self._sent = self._received = 0

    def send(self, header: wire.Header) -> None:
        """Send a JSON object with its code."""
        body = json.dumps(header).encode()
        code = _code(self._key, self._own, self._sent.to_bytes(8, "big"), body)
        self._sent += 1
        self.socket.sendall(wire.encode({"code": code.hex()}, body))

    def receive(self) -> wire.Header:
        """Wait for a JSON object.

        :raises EOFError: the other side closed.
        :raises OSError: the connection is lost, or its bytes are not those of a host of the job.
        """
        try:
            frame = wire.receive(self.socket)
        except wire.WireError as error:
            raise AuthenticationError(str(error)) from error
        code = _code(self._key, self._other, self._received.to_bytes(8, "big"), frame.body)
        if not hmac.compare_digest(code.hex().encode(), str(frame.header.get("code", "")).encode()):
            raise AuthenticationError("A frame between hosts has a wrong code.")
        self._received += 1
        header: wire.Header = json.loads(frame.body.decode())
        return header


def prove_as_listener(
    sock: socket.socket, key: str, host: str, random: Callable[[int], bytes] = os.urandom
) -> KeyedConnection:
    """Prove to a program that connected to ``host`` that this is a host of the job, after it has proved the same.

    :raises AuthenticationError: it did not, or was too slow.
    """
    own, reader = random(_NONCE), _ProofReader(sock, VISITOR_TIMEOUT)
    try:
        sock.sendall(own)
        other = reader.read(_NONCE)
        if not hmac.compare_digest(reader.read(_CODE), _code(key.encode(), _CONNECTOR, host.encode(), own, other)):
            raise AuthenticationError("A program without the key of the job connected.")
        sock.sendall(_code(key.encode(), _LISTENER, host.encode(), own, other))
    except EOFError as error:
        raise AuthenticationError("A program without the key of the job connected.") from error
    _begin_frames(sock)
    return KeyedConnection(sock, _code(key.encode(), _FRAMES, own, other), _LISTENER, _CONNECTOR)


def prove_as_connector(
    sock: socket.socket, key: str, host: str, random: Callable[[int], bytes] = os.urandom
) -> KeyedConnection:
    """Prove to the program at which ``host`` should listen that this is a host of the job, and check that it is one.

    :raises AuthenticationError: it is not, or was too slow.
    """
    own, reader = random(_NONCE), _ProofReader(sock, PROOF_TIMEOUT)
    try:
        other = reader.read(_NONCE)
        sock.sendall(own + _code(key.encode(), _CONNECTOR, host.encode(), other, own))
        if not hmac.compare_digest(reader.read(_CODE), _code(key.encode(), _LISTENER, host.encode(), other, own)):
            raise AuthenticationError("The program that listens there does not have the key of the job.")
    except EOFError as error:
        raise AuthenticationError("The program that listens there does not have the key of the job.") from error
    _begin_frames(sock)
    return KeyedConnection(sock, _code(key.encode(), _FRAMES, other, own), _CONNECTOR, _LISTENER)


class _ProofReader:
    """Reads bytes of a proof, all of them within ``limit`` seconds."""

    def __init__(self, sock: socket.socket, limit: float) -> None:
        self._socket = sock
        self._until = time.monotonic() + limit

    def read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            left = self._until - time.monotonic()
            if left <= 0:
                raise AuthenticationError("A proof of the key took too long.")
            self._socket.settimeout(left)
            more = self._socket.recv(count - len(data))
            if not more:
                raise EOFError
            data += more
        return data


def _begin_frames(sock: socket.socket) -> None:
    """Wait for frames without a limit, but notice that the other machine is gone: a job may be silent for hours."""
    sock.settimeout(None)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", _IDLE), ("TCP_KEEPINTVL", _INTERVAL), ("TCP_KEEPCNT", _PROBES)):
        option = getattr(socket, name, None)
        if option is not None and sock.family == socket.AF_INET:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
