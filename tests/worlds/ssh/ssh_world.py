"""Three machines on a network of their own, reached by ``ssh`` only: made, found again, and taken away."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from worlds.ssh import client_files, disk
from worlds.ssh.machine import Machine, kill

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_HERE = Path(__file__).parent
_PROGRAMS = ("ip", "ldconfig", "mount", "nsenter", "pivot_root", "ssh", "ssh-keygen", "umount", "unshare")
_SSHD = "/usr/sbin/sshd"
# A root without a login shell, as in CI, may have a PATH without the folders of root's programs.
_SEARCH_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
_MACHINES = ("one", "two", "three")
_CLOCK_OF_TWO = 3600.0
_END_LIMIT = 30.0
_APART = ("--net", "--mount", "--pid", "--ipc", "--fork", "--propagation", "private")
_TRIAL = (
    "mount -t tmpfs trial /mnt && mount -t proc proc /proc && ip link add name br0 type bridge && "
    "ip link add name one type veth peer name eth0"
)
_OTHER_VERSIONS = ("3.9", "3.12", "3.10", "3.13", "3.8")
_VERSION = "import sys; print(sys.base_prefix, *sys.version_info[:2])"


class SshWorld:
    """A world whose files lie in ``folder``."""

    def __init__(self, folder: Path, supervisor_pid: int, plans: list[disk.Plan]) -> None:
        self.folder = folder
        self.supervisor_pid = supervisor_pid
        self.config_file = folder / "ssh_config"
        self.identity_file = folder / "keys" / "key"
        self.known_hosts = folder / "known_hosts"
        self.bin = folder / "bin"
        self.plans = plans
        self._delayed: set[str] = set()
        self.machines = [Machine(self, plan) for plan in plans]
        self._process: subprocess.Popen[str] | None = None

    @classmethod
    def create(
        cls,
        folder: Path,
        *,
        tied: bool = True,
        names: tuple[str, ...] = _MACHINES,
        before_boot: Callable[[SshWorld], object] = lambda _world: None,
    ) -> SshWorld:
        """Make a world in a folder that does not exist.

        :param tied: whether the world ends when this process ends, however that happens.
        :param names: of the machines; ``disk.NAMES`` has their numbers.
        :param before_boot: is called when the disks are there and no machine is on.
        :raises RuntimeError: this machine cannot have one, or it did not come up.
        """
        why = unavailable_reason()
        if why:
            raise RuntimeError(why)
        folder = folder.absolute()
        if len(os.fspath(folder / "control")) > 100:
            raise RuntimeError(f"The path {folder} is too long for sockets in it. Choose one of 90 characters at most.")
        folder.mkdir(parents=True)
        plans = [plan_machine(disk.NAMES.index(name) + 1, name) for name in names]
        description = {"machines": [plan._asdict() for plan in plans]}
        (folder / "world.json").write_text(json.dumps(description), encoding="utf-8")
        try:
            _make_keys(folder / "keys", names)
            world = cls(folder, 0, plans)
            world._start_supervisor(tied=tied)
            client_files.write(folder, plans, world.supervisor_pid)
            before_boot(world)
            with ThreadPoolExecutor() as pool:
                list(pool.map(Machine.start, world.machines))
        except BaseException:
            remove(folder)
            raise
        return world

    @classmethod
    def attach(cls, folder: Path) -> SshWorld:
        """Find the world that another process made.

        :raises FileNotFoundError: there is none.
        """
        folder = folder.absolute()
        description = json.loads((folder / "world.json").read_text(encoding="utf-8"))
        pid, _ = _read_pid(folder)
        return cls(folder, pid, [disk.Plan(**plan) for plan in description["machines"]])

    def __getitem__(self, name: str) -> Machine:
        """Give a machine by its name or alias."""
        return next(machine for machine in self.machines if name in {machine.name, machine.alias})

    def ssh(
        self, machine: Machine, words: str, *options: str, timeout: float = 30.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a command line on a machine by ``ssh``, which asks nothing."""
        command = ["ssh", "-F", os.fspath(self.config_file), "-o", "BatchMode=yes", *options, machine.alias, words]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, check=False, stdin=subprocess.DEVNULL
        )

    @property
    def environment(self) -> dict[str, str]:
        """Give this process's variables with ``bin`` first on ``PATH``: ``ssh smx-one`` needs no file then."""
        return {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}"}

    def answer_questions(self) -> dict[str, str]:
        """Give variables that let ``ssh`` get the account's password from a program, as a person would type it."""
        return self.environment | {"SSH_ASKPASS": os.fspath(self.bin / "askpass"), "SSH_ASKPASS_REQUIRE": "force"}

    def change_address(self) -> None:
        """Let this side have another address, as a laptop in another network; open connections get no packet then."""
        self.ask("change_address")

    def route_delayed(self, alias: str, *, delayed: bool) -> None:
        """Let the programs in ``bin`` reach a machine by the supervisor, which adds the delay, or directly."""
        self._delayed = self._delayed | {alias} if delayed else self._delayed - {alias}
        client_files.write_config(self.folder, self.plans, sorted(self._delayed))

    def reset(self) -> None:
        """Let each machine be as it was at first; see ``Machine.reset``."""
        with contextlib.ExitStack() as stack:  # each is tried, whatever the others raise
            for machine in self.machines:
                stack.callback(machine.reset)

    def ask(self, verb: str, **words: object) -> dict[str, object]:
        """Send a request to the supervisor.

        :raises RuntimeError: it failed; the text is the supervisor's.
        """
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(os.fspath(self.folder / "control"))
            connection.sendall(json.dumps({"do": verb, **words}).encode() + b"\n")
            with connection.makefile() as lines:
                answer: dict[str, object] = json.loads(lines.readline())
        if "error" in answer:
            raise RuntimeError(f"{verb}: {answer['error']}")
        return answer

    def close(self) -> None:
        """End every process of the world and remove its folder."""
        remove(self.folder)
        if self._process is not None:
            if self._process.stdin is not None:
                self._process.stdin.close()
            self._process.wait(_END_LIMIT)

    def _start_supervisor(self, *, tied: bool) -> None:
        command = ["unshare", *_APART, "--kill-child"]
        script = [sys.executable, os.fspath(_HERE / "supervisor.py"), os.fspath(self.folder)]
        with (self.folder / "supervisor.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*command, *script, *(["--tied"] if tied else [])],
                stdin=subprocess.PIPE if tied else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | {"PATH": _SEARCH_PATH},
                start_new_session=True,
            )
        assert self._process.stdout is not None
        with self._process.stdout as answer:
            line = answer.readline()
        if not line:
            raise RuntimeError(f"The test world did not start: {(self.folder / 'supervisor.log').read_text()}")
        self.supervisor_pid = int(line)
        (self.folder / "pid").write_text(f"{line.strip()} {start_time(self.supervisor_pid)}\n", encoding="utf-8")


