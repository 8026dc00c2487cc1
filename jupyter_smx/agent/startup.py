"""Start a host's agent: claim the folder, enter the host's namespaces, listen on its socket, and serve."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

from jupyter_smx.agent import __version__, errors, wire
from jupyter_smx.agent.forkserver.spawn import spawn
from jupyter_smx.agent.host import config as hostconfig
from jupyter_smx.agent.host.host_isolation import Isolation
from jupyter_smx.agent.paths import ML
from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.agent.system.files.host_folder import CONFIGS, QUEUES, HostFolder
from jupyter_smx.agent.system.isolation import mounts, namespace, opt_ml_links
from jupyter_smx.agent.system.processes import environment, forked_task, process, process_mark
from jupyter_smx.agent.system.processes.event_loop import READ

if TYPE_CHECKING:
    from jupyter_smx.agent.forkserver.spawn import SpawnedZygote
    from jupyter_smx.agent.host.host import Host

LATER = (
    "jupyter_smx.agent.contract.failure",
    "jupyter_smx.agent.job.continuous",
    "jupyter_smx.agent.job.working_folder",
    "jupyter_smx.agent.telemetry.sampler",
    "jupyter_smx.agent.job.inputs",
    "jupyter_smx.agent.job.output_packing",
    "jupyter_smx.agent.job.job",
)
"""Modules that only jobs need, each before those that import it: the controller connects meanwhile."""
AFTER_START = (
    *("shutil", "gzip", "tarfile"),
    "jupyter_smx.agent.stores.input_cache",
    "jupyter_smx.agent.stores.fuse_mount",
    "jupyter_smx.agent.channels.stage_in",
    "hashlib",
)
"""Modules that jobs need for inputs and at their ends; a job that needs one earlier loads it itself."""
_ZYGOTE_LIMIT = 300.0
"""Seconds within which the first zygote comes up: the controller sends jobs before, which wait for it."""
_START = 0.25
"""Seconds after which a host has time for what the start of its first job need not wait for, on few CPUs."""


def claim(folder: HostFolder) -> bool:
    """Claim the host for this process; False when another one has it. A claim is never taken over."""
    try:
        fd = os.open(folder.claim, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    with open(fd, "w", encoding="utf-8") as file:
        json.dump({"pid": os.getpid(), "start_time": process.start_time(os.getpid())}, file)
    return True


def _option(words: List[str], name: str) -> Optional[str]:
    return words[words.index(name) + 1] if name in words else None


def _pipe_option(words: List[str], name: str) -> Optional[int]:
    """Return the descriptor given by an option, not inheritable by processes of the host; None without the option."""
    word = _option(words, name)
    if word is None:
        return None
    os.set_inheritable(int(word), False)
    return int(word)


def _detach() -> None:
    with contextlib.suppress(OSError):
        os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)


def run_agent(words: List[str], first: Optional[SpawnedZygote]) -> int:
    """Run the agent of a folder unless it has one; ``first`` is the process of its first zygote, if it is started.

    Return the exit code.
    """
    folder = HostFolder(words[0])
    try:
        config = hostconfig.read(folder.root)
    except hostconfig.ConfigError as error:
        process.log(str(error))
        return 2
    if not claim(folder):
        process.log(f"{folder.claim}: this host has an agent already")
        return errors.EXIT_CLAIMED
    _detach()
    clean = environment.scrub(os.environ, config.marker())
    os.environ.clear()
    os.environ.update(clean)
    ready_fd, parent_fd = _pipe_option(words, "--ready-fd"), _pipe_option(words, "--parent-fd")
    process.become_subreaper()
    if not config.contained:  # a container ends with all of its processes
        process_mark.apply(config.marker())
    process.set_oom_score(-500)
    folder.make()
    try:
        serve(config, folder, ready_fd, first, parent_fd)
    except opt_ml_links.OptMlTakenError as error:
        process.log(f"does not start: {error}")
        return errors.EXIT_OPT_ML_TAKEN
    return 0


def listen(folder: HostFolder) -> socket.socket:
    """Open the host's socket for its owner only; works for paths that are longer than a socket's name may be."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    directory = os.open(folder.root, os.O_RDONLY)
    mask = os.umask(0o177)
    try:
        short = f"/proc/self/fd/{directory}/{host_layout.SOCKET}"
        listener.bind(short if process.LINUX else folder.socket)
    finally:
        os.umask(mask)
        os.close(directory)
    listener.listen(16)
    return listener


