"""Hold an allocation of a scheduler for hosts: a pilot on its first node, and a step parent on each node.

The batch script has the source of this file in it, since no folder of the nodes is shared, so it imports nothing of the
package. It runs as ``python -c SOURCE pilot PLAN SOURCE``, and the pilot starts ``python -c SOURCE parent PLAN`` for
each group. PLAN is JSON with ``job`` (the id of the allocation, or the name of a parent), ``name`` (of the job),
``groups`` (``nodes`` and ``cpus`` of each), ``folder`` (of hosts), ``home`` (folder of the account that outlives the
allocation), ``seconds`` (the time limit), ``idle`` (seconds without a host after which the allocation ends), ``others``
(names of jobs for whose nodes it waits longer) and ``notice`` (seconds from SIGUSR1 to the end of the allocation).

A parent starts agents as its own children: schedulers kill what a step leaves behind. It takes requests, one line of
JSON each, at an abstract unix socket, which needs no file system and which only its own user may use.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

EXIT_OLDER_JOB = 94
"""Exit code of a pilot that found an older job of its name."""
EXIT_REQUEUED = 92
"""Exit code of a pilot whose job ran before: its hosts ended with that run, and the controller decides what follows."""
EXIT_FOLDER = 93
"""Exit code of a parent that cannot use the folder of hosts."""
NOTICE = "notice.json"
"""File in a host's folder, as in :mod:`jupyter_smx.agent.system.files.host_layout`, which cannot be imported here."""
_END_WITHIN = 25.0
"""Seconds that the agents of the other steps have after one step has ended."""
_PARENT_LIMIT = 20.0
"""Seconds from the start of an allocation until its parents listen."""
_PAUSE = 0.02
_AFTER_LIMIT = 600.0
"""Seconds that a command after the end of an agent may take at most: an allocation costs."""
_AFTER_LEAST = 1.0
_END_MARGIN = 2.0
"""Seconds before a scheduler kills what runs, in which a command after the end of an agent is ended."""
_KILL_GRACE = 30.0
"""Seconds from SIGTERM to SIGKILL where the request for an agent has none."""
_LINE_LIMIT = 1 << 20
_PEER = "3i"
"""Process, user and group of the other end of a unix socket."""
_QUEUE_TIMEOUT = 20.0
_GOLDEN_RATIO = 0.618034
"""Multiples of it are spread evenly between whole numbers, however many there are."""


def parent_name(job: str, group: Optional[int]) -> str:
    """Return the name of the parents of a group; None in an allocation with one group.

    A scheduler may give a node to two groups, and each has a parent there.
    """
    return job if group is None else f"{job}+{group}"


def address(parent: str) -> str:
    """Return the address of a parent on this node, by its name."""
    return f"\0jupyter_smx-{os.getuid()}-{parent}"


def log(text: str) -> None:
    """Write a line to the log of the allocation."""
    sys.stderr.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
    sys.stderr.flush()


def is_own(peer: socket.socket) -> bool:
    """Return True if the other end of a connection is a process of this user."""
    _, uid, _ = struct.unpack(_PEER, peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(_PEER)))
    return int(uid) == os.getuid()


class SignalPipe:
    """Turns signals into bytes of a pipe, so that one ``select`` waits for everything."""

    def __init__(self, *numbers: int) -> None:
        self.reader, writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer)
        for number in numbers:
            signal.signal(number, lambda *_signal: None)

    def read(self) -> List[int]:
        """Return the signals that came."""
        try:
            return list(os.read(self.reader, 256))
        except BlockingIOError:
            return []


def after_limit(now: float, ends: Sequence[Optional[float]]) -> float:
    """Return the seconds that a command after an agent may take, by the known ends of its node; pure."""
    left = [end - now - _END_MARGIN for end in ends if end is not None]
    return max(_AFTER_LEAST, min([_AFTER_LIMIT, *left]))


# The pilot


