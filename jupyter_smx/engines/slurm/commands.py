"""Build the commands of Slurm's programs; pure.

``parsers`` reads what they print. Each is a line for a POSIX shell on the login machine, where the programs run.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from jupyter_smx.engines.slurm import parsers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jupyter_smx.engines.slurm.submission import BatchJob

_EPOCH = "SLURM_TIME_FORMAT=%s"
"""Lets Slurm print moments as seconds since the epoch, whatever the time zone of the login machine."""
_QUEUE_FORMAT = "%i|%j|%T|%S|%e|%N|%P|%r"
_PARTITION_FORMAT = "%P|%l|%c|%m|%G|%D|%a"
_INHERITED = (
    *("SLURM_CONF", "SLURM_CLUSTERS"),
    *("SBATCH_ACCOUNT", "SBATCH_PARTITION", "SBATCH_QOS", "SBATCH_RESERVATION", "SBATCH_CONSTRAINT"),
)
"""Variables that choose the cluster, or that users set as their defaults for ``sbatch``; options of a job replace them.

The other variables of Slurm are those of a job in which the controller runs, or change how a submission works.
"""


def clean_environment(variables: Iterable[str]) -> list[str]:
    """Name the variables of a surrounding job, which would change what Slurm's programs do."""
    prefixes = ("SLURM_", "SLURMD_", "SBATCH_", "SRUN_", "SALLOC_", "SQUEUE_", "SINFO_", "SCANCEL_", "PMI", "PMIX_")
    return [name for name in variables if name.startswith(prefixes) and name not in _INHERITED]


def environment(programs: str, variables: Mapping[str, str]) -> str:
    """Return the beginning of a shell line that sets variables; ``programs`` is a folder before those of the PATH."""
    words = [f"export {name}={shlex.quote(value)}; " for name, value in variables.items()]
    words += [f'PATH={shlex.quote(programs)}:"$PATH"; export PATH; '] if programs else []
    return "".join(words)


def program_of(command: str) -> str:
    """Return the first program of a shell line, for messages."""
    words = [word for word in command.replace(";", " ").split() if "=" not in word and word not in ("export", "PATH")]
    return words[0] if words else command


def submit(submission: BatchJob) -> str:
    """Submit a batch job; its script is the input, its id the output."""
    words = ["sbatch", "--parsable", *_common_words(submission)]
    for number, group in enumerate(submission.groups):
        words += [":"] if number else []
        words += group.words
    return shlex.join(words)


def _common_words(submission: BatchJob) -> list[str]:
    """Options that Slurm passes on from the first component of a heterogeneous job to the others."""
    return [
        f"--job-name={submission.name}",
        "--comment=jupyter_smx",
        f"--time={parsers.format_duration(submission.seconds)}",
        # To the batch step alone: without `B:` each process of a job gets the signal, which ends most programs.
        f"--signal=B:USR1@{submission.notice:.0f}",
        # A job that is queued again has the same id and other nodes: the controller decides if there is another one.
        "--no-requeue",
        "--export=NIL",
        "--output=/dev/null",
        "--chdir=/",
    ]


def queue() -> str:
    """List all jobs of this user, also those of hidden partitions, and ended ones while Slurm lists them."""
    return f'{_EPOCH} squeue --noheader --all --states=all --user="$(id -un)" --format={shlex.quote(_QUEUE_FORMAT)}'


def describe_job(job: str) -> str:
    """Show everything about a job."""
    return f"{_EPOCH} scontrol --oneliner show job {shlex.quote(job)}"


def node_addresses(nodes: Sequence[str]) -> str:
    """Print a line for each node: its name, and the IPv4 address by which Slurm reaches it."""
    names = shlex.quote(",".join(nodes))
    return (
        f"scontrol --oneliner show node {names} | "
        r"sed -n 's/^NodeName=\([^ ]*\) .*NodeAddr=\([^ ]*\) .*/\1 \2/p' | while read -r node address; do "
        'echo "$node $(getent ahostsv4 "$address" | head -n 1 | cut -d " " -f 1)"; done'
    )


def configuration() -> str:
    """Show the configuration of the cluster."""
    return "scontrol show config"


def account_job(job: str) -> str:
    """Show what the accounting has of a job, its components and its steps, where a site keeps one."""
    fields = "JobID,State,ElapsedRaw,TotalCPU,MaxRSS,NNodes"
    return f"sacct --noheader --parsable2 --jobs={shlex.quote(job)} --format={fields}"


def partitions() -> str:
    """List the partitions, also hidden ones, one line for each kind of node in each."""
    return f"sinfo --noheader --all --format={shlex.quote(_PARTITION_FORMAT)}"


def accounts() -> str:
    """List the accounts of this user, with partition and QOS of each."""
    return 'sacctmgr --noheader --parsable2 show associations user="$(id -un)" format=Account,Partition,QOS,DefaultQOS'


def site() -> str:
    """Show what a user may name: associations, features of nodes and reservations; ``-- EXIT_CODE`` ends each part."""
    parts = (accounts(), "sinfo --noheader --format=%f", "scontrol --oneliner show reservation")
    return "; ".join(f'{part}; echo "-- $?"' for part in parts)


def cancel(jobs: Sequence[str]) -> str:
    """Cancel jobs, whatever their state."""
    return shlex.join(["scancel", "--quiet", *jobs])


def cancel_by_force(jobs: Sequence[str]) -> str:
    """Kill all processes of jobs at once.

    Without ``--quiet``: ``scancel`` with a signal then ends with 1 and no message for a job that has ended.
    """
    return shlex.join(["scancel", "--full", "--signal=KILL", *jobs])


def on_node(job: str, component: int | None, node: str, command: str, *, pty: bool = False) -> str:
    """Run a shell line on a node of an allocation, beside what runs there.

    ``component`` is the number of a component of a heterogeneous job. ``--unbuffered`` lets single bytes pass, and
    ``--mem=0`` lets the step start although the main step has all memory.
    """
    words = ["srun", f"--jobid={job}", *([] if component is None else [f"--het-group={component}"]), "--overlap"]
    words += [f"--nodelist={node}", "--nodes=1", "--ntasks=1", "--cpu-bind=none", "--mem=0", "--mpi=none"]
    words += ["--gres=none", "--chdir=/", "--quiet", "--export=ALL", "--kill-on-bad-exit=0"]
    words += ["--pty"] if pty else ["--unbuffered"]
    return shlex.join([*words, "/bin/sh", "-c", command])