def _write_agent_json(host: Host) -> None:
    content: Dict[str, Any] = {
        "pid": os.getpid(),
        "start_time": process.start_time(os.getpid()),
        "boot_id": process.boot_id(),
        "protocol": wire.PROTOCOL,
        "version": __version__,
        "python": ".".join(str(part) for part in sys.version_info[:3]),
        "isolation": {"mode": host.isolation.mode, "reason": host.isolation.reason},
    }
    path = host.folder.path(host_layout.PROCESS)
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(content, file)
    os.replace(path + ".part", path)


def _isolate(config: hostconfig.HostConfig, folder: HostFolder) -> Isolation:
    """Enter the host's own namespaces, or give the reason why jobs only get variables."""
    if config.contained:
        folder.queues = QUEUES
        # Its engine put them into memory; the host's own folder does not show that.
        folder.unmovable = tuple(os.path.join(ML, name) for name in CONFIGS)
        # As volumes of its image, or what lets programs share a GPU.
        folder.mounted_names = mounts.mounts_in("/tmp", process.read_file("/proc/self/mountinfo"))  # noqa: S108 - jobs' own there
        return Isolation("container", "a container cannot mount")
    if not config.isolate:
        return _link_opt_ml(config, folder, "isolate is off for this host")
    plan, reason = _plan_namespace(folder, config.host, config.addresses)
    return _link_opt_ml(config, folder, reason) if plan is None else _enter(plan)


def _link_opt_ml(config: hostconfig.HostConfig, folder: HostFolder, reason: str) -> Isolation:
    """Let the machine's ``/opt/ml`` lead to this host or its jobs, which has none for a ``reason``, where it may.

    :raises OptMlTakenError: it leads to another host, and this one would have it from its start to its end.
    """
    per_job = config.machine_opt_ml == opt_ml_links.PER_JOB
    if not config.machine_opt_ml or (per_job and not opt_ml_links.is_prepared()):
        return Isolation("variables", reason)
    if len(config.hosts) > 1:
        return Isolation("variables", f"{reason}; several hosts of a job cannot share the {ML} of the machine")
    shared, why = opt_ml_links.share(folder.ml, per_job=per_job)
    if shared is None:
        return Isolation("variables", f"{reason}; {why}")
    return Isolation("links", reason, opt_ml=shared)


def _plan_namespace(
    folder: HostFolder, host: str, addresses: Dict[str, str]
) -> Tuple[Optional[namespace.NamespacePlan], str]:
    """Plan the host's own namespaces; None and the reason where it cannot have them."""
    needed = namespace.needed_paths(folder.root, process.entry(), dict(os.environ), sys.path)
    plan, reason = namespace.make_plan(folder, host, addresses, needed)
    if plan is None:
        return None, reason
    namespace.write_files(plan)
    return namespace.choose_root(plan, needed)


def probe(words: List[str]) -> int:
    """Print as JSON which isolation a host would have, tried in the folder ``DIR``."""
    folder = HostFolder(words[0])
    folder.make()
    plan, reason = _plan_namespace(folder, "algo-1", {"algo-1": hostconfig.LOOPBACK})
    found = {"mode": "variables", "reason": reason} if plan is None else {"mode": "namespace", "reason": plan.reason}
    sys.stdout.write(json.dumps(found))
    return 0


def _enter(plan: namespace.NamespacePlan) -> Isolation:
    machine = socket.gethostname()
    outside = namespace.enter(plan)
    os.chdir(plan.folder.root)
    plan.folder.root_entries = outside.root
    forked_task.PRESERVED_FDS.update(fd for fd in (outside.inputs, outside.tmp) if fd is not None)
    # Inputs may lie in the machine's /tmp.
    hidden = () if outside.tmp is None else (("/tmp", f"/proc/self/fd/{outside.tmp}"),)  # noqa: S108
    return Isolation("namespace", plan.reason, hidden, machine, f"/proc/self/fd/{outside.inputs}")


