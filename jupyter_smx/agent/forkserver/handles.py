"""Handles of a zygote and its children: their processes, their sockets, and the callbacks for their messages."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from jupyter_smx.agent import wire
from jupyter_smx.agent.code import packages
from jupyter_smx.agent.code.environ import reads as environ_reads
from jupyter_smx.agent.forkserver import child_protocol
from jupyter_smx.agent.forkserver.module_watch import ModuleWatch
from jupyter_smx.agent.system.processes import process
from jupyter_smx.agent.system.processes.event_loop import READ, WRITE

if TYPE_CHECKING:
    from jupyter_smx.agent.forkserver.spawn import SpawnedZygote
    from jupyter_smx.agent.system.processes.event_loop import Loop

EXIT_CHECK_INTERVAL = 1.0
"""Seconds between checks for a job that has ended without a report by its zygote."""


class OutputFiles:
    """The open files of a child's stdout and stderr; each offset is the position of the last write."""

    def __init__(self) -> None:
        self._fds: List[int] = []

    def keep(self, out: int, err: int) -> None:
        """Keep duplicates of two descriptors.

        :raises OSError: the system's limit of descriptors is reached.
        """
        for fd in (out, err):
            self._fds.append(os.dup(fd))

    def ends(self) -> Tuple[int, int]:
        """Return the offsets after the last byte of stdout and of stderr, 0 where nothing was written."""
        try:
            out, err = (os.lseek(fd, 0, os.SEEK_CUR) for fd in self._fds)
        except (OSError, ValueError):
            return 0, 0  # closed, or on a file system without offsets
        return out, err

    def close(self) -> None:
        """Close both. Idempotent."""
        while self._fds:
            os.close(self._fds.pop())


class ChildHandle:
    """One child: parked, then running a job, then gone.

    ``on_message`` gets the tag of a message, and the whole message, which begins with it.
    """

    def __init__(self, serial: int, slot: str, sock: socket.socket, zygote: ZygoteHandle) -> None:
        self.serial = serial
        self.slot = slot
        self.sock = sock
        self.output = OutputFiles()
        self.zygote = zygote
        self.pid = 0
        self.peak = 0
        self.cpu = 0.0
        self.has_exited = False
        self.running = False
        self.is_exit_overdue = False
        self._pidfd = -1
        self._buffer = b""
        self._on_readable: Callable[[], None] = lambda: None
        self._is_sending = False
        self.reported_code: Optional[int] = None
        """The exit code that the child reported when its code ended."""
        self.report: Optional[Dict[str, Any]] = None
        """The report about the end of the job that the child sent last."""
        self.on_born: Optional[Callable[[], None]] = None
        self.on_message: Optional[Callable[[int, bytes], None]] = None
        self.on_exit: Optional[Callable[[Optional[int], str], None]] = None

    def listen(self, loop: Loop, hear: Callable[[], None]) -> None:
        """Call back whenever the child's socket is readable."""
        self._on_readable = hear
        loop.watch(self.sock.fileno(), READ, hear)

    def send(self, loop: Loop, words: memoryview, failed: Callable[[OSError], None]) -> None:
        """Send bytes to the child without blocking: a spawned child reads nothing before its imports are done.

        The event loop sends the rest when the socket has room. ``failed`` is called with the error if the child no
        longer reads.
        """
        try:
            words = words[self.sock.send(words, socket.MSG_DONTWAIT) :]
        except BlockingIOError:
            pass
        except OSError as error:
            self._stop_sending(loop)
            failed(error)
            return
        if words:
            self._is_sending = True
            loop.watch(self.sock.fileno(), READ | WRITE, self._on_readable, lambda: self.send(loop, words, failed))
        else:
            self._stop_sending(loop)

    def _stop_sending(self, loop: Loop) -> None:
        """Stop waiting for room in the socket, so that the loop releases the bytes that it holds for that."""
        if self._is_sending and self.sock.fileno() >= 0:
            loop.watch(self.sock.fileno(), READ, self._on_readable)
        self._is_sending = False

    def notify_exit(self, status: Optional[int], reason: str) -> None:
        """Report the exit and drop all callbacks, so that a finished job is freed without the garbage collector."""
        told, self.on_exit = self.on_exit, None
        self.on_born = self.on_message = None
        if told is not None:
            told(status, reason)
        self.output.close()

    def split_messages(self, data: bytes) -> Iterator[Tuple[int, bytes]]:
        """Take bytes from its socket, give each message that is whole: frames begin with 0, all else with its tag."""
        self._buffer += data
        while self._buffer:
            tag = self._buffer[0]
            size = child_protocol.SIZES.get(tag, 1) if tag else 4 + int.from_bytes(self._buffer[:4], "big")
            if len(self._buffer) < size:
                return
            message, self._buffer = self._buffer[:size], self._buffer[size:]
            if tag == child_protocol.CODE_EXIT_TAG:
                _tag, self.reported_code, self.cpu = child_protocol.CODE_EXIT.unpack(message)
            yield tag, message

    def wake_zygote(self) -> None:
        """Wake a zygote that reports neither start nor exit of its job: the job may have stopped it."""
        if not self.zygote.has_exited and not (self.pid and process.is_alive(self.pid)):
            # Without the zygote, an exited job becomes a child of this process, which then gets its exit status.
            process.kill([self.zygote.pid], signal.SIGKILL if self.is_exit_overdue else signal.SIGCONT)
            self.is_exit_overdue = self.pid > 0

    def watch_exit(self, loop: Loop, gone: Callable[[], None]) -> None:
        """Call ``gone`` when the process has ended and its children have another parent.

        The process is no child of ours, so the kernel reports by a pidfd only that it ended, not how. Does nothing
        before the pid is known, and on systems and Python versions without a pidfd (3.8).
        """
        if not self.pid or self._pidfd >= 0:
            return
        try:
            self._pidfd = int(os.pidfd_open(self.pid))  # type: ignore[attr-defined,unused-ignore]
        except (AttributeError, OSError):
            return
        loop.watch(self._pidfd, READ, gone)

    def unwatch_exit(self, loop: Loop) -> None:
        """Stop watching for the process's end. Idempotent."""
        if self._pidfd >= 0:
            loop.unwatch(self._pidfd)
            os.close(self._pidfd)
        self._pidfd = -1

    def close_socket(self, loop: Loop) -> None:
        """Stop watching the child's socket and close it. Idempotent."""
        if self.sock.fileno() >= 0:
            loop.unwatch(self.sock.fileno())
            self.sock.close()

    def kill(self) -> None:
        """End it and its group, if it was born."""
        if self.pid:
            process.kill_group(self.pid)
            process.kill([self.pid])

    def is_peer_closed(self) -> bool:
        """Return True if the process closed its socket, as a killed one does; the report of its exit may come later."""
        try:
            return not self.sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True


