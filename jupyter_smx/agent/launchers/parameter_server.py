"""Run a TensorFlow parameter server beside the script of each host, until the leading host's script ends.

SageMaker's image of TensorFlow starts it, so scripts connect to it and start none. It is a fork of the job's process,
as the script is: if the host has preloaded TensorFlow, neither of them imports it again.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import signal
import socket
import sys
import traceback
from typing import TYPE_CHECKING, Any, List, NoReturn, Optional, Tuple

from jupyter_smx.agent.contract import entry_point, tfconfig
from jupyter_smx.agent.errors import RefusalError
from jupyter_smx.agent.launchers import child_processes
from jupyter_smx.agent.launchers.child_processes import SignalWaiter
from jupyter_smx.agent.system.processes import process

if TYPE_CHECKING:
    from jupyter_smx.agent.code.execute import RunResult
    from jupyter_smx.agent.paths import HostInfo

_RETRY_DELAY = 0.5
"""Seconds after which a host with a finished script checks again whether the leading host still trains."""
_CONNECTS = 5.0
_LONGEST = 900
"""Characters of what a server raised."""


class ServerError(Exception):
    """The server ended before the script did; the text is a sentence."""


def run_with_server(hosts: List[str], host_info: HostInfo, result: RunResult, *, asked: bool) -> bool:
    """Start a server here, of which each of ``hosts`` has one; the first of them leads.

    ``asked`` is True if the request names our option. SageMaker's flag alone is also used by its other images, and
    those start none: without TensorFlow it is ignored.

    Returns True in the process that must run the script. The supervisor of both returns only if something is missing or
    has ended too early, with a sentence in ``result``.
    """
    if len(hosts) == 1:
        return True  # a group of one host needs no server
    if not asked and not _has_tensorflow():
        entry_point.print_note("the job's Python has no TensorFlow, so there is no parameter server.")
        return True
    try:
        _require_tensorflow()
        return _begin(hosts, host_info)
    except RefusalError as refusal:
        result.refuse(str(refusal))
    except ServerError as broken:
        result.fail_with_message(str(broken))
    return False


def _has_tensorflow() -> bool:
    return importlib.util.find_spec("tensorflow") is not None


def _require_tensorflow() -> None:
    if not process.LINUX:
        raise RefusalError("distribution: parameter_server forks the script, which only Linux does safely.")
    if not _has_tensorflow():
        raise RefusalError(
            "distribution: parameter_server needs TensorFlow, which the job's Python does not have. "
            "Choose another one with --python, or add tensorflow to --requirements."
        )


def _begin(hosts: List[str], host_info: HostInfo) -> bool:
    entry_point.print_note(f"a parameter server of TensorFlow's works here, at port {tfconfig.server_port(host_info)}.")
    said, says = os.pipe()
    server = os.fork()
    if server == 0:
        os.close(said)
        _serve(hosts, host_info, says)
    os.close(says)
    signals = SignalWaiter()
    script = os.fork()
    if script == 0:
        os.close(said)
        signals.restore_handlers()
        return True
    return _watch(hosts, host_info, signals, _Server(server, said), script)


def _serve(hosts: List[str], host_info: HostInfo, says: int) -> NoReturn:
    """Run the server until it is killed: scripts need it while they clean up after a stop."""
    process.die_with_parent()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    try:
        tensorflow: Any = importlib.import_module("tensorflow")
        server = tensorflow.distribute.Server(
            tensorflow.train.ClusterSpec(tfconfig.cluster(hosts, host_info)),
            job_name="ps",
            task_index=hosts.index(host_info.host),
            # The GPUs are the script's: two processes of TensorFlow's take each other's memory.
            config=tensorflow.compat.v1.ConfigProto(device_count={"GPU": 0}),
        )
        server.join()
    except BaseException as error:  # noqa: BLE001 - border: TensorFlow's code, and whatever stands for it
        traceback.print_exc()
        with contextlib.suppress(Exception):
            os.write(says, f" ({type(error).__name__}: {error})"[:_LONGEST].encode())
    finally:
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        os._exit(1)


class _Server:
    """The process of the server, and its last error output."""

    def __init__(self, pid: int, said: int) -> None:
        self._pid = pid
        self._stderr_fd = said
        self._status: Optional[int] = None

    def has_exited(self) -> bool:
        """Return True if the process has exited by itself."""
        if self._status is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self._status = status if pid else None
        return self._status is not None

    def exit_reason(self) -> str:
        """Return its exception, or the signal that killed it, in brackets."""
        if self._status is not None and os.WIFSIGNALED(self._status):
            number = os.WTERMSIG(self._status)
            memory = ", which often means that memory ran out" if number == signal.SIGKILL else ""
            return f" (killed by signal {number}{memory})"
        return os.read(self._stderr_fd, 4 * _LONGEST).decode(errors="replace")

    def terminate(self) -> None:
        """End it."""
        if not self.has_exited():
            os.kill(self._pid, signal.SIGKILL)
            self._status = os.waitpid(self._pid, 0)[1]


def _watch(hosts: List[str], host_info: HostInfo, signals: SignalWaiter, server: _Server, script: int) -> NoReturn:
    """Wait for the script, then until no host needs the server any more, and exit with the script's status."""
    status: Optional[int] = None
    while status is None:
        pid, found = os.waitpid(script, os.WNOHANG)
        if pid:
            status = found
        elif server.has_exited():
            child_processes.terminate_script(script)
            raise ServerError(
                f"The parameter server of {host_info.host} ended before the script{server.exit_reason()}. Its "
                "log has details."
            )
        else:
            signals.wait()
    if status == 0 and host_info.host != hosts[0]:
        _wait_for_leader(hosts, host_info, signals, server)
    server.terminate()
    child_processes.exit_like(status)


def _wait_for_leader(hosts: List[str], host_info: HostInfo, signals: SignalWaiter, server: _Server) -> None:
    """Keep the server running while the leading host trains, as SageMaker's image does; a stop ends it at once."""
    leader = host_info.address_of(hosts[0]), tfconfig.leader_port(hosts, host_info)
    while not (signals.has_sigterm or server.has_exited()) and _listens(leader):
        signals.wait(seconds=_RETRY_DELAY)


def _listens(address: Tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, _CONNECTS).close()
    except OSError:
        return False
    return True