def remove(folder: Path) -> None:
    """End the world of a folder, if there is one, and remove the folder.

    :raises RuntimeError: the folder is no world's.
    """
    folder = folder.absolute()
    if not folder.exists():
        return
    if not (folder / "world.json").exists():
        raise RuntimeError(f"{folder} has no world.json: it is no test world, and is left as it is.")
    pid, started = _read_pid(folder)
    if pid and start_time(pid) == started:
        kill(pid)
    shutil.rmtree(folder)


def _read_pid(folder: Path) -> tuple[int, str]:
    try:
        pid, started = (folder / "pid").read_text(encoding="utf-8").split()
    except FileNotFoundError:
        return 0, ""
    return int(pid), started


def start_time(pid: int) -> str:
    """Give when a process started, in the kernel's ticks; empty if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except OSError:
        return ""


@cache
def unavailable_reason() -> str:
    """Say in a sentence why this machine cannot have a test world, empty when it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "The test world for SSH needs Linux and root."
    missing = [name for name in _PROGRAMS if shutil.which(name, path=_SEARCH_PATH) is None]
    missing += [] if Path(_SSHD).exists() else [_SSHD]
    if missing:
        names = ", ".join(missing)
        return f"The test world for SSH needs {names}: apt-get install openssh-server openssh-client iproute2."
    trial = ["unshare", *_APART, "sh", "-c", _TRIAL]
    environment = os.environ | {"PATH": _SEARCH_PATH}
    done = subprocess.run(trial, capture_output=True, text=True, check=False, env=environment)
    return f"The test world for SSH needs namespaces and a bridge: {done.stderr.strip()}" if done.returncode else ""


def plan_machine(number: int, name: str) -> disk.Plan:
    """Decide what is different on a machine: the second one's clock, the third one's Python."""
    own = _system_python()
    base, version = (_other_python(own[1]) or own) if name == "three" else own
    clock = _CLOCK_OF_TWO if name == "two" else 0.0
    return disk.Plan(name, number, f"box-{name}", base, version, clock)


@cache
def _system_python() -> tuple[str, str]:
    """Give "" and the version of the Python below ``/usr``; if there is none, this one's folder and version."""
    return _prefix_of("/usr/bin/python3", "/usr") or (sys.base_prefix, "{}.{}".format(*sys.version_info[:2]))


@cache
def _other_python(version: str) -> tuple[str, str] | None:
    """Give the folder and the version of a Python on ``PATH`` that has another minor version."""
    for other in _OTHER_VERSIONS:
        for program in _candidates(other) if other != version else ():
            found = _prefix_of(program)
            if found and found[1] == other and found[0] != "/usr":
                return found
    return None


def _candidates(version: str) -> Iterator[str]:
    """Give programs of that version on ``PATH``, and in place of pyenv's scripts the programs that they start."""
    for folder in map(Path, os.get_exec_path()):
        if folder.name == "shims":
            yield from sorted(map(os.fspath, folder.parent.glob(f"versions/{version}.*/bin/python3")))
        elif (folder / f"python{version}").is_file():
            yield os.fspath(folder / f"python{version}")


def _prefix_of(python: str, needed: str = "") -> tuple[str, str] | None:
    try:
        done = subprocess.run([python, "-I", "-c", _VERSION], capture_output=True, text=True, check=False)
    except OSError:
        return None
    found = re.fullmatch(r"(\S+) (\d+) (\d+)\n", done.stdout)
    if not found or (needed and found[1] != needed):
        return None
    return ("" if needed else found[1]), f"{found[2]}.{found[3]}"


def _make_keys(folder: Path, machines: tuple[str, ...]) -> None:
    folder.mkdir(mode=0o700)
    keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", ""]
    started = [
        subprocess.Popen([*keygen, "-C", name, "-f", folder / name])
        for name in ("key", *(f"host_{machine}" for machine in machines))
    ]
    codes = [process.wait() for process in started]
    if any(codes):
        raise RuntimeError("ssh-keygen failed.")
