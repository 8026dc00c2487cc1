"""A parked job process: forked and prepared early, it waits on its socket for a run request."""

from __future__ import annotations

import contextlib
import gc
import linecache
import os
import select
import signal
import socket
import sys
from typing import TYPE_CHECKING, List, Tuple, cast

from jupyter_smx.agent import wire
from jupyter_smx.agent.code import execute, import_effects, imports
from jupyter_smx.agent.contract import scriptmode
from jupyter_smx.agent.forkserver import contract_writer, job_modules, job_process
from jupyter_smx.agent.system.interpreter import clocks, random_generators
from jupyter_smx.agent.system.named_tuple import NamedTuple
from jupyter_smx.agent.system.processes import environment, process, threads
from jupyter_smx.agent.system.resources import cgroups

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import ChildMessage
    from jupyter_smx.agent.paths import HostInfo

_NICE = 5
_OOM_SCORE = 500
_WARM_UP_SPEC = {"source": "pass\n", "filename": "<rehearsal>", "hyperparameters": {"a": "1"}}


class ChildSetup(NamedTuple):
    """What a child gets before its job: its log, the host, and its number of threads.

    The log comes as two descriptors, for stdout and stderr. The job's folder may be renamed at any time, since a job
    does not wait for its child.
    """

    logs: Tuple[int, int]
    place: HostInfo
    threads: int
    notes: List[str]


def _detach() -> None:
    with contextlib.suppress(OSError):
        os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    process.set_oom_score(_OOM_SCORE)
    process.set_name(job_process.NAME)


def _hide_agent_modules(setup: ChildSetup) -> None:
    """Hide our package and its archive from the job's imports."""
    imports.hide_agent_modules()
    if sys.path:
        sys.path[0] = setup.place.path("code")
    os.environ["PYTHONPATH"] = os.pathsep.join(
        entry for entry in (setup.place.path("code"), os.environ.get("PYTHONPATH", "")) if entry
    )


def _enter_code_folder(setup: ChildSetup) -> None:
    # The job before may have removed the folder; it is there again when this job begins.
    with contextlib.suppress(OSError):
        os.chdir(setup.place.path("code"))


def _warm_up(setup: ChildSetup) -> None:
    """Walk the whole way of a job, so that its pages are copied and its lazy parts are loaded already."""
    before, argv = dict(os.environ), list(sys.argv)
    _run_warm_up_job(setup)
    for name in set(os.environ) - set(before):
        del os.environ[name]
    os.environ.update(before)
    sys.argv = argv
    linecache.cache.pop(str(_WARM_UP_SPEC["filename"]), None)


def _run_warm_up_job(setup: ChildSetup) -> None:
    """Run a job that does nothing and leaves nothing, because another job may be running in the same folders."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        spec = scriptmode.complete(dict(_WARM_UP_SPEC, kind="train"))
        ours.sendall(wire.encode({"spec": spec, "folder": os.devnull}))
        message = cast("ChildMessage", wire.receive(theirs).header)
        job = job_process.JobRun(theirs, message, setup.place, setup.notes, contract_writer.NULL_WRITER)
        job.write_contract()
        job.main.__dict__.update(execute.unpack(None))
        execute.execute(
            execute.load(spec["source"], spec["filename"], job.main), job.main, job.first_line, execute.RunResult()
        )


def prepare(setup: ChildSetup, *, is_job_waiting: bool = False) -> None:
    """Do everything that needs no knowledge of the job; a job that is waiting needs no rehearsal before it."""
    joining = cgroups.GroupJoin(cgroups.current().groups)
    _detach()
    job_process.redirect_output(*setup.logs)
    _enter_code_folder(setup)
    threads.limit(setup.threads)
    if os.environ.get(environment.SPIN_VARIABLE) == environment.SPIN:
        del os.environ[environment.SPIN_VARIABLE]
    random_generators.reseed()
    clocks.restart()  # as the job does once more, which then finds the pages copied
    execute.drop_exit_handlers()
    if not is_job_waiting:
        _warm_up(setup)
    _hide_agent_modules(setup)
    import_effects.begin_job()
    gc.enable()
    unbound = joining.wait()
    if unbound:
        setup.notes.append(f"host: CPU and memory of this job are not limited: {unbound}.")


def run_child(sock: socket.socket, setup: ChildSetup) -> None:
    """Prepare, wait for a job in the parked state, and run it; never returns."""

    def begin() -> int:
        prepare(setup, is_job_waiting=bool(select.select([sock], [], [], 0)[0]))
        job_modules.load_while_waiting(sock)
        try:
            message = cast("ChildMessage", wire.receive(sock).header)
        except (EOFError, OSError):
            os._exit(0)
        job_modules.load_for_job(message, setup.place)
        job = job_process.JobRun(sock, message, setup.place, setup.notes)
        return job.run(job.prepare)

    job_process.run_and_exit(sock, begin)
