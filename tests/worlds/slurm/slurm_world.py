"""A cluster with Slurm: a login machine with its daemons and three nodes, each a machine of the test world for SSH."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from worlds.slurm import cluster_files
from worlds.ssh import disk, ssh_world
from worlds.ssh.machine import kill
from worlds.ssh.ssh_world import SshWorld

from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from worlds.slurm.cluster_files import SlurmSite
    from worlds.ssh.machine import Machine

NAMES = ("one", "two", "three", cluster_files.LOGIN)
_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "srun")
_ACCOUNTING_PROGRAMS = ("slurmdbd", "mariadbd", "mariadb-install-db")
_SEARCH_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
_BEGIN_LIMIT = 60.0
_DAEMONS = {
    "munged": "mkdir -p -m 755 /run/munge && munged",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "slurmdbd": "slurmdbd",
    "mariadbd": (
        "mkdir -p /run/mysqld && setsid mariadbd --no-defaults --user=root --datadir=/var/lib/mysql "
        "--socket=/run/mysqld/mysqld.sock --skip-networking --innodb-log-file-size=8M --innodb-buffer-pool-size=16M "
        "</dev/null >/var/log/mariadbd.log 2>&1 &"
    ),
}
# Linux numbers namespaces in a range of each processor, and binds a namespace only in one with a lower number.
# On one processor the namespace of a job has a higher number than that of slurmd.
_SLURMD_OF_PRIVATE_TMP = (
    f"taskset --cpu-list {min(os.sched_getaffinity(0))} unshare --mount --propagation private slurmd"
)
_INSTALL_DATABASE = (
    "mariadb-install-db --no-defaults --user=root --datadir=/var/lib/mysql --auth-root-authentication-method=normal "
    "--skip-test-db --innodb-log-file-size=8M >/var/log/mariadb-install.log 2>&1"
)


class SlurmWorld:
    """A cluster whose files lie in ``folder``."""

    def __init__(self, machines: SshWorld, site: SlurmSite) -> None:
        self.ssh = machines
        self.folder = machines.folder
        self.accounting = site.accounting
        self._slurmd = _SLURMD_OF_PRIVATE_TMP if site.private_tmp else _DAEMONS["slurmd"]
        self.login = machines[cluster_files.LOGIN]
        self.nodes = [machine for machine in machines.machines if machine is not self.login]
        self.programs = cluster_files.shell_folder(self.folder, disk.FAR_USER)

    @classmethod
    def create(cls, folder: Path, site: SlurmSite) -> SlurmWorld:
        """Make a cluster in a folder that does not exist, with all daemons running and all nodes idle.

        :raises RuntimeError: this machine cannot have one, or it did not come up.
        """
        why = unavailable_reason(accounting=site.accounting)
        if why:
            raise RuntimeError(why)

        def write_files(world: SshWorld) -> None:
            key = cluster_files.new_key()
            for machine in world.machines:
                cluster_files.write(machine._disk("system"), world.plans, key, site)
            if site.shared_home:
                share_home(world)

        world = cls(SshWorld.create(folder, names=NAMES, before_boot=write_files), site)
        try:
            cluster_files.write_shell(world.folder, disk.FAR_USER)
            world.start()
        except BaseException:
            world.close()
            raise
        return world

    def start(self) -> None:
        """Start all daemons, and wait until all nodes are idle."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda machine: self.start_daemon(machine, "munged"), self.ssh.machines))
        if self.accounting:
            self._start_accounting()
        self.start_daemon(self.login, "slurmctld")
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda machine: self.start_daemon(machine, "slurmd"), self.nodes))
        eventually_blocking(lambda: self.idle_nodes() == len(self.nodes), "all nodes are idle", within=_BEGIN_LIMIT)

    def _start_accounting(self) -> None:
        self.login.run(_INSTALL_DATABASE, root=True)
        self.start_daemon(self.login, "mariadbd")
        eventually_blocking((self.login.root / "run/mysqld/mysqld.sock").exists, "MariaDB listens", within=_BEGIN_LIMIT)
        self.start_daemon(self.login, "slurmdbd")
        add = f"sacctmgr -i add cluster smx; sacctmgr -i add account {cluster_files.ACCOUNT} && sacctmgr -i add user "
        add += f"{disk.USER} account={cluster_files.ACCOUNT}"
        eventually_blocking(
            lambda: self.login.run(add, root=True, check=False).returncode == 0, "accounts exist", within=_BEGIN_LIMIT
        )

    def add_user(self, user: disk.User) -> Path:
        """Add an account to all machines; give the folder of its ``sh``, to put first on ``PATH``."""
        for machine in self.ssh.machines:
            add = f"echo {user.name}:x:{user.uid}:{user.uid}::{user.home}:/bin/bash >>/etc/passwd && "
            add += f"echo {user.name}:x:{user.uid}: >>/etc/group && "
            add += f"install -d -m 700 -o {user.uid} -g {user.uid} {user.home}"
            machine.run(add, root=True)
        return cluster_files.write_shell(self.folder, user)

    # Look into it

    def run(self, words: str, *, root: bool = False, check: bool = True) -> str:
        """Run a command line on the login machine, and give its output."""
        return self.login.run(words, root=root, check=check).stdout

    def idle_nodes(self) -> int:
        """Count the nodes that Slurm calls idle."""
        return self.run("sinfo --noheader --Node --partition=main --format=%t", check=False).split().count("idle")

    def jobs(self, *states: str, user: str = "") -> list[str]:
        """Name the jobs of all users, or of one, that are pending or running, or in ``states``, each component once."""
        wanted = ",".join(states or ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"))
        of_user = f"--user={user}" if user else ""
        return self.run(f"squeue --noheader {of_user} --states={wanted} --format=%j").split()

    def node(self, name: str) -> Machine:
        """Give a node by the name that Slurm has for it."""
        return next(machine for machine in self.nodes if machine.host_name == name)

    # Break it, repair it

    def start_daemon(self, machine: Machine, name: str) -> None:
        """Start a daemon."""
        machine.run(self._slurmd if name == "slurmd" else _DAEMONS[name], root=True)

    def stop_daemon(self, machine: Machine, name: str) -> None:
        """End a daemon by force; what it started goes on."""
        for pid in self.daemon_pids(machine, name):
            kill(pid)

    def freeze_daemon(self, machine: Machine, name: str) -> None:
        """Stop a daemon with SIGSTOP: it accepts connections and does not answer."""
        for pid in self.daemon_pids(machine, name):
            os.kill(pid, signal.SIGSTOP)

    def thaw_daemon(self, machine: Machine, name: str) -> None:
        """Let it go on."""
        for pid in self.daemon_pids(machine, name):
            os.kill(pid, signal.SIGCONT)

    def daemon_pids(self, machine: Machine, name: str) -> list[int]:
        """Give the numbers of a daemon's processes, as this process counts."""
        return [each.pid for each in machine.processes(every=True) if Path(each.command.split()[0]).name == name]

    def cancel_all(self, user: str = disk.USER) -> None:
        """Cancel every job of a user, and wait until none is left."""
        cancel = f"scancel --quiet --full --signal=KILL --user={user}; scancel --quiet --user={user}"
        self.run(cancel, root=True, check=False)
        eventually_blocking(lambda: not self.jobs(user=user), "no job is left", within=_BEGIN_LIMIT)

    def close(self) -> None:
        """End every process of the world and remove its folder."""
        self.ssh.close()


def share_home(world: SshWorld) -> None:
    """Let all machines have the home disk of the login machine."""
    source = os.fspath(world.folder / cluster_files.LOGIN / "home")
    for machine in world.machines:
        if machine.name != cluster_files.LOGIN:
            target = os.fspath(world.folder / machine.name / "home")
            enter = ["nsenter", f"--target={world.supervisor_pid}", "--mount", "--"]
            subprocess.run([*enter, "mount", "--bind", source, target], check=True)


@cache
def unavailable_reason(*, accounting: bool) -> str:
    """Say in a sentence why this machine cannot have a cluster, empty when it can."""
    why = ssh_world.unavailable_reason()
    if why:
        return why
    programs = (*_PROGRAMS, *(_ACCOUNTING_PROGRAMS if accounting else ()))
    missing = [name for name in programs if shutil.which(name, path=_SEARCH_PATH) is None]
    packages = "slurm-wlm slurmdbd munge mariadb-server" if accounting else "slurm-wlm munge"
    return f"The test world for Slurm needs {', '.join(missing)}: apt-get install {packages}." if missing else ""
