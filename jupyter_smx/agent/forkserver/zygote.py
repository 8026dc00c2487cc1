"""The zygote: it imports modules and forks children; it never runs a job and never uses its imports."""

from __future__ import annotations

import array
import contextlib
import functools
import gc
import json
import os
import select
import signal
import socket
import sys
import time
import warnings
from collections import deque
from typing import Any, Deque, Dict, List, NoReturn, Optional, Tuple

from jupyter_smx.agent import wire
from jupyter_smx.agent.code import execute
from jupyter_smx.agent.code.environ import reads as environ_reads
from jupyter_smx.agent.forkserver import child, fork_safety, job_modules, preload
from jupyter_smx.agent.paths import ML, HostInfo
from jupyter_smx.agent.system.isolation import mounts
from jupyter_smx.agent.system.processes import process, threads
from jupyter_smx.agent.system.resources import cgroups, huge_pages

_NAME = "smx-zygote"
_FDS = socket.CMSG_SPACE(8 * array.array("i").itemsize)
# Python 3.12 warns when a process with a second thread forks; ``fork_safety`` has checked that ours may.
if sys.version_info >= (3, 12):
    _silence = functools.partial(warnings.catch_warnings, action="ignore", category=DeprecationWarning)
else:
    _silence = contextlib.nullcontext


def _host_info(begin: Dict[str, Any]) -> HostInfo:
    return HostInfo(**begin["place"])


def _child_setup(begin: Dict[str, Any], logs: Tuple[int, int]) -> child.ChildSetup:
    wanted = begin["limits"]
    cgroups.load_limits(wanted, wanted["of"])
    return child.ChildSetup(logs=logs, place=_host_info(begin), threads=begin["threads"], notes=[])


class Zygote:
    """Serves the agent on one socket.

    ``park`` starts a child, ``adopt`` names one that must die with the agent, and ``retire`` ends the zygote.
    """

    def __init__(self, control: socket.socket, begin: Dict[str, Any]) -> None:
        self.control = control
        self.settings = begin
        self.decoder = wire.Decoder()
        self.fds: Deque[int] = deque()
        self.children: Dict[int, int] = {}
        self.adopted: List[int] = []
        self.tasks = 0
        self.has_job_modules = False
        self.wake_in, self.wake_out = socket.socketpair()
        for end in (self.wake_in, self.wake_out):
            end.setblocking(False)

    def send(self, header: Dict[str, Any]) -> None:
        """Send a message to the agent; if the agent is gone, end everything."""
        try:
            self.control.sendall(wire.encode(header))
        except OSError:
            self.terminate_all()

    def import_modules(self) -> bool:
        """Import the requested modules and report the result; False if this process cannot be a zygote."""
        if self.settings["start_method"] == "spawn":
            self.send({"event": "ready"})
            return True
        gc.disable()
        if self.settings["modules"]:
            self.load_job_modules()
        threads.show(self.settings["threads"])
        environ_reads.expect(self.settings["of_every_job"])
        imported = fork_safety.import_all(self.settings["modules"], self.settings["preload_memory"])
        spoilt_by, failed = imported.unfit_module, imported.failed
        if not spoilt_by:
            spoilt_by = fork_safety.find_unsafe_library() or ""
            if spoilt_by:
                failed[spoilt_by] = "computing in a forked process hangs or fails"
        if spoilt_by:
            self.send({"event": "unfit", "module": spoilt_by, "reason": failed[spoilt_by], "loaded": imported.loaded})
            return False
        threads.prepare_libraries(self.settings["threads"])
        if imported.loaded:
            gc.collect()  # without them there is too little garbage for the time of a cold start
        gc.freeze()
        if imported.loaded:
            huge_pages.collapse()
        self.tasks = fork_safety.task_count()
        self.send(dict(preload.report(imported), event="ready"))
        return True

    def load_job_modules(self) -> None:
        """Load what few jobs need, for the children to come."""
        self.has_job_modules = True
        with contextlib.suppress(ImportError, OSError):  # the jobs that need it report that
            job_modules.load_all()
        gc.freeze()

    def serve(self) -> NoReturn:
        """Handle requests of the agent and exits of children until the agent is gone."""
        signal.set_wakeup_fd(self.wake_out.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_ignored: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        spawns = self.settings["start_method"] == "spawn"
        due = None if self.has_job_modules or spawns else time.monotonic() + job_modules.START
        while True:
            wait = None if due is None else max(0.0, due - time.monotonic())
            ready = select.select([self.control, self.wake_in], [], [], wait)[0]
            if wait == 0:
                due = None
                self.load_job_modules()
            if self.wake_in in ready:
                with contextlib.suppress(BlockingIOError):
                    self.wake_in.recv(4096)
                self.report_exits()
            if self.control in ready:
                self.receive()

    def receive(self) -> None:
        """Receive what the agent sent; an end of file ends everything."""
        try:
            data, ancillary, _flags, _address = self.control.recvmsg(65_536, _FDS)
        except OSError:
            self.terminate_all()
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                received = array.array("i")
                received.frombytes(payload[: len(payload) - len(payload) % received.itemsize])
                self.fds.extend(received)
        if not data:
            self.terminate_all()
        for frame in self.decoder.feed(data):
            self.handle_request(frame.header)

    def handle_request(self, header: Dict[str, Any]) -> None:
        """Do one thing that the agent asked for."""
        if header["op"] == "park":
            self.park(header["serial"], self.fds.popleft(), (self.fds.popleft(), self.fds.popleft()))
        elif header["op"] == "adopt":
            self.adopted.append(header["pid"])
        elif header["op"] == "retire":
            os._exit(0)

    def park(self, serial: int, fd: int, logs: Tuple[int, int]) -> None:
        """Start one child, unless this process changed since its birth; ``logs`` are its stdout and stderr."""
        sock = socket.socket(fileno=fd)
        try:
            if self.tasks and fork_safety.task_count() > self.tasks:
                self.send({"event": "stale", "serial": serial})
                return
            start = self._spawn if self.settings["start_method"] == "spawn" else self._fork
            pid = start(sock, logs)
        except OSError as error:
            self.send({"event": "unborn", "serial": serial, "reason": str(error.strerror)})
            return
        finally:
            sock.close()
            for log in logs:
                os.close(log)
        self.children[pid] = serial
        self.send({"event": "born", "serial": serial, "pid": pid})

    def _fork(self, sock: socket.socket, logs: Tuple[int, int]) -> int:
        execute.flush()
        with _silence():
            pid = os.fork()
        if pid == 0:
            for end in (self.control, self.wake_in, self.wake_out):
                end.close()
            child.run_child(sock, _child_setup(self.settings, logs))
        return pid

    def _spawn(self, sock: socket.socket, logs: Tuple[int, int]) -> int:
        for fd in (sock.fileno(), *logs):
            os.set_inheritable(fd, True)
        words = [sys.executable, self.settings["entry"], "spawned", str(sock.fileno()), *map(str, logs)]
        words.append(json.dumps(self.settings))
        return os.posix_spawn(sys.executable, words, os.environ)

    def report_exits(self) -> None:
        """Report the exits of our children, then reap them: reporting first guarantees that no exit is lost.

        A child that was killed is reaped first, because only that returns how much memory it used. If this process
        dies in between, the exit status of that child is lost.
        """
        for pid in list(self.children):
            status = _peek(pid)
            if status is not None:
                said = {"event": "exit", "serial": self.children.pop(pid), "status": status}
                said["cpu"] = process.cpu_seconds(pid)
                if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
                    said["peak"] = _reap(pid)
                self.send(said)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)

    def drain_control(self) -> None:
        """Read the adopted children from what the agent sent before its exit."""
        self.control.setblocking(False)
        with contextlib.suppress(OSError, wire.WireError):
            data = self.control.recv(65_536)
            while data:
                for frame in self.decoder.feed(data):
                    if frame.header["op"] == "adopt":
                        self.adopted.append(frame.header["pid"])
                data = self.control.recv(65_536)

    def terminate_all(self) -> NoReturn:
        """Kill all processes that were started here, and exit: the agent is gone, and they have no supervisor."""
        self.drain_control()
        roots = [*self.children, *self.adopted]
        everything = process.tree(roots)
        for pid in roots:
            process.kill_group(pid)
        process.kill(everything)
        # Another zygote of the same host does the same for its own children; it must live long enough for that.
        process.kill(pid for pid in process.find_marked(self.settings["marker"]) if process.comm(pid) != _NAME)
        os._exit(0)


