"""Run ``mpirun`` over the hosts of a job: Open MPI's own, with rendezvous sockets instead of sshd.

The leading host runs ``mpirun``. Instead of ``ssh``, mpirun calls this program again (``reach``), which sends the
command to a socket in the folder of the job on the other host. The process of the job there (``run_worker``) runs
the command in its own namespaces and ends with it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Callable, Dict, Iterator, List

from jupyter_smx.agent import wire
from jupyter_smx.agent.contract import distribution
from jupyter_smx.agent.errors import RefusalError
from jupyter_smx.agent.launchers import line_demux, open_mpi, rendezvous
from jupyter_smx.agent.system.processes import process

if TYPE_CHECKING:
    from jupyter_smx.agent.paths import HostInfo

_SOCKET_NAME = "orted.sock"
_CHUNK = 64 * 1024
_TAG = re.compile(rb"\[(\d+),(\d+)\]<(stdout|stderr)>")


def tag_line(line: bytes, found: distribution.Distribution) -> bytes:
    """Replace the tag of a line of mpirun's by rank and host, as sagemaker-training does."""

    def format_tag(match: re.Match[bytes]) -> bytes:
        job, rank, stream = match.groups()
        index = int(rank) // found.processes
        host = found.hosts[index] if index < len(found.hosts) else found.hosts[-1]
        return b"[%s,mpirank:%s,%s]<%s>" % (job, rank, host.encode(), stream)

    return _TAG.sub(format_tag, line)


def _require_program(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise RefusalError(
            f"distribution: mpi needs Open MPI's {program} on every host, but this machine does not have it. "
            "On Debian: apt-get install openmpi-bin."
        )
    if importlib.util.find_spec("mpi4py") is None:
        raise RefusalError(
            "distribution: mpi needs mpi4py, which the job's Python does not have. "
            "Choose another one with --python, or add mpi4py to --requirements."
        )
    return path


def _remote_shell(path: str, job: str) -> None:
    """Write the program that mpirun calls instead of ssh; its first argument is its own path."""
    text = f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -I {shlex.quote(process.entry())} reach {shlex.quote(job)}"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text + ' "$0" "$@"\n')
    os.chmod(path, 0o700)


@contextlib.contextmanager
def _remote_shell_on_worker(path: str, job: str) -> Iterator[None]:
    """Provide that program on a host that the leading one reaches: most hosts have a ``/tmp`` of their own.

    mpirun passes its path on to Open MPI there, which does not start if the path does not exist.
    """
    folder = os.path.dirname(path)
    if os.path.exists(folder):  # the hosts share it
        yield
        return
    os.makedirs(folder, mode=0o700)
    try:
        _remote_shell(path, job)
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_leader(words: List[str], script: List[str], found: distribution.Distribution, job: str) -> int:
    """Run ``mpirun`` with these arguments, print its output with the ranks' names; return its exit code.

    :raises RefusalError: this machine has no Open MPI, or the job's Python no mpi4py.
    """
    mpirun = _require_program("mpirun")
    # In a folder without spaces in its name: mpirun splits the command at spaces.
    shell = os.path.join(tempfile.mkdtemp(prefix="smx-mpi-"), "reach")
    _remote_shell(shell, job)
    own = ["-mca", "plm_rsh_agent", shell, "-mca", "orte_leave_session_attached", "1"]
    command = [mpirun, *own, *words, sys.executable, "-m", "mpi4py", *script]
    try:
        program = open_mpi.OpenMpiProgram(command, shell, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0)
        with program.popen as running:
            chunks = iter(functools.partial(running.stdout.read, _CHUNK), b"")  # type: ignore[union-attr]
            for text in line_demux.merge_lines(chunks):
                _write_all(text if found.driven else tag_line(text, found))
            code = program.wait()
    finally:
        shutil.rmtree(os.path.dirname(shell), ignore_errors=True)
    program.restore_sigterm()
    return code if code >= 0 else 128 - code


def _write_all(text: bytes) -> None:
    while text:
        text = text[os.write(1, text) :]


def run_worker(job: str, first_line: Callable[[], None]) -> int:
    """Run the command that the leading host sends; a host that only helps has the exit code 0.

    :raises RefusalError: this machine has no Open MPI, or the job's Python no mpi4py.
    """
    _require_program("orted")
    with rendezvous.listen(job, _SOCKET_NAME) as listener:
        visitor = listener.accept()[0]
    with visitor:
        asked: Dict[str, str] = wire.receive(visitor).header
        first_line()
        with _remote_shell_on_worker(asked["program"], job):
            program = open_mpi.OpenMpiProgram(open_mpi.shell_command(asked["command"]), asked["program"])
            code = program.wait()
        with contextlib.suppress(OSError):  # if both get SIGTERM, the leading host may have exited first
            visitor.sendall(wire.encode({"code": code}))
    program.restore_sigterm()
    return 0


def remote_shell(words: List[str]) -> int:
    """Replace ssh for mpirun: run ``JOB_FOLDER PROGRAM HOST WORDS…`` on the other host; return its exit code."""
    job, program, host, command = words[0], words[1], words[2], " ".join(words[3:])
    folder, until = rendezvous.peer_folder(job, host), time.monotonic() + rendezvous.PATIENCE
    while time.monotonic() < until:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            if not rendezvous.can_connect(connection, folder, _SOCKET_NAME):
                time.sleep(rendezvous.RETRY_DELAY)
                continue
            connection.sendall(wire.encode({"command": command, "program": program}))
            try:
                code = open_mpi.wait_for_remote(connection)
            except (EOFError, OSError):
                code = 255  # as ssh, if the connection is lost
            return code if code >= 0 else 128 - code
    sys.stderr.write(f"{host} did not open its door for {rendezvous.PATIENCE:.0f} s\n")
    return 255


def run(
    found: distribution.Distribution, host_info: HostInfo, script: List[str], job: str, first_line: Callable[[], None]
) -> int:
    """Do this host's part of ``script``, the arguments of Python; return the exit code.

    :raises RefusalError: a program is missing here.
    """
    if not process.LINUX:
        raise RefusalError("distribution: hosts reach each other for mpi on Linux only.")
    sys.stdout.flush()
    if host_info.host != found.hosts[0]:
        return run_worker(job, first_line)
    first_line()
    return run_leader(distribution.mpirun_arguments(found, host_info, os.environ), script, found, job)
