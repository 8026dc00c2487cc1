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

from worlds.ssh import disk

from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from worlds.ssh.ssh_world import SshWorld

_SSHD_CONFIG = f"""\
Port 22
HostKey /etc/ssh/ssh_host_ed25519_key
PidFile /run/sshd.pid
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
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
        self._changed: set[str] = set()

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
        return self._disk("home") / self.user

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
        namespace = Path(f"/proc/{self.pid}/ns/pid").readlink()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (folder / "ns/pid").readlink() != namespace:
                    continue
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                if command:  # one without has ended, and waits for its parent
                    found.append(Process(int(folder.name), folder.stat().st_uid, command))
        return [each for each in found if every or (each.uid == self.uid and not each.command.startswith("sshd:"))]

    def log(self) -> str:
        """Give what its sshd said."""
        return (self._disk("system") / "var/log/sshd.log").read_text(encoding="utf-8", errors="replace")

    # Network

    def cut(self) -> None:
        """Let all packets to and from it vanish. Connections stay open on both sides."""
        self._changed.add("cut")
        self._ask("cut")

    def restore(self) -> None:
        """Let packets pass again."""
        self._ask("restore")
        self._changed.discard("cut")

    def delay(self, seconds: float) -> None:
        """Add to the round trip of each connection that this process's side opens from now on; 0 adds nothing."""
        self._ask("delay", seconds=seconds)
        self._changed.add("delay")

    # Power

    def kill(self) -> None:
        """Turn it off: each of its processes ends at once, and no packet says so."""
        self._changed.add("off")
        self._ask("kill")

    def start(self) -> None:
        """Turn it on, with the disks that it had: what was in ``/home``, ``/etc``, ``/opt`` and ``/var`` is there."""
        self._ask("start")
        self._changed -= {"off", "cut", "sshd", "python"}
        self.start_sshd()

    # sshd

    def start_sshd(self) -> None:
        """Start sshd, and wait until it listens."""
        config = "".join(f"{line}\n" for line in self._options) + _SSHD_CONFIG
        (self.root / "etc/ssh/sshd_config").write_text(config, encoding="utf-8")
        (self.root / "run/sshd.pid").unlink(missing_ok=True)
        self.run("/usr/sbin/sshd -E /var/log/sshd.log", root=True)
        eventually_blocking(lambda: self._listener() is not None, f"sshd of {self.name} listens")
        self._changed.discard("sshd")

    def stop_sshd(self, *, sessions: bool = False) -> None:
        """Stop sshd: new connections are refused. Open ones go on unless ``sessions`` is true."""
        self._changed.add("sshd")
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
        if options:
            self._changed.add("options")
        else:
            self._changed.discard("options")
        self.stop_sshd()
        self.start_sshd()

    def change_host_key(self) -> None:
        """Give it another host key than the one that the world's known hosts have."""
        self._changed.add("key")
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
        self._changed.add("disk")
        used = os.statvfs(self._disk("home"))
        size = (used.f_blocks - used.f_bfree) * used.f_frsize + leave
        self._ask("limit_disk", size=max(size, used.f_frsize))

    def free_disk(self) -> None:
        """Give the disk its size back."""
        self._ask("limit_disk", size=disk.HOME_SIZE)
        self._changed.discard("disk")

    def hide_python(self) -> None:
        """Let no command of the name ``python…`` be found. Running processes go on."""
        self._changed.add("python")
        self.run(_HIDE_PYTHON, root=True)

    def show_python(self) -> None:
        """Let Python be found again."""
        self.run(_SHOW_PYTHON, root=True)
        self._changed.discard("python")

    def set_clock(self, seconds: float) -> None:
        """Let the wall clock of each Python process that starts from now on be ahead by so much."""
        (self._disk("system") / "opt/python/clock").write_text(f"{seconds}\n", encoding="utf-8")
        self._changed.add("clock")

    # Back to normal

    def reset(self) -> None:
        """Undo what the methods above changed. Files in the home and processes of the account stay; see ``wipe``."""
        changed, self._changed = self._changed, set()
        if "clock" in changed:
            self.set_clock(self.plan.clock)
        if "disk" in changed:
            self.free_disk()
        if "delay" in changed:
            self.delay(0)
        if changed & {"options", "key"}:
            self._options = ()
        if "off" in changed:
            self.start()
        if "cut" in changed:
            self.restore()
        if "python" in changed and "off" not in changed:
            self.show_python()
        if "key" in changed:
            self._restore_host_key()
        if changed & {"options", "key", "sshd"}:
            self.set_sshd()
        self._changed = set()

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


def kill(pid: int) -> None:
    """End a process by force and wait for its end."""
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            select.select([descriptor], [], [], _LIMIT)
        finally:
            os.close(descriptor)