def _peek(pid: int) -> Optional[int]:
    """Return the wait status of a child that exited, if possible without reaping it; None while it runs."""
    waitid = getattr(os, "waitid", None)
    if waitid is None:
        done, status = os.waitpid(pid, os.WNOHANG)
        return status if done else None
    try:
        result = waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return 0
    if result is None:
        return None
    if result.si_code == os.CLD_EXITED:
        return int(result.si_status) << 8
    return int(result.si_status)


def _reap(pid: int) -> int:
    """Reap a child that exited; return its peak memory in bytes, which only the reaping process gets."""
    try:
        return process.peak_memory(os.wait4(pid, 0)[2])
    except ChildProcessError:
        return 0


def main(words: List[str]) -> int:
    """Run a zygote; ``words`` is the number of the control socket's descriptor."""
    control = socket.socket(fileno=int(words[0]))
    control.set_inheritable(False)
    with contextlib.suppress(OSError):
        os.setsid()
    process.set_name(_NAME)
    try:
        begin = wire.receive(control).header
    except (EOFError, OSError):
        return 0
    if begin["place"]["base"] == ML:
        mounts.drop_mount_capability()  # before anything of the user's is imported
    zygote = Zygote(control, begin)
    if not zygote.import_modules():
        return 1
    return zygote.serve()


def spawned_main(words: List[str]) -> int:
    """Run a parked child in a new interpreter; ``words`` has descriptors (socket, logs) and the zygote's settings."""
    sock, logs = socket.socket(fileno=int(words[0])), (int(words[1]), int(words[2]))
    for fd in (sock.fileno(), *logs):
        os.set_inheritable(fd, False)
    begin = json.loads(words[3])
    threads.show(begin["threads"])
    environ_reads.expect(begin["of_every_job"])
    imported = fork_safety.import_all(begin["modules"])
    with contextlib.suppress(OSError):
        sock.sendall(wire.encode(preload.report(imported)))
    child.run_child(sock, _child_setup(begin, logs))
    return 1