def step_words(plan: Dict[str, Any], group: int, source: str) -> List[str]:
    """Build the command of the step that starts a parent on each node of a group."""
    wanted = plan["groups"][group]
    words = ["srun", f"--nodes={wanted['nodes']}", f"--ntasks={wanted['nodes']}", "--ntasks-per-node=1"]
    words += [f"--cpus-per-task={wanted['cpus']}", "--cpu-bind=none", "--mpi=none", "--kill-on-bad-exit=0", "--wait=0"]
    words += ["--export=ALL", "--chdir=/", "--quiet"]
    is_het = len(plan["groups"]) > 1
    words += [f"--het-group={group}"] if is_het else []
    own = {**plan, "job": parent_name(plan["job"], group if is_het else None)}
    return [*words, sys.executable, "-I", "-c", source, "parent", json.dumps(own)]


def is_older_job_queued(job: str, listed: Sequence[str]) -> bool:
    """Return True if a list of job ids has an older one than ``job``; pure."""
    ids = [line.partition("+")[0] for line in listed]
    return any(found.isdigit() and int(found) < int(job) for found in ids)


def is_requeued(variables: Mapping[str, str]) -> bool:
    """Return True if the scheduler started this job before, as an administrator may ask it to; pure."""
    return variables.get("SLURM_RESTART_COUNT", "0") not in ("", "0")


def _ask_queue(*words: str) -> Optional[List[str]]:
    """Return the lines of ``squeue`` for jobs of this user; None if the scheduler does not answer."""
    command = ["squeue", "--noheader", "--all", f"--user={os.getuid()}", *words]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, timeout=_QUEUE_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.decode(errors="replace").splitlines()
    return [line.strip() for line in lines] if done.returncode == 0 else None


def _has_older_job(plan: Dict[str, Any]) -> bool:
    """Return True if an older job has the same name; an answer that does not come is no reason to end."""
    listed = _ask_queue(f"--name={plan['name']}", "--format=%i", "--states=PENDING,RUNNING,CONFIGURING")
    return listed is not None and is_older_job_queued(plan["job"], listed)


def _list_waiting() -> Optional[List[str]]:
    """Return the names of this user's jobs that have no nodes yet; None if the scheduler does not answer."""
    return _ask_queue("--format=%j", "--states=PENDING,CONFIGURING")


def queue_path(home: str, variables: Mapping[str, str]) -> str:
    """Return the path of the scheduler's last answer to a pilot: many sites have one home on several clusters; pure."""
    return os.path.join(os.path.expanduser(home), f"queue-{variables.get('SLURM_CLUSTER_NAME', '')}.json")


