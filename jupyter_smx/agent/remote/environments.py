"""Build environments of requirements on this machine, each once; list them, and remove those that nothing uses.

``ROOT/environments/NAME`` is one: ``venv``, ``build.log``, ``lock``, and ``ready.json``. That file is written last, and
its modification time is the last use. NAME is a hash of the identity that the engine gave and of the base: its path,
version, platform and C library. ``ROOT/wheels/NAME`` has packages that the controller sent for one build.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, NoReturn, Optional

from jupyter_smx.agent.code import environment_build
from jupyter_smx.agent.remote import records
from jupyter_smx.agent.remote.verb_error import VerbError
from jupyter_smx.agent.system.files import rmtree

if TYPE_CHECKING:
    from jupyter_smx.agent.remote.cluster_store import ClusterStore

FOLDER = "environments"
WHEELS = "wheels"
_DIGITS = 20
_DESCRIBE = """\
import json, os, platform, sys, sysconfig
try:
    libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
except (AttributeError, OSError, ValueError):
    libc = ""
print(json.dumps({
    "python": sys.executable, "version": platform.python_version(), "implementation": sys.implementation.name,
    "platform": sysconfig.get_platform(), "libc": libc, "variables": dict(os.environ),
}))
"""
_DESCRIBE_TIMEOUT = 60.0
"""Seconds; an interpreter on a slow network disk may take long to start."""
_PIECE = 4_096
_MAX_LINE = 4_000
"""Characters of an installer's line that are reported; the log has the rest."""
_UNKNOWN_ARGUMENT = "unexpected argument"
"""Part of the error message of an older uv for an unknown option."""
_WHEELS_AGE = 86_400.0
"""Seconds after which packages that were sent for a build that never began are removed."""
_MIN_UNUSED = 600.0
"""Seconds for which an environment stays after its last use: hosts may be starting with it."""


def environment(store: ClusterStore, request: Dict[str, Any]) -> Dict[str, Any]:
    """Provide an environment; kill all started processes if the input or the output is closed.

    ``request`` has

    - ``python`` (a path; "" is the Python that runs this) and ``setup``: lines for a login shell that come before it;
    - ``identity``, ``lines``, ``pip_lines`` (the same as pip reads them) and ``only``;
    - ``installer`` (``auto`` or ``pip``), ``variables`` of the installers, and ``check`` (True: build nothing);
    - ``wheels``, where packages were sent: their ``folder``, their ``files`` with the size of each in bytes, ``token``,
      which stands in lines for the path of that folder, and ``no_index`` (True: no package comes from elsewhere).

    Lines of progress have the ``base``, a ``line`` of an installer, or are that this ``waits`` for another build or
    ``creates`` the environment. The answer has ``state``:

    - ``ready``: ``python``, ``version``, ``seconds`` and ``built``;
    - ``missing``, only for a ``check``;
    - ``failed``: ``installer``, ``code`` and ``log``.

    :raises VerbError: the base cannot be started, or packages are missing that were sent.
    :raises OSError: the disk cannot be written.
    """
    _end_with_engine()
    root = Path(store.root)
    base = _describe(request)
    variables = base.pop("variables")
    uv = find_uv(base["python"], root)
    _report(base={**base, "root": store.root, "uv": uv})
    folder = root / FOLDER / _name(request["identity"], base)
    answer = {"state": "ready", "version": base["version"], "python": _python(folder)}
    if _use(folder):
        return {**answer, "seconds": 0.0, "built": False}
    if request.get("check"):
        return {"state": "missing"}
    begun = time.monotonic()
    lock = _lock(folder)
    try:
        if _use(folder):
            return {**answer, "seconds": time.monotonic() - begun, "built": False}
        _set_variables({**variables, **request.get("variables", {})})
        failed = _install(folder, request, {**base, "uv": uv}, lock)
    finally:
        os.close(lock)
        _remove_wheels(root, request)
    return failed or {**answer, "seconds": time.monotonic() - begun, "built": True}


def _end_with_engine() -> None:
    """Continue in a new session, which is killed as a whole when the engine or this process is gone.

    An installer starts processes, and none of them may survive a launch that was given up. If the controller is killed,
    ssh closes only the input; if it closes the session, ssh closes the output, too.
    """
    theirs, _ours = os.pipe()
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1)
    os.close(_ours)
    os.setsid()
    threading.Thread(target=_watch, args=(theirs,), name="watch", daemon=True).start()


