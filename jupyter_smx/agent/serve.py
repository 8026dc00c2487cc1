"""The start of an agent: claim the host's folder, get a world of its own, listen, and say that it is ready."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
from typing import Any, Dict, List, Optional, Tuple

from jupyter_smx.agent import __version__, wire
from jupyter_smx.agent.connection import Door
from jupyter_smx.agent.hosts import hostconfig
from jupyter_smx.agent.hosts.host import Host, Isolation, say
from jupyter_smx.agent.place import ML
from jupyter_smx.agent.system import environment, errand, namespace, process
from jupyter_smx.agent.system.folder import CONFIGS, QUEUES, HostFolder

CLAIMED = 3
"""Exit code of an agent whose host has one already."""


def claim(folder: HostFolder) -> bool:
    """Take the host for this process; False when another one has it. A claim is never taken over."""
    try:
        fd = os.open(folder.claim, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    with open(fd, "w", encoding="utf-8") as file:
        json.dump({"pid": os.getpid(), "start_time": process.start_time(os.getpid())}, file)
    return True


def listen(folder: HostFolder) -> socket.socket:
    """Open the host's socket for its owner only; works for paths that are longer than a socket's name may be."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    directory = os.open(folder.root, os.O_RDONLY)
    mask = os.umask(0o177)
    try:
        short = f"/proc/self/fd/{directory}/agent.sock"
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
    path = host.folder.path("agent.json")
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(content, file)
    os.replace(path + ".part", path)


def _option(words: List[str], name: str) -> Optional[str]:
    return words[words.index(name) + 1] if name in words else None


def _stand_alone() -> None:
    with contextlib.suppress(OSError):
        os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)


def _write_into(path: str) -> None:
    """Let what this process says go to a file: a container's own log ends with it, and is read by other means."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)


def _isolate(config: hostconfig.HostConfig, folder: HostFolder) -> Isolation:
    """Enter the host's own namespaces, or say why jobs only get variables."""
    if config.contained:
        folder.queues = QUEUES
        # Its engine put them into memory; the host's own folder does not show that.
        folder.apart = tuple(os.path.join(ML, name) for name in CONFIGS)
        return Isolation("container", "a container mounts nothing by itself")
    if not config.isolate:
        return Isolation("variables", "isolate is off for this host")
    plan, reason = _try_out(folder, config.host, config.addresses)
    return Isolation("variables", reason) if plan is None else _enter(plan)


def _try_out(folder: HostFolder, host: str, addresses: Dict[str, str]) -> Tuple[Optional[namespace.Plan], str]:
    """Find out whether a host can have a world of its own here; None and the reason when it cannot."""
    needed = namespace.needed_paths(folder.root, process.entry(), dict(os.environ), sys.path)
    plan, reason = namespace.make_plan(folder, host, addresses, needed)
    if plan is None:
        return None, reason
    namespace.write_files(plan)
    reason = namespace.probe(plan, needed)
    return (None, reason) if reason else (plan, "")


def probe(words: List[str]) -> int:
    """Print as JSON which isolation a host would have, tried out in a folder of its own: ``DIR``."""
    folder = HostFolder(words[0])
    folder.make()
    plan, reason = _try_out(folder, "algo-1", {"algo-1": hostconfig.LOOPBACK})
    sys.stdout.write(json.dumps({"mode": "variables" if plan is None else "namespace", "reason": reason}))
    return 0


def _enter(plan: namespace.Plan) -> Isolation:
    machine = socket.gethostname()
    outside = namespace.enter(plan)
    os.chdir(plan.folder.root)
    errand.KEPT.update(fd for fd in outside if fd is not None)
    # Inputs may lie in the machine's /tmp.
    hidden = () if outside.tmp is None else (("/tmp", f"/proc/self/fd/{outside.tmp}"),)  # noqa: S108
    return Isolation("namespace", "", hidden, machine, f"/proc/self/fd/{outside.inputs}")


def _ready(host: Host, ready_fd: Optional[str]) -> None:
    host.nursery.on_ready = None
    _write_agent_json(host)
    say(f"ready: host {host.config.host}, isolation {host.isolation.mode} {host.isolation.reason}")
    if ready_fd is not None:
        with contextlib.suppress(OSError):
            os.write(int(ready_fd), b"1")
            os.close(int(ready_fd))


def main(words: List[str]) -> int:
    """Serve the host of a folder: ``DIR [--ready-fd N]``; gives the exit code."""
    folder = HostFolder(words[0])
    try:
        config = hostconfig.read(folder.root)
    except hostconfig.ConfigError as error:
        say(str(error))
        return 2
    if not claim(folder):
        say(f"{folder.claim}: this host has an agent already")
        return CLAIMED
    _stand_alone()
    if config.contained:
        _write_into(folder.path("agent.log"))
    clean = environment.scrub(os.environ, config.marker())
    os.environ.clear()
    os.environ.update(clean)
    ready_fd = _option(words, "--ready-fd")
    if ready_fd is not None:
        os.set_inheritable(int(ready_fd), False)
    process.become_subreaper()
    process.set_oom_score(-500)
    folder.make()
    host = Host(config, folder, _isolate(config, folder), process.entry())
    Door(host, listen(folder))
    host.nursery.on_ready = lambda: _ready(host, ready_fd)
    for number in (signal.SIGTERM, signal.SIGUSR1):
        host.loop.on_signal(number, lambda: host.end("the engine gave notice"))
    host.nursery.start(list(config.preload))
    if config.contained:
        # Containers take long to start: whoever waits for this one meets it while its first child is on its way.
        _ready(host, ready_fd)
    host.packages.read_ahead()
    host.watch_deadline()
    host.loop.run()
    return 0
