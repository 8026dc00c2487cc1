"""Build the batch job of a cluster from a request and the configuration; pure."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from jupyter_smx.engines.remote.account import CHECK_FOLDER, DEFAULT_FOLDER
from jupyter_smx.engines.slurm import job_options, parsers
from jupyter_smx.model.errors import RefusedError
from jupyter_smx.model.records.cluster import Renewal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_smx.engines.base import ClusterRequest, HostSpec
    from jupyter_smx.engines.slurm.parsers import PartitionRow

TYPE_OPTION_NAMES = (*job_options.NAMES, "cpus", "memory_gib")
NAME_PREFIX = "smx-"
EXIT_NO_PYTHON = 96
"""Exit code of a batch job whose node has no Python."""
EXIT_OLD_PYTHON = 95
"""Exit code of a batch job whose node has a Python before 3.8."""
EXIT_OLDER_JOB = 94
"""Exit code of a pilot that found an older job of its name, as in :mod:`jupyter_smx.agent.remote.allocation`."""
_MEGABYTE = 1 << 20
_OWNER_LENGTH = 8
_SCRIPT = """\
#!/bin/sh
# jupyter_smx: this job holds its nodes for warm hosts. It ends when the last host has ended: after its keep-alive, or
# when it is released. Its owner ends it with `%smx pools --stop`, or `scancel {name}`.
cd /
umask 077
: "${{HOME:=$(getent passwd "$(id -u)" | cut -d: -f6)}}" "${{USER:=$(id -un)}}"
: "${{PATH:=/usr/local/bin:/usr/bin:/bin}}"
PATH="$PATH":{programs}
export HOME USER PATH LOGNAME="$USER"
r={folder}; p={python}
command -v "$p" >/dev/null || exit {no_python}
"$p" -I -c 'import sys; sys.exit(sys.version_info < (3, 8))' || exit {old_python}
{check_folder}
exec >>"$r/allocations.log" 2>&1
plan='{plan}'
plan=$(printf %s "$plan" | sed "s/@JOB@/$SLURM_JOB_ID/")
source=$(cat <<'END_OF_SOURCE'
{source}END_OF_SOURCE
)
exec "$p" -I -c "$source" pilot "$plan" "$source"
"""


class Group(Struct, frozen=True, kw_only=True):
    """The nodes of one instance group: a component of the job. ``words`` are for ``sbatch``."""

    nodes: int
    cpus: int
    words: tuple[str, ...]


class BatchJob(Struct, frozen=True, kw_only=True):
    """A batch job; ``seconds`` is its time limit, ``notice`` comes so many seconds before that.

    ``longest`` is the longest time limit that its options allow; 0: there is none.

    Without a host it ends after ``idle`` seconds, which begin again while one of the jobs ``others`` has no nodes.
    """

    name: str
    groups: tuple[Group, ...]
    seconds: float
    notice: float
    idle: float
    longest: float = 0.0
    others: tuple[str, ...] = ()


class AllocationTime(Struct, frozen=True, kw_only=True):
    """Seconds: what a start may take, the notice before the end, and the longest allocation (0: the partition's).

    ``renewed`` is the time of the allocation that this one follows; 0: it follows none.
    """

    reserve: float = 180.0
    notice: float = 120.0
    longest: float = 0.0
    renewed: float = 0.0


def job_name(owner: str, cluster: str) -> str:
    """Name the job of a cluster, so that every process finds it by the cluster's id."""
    return f"{NAME_PREFIX}{owner[:_OWNER_LENGTH]}-{cluster}"


def job_of_group(planned: BatchJob, group: int) -> BatchJob:
    """Return the job of one instance group, which waits for those of the others while they wait for their nodes."""
    others = tuple(f"{planned.name}:{number}" for number in range(len(planned.groups)) if number != group)
    return replace(planned, name=f"{planned.name}:{group}", groups=(planned.groups[group],), others=others)


def cluster_of(owner: str, name: str) -> str:
    """Return the cluster of a job's name; "" if it is not one of this owner."""
    prefix = job_name(owner, "")
    return name[len(prefix) :] if name.startswith(prefix) else ""


def groups_of(request: ClusterRequest) -> list[list[HostSpec]]:
    """Return the hosts of each instance group, in the job's order."""
    found = [[host for host in request.hosts if host.group == group.name] for group in request.instance_groups]
    return [hosts for hosts in found if hosts]


def plan_submission(
    request: ClusterRequest,
    options: Mapping[str, str],
    time: AllocationTime,
    name: str,
    partitions: Sequence[PartitionRow] = (),
) -> BatchJob:
    """Plan the batch job of a request; ``options`` are those of the configuration, which those of a host replace.

    A time limit among the options of the leader counts as it is: Slurm refuses what is too long.

    :raises RefusedError: an option is unknown, or does not take its value.
    """
    groups = tuple(_group(hosts, options) for hosts in groups_of(request))
    places = [{**options, **hosts[0].options}.get("partition", "") for hosts in groups_of(request)]
    limits = [limit for place in places if (limit := partition_limit(place, partitions)) is not None]
    longest = min([*limits, *([time.longest] if time.longest else [])], default=None)
    wanted = float(request.max_run + request.keep_alive) + time.reserve
    seconds = wanted if longest is None else min(wanted, longest)
    if request.options.get("time"):
        seconds = longest = job_options.parse_time(request.options["time"])
    if time.renewed:  # a pool without a job: it goes on as it was
        seconds = time.renewed
    return BatchJob(
        name=name,
        groups=groups,
        seconds=seconds,
        notice=min(time.notice, seconds / 2),
        idle=request.idle_limit + time.reserve / 2,
        longest=longest or 0.0,
    )


def plan_renewal(
    ends_at: float | None, seconds: float, notice: float, lead: float, *, reserve: float, longest: float = 0.0
) -> Renewal | None:
    """Plan the allocation that follows one: queue it ``lead`` seconds before the notice, for the same time again.

    At the notice, hosts take no more jobs. A short allocation is renewed in its second half only, else it would be
    followed at once. The start and the end of an allocation take ``reserve`` seconds of it. None without an end, as
    where a partition has no limit.
    """
    if ends_at is None or seconds <= 0:
        return None
    return Renewal(
        at=ends_at - min(notice + lead, seconds / 2),
        seconds=seconds,
        max_run=max(0.0, seconds - reserve),
        longest_run=max(0.0, longest - reserve) if longest else None,
    )


def partition_limit(name: str, rows: Sequence[PartitionRow]) -> float | None:
    """Return the time limit of a partition, or of the default one without a name; None if it has none.

    Several partitions may be named with commas: Slurm takes the first that fits, so the shortest limit counts.
    """
    names = name.split(",") if name else [row.name for row in rows if row.is_default]
    limits = [row.limit for row in rows if row.name in names and row.limit is not None]
    return min(limits, default=None)


def _group(hosts: Sequence[HostSpec], configured: Mapping[str, str]) -> Group:
    host = hosts[0]
    unknown = [name for name in host.options if name not in TYPE_OPTION_NAMES]
    if unknown:
        raise RefusedError(
            f"--instance-type: {host.instance_type} has the option {unknown[0]!r}, which Slurm's engine does not have.",
            field="instance_type",
            value=host.instance_type,
            rule=f"Options of its types are {', '.join(TYPE_OPTION_NAMES)}.",
            cure="Correct it in c.ControllerApp.instance_types.",
        )
    options = {**configured, **host.options}
    cpus = int(options.get("cpus") or host.vcpus)
    words = [f"--nodes={len(hosts)}", f"--ntasks={len(hosts)}", "--ntasks-per-node=1", f"--cpus-per-task={cpus}"]
    memory = round(float(options["memory_gib"]) * 1024) if options.get("memory_gib") else host.memory // _MEGABYTE
    words += [f"--mem={memory}M"] if memory else []
    gres = options.get("gres") or (f"gpu:{host.gpus}" if host.gpus else "")
    words += [f"--gres={gres}"] if gres else []
    for option in ("partition", "account", "qos", "constraint", "reservation"):
        words += [f"--{option}={options[option]}"] if options.get(option) else []
    words += ["--exclusive"] if job_options.is_exclusive(options.get("exclusive", "")) else []
    return Group(nodes=len(hosts), cpus=cpus, words=(*words, *job_options.split_words(options.get("words", ""))))


def gpus_of(host: HostSpec, configured: Mapping[str, str]) -> int:
    """Return the number of GPUs that Slurm gives a host: those of its generic resources, else of its type."""
    gres = {**configured, **host.options}.get("gres", "")
    return parsers.parse_gpus(gres)[0] if gres else host.gpus


def script(submission: BatchJob, source: str, folder: str, python: str, programs: str) -> str:
    """Write the batch script, which has all that runs on the nodes before the first host.

    ``source`` is the text of :mod:`jupyter_smx.agent.remote.allocation`, ``folder`` a word of a shell, ``programs``
    the folder of Slurm's programs on the login machine.
    """
    plan = {
        "job": "@JOB@",  # known only where the job runs
        "name": submission.name,
        "groups": [{"nodes": group.nodes, "cpus": group.cpus} for group in submission.groups],
        "folder": folder,
        "home": DEFAULT_FOLDER,
        "seconds": submission.seconds,
        "idle": submission.idle,
        "others": submission.others,
        "notice": submission.notice,
    }
    return _SCRIPT.format(
        name=shlex.quote(f"--name={submission.name}"),
        programs=shlex.quote(programs),
        folder=folder_word(folder),
        python=folder_word(python),
        no_python=EXIT_NO_PYTHON,
        old_python=EXIT_OLD_PYTHON,
        check_folder=CHECK_FOLDER,
        plan=json.dumps(plan).replace("'", "'\\''"),
        source=source,
    )


def folder_word(path: str) -> str:
    """Quote a path for a shell, but for a ``~`` at its beginning."""
    return '"$HOME"' + shlex.quote(path[1:]) if path == "~" or path.startswith("~/") else shlex.quote(path)
