"""Run ``mpirun`` over the hosts of a job: Open MPI's own, without sshd.

The leading host runs ``mpirun``. Instead of ``ssh``, mpirun calls this program again (``reach``), which sends the
command to the other host: to a socket in the folder of the job, or on another machine to a port at its address, with
the job's key. The process of the job there (``run_worker``) runs the command in its own namespaces and ends with it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Callable, Dict, List

from jupyter_smx.agent.contract import distribution
from jupyter_smx.agent.errors import RefusalError
from jupyter_smx.agent.launchers import address_rendezvous, line_demux, mpi_programs, open_mpi, rendezvous
from jupyter_smx.agent.launchers.address_rendezvous import AddressRendezvous, Rendezvous
from jupyter_smx.agent.launchers.rendezvous import FolderRendezvous
from jupyter_smx.agent.system.named_tuple import NamedTuple
from jupyter_smx.agent.system.processes import process

if TYPE_CHECKING:
    from jupyter_smx.agent.launchers.host_connection import HostConnection
    from jupyter_smx.agent.paths import HostInfo

_SOCKET_NAME = "orted.sock"
_CHUNK = 64 * 1024
_NO_SCHEDULER = ("-mca", "plm", "rsh", "-mca", "ras", "^slurm,tm,lsf,gridengine")
"""Open MPI uses our hosts also within a job of a scheduler, whose own nodes and commands it would prefer."""
_LOST = 255
"""Exit code of ssh if the connection is lost."""
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


class MpiPart(NamedTuple):
    """One host's part in one job; ``script`` is the arguments of Python, ``job`` the job's folder here."""

    found: distribution.Distribution
    place: HostInfo
    script: List[str]
    job: str
    rendezvous: Rendezvous
    first_line: Callable[[], None]

    def rank_command(self, programs: mpi_programs.Programs) -> List[str]:
        """Return the command of a rank; on several machines a program that has this host's own paths."""
        return self._words() if self.place.shares_machine() else [programs.rank]

    def programs(self) -> Dict[str, str]:
        """Return the texts of the programs for ``mpirun`` on this host, by name."""
        texts = {mpi_programs.REMOTE_SHELL: mpi_programs.remote_shell_text(self.job)}
        if not self.place.shares_machine():
            own = mpi_programs.own_variables(os.environ, self.place)
            texts[mpi_programs.RANK] = mpi_programs.rank_text(os.getcwd(), own, self._words())
        return texts

    def _words(self) -> List[str]:
        return [sys.executable, "-m", "mpi4py", *self.script]


def run_leader(part: MpiPart) -> int:
    """Run ``mpirun``, print its output with the ranks' names; return its exit code.

    :raises RefusalError: this machine has no Open MPI, the job's Python no mpi4py, or another host cannot take part.
    """
    mpirun = _require_program("mpirun")
    found, rendezvous = part.found, part.rendezvous
    words = distribution.mpirun_arguments(found, part.place, os.environ)
    with mpi_programs.leader_programs(part.programs(), apart=not part.place.shares_machine()) as programs:
        if isinstance(rendezvous, AddressRendezvous):
            programs.write_settings({**rendezvous.settings(), "names": _names(part), "version": open_mpi.version()})
        own = ["-mca", "plm_rsh_agent", programs.remote_shell, "-mca", "orte_leave_session_attached", "1"]
        command = [mpirun, *own, *_NO_SCHEDULER, *words, *part.rank_command(programs)]
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "bufsize": 0}
        program = open_mpi.OpenMpiProgram(command, programs.remote_shell, **how)
        with program.popen as running:
            chunks = iter(functools.partial(running.stdout.read, _CHUNK), b"")  # type: ignore[union-attr]
            for text in line_demux.merge_lines(chunks):
                _write_all(text if found.driven else tag_line(text, found))
            code = program.wait()
        refusal = programs.read_refusal()
    program.restore_sigterm()
    if code and refusal:
        raise RefusalError(refusal)
    return code if code >= 0 else 128 - code


def _names(part: MpiPart) -> Dict[str, str]:
    """Return each host by the name that mpirun has for it."""
    return dict(zip(distribution.mpi_hosts(part.found.hosts, part.place), part.found.hosts))