class ZygoteHandle:
    """One zygote process, as the agent's side of it."""

    def __init__(self, pid: int, control: socket.socket, modules: List[str]) -> None:
        self.pid = pid
        self.control = control
        self.modules = modules
        self._install_snapshot = packages.InstallSnapshot() if modules else None
        self._module_watch = ModuleWatch({})
        self.decoder = wire.Decoder()
        self.ready = False
        self.loaded: List[str] = []
        self.reads: List[environ_reads.Reads] = []
        """Variables that its preloads read while they were imported."""
        self.compiled: List[str] = []
        """Its preloads that have compiled parts."""
        self.has_exited = False
        self.retiring = False
        self.children: Dict[int, ChildHandle] = {}

    @classmethod
    def start(cls, found: SpawnedZygote, begin: Dict[str, Any], modules: List[str]) -> ZygoteHandle:
        """Turn a spawned process, which waits for this message, into a zygote that imports these modules."""
        control = socket.socket(fileno=found.control)
        with contextlib.suppress(OSError):  # if it died at once, the agent gets its exit anyway
            control.sendall(wire.encode(dict(begin, modules=modules)))
        return cls(found.pid, control, modules)

    def set_ready(self, report: Mapping[str, Any]) -> None:
        """Store the report about its imports; see :func:`preload.report`. A bare zygote has none."""
        self.ready = True
        self.set_imported(report)

    def set_imported(self, report: Mapping[str, Any]) -> None:
        """Take what was imported, by it or by a child of its own."""
        self.loaded = report.get("loaded", [])
        self.reads = environ_reads.from_rows(report.get("reads", []))
        self.compiled = report.get("compiled", [])
        self._module_watch.close()
        self._module_watch = ModuleWatch(report.get("files", {}))

    def adopt(self, orphan: ChildHandle) -> None:
        """Hand over the child of a dead zygote, so that it ends with the agent, as this zygote's own children do."""
        with contextlib.suppress(OSError):
            self.control.sendall(wire.encode({"op": "adopt", "pid": orphan.pid}))

    def retire(self) -> None:
        """Start no more jobs from this zygote; it exits when its current job, if any, is over."""
        self.retiring = True
        self.exit_when_idle()

    def exit_when_idle(self) -> None:
        """Make the zygote exit if it is retired and has no job."""
        if self.retiring and not self.has_exited and not any(one.running for one in self.children.values()):
            with contextlib.suppress(OSError):
                self.control.sendall(wire.encode({"op": "retire"}))

    def changed_packages(self) -> List[str]:
        """Name the packages that were installed, changed in place or removed since it imported what it has."""
        if self._install_snapshot is None:
            return []
        return sorted({*self._install_snapshot.changed(), *self._module_watch.changed()})

    def close(self) -> None:
        """Release the resources of a process that has ended."""
        self.control.close()
        self._module_watch.close()
