"""Parse what Slurm's programs print: text in, structs out. Pure.

The formats are those of :mod:`~jupyter_smx.engines.slurm.commands`: fields separated by ``|``, without a header. Every
version since 20.11 prints them alike; ``--json`` is newer, and its fields change.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

UNKNOWN = ("", "N/A", "NONE", "(null)", "Unknown", "INVALID", "NOT_SET")
"""Texts that Slurm prints where it has no value."""
UNLIMITED = ("UNLIMITED", "infinite", "Partition_Limit")
_QUEUE_FIELDS = 8
_PARTITION_FIELDS = 7
_ASSOCIATION_FIELDS = 4
_ACCOUNTING_FIELDS = 6
_JOB_ID = re.compile(r"[0-9]{1,18}(\+[0-9]{1,9})?")
"""Id of a job or of a component; the tasks of an array, as ``12_3`` and ``12_[1-9%4]``, are none of this engine."""
_COUNT = re.compile(r"[0-9]{1,18}")
_RANGE_LIMIT = 65_536
"""Nodes of one range, above which the text is no list of nodes of a cluster."""
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KMGT]?)")
_MEGABYTE = 1 << 20
_GRES_WORD = re.compile(r"(?:gres[/:])?gpu(?::(?P<kind>(?!\d+(?:\(|$))[^:=(,]+))?(?:[:=](?P<count>\d+))?(?:\(.*\))?")
"""A kind of digits alone is a count, and without a count it is one GPU."""
_BRACKET = re.compile(r"\[([^\[\]]*)\]")
_ADDRESS = re.compile(r"\d{1,3}(\.\d{1,3}){3}")
_SITE_PART = re.compile(r"(.*?)^-- (\d+)$", re.MULTILINE | re.DOTALL)
_SITE_PARTS = 3
_PAIR = re.compile(r"(?<!\S)([A-Za-z][A-Za-z0-9_/:]*)=")


class QueueRow(Struct, frozen=True, kw_only=True):
    """One row of ``squeue``: a job, or one component of a heterogeneous job.

    ``job`` is the id by which commands name the whole job, ``component`` counts from 0; where each instance group has a
    job of its own, it is the number of the group. ``start`` and ``end`` are seconds since the epoch, None if Slurm has
    none.
    """

    job: str
    component: int = 0
    name: str = ""
    state: str = ""
    start: float | None = None
    end: float | None = None
    nodes: tuple[str, ...] = ()
    reason: str = ""
    partition: str = ""


class PartitionRow(Struct, frozen=True, kw_only=True):
    """Equal nodes of a partition; ``limit`` is seconds, None without one, ``memory`` bytes of one node."""

    name: str
    is_default: bool = False
    is_up: bool = True
    limit: float | None = None
    cpus: int = 0
    memory: int = 0
    gpus: int = 0
    gpu_kind: str = ""
    nodes: int = 0


def split_job_id(text: str) -> tuple[str, int]:
    """Split the id of ``squeue``: ``12`` is a job, ``12+1`` the second component of one."""
    job, _, component = text.strip().partition("+")
    return job, int(component) if component.isdigit() else 0


def split_job_name(text: str) -> tuple[str, int]:
    """Split the name of a job: ``NAME`` is all of a cluster, ``NAME:1`` the job of its second instance group."""
    name, _, group = text.strip().partition(":")
    return name, int(group) if group.isdigit() else 0


def parse_submission(text: str) -> str:
    """Return the job id that ``sbatch --parsable`` prints, ``ID`` or ``ID;CLUSTER``; "" if it printed none.

    Plug-ins of a site may print lines before it.
    """
    found = [line.partition(";")[0].strip() for line in text.splitlines()]
    ids = [job for job in found if job.isdigit()]
    return ids[-1] if ids else ""


def parse_queue(text: str, prefix: str = "") -> list[QueueRow]:
    """Parse the rows of ``squeue`` whose name begins with ``prefix``; arrays and lines of another form are left out."""
    return [row for line in text.splitlines() if (row := _queue_row(line, prefix)) is not None]


def _queue_row(line: str, prefix: str) -> QueueRow | None:
    fields = line.rstrip("\n").split("|", _QUEUE_FIELDS - 1)
    if len(fields) != _QUEUE_FIELDS or not _JOB_ID.fullmatch(fields[0].strip()):
        return None
    if not fields[1].strip().startswith(prefix):
        return None
    job, component = split_job_id(fields[0])
    name, group = split_job_name(fields[1])
    return QueueRow(
        job=job,
        component=component or group,
        name=name,
        state=fields[2].strip(),
        start=parse_moment(fields[3]),
        end=parse_moment(fields[4]),
        nodes=tuple(expand_nodes(fields[5])),
        partition=fields[6].strip(),
        reason="" if (reason := fields[7].strip()) in ("None", *UNKNOWN) else reason,
    )


def parse_moment(text: str) -> float | None:
    """Parse a moment that ``SLURM_TIME_FORMAT=%s`` lets Slurm print as seconds since the epoch."""
    word = text.strip()
    return float(word) if _COUNT.fullmatch(word) and int(word) > 0 else None


def parse_duration(text: str) -> float | None:
    """Parse ``D-HH:MM:SS``, ``HH:MM:SS``, ``MM:SS`` or minutes, in seconds; None where there is no limit."""
    word = text.strip()
    if word in UNLIMITED or word in UNKNOWN:
        return None
    days, dash, rest = word.partition("-")
    parts = [int(part) if part.isdigit() else 0 for part in (rest if dash else word).split(":")]
    if dash:  # D-HH, D-HH:MM, D-HH:MM:SS
        hours, minutes, seconds = (*parts, 0, 0)[:3]
        return float(int(days) * 86_400 + hours * 3_600 + minutes * 60 + seconds) if days.isdigit() else None
    hours, minutes, seconds = (0, parts[0], 0) if len(parts) == 1 else (0, 0, 0, *parts)[-3:]
    return float(hours * 3_600 + minutes * 60 + seconds)


def format_duration(seconds: float) -> str:
    """Format a time limit as Slurm reads it, rounded up to minutes: ``1-02:30:00``."""
    minutes = max(1, -(-int(-(-seconds // 1)) // 60))
    days, rest = divmod(minutes, 24 * 60)
    return f"{days}-{rest // 60:02}:{rest % 60:02}:00"


def expand_nodes(text: str) -> list[str]:
    """Expand a list of nodes: ``gpu[01-03,7],login`` are five names."""
    word = text.strip()
    if word in UNKNOWN:
        return []
    return [name for part in _split_outside_brackets(word) for name in _expand(part)]


def _split_outside_brackets(text: str) -> Iterator[str]:
    depth, begin = 0, 0
    for place, sign in enumerate(text):
        depth += (sign == "[") - (sign == "]")
        if sign == "," and depth == 0:
            yield text[begin:place]
            begin = place + 1
    yield text[begin:]


def _expand(text: str) -> Iterator[str]:
    found = _BRACKET.search(text)
    if found is None:
        if text:
            yield text
        return
    for middle in _numbers(found[1]):
        for rest in _expand(text[found.end() :]) if text[found.end() :] else [""]:
            yield f"{text[: found.start()]}{middle}{rest}"


def _numbers(text: str) -> Iterator[str]:
    for part in text.split(","):
        first, dash, last = part.partition("-")
        is_range = dash and _COUNT.fullmatch(first) and _COUNT.fullmatch(last)
        if is_range and int(last) - int(first) < _RANGE_LIMIT:
            yield from (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
        elif part:
            yield part


def parse_gpus(text: str) -> tuple[int, str]:
    """Return the number of GPUs in a list of generic resources, and their kind if all have one: ``gpu:a100:4(S:0)``."""
    found = [_GRES_WORD.fullmatch(part.strip()) for part in _split_outside_parentheses(text)]
    matches = [match for match in found if match is not None]
    kinds = {match["kind"] or "" for match in matches}
    return sum(int(match["count"] or 1) for match in matches), kinds.pop() if len(kinds) == 1 else ""


def _split_outside_parentheses(text: str) -> list[str]:
    return re.split(r",(?![^()]*\))", text)


def parse_partitions(text: str) -> list[PartitionRow]:
    """Parse the rows of ``sinfo``; lines of another form are left out."""
    return [row for line in text.splitlines() if (row := _partition_row(line)) is not None]


def _partition_row(line: str) -> PartitionRow | None:
    fields = [field.strip() for field in line.split("|")]
    if len(fields) != _PARTITION_FIELDS or not fields[0]:
        return None
    gpus, kind = parse_gpus(fields[4])
    return PartitionRow(
        name=fields[0].rstrip("*"),
        is_default=fields[0].endswith("*"),
        limit=parse_duration(fields[1]),
        cpus=_number(fields[2]),
        memory=_number(fields[3]) * _MEGABYTE,
        gpus=gpus,
        gpu_kind=kind,
        nodes=_number(fields[5]),
        is_up=fields[6] == "up",
    )


def _number(text: str) -> int:
    """Read a count; Slurm writes ``4+`` where nodes have four or more."""
    digits = re.match(r"\d+", text)
    return int(digits[0]) if digits else 0


def parse_record(text: str) -> dict[str, str]:
    """Parse one line of ``scontrol --oneliner show``: ``Name=value`` pairs, whose values may have spaces."""
    places = [*_PAIR.finditer(text.strip())]
    ends = [place.start() for place in places[1:]] + [len(text.strip())]
    return {place[1]: text.strip()[place.end() : end].strip() for place, end in zip(places, ends, strict=True)}


def parse_addresses(text: str) -> dict[str, str]:
    """Return the address of each node from lines of a name and an address; nodes without one are left out."""
    lines = [line.split() for line in text.splitlines()]
    return {words[0]: words[1] for words in lines if len(words) == 2 and _ADDRESS.fullmatch(words[1])}  # noqa: PLR2004


def parse_kill_wait(text: str) -> float | None:
    """Return the seconds between SIGTERM and SIGKILL at the end of a job, from the configuration of the cluster."""
    found = re.search(r"^KillWait\s*=\s*(\d+)", text, re.MULTILINE)
    return None if found is None else float(found[1])


def parse_accounts(text: str) -> list[str]:
    """Return each account once from the rows of ``sacctmgr show associations``, whose first field it is."""
    names = [line.partition("|")[0].strip() for line in text.splitlines()]
    return [*dict.fromkeys(name for name in names if name)]


class AccountingRow(Struct, frozen=True, kw_only=True):
    """What ``sacct`` shows of a job: its state, seconds, nodes of all components, and the most memory of one step."""

    state: str
    nodes: int = 0
    elapsed: float | None = None
    cpu: float | None = None
    memory: int | None = None


def parse_accounting(text: str) -> AccountingRow | None:
    """Parse the rows of ``sacct``; None if it has none.

    A row whose id has no dot is the job, or one component of it. Only rows of steps have memory.
    """
    rows = [[field.strip() for field in line.split("|")] for line in text.splitlines()]
    rows = [row for row in rows if len(row) == _ACCOUNTING_FIELDS and row[0]]
    jobs = [row for row in rows if "." not in row[0]]
    if not jobs:
        return None
    cpu = [seconds for row in jobs if (seconds := _cpu_seconds(row[3])) is not None]
    memory = [size for row in rows if (size := _memory(row[4]))]
    return AccountingRow(
        state=jobs[0][1],
        nodes=sum(_number(row[5]) for row in jobs),
        elapsed=float(max(_number(row[2]) for row in jobs)),
        cpu=sum(cpu) if cpu else None,
        memory=max(memory, default=None),
    )


def _cpu_seconds(text: str) -> float | None:
    """Parse ``D-HH:MM:SS``, ``HH:MM:SS`` or ``MM:SS.mmm``."""
    whole, _, fraction = text.partition(".")
    seconds = parse_duration(whole)
    return None if seconds is None else seconds + (float(f"0.{fraction}") if fraction.isdigit() else 0.0)


def _memory(text: str) -> int:
    """Parse ``1234K`` or ``1.5G`` as bytes; 0 without a value."""
    found = _MEMORY.fullmatch(text)
    return int(float(found[1]) * 1024 ** " KMGT".index(found[2] or " ")) if found else 0


class Site(Struct, frozen=True, kw_only=True):
    """What a user may name beside partitions: accounts and QOS of the user, features of nodes, and reservations."""

    accounts: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    reservations: tuple[str, ...] = ()


def parse_site(text: str, known: Site) -> Site:
    """Parse the output of :func:`commands.site`; parts whose command failed are those of ``known``."""
    # Without the last line of a part, it was cut off.
    accounts, features, reservations = [*_SITE_PART.findall(text), *[("", "1")] * _SITE_PARTS][:_SITE_PARTS]
    return Site(
        accounts=tuple(parse_accounts(accounts[0])) if accounts[1] == "0" else known.accounts,
        qos=_qos_names(accounts[0]) if accounts[1] == "0" else known.qos,
        features=_names(features[0].replace(",", "\n").splitlines()) if features[1] == "0" else known.features,
        reservations=_reservations(reservations[0]) if reservations[1] == "0" else known.reservations,
    )


def _qos_names(text: str) -> tuple[str, ...]:
    rows = [[field.strip() for field in line.split("|")] for line in text.splitlines()]
    return _names(
        name for row in rows if len(row) >= _ASSOCIATION_FIELDS for field in row[2:4] for name in field.split(",")
    )


def _reservations(text: str) -> tuple[str, ...]:
    return _names(re.findall(r"^ReservationName=(\S+)", text, re.MULTILINE))


def _names(words: Iterable[str]) -> tuple[str, ...]:
    """Return each name once, in order, without the texts for no value."""
    return tuple(dict.fromkeys(word.strip() for word in words if word.strip() not in UNKNOWN))


def jobs_by_name(rows: Iterable[QueueRow]) -> Mapping[str, dict[str, list[QueueRow]]]:
    """Sort rows by the name of the job and its id; components in order."""
    found: dict[str, dict[str, list[QueueRow]]] = defaultdict(lambda: defaultdict(list))
    for row in sorted(rows, key=lambda row: (int(row.job), row.component)):
        found[row.name][row.job].append(row)
    return found
