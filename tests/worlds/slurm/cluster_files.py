"""Files of Slurm on the disks of the machines: its configuration, munge's key, and a shell of the login machine."""

from __future__ import annotations

import os
import secrets
import shlex
from typing import TYPE_CHECKING, NamedTuple

from worlds.ssh import disk

if TYPE_CHECKING:
    from pathlib import Path

    from worlds.ssh.disk import Plan

LOGIN = "login"
CPUS = 16
MEMORY_MIB = 16_000
ACCOUNT = "lab"
GPU_NODE = "three"
GPUS = 2
"""GPUs of that node, where a cluster has any: links to another device."""
SLURMD_TIMEOUT = 20
KILL_WAIT = 5
TMP_BASE = "/var/spool/job_tmp"
"""Folder of a node with the ``/tmp`` of each job, where jobs have their own."""
_KEY_BYTES = 1024
_SLURM_CONF = """\
ClusterName=smx
SlurmctldHost={login.host_name}({login.address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/{scheduler}
SchedulerParameters=bf_interval=1,sched_min_interval=0,sched_interval=5
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
ReturnToService=2
SlurmdTimeout={slurmd_timeout}
KillWait={kill_wait}
MinJobAge=300
MessageTimeout=5
JobAcctGatherType=jobacct_gather/none
DefMemPerCPU=500
{accounting}
{gpus}
{containers}
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=1-00:00:00 DefaultTime=10 PriorityTier=5 State=UP
PartitionName=short Nodes=ALL MaxTime=00:02:00 PriorityTier=5 State=UP
PartitionName=spare Nodes=ALL MaxTime=1-00:00:00 PriorityTier=1 GraceTime=10 State=UP
PartitionName=urgent Nodes=ALL MaxTime=1-00:00:00 PriorityTier=9 State=UP
"""
_NODE = (
    "NodeName={node.host_name} NodeAddr={node.address} CPUs={cpus} Boards=1 SocketsPerBoard=1 CoresPerSocket={cpus} "
    "ThreadsPerCore=1 RealMemory={memory} {gres} State=UNKNOWN"
)
_ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={login.address}
AccountingStorageEnforce=associations,limits,qos
"""
_NO_ACCOUNTING = "AccountingStorageType=accounting_storage/none\n"
_SLURMDBD_CONF = """\
AuthType=auth/munge
DbdHost={login.host_name}
DbdAddr={login.address}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
LogFile=/var/log/slurmdbd.log
PidFile=/run/slurmdbd.pid
"""
_CGROUP_CONF = "CgroupPlugin=cgroup/v1\n"
_PRIVATE_TMP = "JobContainerType=job_container/tmpfs\nPrologFlags=Contain\n"
_JOB_CONTAINER_CONF = f"AutoBasePath=true\nBasePath={TMP_BASE}\n"
_GRES_CONF = f"AutoDetect=off\nNodeName={{node.host_name}} Name=gpu Type=a100 File=/etc/slurm/nvidia[0-{GPUS - 1}]\n"
_SHELL = """\
#!/bin/sh
# A shell of the account on the login machine, in whose place `sh` is found. It inherits what a surrounding job sets.
cd /
inherited=$(env | grep -E '^(SLURM|SBATCH|SQUEUE|SRUN|OWN)_[A-Z_]+=[^[:space:]]*$')
exec nsenter --target="$(cat {pid_file})" --mount --uts --ipc --net --pid --setgid={uid} --setuid={uid} -- \\
  env -i HOME={home} USER={user} LOGNAME={user} SHELL=/bin/bash PATH={path} $inherited /bin/sh "$@"
"""


class SlurmSite(NamedTuple):
    """What a cluster has."""

    accounting: bool = False
    backfill: bool = True
    """Without it Slurm takes no heterogeneous job."""
    gpus: bool = False
    """One node has two."""
    private_tmp: bool = False
    """Each job has a ``/tmp`` of its own on each of its nodes."""
    shared_home: bool = False


def write(system: Path, plans: list[Plan], key: bytes, site: SlurmSite) -> None:
    """Write what Slurm needs on the disk of one machine; ``system`` is that disk."""
    login = next(plan for plan in plans if plan.name == LOGIN)
    with_gpus = [plan for plan in plans if site.gpus and plan.name == GPU_NODE]
    nodes = "\n".join(
        _NODE.format(node=plan, cpus=CPUS, memory=MEMORY_MIB, gres=f"Gres=gpu:a100:{GPUS}" if plan in with_gpus else "")
        for plan in plans
        if plan.name != LOGIN
    )
    conf = _SLURM_CONF.format(
        login=login,
        nodes=nodes,
        scheduler="backfill" if site.backfill else "builtin",
        slurmd_timeout=SLURMD_TIMEOUT,
        kill_wait=KILL_WAIT,
        gpus="GresTypes=gpu" if site.gpus else "",
        containers=_PRIVATE_TMP if site.private_tmp else "",
        accounting=(_ACCOUNTING if site.accounting else _NO_ACCOUNTING).format(login=login),
    )
    texts = {"slurm.conf": conf, "cgroup.conf": _CGROUP_CONF, "slurmdbd.conf": _SLURMDBD_CONF.format(login=login)}
    texts |= {"job_container.conf": _JOB_CONTAINER_CONF} if site.private_tmp else {}
    (system / "etc/slurm").mkdir()
    for name, text in texts.items():
        (system / "etc/slurm" / name).write_text(text, encoding="utf-8")
    (system / "etc/slurm/slurmdbd.conf").chmod(0o600)
    for plan in with_gpus:
        _write_gpus(system / "etc/slurm", plan)
    munge = system / "etc/munge"
    munge.mkdir(mode=0o700)
    (munge / "munge.key").write_bytes(key)
    (munge / "munge.key").chmod(0o400)
    hosts = "".join(f"{plan.address} {plan.host_name} {plan.name}\n" for plan in plans)
    (system / "etc/hosts").write_text(f"127.0.0.1 localhost\n{hosts}", encoding="utf-8")
    for name in ("var/spool/slurmctld", "var/spool/slurmd", "var/log/munge", "var/lib/munge", "var/lib/mysql"):
        (system / name).mkdir(parents=True, exist_ok=True)


def _write_gpus(folder: Path, node: Plan) -> None:
    """Write the list of a node's GPUs. ``slurmd`` never opens their devices, and only checks that they are some."""
    (folder / "gres.conf").write_text(_GRES_CONF.format(node=node), encoding="utf-8")
    for number in range(GPUS):
        (folder / f"nvidia{number}").symlink_to("/dev/null")


def shell_folder(folder: Path, user: disk.User) -> Path:
    """Name the folder with the program ``sh`` of a user."""
    return folder / f"login-bin-{user.name}"


def write_shell(folder: Path, user: disk.User) -> Path:
    """Write the program ``sh`` that is a user's shell on the login machine; give its folder, for ``PATH``."""
    programs = shell_folder(folder, user)
    programs.mkdir()
    text = _SHELL.format(
        pid_file=shlex.quote(os.fspath(folder / LOGIN / "pid")),
        uid=user.uid,
        home=user.home,
        user=user.name,
        path=disk.PATH,
    )
    (programs / "sh").write_text(text, encoding="utf-8")
    (programs / "sh").chmod(0o755)
    return programs


def new_key() -> bytes:
    """Make a key for munge."""
    return secrets.token_bytes(_KEY_BYTES)