def _write_all(text: bytes) -> None:
    while text:
        text = text[os.write(1, text) :]


def run_worker(part: MpiPart) -> int:
    """Run the command that the leading host sends; a host that only helps has the exit code 0.

    :raises RefusalError: this machine has no Open MPI, or another version, or the job's Python no mpi4py.
    """
    _require_program("orted")
    visitor = None
    with part.rendezvous.listen() as listener:
        while visitor is None:
            visitor = part.rendezvous.accept(listener)
    with visitor.socket:
        asked = visitor.receive()
        refusal = _version_refusal(part, asked.get("version", ""))
        if refusal:
            visitor.send({"code": _LOST, "refusal": refusal})
            raise RefusalError(refusal)
        part.first_line()
        with mpi_programs.worker_programs(asked["program"], part.programs(), apart=not part.place.shares_machine()):
            program = open_mpi.OpenMpiProgram(open_mpi.shell_command(asked["command"]), asked["program"])
            code = program.wait()
        with contextlib.suppress(OSError):  # if both get SIGTERM, the leading host may have exited first
            visitor.send({"code": code})
    program.restore_sigterm()
    return 0


def _version_refusal(part: MpiPart, leader: str) -> str:
    """Return why Open MPI here cannot work with that of the leading host; "" if it can, or hosts share a machine."""
    own = open_mpi.version() if leader else ""
    if leader.split(".")[:2] == own.split(".")[:2] or not own:
        return ""
    return (
        f"distribution: mpi needs the same Open MPI on every host: {part.found.hosts[0]} has {leader}, and "
        f"{part.place.host} has {own}. Install one version, or choose machines that have it."
    )


def remote_shell(words: List[str]) -> int:
    """Replace ssh for mpirun: run ``JOB_FOLDER PROGRAM HOST WORDS…`` on the other host; return its exit code."""
    job, program, name, command = words[0], words[1], words[2], " ".join(words[3:])
    programs = mpi_programs.Programs(os.path.dirname(program))
    settings = programs.read_settings()
    host = settings["names"][name] if settings else name
    asked = {"command": command, "program": program, "version": settings["version"] if settings else ""}
    place: Rendezvous = FolderRendezvous(job, _SOCKET_NAME)
    if settings:
        place = AddressRendezvous(settings["key"], settings["host"], settings["ends"])
    try:
        connection = _wait_for_host(place, host)
        connection.send(asked)
        said = open_mpi.wait_for_remote(connection)
    except RefusalError as refusal:
        programs.write_refusal(str(refusal))
        return _LOST
    except (EOFError, OSError):
        return _LOST
    if "refusal" in said:
        programs.write_refusal(said["refusal"])
    code = int(said["code"])
    return code if code >= 0 else 128 - code


def _wait_for_host(place: Rendezvous, host: str) -> HostConnection:
    until = time.monotonic() + rendezvous.PATIENCE
    while time.monotonic() < until:
        connection = place.connect(host)
        if connection is not None:
            return connection
        time.sleep(rendezvous.RETRY_DELAY)
    raise RefusalError(f"distribution: {host} was not ready within {rendezvous.PATIENCE:.0f} s.")


def run(
    found: distribution.Distribution,
    host_info: HostInfo,
    script: List[str],
    job: str,
    first_line: Callable[[], None],
    key: str,
) -> int:
    """Do this host's part of ``script``, the arguments of Python; return the exit code.

    :raises RefusalError: a program is missing here, or these hosts cannot work together.
    """
    if not process.LINUX:
        raise RefusalError("distribution: hosts reach each other for mpi on Linux only.")
    together = address_rendezvous.hosts_of_one_machine(host_info, found.hosts)
    if together:
        raise RefusalError(
            f"distribution: {' and '.join(together)} share a machine, and other hosts are on another one. To Open MPI, "
            "hosts with one address are one host. Use at most as many hosts as machines, or one machine for all."
        )
    sys.stdout.flush()
    place = address_rendezvous.make_rendezvous(host_info, key, job, _SOCKET_NAME)
    part = MpiPart(found, host_info, script, job, place, first_line)
    if host_info.host != found.hosts[0]:
        return run_worker(part)
    first_line()
    return run_leader(part)
