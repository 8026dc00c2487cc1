"""What lies on the disk of a machine: accounts, host key, login key, and a Python at ``/opt/python``."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

NAMES = ("one", "two", "three", "login")
"""Machines by their numbers, from 1 on; the last one is only in the world of Slurm."""

USER = "far-user"
UID = 4211
HOME = f"/home/{USER}"
HOME_SIZE = 512 << 20
PYTHON = "/opt/python/bin/python3"
PATH = "/opt/python/bin:/usr/local/bin:/usr/bin:/bin"
FULL_PATH = f"{PATH}:/usr/sbin:/sbin"

# What programs below /usr look for. Accounts, keys, the host name and where programs are found are the machine's own.
_ETC = """
alternatives bash.bashrc ca-certificates ca-certificates.conf debian_version gai.conf host.conf inputrc ld.so.cache
ld.so.conf ld.so.conf.d locale.alias localtime login.defs mime.types nsswitch.conf os-release protocols
python3 python3.9 python3.10 python3.11 python3.12 python3.13 security services shells ssl terminfo timezone
"""
_FOLDERS = """
dev etc/pam.d etc/ssh home media mnt opt/base opt/python/bin proc root run srv sys tmp usr
var/cache var/lib var/log var/spool var/tmp
"""
_SYSTEM_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_PASSWD = f"""\
root:x:0:0:root:/root:/bin/bash
sshd:x:101:65534::/run/sshd:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
{USER}:x:{UID}:{UID}:An account on another machine:{HOME}:/bin/bash
"""
_GROUP = f"root:x:0:\ntty:x:5:\nshadow:x:42:\nnogroup:x:65534:\n{USER}:x:{UID}:\n"
PASSWORD = "correct horse"  # noqa: S105 - of an account that lives for a test
"""Of use only where a test lets sshd ask for it."""

_PASSWORD_HASH = "$6$smx$czIqfR8/DR1iaz1wGgr4djRy5hNkQMBbKbMwhFK4scxOWP0CcIkDdNcStLkOq3qaSeH8Oq5cUs/rIAGmtlSHs."  # noqa: S105
_SHADOW = """\
root:*:19700:0:99999:7:::
sshd:!:19700::::::
nobody:*:19700:0:99999:7:::
{user}:{hash}:19700:0:99999:7:::
"""
_PAM = "auth required pam_unix.so\naccount required pam_unix.so\nsession required pam_permit.so\n"
# Only the wall clock of Python is another one: time namespaces cannot move it, and sleeping takes as long as anywhere.
# A .pth file is read with -I, too.
_CLOCK = """\
import time
try:
    with open("/opt/python/clock") as file:
        _offset = float(file.read())
except OSError:
    _offset = 0.0
def _shift(offset, now=time.time, now_ns=time.time_ns):
    time.time = lambda: now() + offset
    time.time_ns = lambda: now_ns() + int(offset * 1e9)
if _offset:
    _shift(_offset)
"""


class User(NamedTuple):
    """An account on the machines."""

    name: str
    uid: int  # and the number of its group

    @property
    def home(self) -> str:
        """Give its home on each machine."""
        return f"/home/{self.name}"


FAR_USER = User(USER, UID)


class Plan(NamedTuple):
    """What is different on each machine."""

    name: str
    number: int  # the last part of its network address and of its card's
    host_name: str
    base: str  # folder of its Python here, which is bound to /opt/base there; empty for the one below /usr
    version: str  # of that Python, as 3.11
    clock: float  # seconds by which its Python's clock is ahead

    @property
    def address(self) -> str:
        """Give its address in the world's network."""
        return f"10.77.0.{self.number}"

    @property
    def alias(self) -> str:
        """Give its name for ``ssh``."""
        return f"smx-{self.name}"


def write(system: Path, home: Path, keys: Path, plan: Plan) -> None:
    """Fill the two empty disks of a machine.

    :param keys: folder with ``key.pub``, which may log in, and the host key ``host_NAME`` and ``host_NAME.pub``.
    """
    for folder in _FOLDERS.split():
        (system / folder).mkdir(parents=True, exist_ok=True)
    for folder in ("tmp", "var/tmp"):
        (system / folder).chmod(0o1777)
    (system / "root").chmod(0o700)
    for name in _SYSTEM_FOLDERS:
        here = Path("/", name)
        if here.is_symlink():
            (system / name).symlink_to(here.readlink())
        elif here.is_dir():
            (system / name).mkdir()
    _write_etc(system / "etc", plan)
    for name, mode in ((f"host_{plan.name}", 0o600), (f"host_{plan.name}.pub", 0o644)):
        target = system / "etc/ssh" / name.replace(f"host_{plan.name}", "ssh_host_ed25519_key")
        shutil.copyfile(keys / name, target)
        target.chmod(mode)
    _write_python(system / "opt/python", plan)
    _write_home(home / USER, keys / "key.pub")


def _write_etc(etc: Path, plan: Plan) -> None:
    for name in _ETC.split():
        here = Path("/etc", name)
        if here.is_dir():
            shutil.copytree(here, etc / name, symlinks=True, ignore=shutil.ignore_patterns("private"))
        elif here.exists():
            shutil.copyfile(here, etc / name, follow_symlinks=False)
    names = [f"10.77.0.{number} {name}" for number, name in enumerate(NAMES, 1)]
    own = {
        "passwd": _PASSWD,
        "group": _GROUP,
        "hostname": f"{plan.host_name}\n",
        "hosts": "127.0.0.1 localhost\n" + "".join(f"{line}\n" for line in names),
        "machine-id": f"{plan.number:032x}\n",
        "resolv.conf": "",
        "profile": f"export PATH={PATH}\n",
        "environment": f"PATH={PATH}\n",
        "pam.d/sshd": _PAM,
    }
    for name, text in own.items():
        (etc / name).write_text(text, encoding="utf-8")
    shadow = etc / "shadow"
    shadow.write_text(_SHADOW.format(user=USER, hash=_PASSWORD_HASH), encoding="utf-8")
    shadow.chmod(0o600)


def _write_python(folder: Path, plan: Plan) -> None:
    """Make a virtual environment by hand: it starts at once and needs no pip."""
    base = "/opt/base/bin" if plan.base else "/usr/bin"
    (folder / "pyvenv.cfg").write_text(
        f"home = {base}\ninclude-system-site-packages = false\nversion = {plan.version}\n", encoding="utf-8"
    )
    for name in ("python", "python3", f"python{plan.version}"):
        (folder / "bin" / name).symlink_to(f"{base}/python{plan.version}")
    site = folder / "lib" / f"python{plan.version}" / "site-packages"
    site.mkdir(parents=True)
    (site / "_machine_clock.py").write_text(_CLOCK, encoding="utf-8")
    (site / "_machine_clock.pth").write_text("import _machine_clock\n", encoding="utf-8")
    (folder / "clock").write_text(f"{plan.clock}\n", encoding="utf-8")


def _write_home(home: Path, key: Path) -> None:
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    shutil.copyfile(key, home / ".ssh/authorized_keys")
    for path in (home, home / ".ssh", home / ".ssh/authorized_keys"):
        path.chmod(0o700 if path.is_dir() else 0o600)
        os.chown(path, UID, UID)
