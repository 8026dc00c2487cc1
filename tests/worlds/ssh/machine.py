"""One machine of the test world, as a test sees it: look into it, break it, repair it."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from worlds.ssh import client_files, disk

from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable

    from worlds.ssh.ssh_world import SshWorld

# The key exchange is not sshd's first choice, which takes 0.2 s of this machine's time for each login.
_SSHD_CONFIG = f"""\
Port 22
HostKey /etc/ssh/ssh_host_ed25519_key
PidFile /run/sshd.pid
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
KexAlgorithms curve25519-sha256
SetEnv PATH={disk.PATH}
Subsystem sftp internal-sftp
LogLevel VERBOSE
"""
# Links to all of /usr/bin but Python take its place; "/run/bin" has the real one meanwhile.
_HIDE_PYTHON = """\
mkdir -p /run/bin && mount --bind /usr/bin /run/bin && mount -t tmpfs -o mode=755 bin /usr/bin && cd /run/bin
PATH=/run/bin
for file in *; do case $file in python*|pypy*) ;; *) echo "$file" ;; esac; done | xargs ln -s -t /usr/bin --relative
mount -t tmpfs -o mode=755 empty /opt/python/bin
"""
_SHOW_PYTHON = "PATH=/run/bin && umount -l /opt/python/bin && umount -l /usr/bin && PATH=/usr/bin && umount -l /run/bin"
_LIMIT = 60.0


class Process(NamedTuple):
    """One process of a machine."""

    pid: int  # as this process counts
    uid: int
    command: str


class Machine:
    """A machine that is on, reachable and whole until one of its methods changes that; ``reset`` makes it so again."""

    def __init__(self, world: SshWorld, plan: disk.Plan) -> None:
        self.world = world
        self.plan = plan
        self.name = plan.name
        self.alias = plan.alias
        self.address = plan.address
        self.host_name = plan.host_name
        self.python = disk.PYTHON
        self.user = disk.USER
        self.uid = disk.UID
        self._options: tuple[str, ...] = ()
        self._undo: dict[str, Callable[[], object]] = {}

    # Look into it

    @property
    def pid(self) -> int:
        """Give the number of its first process, as this process counts.

        :raises RuntimeError: the machine is off.
        """
        try:
            return int((self.world.folder / self.name / "pid").read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RuntimeError(f"Machine {self.name} is off. Call start().") from None

    @property
    def is_on(self) -> bool:
        """Say whether it runs."""
        return (self.world.folder / self.name / "pid").exists()

    @property
    def root(self) -> Path:
        """Give its root folder as a path of this process; absolute links in it lead to this machine's files."""
        return Path(f"/proc/{self.pid}/root")

    @property
    def home(self) -> Path:
        """Give the account's home as a path of this process, which is there while the machine is off, too."""
        return self.home_of(disk.FAR_USER)

    def home_of(self, user: disk.User) -> Path:
        """Give the home of a user of this machine, as ``home`` does."""
        return self._disk("home") / user.name

    def _disk(self, name: str) -> Path:
        return Path(f"/proc/{self.world.supervisor_pid}/root{self.world.folder}/{self.name}/{name}")

    def run(
        self, words: str, *, text: str | None = None, root: bool = False, check: bool = True, timeout: float = _LIMIT
    ) -> subprocess.CompletedProcess[str]:
        """Run a command line of the shell as the account, or as root, in that user's home. It needs no network.

        :raises subprocess.CalledProcessError: it failed, and ``check`` is true.
        """
        home = "/root" if root else disk.HOME
        user = "root" if root else self.user
        identity = [] if root else [f"--setgid={self.uid}", f"--setuid={self.uid}"]
        command = [
            *("nsenter", f"--target={self.pid}", "--mount", "--uts", "--ipc", "--net", "--pid", *identity, "--"),
            *("env", "-i", f"HOME={home}", f"USER={user}", f"LOGNAME={user}", "SHELL=/bin/bash"),
            *(f"PATH={disk.FULL_PATH if root else disk.PATH}", "/bin/sh", "-c", f"cd && {{ {words}\n}}"),
        ]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=timeout, check=False)
        if check and done.returncode:
            raise subprocess.CalledProcessError(done.returncode, words, done.stdout, done.stderr)
        return done

    def processes(self, *, every: bool = False) -> list[Process]:
        """List the account's processes except sshd's for its sessions, or every process of the machine."""
        # The system's own calls here: tests look very often, and pathlib takes longer than the kernel does.
        namespace = os.readlink(f"/proc/{self.pid}/ns/pid")  # noqa: PTH115 - as above
        found = []
        for name in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208 - as above
            with contextlib.suppress(OSError):
                uid = os.stat(f"/proc/{name}").st_uid  # noqa: PTH116 - as above
                if not every and uid != self.uid:
                    continue
                if os.readlink(f"/proc/{name}/ns/pid") != namespace:  # noqa: PTH115 - as above
                    continue
                command = _command(name)
                if command and (every or not command.startswith("sshd:")):
                    found.append(Process(int(name), uid, command))
        return found

    def log(self) -> str:
        """Give what its sshd said."""
        return (self._disk("system") / "var/log/sshd.log").read_text(encoding="utf-8", errors="replace")

    # Network

    def cut(self) -> None:
        """Let all packets to and from it vanish. Connections stay open on both sides."""
        self._undo["cut"] = self.restore
        self._ask("cut")

    def restore(self) -> None:
        """Let packets pass again."""
        self._ask("restore")
        self._undo.pop("cut", None)

    def delay(self, seconds: float) -> None:
        """Add to the round trip of each connection that this process's side opens from now on; 0 adds nothing."""
        self._undo["delay"] = lambda: self.delay(0)
        self._ask("delay", seconds=seconds)
        self.world.route_delayed(self.alias, delayed=seconds > 0)

    # Power

    def kill(self) -> None:
        """Turn it off: each of its processes ends at once, and no packet says so."""
        self._undo["off"] = self.start
        self._ask("kill")

    def start(self) -> None:
        """Turn it on, with the disks that it had: what was in ``/home``, ``/etc``, ``/opt`` and ``/var`` is there."""
        self._ask("start")
        for fault in ("off", "sshd", "python"):
            self._undo.pop(fault, None)
        self.start_sshd()

    def freeze(self) -> None:
        """Stop each of its processes: the kernel there still accepts connections, and nothing answers."""
        self._undo["frozen"] = self.thaw
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let its processes go on."""
        self._signal(signal.SIGCONT)
        self._undo.pop("frozen", None)

    def _signal(self, number: int) -> None:
        for each in self.processes(every=True):
            with contextlib.suppress(ProcessLookupError):
                os.kill(each.pid, number)

    # sshd

    def start_sshd(self) -> None:
        """Start sshd, and wait until it listens."""
        config = "".join(f"{line}\n" for line in self._options) + _SSHD_CONFIG
        (self.root / "etc/ssh/sshd_config").write_text(config, encoding="utf-8")
        (self.root / "run/sshd.pid").unlink(missing_ok=True)
        self.run("/usr/sbin/sshd -E /var/log/sshd.log", root=True)
        eventually_blocking(lambda: self._listener() is not None, f"sshd of {self.name} listens")
        self._undo.pop("sshd", None)

    def stop_sshd(self, *, sessions: bool = False) -> None:
        """Stop sshd: new connections are refused. Open ones go on unless ``sessions`` is true."""
        self._undo["sshd"] = self.start_sshd
        listener = self._listener()
        ended = [listener] if listener else []
        if sessions:
            ended += [each.pid for each in self.processes(every=True) if each.command.startswith("sshd:")]
        for pid in ended:
            kill(pid)
        if self.is_on:
            (self.root / "run/sshd.pid").unlink(missing_ok=True)

    def set_sshd(self, *options: str) -> None:
        """Restart sshd with options of ``sshd_config``, as ``MaxSessions 2``; with none it is as it was."""
        self._options = options
        self._undo["options"] = self.set_sshd
        self.stop_sshd()
        self.start_sshd()
        if not options:
            del self._undo["options"]

    def change_host_key(self) -> None:
        """Give it another host key than the one that the world's known hosts have."""
        self._undo["host key"] = self._restore_host_key
        key = self.root / "etc/ssh/ssh_host_ed25519_key"
        for path in (key, key.with_suffix(".pub")):
            path.unlink()
        self.run(f"ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/{key.name}", root=True)
        self.set_sshd(*self._options)

    def _restore_host_key(self) -> None:
        for suffix, mode in (("", 0o600), (".pub", 0o644)):
            target = self.root / f"etc/ssh/ssh_host_ed25519_key{suffix}"
            shutil.copyfile(self.world.folder / "keys" / f"host_{self.name}{suffix}", target)
            target.chmod(mode)
        self.set_sshd(*self._options)

    def forget_host_key(self) -> None:
        """Take its key out of the world's known hosts, as before the first login."""
        self._undo["known hosts"] = lambda: client_files.write_known_hosts(self.world.folder, self.world.plans)
        client_files.write_known_hosts(self.world.folder, self.world.plans, without=self.alias)

    def refuse_key(self) -> None:
        """Let the world's key open no session any more."""
        keys = self.home / ".ssh" / "authorized_keys"
        text = keys.read_text(encoding="utf-8")
        self._undo["login key"] = lambda: keys.write_text(text, encoding="utf-8")
        keys.write_text("", encoding="utf-8")

    def require_code(self) -> None:
        """Let sshd ask for a code after the key, as with one-time codes; ``SshWorld.answer_questions`` gives it."""
        self.set_sshd(
            "UsePAM yes", "KbdInteractiveAuthentication yes", "AuthenticationMethods publickey,keyboard-interactive"
        )

    def _listener(self) -> int | None:
        """Give the number of the sshd that listens, if one does."""
        try:
            inside = (self.root / "run/sshd.pid").read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return None
        for each in self.processes(every=True):
            with contextlib.suppress(OSError):
                status = Path(f"/proc/{each.pid}/status").read_text(encoding="utf-8")
                if inside and f"\t{inside}\n" in status[status.index("NSpid:") :].splitlines(keepends=True)[0]:
                    return each.pid
        return None

    # Disk, Python, clock

    def fill_disk(self, leave: int = 0) -> None:
        """Leave so many bytes free where the homes lie. It takes no memory: the disk becomes smaller."""
        self._undo["disk"] = self.free_disk
        used = os.statvfs(self._disk("home"))
        size = (used.f_blocks - used.f_bfree) * used.f_frsize + leave
        self._ask("limit_disk", size=max(size, used.f_frsize))

    def free_disk(self) -> None:
        """Give the disk its size back."""
        self._ask("limit_disk", size=disk.HOME_SIZE)
        self._undo.pop("disk", None)

    def lock_home(self) -> None:
        """Let the account write nothing into its home."""
        self._undo["home"] = lambda: self._own_home(self.uid, 0o700)
        self._own_home(0, 0o750)

    def _own_home(self, uid: int, mode: int) -> None:
        os.chown(self.home, uid, self.uid)
        self.home.chmod(mode)

    def hide_python(self) -> None:
        """Let no command of the name ``python…`` be found. Running processes go on."""
        self._undo["python"] = self.show_python
        self.run(_HIDE_PYTHON, root=True)

    def show_python(self) -> None:
        """Let Python be found again."""
        self.run(_SHOW_PYTHON, root=True)
        self._undo.pop("python", None)

    def set_clock(self, seconds: float) -> None:
        """Let the wall clock of each Python process that starts from now on be ahead by so much."""
        self._undo["clock"] = lambda: self._write_clock(self.plan.clock)
        self._write_clock(seconds)

    def _write_clock(self, seconds: float) -> None:
        (self._disk("system") / "opt/python/clock").write_text(f"{seconds}\n", encoding="utf-8")

    # Back to normal

    def reset(self) -> None:
        """Undo what the methods above changed. Files in the home and processes of the account stay; see ``wipe``."""
        if "off" in self._undo:
            self.start()
        undo, self._undo = self._undo, {}
        with contextlib.ExitStack() as stack:  # each is tried, whatever the others raise
            for action in undo.values():
                stack.callback(action)
        self._undo = {}

    def wipe(self) -> None:
        """End every process of the account, sessions included, and empty its home and ``/tmp``."""
        for each in self.processes(every=True):
            if each.uid == self.uid:
                kill(each.pid)
        self.run(
            "find /tmp /var/tmp /dev/shm -mindepth 1 -delete; "
            f"find {disk.HOME} -mindepth 1 -not -path '{disk.HOME}/.ssh*' -delete",
            root=True,
        )

    def _ask(self, verb: str, **words: object) -> dict[str, object]:
        return self.world.ask(verb, name=self.name, **words)


def _command(pid: str) -> str:
    """Give the command line of a process, empty if it has ended and waits for its parent."""
    with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123 - as in ``Machine.processes``
        return file.read().replace(b"\0", b" ").decode(errors="replace").strip()


def kill(pid: int) -> None:
    """End a process by force and wait for its end."""
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            select.select([descriptor], [], [], _LIMIT)
        finally:
            os.close(descriptor)
