"""Listen at ports of the host's loopback, and carry each connection as a channel of the controller's stream."""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

from jupyter_smx.agent.system.forwarding import channel_frames
from jupyter_smx.agent.system.processes import process
from jupyter_smx.agent.system.processes.event_loop import READ, WRITE

if TYPE_CHECKING:
    from jupyter_smx.agent.system.processes.event_loop import Loop
    from jupyter_smx.agent.wire import Frame

HOST = "127.0.0.1"
_BACKLOG = 128
_ACCEPT_RETRY_DELAY = 0.5
_ABORT = struct.pack("ii", 1, 0)
"""``SO_LINGER`` that lets a close reset the connection."""

Send = Callable[[Dict[str, Any], Optional[bytes]], None]


class _Channel:
    """One accepted connection."""

    def __init__(self, owner: ForwardedPorts, number: int, client: socket.socket) -> None:
        self._owner = owner
        self._number = number
        self._client = client
        self._window = channel_frames.SendWindow(owner.total)
        self._out = bytearray()
        self._has_sent_all = False
        self._has_received_all = False
        self._is_closed = False
        client.setblocking(False)

    def watch(self) -> None:
        """Watch the connection for what may be done with it now."""
        reads = not self._has_sent_all and self._window.room() > 0 and not self._owner.is_paused
        events = (READ if reads else 0) | (WRITE if self._out else 0)
        if events:
            self._owner.loop.watch(self._client.fileno(), events, self._read, self._write)
        else:
            self._owner.loop.unwatch(self._client.fileno())

    def take(self, kind: str, frame: Frame) -> None:
        """Handle a frame of the controller's side."""
        if kind == channel_frames.DATA:
            self._out += frame.body
            if len(self._out) > channel_frames.WINDOW or self._has_received_all:
                self.reset()
                return
            self._write()
        elif kind == channel_frames.CREDIT:
            self._window.add_delivered(channel_frames.credit_of(frame.header))
            self._owner.watch(self._number)
        elif kind == channel_frames.EOF:
            self._has_received_all = True
            self._end_if_delivered()
        else:
            self.close(abort=True)

    def reset(self) -> None:
        """Break the connection here and on the controller's side."""
        self.close(abort=True)
        self._owner.send(channel_frames.frame(self._number, channel_frames.RESET))

    def close(self, *, abort: bool = False) -> None:
        """Close the connection; ``abort`` lets its client see a reset instead of an end. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        self._window.close()
        self._owner.loop.unwatch(self._client.fileno())
        if abort:
            with contextlib.suppress(OSError):
                self._client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
        self._client.close()
        self._owner.forget(self._number)

    def _read(self) -> None:
        room = self._window.room()
        if not room or self._owner.is_paused:  # other channels took it since the event loop began to watch this one
            self._owner.watch(self._number)
            return
        try:
            data = self._client.recv(room)
        except BlockingIOError:
            return
        except OSError:
            self.reset()
            return
        if data:
            self._window.add_sent(len(data))
            self._owner.send(channel_frames.frame(self._number, channel_frames.DATA), data)
        else:
            self._has_sent_all = True
            self._owner.send(channel_frames.frame(self._number, channel_frames.EOF))
            self._end_if_delivered()
        self._owner.watch(self._number)

    def _write(self) -> None:
        try:
            count = self._client.send(self._out) if self._out else 0
        except BlockingIOError:
            count = 0
        except OSError:
            self.reset()
            return
        if count:
            del self._out[:count]
            self._owner.send(channel_frames.frame(self._number, channel_frames.CREDIT, count))
            self._end_if_delivered()
        self._owner.watch(self._number)

    def _end_if_delivered(self) -> None:
        """Close the connection after the last byte of the server: one that has ended reads no more, as those of HTTP.

        Clients keep connections for later requests, and would hold their channels.
        """
        if self._is_closed or not self._has_received_all or self._out:
            return
        self.close()
        if not self._has_sent_all:
            self._owner.send(channel_frames.frame(self._number, channel_frames.RESET))


class ForwardedPorts:
    """The ports of one host that lead over the stream of the newest controller that takes channels.

    Without one, connections wait at the port. Those that were open when a stream ended are reset.
    """

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.total = channel_frames.SendTotal()
        self._owner: Optional[object] = None
        self._send: Optional[Send] = None
        self._listeners: Dict[int, socket.socket] = {}
        """Listener by the port that was requested for it."""
        self._channels: Dict[int, _Channel] = {}
        self._last_number = 0
        self._has_logged_limit = False
        self._was_full = False
        self.is_paused = False
        """True while no connection is read, because the stream has too many bytes to send."""

    def has_stream(self) -> bool:
        """Return True if a controller takes channels now."""
        return self._send is not None

    def attach(self, owner: object, send: Send) -> None:
        """Carry connections over the stream of ``owner`` from now on."""
        if owner is self._owner:
            return
        self.detach(self._owner)
        self._owner, self._send = owner, send
        self._watch_listeners()

    def detach(self, owner: Optional[object]) -> None:
        """Reset all connections, if they belong to the stream of ``owner``, which has ended."""
        if owner is not self._owner:
            return
        self._owner = self._send = None
        self.is_paused = False
        for channel in list(self._channels.values()):
            channel.close(abort=True)
        self._watch_listeners()

    def pause(self, owner: object, *, is_paused: bool) -> None:
        """Read no connection while the stream of ``owner`` has many bytes to send, which are sent first."""
        if owner is self._owner and is_paused != self.is_paused:
            self.is_paused = is_paused
            self._watch_all()

    def listen(self, port: int) -> int:
        """Listen at a port of loopback, or at a free one if another process has it; return which.

        It stays for later jobs of the host.

        :raises OSError: no port can be had.
        """
        if port not in self._listeners:
            self._listeners[port] = _listener(port)
            self._watch_listeners()
        return int(self._listeners[port].getsockname()[1])

    def close(self) -> None:
        """Close all connections and ports."""
        self.detach(self._owner)
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()

    def take(self, owner: object, frame: Frame) -> None:
        """Handle a frame of a channel; one of another stream, or of a channel that has ended, is dropped."""
        number = frame.header.get(channel_frames.CHANNEL)
        channel = self._channels.get(number) if isinstance(number, int) else None
        if channel is None or owner is not self._owner:
            return
        channel.take(str(frame.header.get("kind")), frame)

    # For channels

    def send(self, header: Dict[str, Any], body: Optional[bytes] = None) -> None:
        """Send a frame, unless the stream has ended."""
        if self._send is not None:
            self._send(header, body)

    def watch(self, number: int) -> None:
        """Watch a channel's connection, unless it was closed meanwhile; watch all if there is room for all again."""
        was_full, self._was_full = self._was_full, self.total.is_full()
        if was_full and not self._was_full:
            self._watch_all()
        elif number in self._channels:
            self._channels[number].watch()

    def forget(self, number: int) -> None:
        """Drop a channel that was closed; another connection may take its place."""
        self._channels.pop(number, None)
        self.watch(number)
        self._watch_listeners()

    # Inside

    def _watch_all(self) -> None:
        for channel in list(self._channels.values()):
            channel.watch()

    def _watch_listeners(self) -> None:
        is_open = self.has_stream() and len(self._channels) < channel_frames.MAX_CHANNELS
        for listener in self._listeners.values():
            if is_open:
                self.loop.watch(listener.fileno(), READ, self._acceptor(listener))
            else:
                self.loop.unwatch(listener.fileno())

    def _acceptor(self, listener: socket.socket) -> Callable[[], None]:
        return lambda: self._accept(listener)

    def _accept(self, listener: socket.socket) -> None:
        try:
            client = listener.accept()[0]
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:
            # Out of descriptors or memory: look again later instead of turning in a circle.
            process.log(f"accept: {error}")
            self.loop.unwatch(listener.fileno())
            self.loop.later(_ACCEPT_RETRY_DELAY, self._watch_listeners)
            return
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._last_number = number = self._last_number + 1
        self._channels[number] = _Channel(self, number, client)
        self.send(channel_frames.frame(number, channel_frames.OPEN))
        self.watch(number)
        if len(self._channels) >= channel_frames.MAX_CHANNELS and not self._has_logged_limit:
            self._has_logged_limit = True
            process.log(f"{len(self._channels)} connections are forwarded, which is the limit; more wait for an end")
        self._watch_listeners()


def _listener(port: int) -> socket.socket:
    """Return a listener at a port, or at a free one.

    Never at one that another process has: on a machine of several users, that may be a stranger's.
    """
    try:
        listener = listen_at(port)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        listener = listen_at(0)
    listener.setblocking(False)
    return listener


def listen_at(port: int) -> socket.socket:
    """Listen at a port of loopback, 0 for a free one; return the socket, whose calls block.

    :raises OSError: another process has the port, or this user may not listen there.
    """
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