class WaitingJobs:
    """Names of this user's jobs that wait for nodes. Pilots with one home share an answer, in the file ``path``.

    Jobs of many clusters may wait for hours, and the scheduler serves many people. ``clock`` is the time of day, which
    the nodes of a cluster have in common. A file that cannot be used is no reason to fail: each pilot asks then.
    """

    def __init__(self, path: str, ask: Callable[[], Optional[List[str]]], clock: Callable[[], float]) -> None:
        self._path = path
        self._ask = ask
        self._clock = clock

    def look(self, oldest: float) -> Optional[List[str]]:
        """Return the names of an answer that is less than ``oldest`` seconds old; None without one."""
        now = self._clock()
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError), open(self._path) as file:
            answer = json.load(file)
            if 0.0 <= now - float(answer["at"]) < oldest:
                return [str(name) for name in answer["names"]]
        names = self._ask()
        if names is not None:
            self._write(json.dumps({"at": now, "names": names}))
        return names

    def _write(self, text: str) -> None:
        """Write in place: a network file system shows a new file of this name to other nodes much later."""
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            with open(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(text)


class GroupWait:
    """Decides whether parents without a host wait longer: as long as jobs of other groups have no nodes yet."""

    def __init__(self, plan: Dict[str, Any], queue: WaitingJobs, clock: Callable[[], float] = time.monotonic) -> None:
        self._names: List[str] = plan["others"]
        self._queue = queue
        self._clock = clock
        self._idle = float(plan["idle"])
        self._pause = self._idle / 3
        # Pilots that start at once look one after the other, so that the first answer is there for the next one.
        phase = int(plan["job"]) * _GOLDEN_RATIO % 1.0
        self._next_at = clock() + self._pause * (1.0 - phase / 2)
        self._until = clock() + self._idle
        """When parents without a host end."""

    def timeout(self) -> float:
        """Return the seconds until the next look, at most a minute."""
        return min(60.0, max(0.0, self._next_at - self._clock())) if self._names else 60.0

    def extension(self) -> float:
        """Look if it is time; return the seconds for which parents wait from now on, 0 if there is nothing to change.

        An answer that does not come is no reason to end. Parents wait for the idle time from the next look at least.
        """
        now = self._clock()
        if not self._names or now < self._next_at:
            return 0.0
        if now > self._until:
            self._names = []  # its hosts were launched, or the parents end now
            return 0.0
        waiting = self._queue.look(self._pause)
        now = self._clock()
        self._next_at = now + self._pause
        if waiting is not None and not any(name in waiting for name in self._names):
            return 0.0
        self._until = now + self._idle + self._pause
        return self._idle + self._pause


def pilot(plan: Dict[str, Any], source: str) -> int:
    """Start a step for each group, and end all of them with the first parent that ends; return an exit code."""
    if is_requeued(os.environ):
        log("ends: the job was queued again, and its hosts ended with its first run")
        return EXIT_REQUEUED
    if _has_older_job(plan):
        log(f"ends: an older job has the name {plan['name']}")
        return EXIT_OLDER_JOB
    signals = SignalPipe(signal.SIGCHLD, signal.SIGUSR1, signal.SIGTERM)
    steps = [
        subprocess.Popen(step_words(plan, group, source), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for group in range(len(plan["groups"]))
    ]
    limit_at = time.monotonic() + float(plan["seconds"])
    log(f"started {len(steps)} steps")
    wait = GroupWait(plan, WaitingJobs(queue_path(plan["home"], os.environ), _list_waiting, time.time))
    # A step ends with the last of its tasks, so the first parent that ends says so on its output.
    while not _wait_output(steps, signals, wait.timeout()):
        extension = wait.extension()
        if extension:
            _send_order(steps, {"wait": extension})
        if signal.SIGUSR1 in signals.read():
            log(f"notice: the allocation ends in {plan['notice']:g} s")
            _send_order(steps, {"notice": plan["notice"]})
    _send_order(steps, {"end": True})
    end = time.monotonic() + _END_WITHIN
    end += after_limit(end, [limit_at])  # results may take long, and nothing can copy them later
    while any(step.poll() is None for step in steps) and time.monotonic() < end:
        select.select([signals.reader], [], [], 0.5)
        signals.read()
    codes = [step.poll() for step in steps]
    for step in steps:
        if step.returncode is None:
            step.kill()
    log(f"ends: the steps ended with {codes}")
    return max((code for code in codes if code is not None), key=abs, default=0) & 0xFF


def _wait_output(steps: List[subprocess.Popen[bytes]], signals: SignalPipe, timeout: float) -> bool:
    """Wait for a signal or for output of a step; return True if a parent has ended, which is all that they print."""
    outputs = [step.stdout.fileno() for step in steps if step.stdout is not None]
    readable = select.select([signals.reader, *outputs], [], [], timeout)[0]
    return any(output in readable for output in outputs)


def _send_order(steps: List[subprocess.Popen[bytes]], order: Dict[str, Any]) -> None:
    """Write an order to all parents: a scheduler copies the input of a step to each task."""
    for step in steps:
        with contextlib.suppress(OSError):
            assert step.stdin is not None  # noqa: S101 - it is a pipe
            step.stdin.write(json.dumps(order).encode() + b"\n")
            step.stdin.flush()


# The parent


class Request:
    """A connection that asks for a start, up to the answer."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.text = b""
        self.child: Optional[subprocess.Popen[bytes]] = None
        self.ready = -1

    def source(self) -> int:
        """Return the descriptor that this request waits for: its text, or the pipe of its agent."""
        return self.connection.fileno() if self.child is None else self.ready

    def answer(self, message: Dict[str, Any]) -> None:
        """Send the answer, and close the connection."""
        with contextlib.suppress(OSError):
            self.connection.sendall(json.dumps(message).encode() + b"\n")
        self.close()

    def close(self) -> None:
        """Close what is open."""
        self.connection.close()
        if self.ready >= 0:
            os.close(self.ready)
            self.ready = -1


class Parent:
    """Starts agents on one node and ends after the last one."""

    def __init__(self, plan: Dict[str, Any]) -> None:
        self.plan = plan
        self.signals = SignalPipe(signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(address(plan["job"]))
        self.listener.listen(16)
        self.held, self._holder = os.pipe()
        """A pipe whose write end only this process has: agents end when it closes."""
        self.requests: List[Request] = []
        self.agents: List[Tuple[subprocess.Popen[bytes], Dict[str, Any]]] = []
        """Agents that run, each with the request for its start."""
        self.orders = b""
        self.is_input_open = True
        self.has_started = False
        self.ends_at: Optional[float] = None
        """When the node is taken away, by a notice that came."""
        self.limit_at = time.monotonic() + float(plan["seconds"])
        """When the node is taken away, by the time limit."""
        self.signaled_at: Optional[float] = None
        """When the scheduler began to end the allocation."""
        self.kill_at: Optional[float] = None
        """When agents that were ordered to end are killed."""
        self.idle_at = time.monotonic() + float(plan["idle"])

    def run(self) -> int:
        """Serve until the last agent has ended, or none came; return the exit code."""
        while not self._is_over():
            waits = [self.signals.reader, self.listener.fileno()]
            waits += [0] if self.is_input_open else []
            waits += [request.source() for request in self.requests]
            readable = select.select(waits, [], [], self._seconds_left())[0]
            if signal.SIGTERM in self.signals.read():
                self._note_end()
            if 0 in readable:
                self._read_orders()
            if self.kill_at is not None and time.monotonic() > self.kill_at:
                self._signal(signal.SIGKILL)
            for request in list(self.requests):
                if request.source() in readable:
                    self._continue(request)
            if self.listener.fileno() in readable:
                self.requests.append(Request(self.listener.accept()[0]))
        log("ends: no agent is left" if self.has_started else "ends: no host was launched")
        return 0

    def _is_over(self) -> bool:
        ended = [(agent, launch) for agent, launch in self.agents if agent.poll() is not None]
        self.agents = [(agent, launch) for agent, launch in self.agents if agent.returncode is None]
        for _, launch in ended:
            kill_at = None if self.signaled_at is None else self.signaled_at + float(launch.get("grace", _KILL_GRACE))
            run_after(launch, after_limit(time.monotonic(), [self.limit_at, self.ends_at, kill_at]))
        if self.agents or self.requests:
            return False
        return self.has_started or time.monotonic() > self.idle_at

    def _seconds_left(self) -> float:
        moment = self.kill_at if self.has_started else self.idle_at
        return 60.0 if moment is None else max(0.0, min(60.0, moment - time.monotonic()) + 0.1)

    def _note_end(self) -> None:
        """Note that the scheduler ends the allocation: it kills what still runs after its grace."""
        if self.signaled_at is None:
            self.signaled_at = time.monotonic()

    def _read_orders(self) -> None:
        piece = os.read(0, 65_536)
        self.is_input_open = bool(piece)
        *lines, self.orders = (self.orders + piece).split(b"\n")
        for line in lines:
            order = json.loads(line)
            if "notice" in order:
                self.ends_at = time.monotonic() + float(order["notice"])
                for agent, launch in self.agents:
                    self._give_notice(agent, launch)
            if "wait" in order:
                self.idle_at = time.monotonic() + float(order["wait"])
            if "end" in order:
                self._signal(signal.SIGUSR1)
                self.kill_at = time.monotonic() + _END_WITHIN
                self.has_started = True
        if not self.is_input_open:
            log("the pilot has ended")
            self._note_end()
            self._signal(signal.SIGTERM)
            self.has_started = True

    def _give_notice(self, agent: subprocess.Popen[bytes], launch: Dict[str, Any]) -> None:
        """Tell an agent how long its node stays; without the file it takes what its engine configured."""
        if self.ends_at is None or agent.poll() is not None:
            return
        left = max(0.0, self.ends_at - time.monotonic())
        with contextlib.suppress(OSError), open(os.path.join(launch["folder"], NOTICE), "w") as file:
            json.dump({"seconds": left}, file)
        agent.send_signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        for agent, _ in self.agents:
            if agent.poll() is None:
                agent.send_signal(number)

    def _continue(self, request: Request) -> None:
        """Read a part of a request, or that its agent is ready or has ended."""
        if request.child is not None:
            is_ready = bool(os.read(request.ready, 1))
            message = {"ready": True} if is_ready else {"code": request.child.wait()}
            self.requests.remove(request)
            request.answer(message)
            for agent, launch in self.agents:  # a notice may have come before the agent
                if agent is request.child:
                    self._give_notice(agent, launch)
            return
        piece = request.connection.recv(65_536) if is_own(request.connection) else b""
        request.text += piece
        if piece and b"\n" not in request.text and len(request.text) < _LINE_LIMIT:
            return
        try:
            self._start(request, json.loads(request.text))
        except (OSError, ValueError, KeyError) as error:
            self.requests.remove(request)
            request.answer({"error": str(error)})

    def _start(self, request: Request, launch: Dict[str, Any]) -> None:
        """Start an agent that reports readiness by a pipe and ends with this process.

        :raises OSError: it cannot be started.
        """
        request.ready, ready = os.pipe()
        try:
            with open(os.open(launch["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as output:
                request.child = subprocess.Popen(
                    [*launch["words"], "--ready-fd", str(ready), "--parent-fd", str(self.held)],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=launch["folder"],
                    env={**os.environ, **launch["variables"]},
                    pass_fds=(ready, self.held),
                    start_new_session=True,
                )
        finally:
            os.close(ready)
        self.agents.append((request.child, launch))
        self.has_started = True


def run_after(launch: Dict[str, Any], limit: float) -> None:
    """Run the command that follows the end of an agent, if its request has one, for at most ``limit`` seconds."""
    if not launch.get("after"):
        return
    data = json.dumps(launch["question"]).encode() + b"\n"
    try:
        done = subprocess.run(launch["after"], input=data, stdout=subprocess.PIPE, timeout=limit, check=False)
        log(f"after the agent: {done.stdout.decode(errors='replace').strip()}")
    except (OSError, subprocess.TimeoutExpired) as error:
        log(f"after the agent: {error}")


def make_folder(path: str) -> None:
    """Create the folder of hosts, or check the one that exists: in ``/tmp`` another user may have made it.

    :raises OSError: it cannot be created, or is not this user's alone.
    """
    with contextlib.suppress(FileExistsError):
        os.makedirs(path, mode=0o700)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(1, "the folder is a link, or another user can write into it", path)


def parent(plan: Dict[str, Any]) -> int:
    """Run the step parent of one node; return the exit code."""
    try:
        make_folder(os.path.expanduser(plan["folder"]))
    except OSError as error:
        log(f"{socket.gethostname()}: {error}")
        return EXIT_FOLDER
    code = Parent(plan).run()
    sys.stdout.write(f"{socket.gethostname()} has ended\n")
    sys.stdout.flush()
    return code


def main(words: List[str]) -> int:
    """Run the process that the first word names."""
    os.umask(0o077)
    plan: Dict[str, Any] = json.loads(words[1])
    return pilot(plan, words[2]) if words[0] == "pilot" else parent(plan)


def connect_parent(name: str, timeout: float) -> socket.socket:
    """Connect to the parent on this node, which may begin a moment after its allocation.

    :raises OSError: there is none in time.
    """
    end = time.monotonic() + timeout
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(address(name))
        except OSError:
            connection.close()
            if time.monotonic() > end:
                raise
            time.sleep(_PAUSE)
        else:
            return connection


def ask_parent(name: str, launch: Dict[str, Any], timeout: float) -> Dict[str, Any]:
    """Ask the parent on this node for the start of an agent; return its answer.

    :raises OSError: there is no parent here, or it gives no answer in time.
    """
    with connect_parent(name, min(timeout, _PARENT_LIMIT)) as connection:
        connection.settimeout(timeout)
        if not is_own(connection):
            raise PermissionError(1, "another user listens at the address of the step parent")
        connection.sendall(json.dumps(launch).encode() + b"\n")
        text = b""
        while not text.endswith(b"\n"):
            piece = connection.recv(65_536)
            if not piece:
                raise ConnectionResetError(104, "the step parent has ended")
            text += piece
    answer: Dict[str, Any] = json.loads(text)
    return answer


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