def _watch(parent: int) -> NoReturn:
    waiter, stdin = select.poll(), sys.stdin.fileno()
    waiter.register(stdin, select.POLLIN)
    for descriptor in (sys.stdout.fileno(), parent):
        waiter.register(descriptor, 0)  # errors and hang-ups are always reported
    while True:
        ended = [descriptor for descriptor, _ in waiter.poll()]
        if ended != [stdin] or not os.read(stdin, _PIECE):
            break
    os.killpg(0, signal.SIGKILL)
    raise SystemExit(1)


def _describe(request: Dict[str, Any]) -> Dict[str, Any]:
    """Describe the base interpreter, and the variables with which installers start.

    :raises VerbError: the base cannot be started.
    """
    setup = request.get("setup", "")
    python = request["python"] or ("python3" if setup else sys.executable)
    try:
        answer = subprocess.run(
            [*_shell_words(setup), python, "-I", "-c", _DESCRIBE],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            check=True,
            timeout=_DESCRIBE_TIMEOUT,
        )
        # Start files of a login shell may print something before it.
        described: Dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        why = _last_line(error) or getattr(error, "strerror", None) or error
        raise VerbError(
            "python: {!r} cannot be started on {} ({}).".format(python, request["machine"], why),
            field="python",
            value=python,
            cure="Name an interpreter of that machine.",
        ) from error
    return described


def _shell_words(setup: str) -> List[str]:
    if not setup:
        return []
    # A login shell, because `module` and `conda` are functions that its start files define.
    shell = next((path for path in ("/bin/bash", "/usr/bin/bash") if os.path.exists(path)), "/bin/sh")
    return [shell, "-l", "-c", setup + '\nexec "$0" "$@"']


def _last_line(error: BaseException) -> str:
    lines = (getattr(error, "stderr", None) or b"").decode(errors="replace").split("\n")
    return ([line.strip() for line in lines if line.strip()] or [""])[-1]


def _name(identity: str, base: Dict[str, str]) -> str:
    facts = [identity, *(base[name] for name in ("python", "version", "implementation", "platform", "libc"))]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:_DIGITS]


def find_uv(python: str, root: Path) -> str:
    """Find ``uv`` where its installers put it, or where a controller did; "" if there is none."""
    folders = [
        os.path.dirname(python),
        os.path.expanduser("~/.local/bin"),
        os.path.expanduser("~/.cargo/bin"),
        str(root / "bin"),
    ]
    return shutil.which("uv") or shutil.which("uv", path=os.pathsep.join(folders)) or ""


def _python(folder: Path) -> str:
    return str(folder / environment_build.VENV / "bin" / "python")


def _use(folder: Path) -> bool:
    """Return True if an environment is ready, and note its use."""
    if not os.path.exists(_python(folder)):  # also a link to a base that was removed
        return False
    try:
        os.utime(folder / environment_build.READY)
    except FileNotFoundError:
        return False
    return True


def _lock(folder: Path) -> int:
    """Wait for the lock of an environment, even if another process removes its folder; return the descriptor."""
    while True:
        lock = environment_build.open_lock(folder)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _report(waits=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), os.stat(folder / environment_build.LOCK)):
                return lock
        os.close(lock)


def _set_variables(variables: Dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment_build.installer_variables(variables))
    environment_build.be_nice()


def _install(folder: Path, request: Dict[str, Any], base: Dict[str, str], lock: int) -> Optional[Dict[str, Any]]:
    """Build with uv, or with pip if uv is missing, too old, or ignores an option of the lines.

    Return the answer of a build that failed; None if the environment is ready.

    :raises VerbError: packages are missing.
    """
    sent = _wheels_folder(folder.parent.parent, request)
    wheels = request.get("wheels") or {}
    last: List[str] = []

    def report(line: str) -> None:
        last[:] = [*last[-9:], line]
        _report(line=line[:_MAX_LINE])

    for uv in [base["uv"], ""] if base["uv"] and request["installer"] != "pip" else [""]:
        lines = request["lines" if uv else "pip_lines"]
        order = {
            "python": base["python"],
            "requirements": [line.replace(wheels["token"], sent) for line in lines] if sent else lines,
            "only": request["only"],
            "uv": [uv] if uv else [],
            "wheels": sent if wheels.get("no_index") else "",
        }
        _report(creates=True)
        code = environment_build.build_locked(folder, order, lock, report)
        if not code:
            return None
        if not (uv and any(_UNKNOWN_ARGUMENT in line for line in last)):
            break
    log = str(folder / environment_build.LOG)
    return {"state": "failed", "installer": "uv" if uv else "pip", "code": code, "log": log}