def _announce_ready(host: Host, ready_fd: Optional[int]) -> None:
    host.fork_server.on_ready = None
    try:
        _write_agent_json(host)
    except OSError as error:  # the engine waits for this file, and would wait until its time-out
        host.shut_down(
            f"readiness cannot be reported: {error}",
            errors.exit_code(error),
        )
        return
    host.mark_ready()
    process.log(f"ready: host {host.config.host}, isolation {host.isolation.mode} {host.isolation.reason}")
    if ready_fd is not None:
        with contextlib.suppress(OSError):
            os.write(ready_fd, b"1")
            os.close(ready_fd)


def _accept_controllers(host: Host, listener: socket.socket) -> None:
    from jupyter_smx.agent.controller_connection import ControllerEndpoint  # noqa: PLC0415 - see `serve`

    ControllerEndpoint(host, listener)
    host.loop.later(0, lambda: _load_rest(host))


def _load_rest(host: Host, names: Sequence[str] = LATER) -> None:
    """Load what jobs need, one module in each turn of the event loop; end the host if that fails."""
    if not names:
        return
    try:
        importlib.import_module(names[0])
    except Exception as error:  # noqa: BLE001 - a damaged archive raises anything, and each job would fail
        host.shut_down(f"its program cannot be loaded: {error}", code=1)
    host.loop.later(0, lambda: _load_rest(host, names[1:]))


def _check_zygote(host: Host) -> None:
    if not host.is_ready:
        host.shut_down(f"its first zygote did not come up within {_ZYGOTE_LIMIT:g} s", code=1)


def _prepare_ends(host: Host) -> None:
    """Load what jobs need later, and read the installed packages, which the records of jobs name."""
    for name in AFTER_START:
        with contextlib.suppress(Exception):  # the jobs that need it report that
            importlib.import_module(name)
    host.packages.read_ahead()
    gc.freeze()  # all that is loaded now stays; only garbage of later jobs is worth a collection
    gc.enable()


def _watch_parent(host: Host, fd: int) -> None:
    """End the host as soon as the pipe closes that its parent keeps open: the engine can do nothing for it any more."""
    os.set_blocking(fd, False)

    def read() -> None:
        try:
            closed = not os.read(fd, 4096)
        except BlockingIOError:
            return
        except OSError:
            closed = True
        if closed:
            host.loop.unwatch(fd)
            host.shut_down("the process that started this host has ended")

    host.loop.watch(fd, READ, read)


def serve(
    config: hostconfig.HostConfig,
    folder: HostFolder,
    ready_fd: Optional[int],
    first: Optional[SpawnedZygote],
    parent_fd: Optional[int] = None,
) -> None:
    """Isolate the host and serve it until its end.

    ``first`` is the process of its first zygote, if it is started. The host ends when ``parent_fd``, a pipe, closes.
    """
    isolation = _isolate(config, folder)
    if first is None:
        first = spawn(process.entry(), isolation.zygote_environment(folder))
    # To load the rest takes about as long as the zygote takes to come up, and to fork a child; see `serve`.
    from jupyter_smx.agent.host.host import Host  # noqa: PLC0415 - as said

    host = Host(config, folder, isolation, process.entry())
    host.loop.on_signal(signal.SIGTERM, host.give_notice)
    host.loop.on_signal(signal.SIGUSR1, lambda: host.shut_down("the engine announced the end of this host"))
    host.fork_server.on_ready = lambda: _announce_ready(host, ready_fd)
    host.fork_server.start(list(config.preload), first)
    _accept_controllers(host, listen(folder))
    if parent_fd is not None:
        _watch_parent(host, parent_fd)
    host.loop.later(_START, lambda: _prepare_ends(host))
    host.loop.later(_ZYGOTE_LIMIT, lambda: _check_zygote(host))
    host.check_deadline()
    host.loop.run()