# Packages that the controller sent


def _wheels_folder(root: Path, request: Dict[str, Any]) -> str:
    """Return the folder of the packages that were sent, "" if none were.

    :raises VerbError: one of them is missing or incomplete.
    """
    wheels = request.get("wheels")
    if not wheels:
        return ""
    folder = str(root / WHEELS / os.path.basename(wheels["folder"]))
    for name, size in wheels["files"].items():
        try:
            is_complete = os.stat(os.path.join(folder, name)).st_size == size
        except FileNotFoundError:
            is_complete = False
        if not is_complete:
            raise VerbError(
                "{} on {} is not the file that was sent.".format(name, request["machine"]),
                kind="unavailable",
                rule="Packages for a build are files in {} there.".format(folder),
                transient=True,
            )
    return folder


def _remove_wheels(root: Path, request: Dict[str, Any]) -> None:
    wheels = request.get("wheels")
    if wheels:
        rmtree.remove_if_possible(str(root / WHEELS / os.path.basename(wheels["folder"])))


# What there is


def list_environments(store: ClusterStore, request: Dict[str, Any]) -> Dict[str, Any]:
    """List the environments of this account: ``name``, ``bytes`` on the disk, ``unused_seconds`` and ``requirements``.

    ``is_ready`` is false while it is built, or if its build failed; ``is_used`` is true while hosts run in it.
    """
    del request
    used = _used(store)
    found = []
    for folder in _folders(Path(store.root) / FOLDER):
        facts = _ready_facts(folder)
        found.append(
            {
                "name": folder.name,
                "bytes": records.disk_usage(str(folder)),
                "unused_seconds": _age(folder),
                "is_ready": bool(facts),
                "is_used": folder.name in used,
                "requirements": facts.get("requirements", []),
            }
        )
    return {"environments": found}


def delete_environments(store: ClusterStore, request: Dict[str, Any]) -> Dict[str, Any]:
    """Delete the environments that were not used for ``request["unused_seconds"]``; return their names.

    An environment stays if hosts run in it, if it was used in the last ten minutes or is being built. Packages that
    were sent for a build that never began are deleted after a day.
    """
    used = _used(store)
    root = Path(store.root)
    folders = [each for each in _folders(root / FOLDER) if each.name not in used]
    old = [folder for folder in folders if _age(folder) >= max(_MIN_UNUSED, request["unused_seconds"])]
    names = [folder.name for folder in old if remove_environment(folder)]
    for folder in _folders(root / WHEELS):
        if time.time() - folder.stat().st_mtime > _WHEELS_AGE:
            rmtree.remove_if_possible(str(folder))
    return {"deleted": names}


def remove_environment(folder: Path) -> bool:
    """Remove an environment; False if it is being built."""
    lock = environment_build.open_lock(folder)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # First of all it is not ready any more: a launch that finds it builds it again.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(folder / environment_build.READY)
        rmtree.remove_if_possible(str(folder))
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def _used(store: ClusterStore) -> List[str]:
    """Name the environments whose interpreters run agents of this account."""
    agents = [store.agent(name) for name in store.live_hosts()]
    pythons = [_interpreter(agent.pid) for agent in agents if agent is not None]
    top = os.path.join(store.root, FOLDER) + os.sep
    return [python[len(top) :].split(os.sep)[0] for python in pythons if python.startswith(top)]


def _interpreter(pid: int) -> str:
    """Return the path of the program of a process, "" if it has ended."""
    try:
        with open("/proc/{}/cmdline".format(pid), "rb") as file:
            return os.fsdecode(file.read().split(b"\0")[0])
    except OSError:
        return ""


def _folders(top: Path) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(top), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield top / entry.name


def _age(folder: Path) -> float:
    """Return the seconds since an environment was used or, if it is not ready, since its build began."""
    for path in (folder / environment_build.READY, folder / environment_build.LOCK, folder):
        with contextlib.suppress(FileNotFoundError):
            return max(0.0, time.time() - path.stat().st_mtime)
    return 0.0


def _ready_facts(folder: Path) -> Dict[str, Any]:
    try:
        facts = json.loads((folder / environment_build.READY).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _report(**progress: Any) -> None:
    sys.stdout.write(json.dumps({"progress": progress}) + "\n")
    sys.stdout.flush()
