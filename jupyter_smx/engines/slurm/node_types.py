"""Instance types of a cluster: those that its site defines, and those of the nodes in each partition; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, Struct

from jupyter_smx.engines.slurm import parsers
from jupyter_smx.model.spec.instance import InstanceType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jupyter_smx.engines.slurm.parsers import PartitionRow

_GIB = 1 << 30


class NodeType(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An instance type of the configuration: what one host asks Slurm for."""

    cpus: Annotated[int, Meta(ge=1)] = 1
    memory_gib: Annotated[float, Meta(ge=0)] = 0.0
    gpus: Annotated[int, Meta(ge=0)] = 0
    partition: str = ""
    account: str = ""
    qos: str = ""
    gres: str = ""
    constraint: str = ""
    reservation: str = ""
    exclusive: bool = False
    heterogeneous: bool = True
    renew: bool = False
    time: str = ""
    words: str = ""
    price_per_hour: Annotated[float, Meta(ge=0)] | None = None


def configured_types(types: Mapping[str, NodeType]) -> list[InstanceType]:
    """Return the types of the configuration.

    :raises msgspec.ValidationError: a name is not one of an instance type.
    """
    return [_configured(name, kind) for name, kind in types.items()]


def _configured(name: str, kind: NodeType) -> InstanceType:
    texts = {
        option: str(getattr(kind, option))
        for option in ("partition", "account", "qos", "gres", "constraint", "reservation", "time", "words")
    }
    texts |= {"exclusive": "true" if kind.exclusive else "", "heterogeneous": "" if kind.heterogeneous else "false"}
    texts |= {"renew": "true" if kind.renew else ""}
    row = {
        "name": name,
        "vcpus": kind.cpus,
        "memory_gib": kind.memory_gib,
        "gpus": kind.gpus or _gpus_of(kind.gres),
        "price_per_hour": kind.price_per_hour,
        "options": {option: text for option, text in texts.items() if text},
    }
    return msgspec.convert(row, InstanceType)


def _gpus_of(gres: str) -> int:
    return parsers.parse_gpus(gres)[0]


def partition_types(rows: Iterable[PartitionRow]) -> list[InstanceType]:
    """Return the types that the partitions give: a node without GPUs, or a GPU with its share of a node, and all of it.

    Of rows with one name the first counts. A name that is none of an instance type is left out.
    """
    types: dict[str, InstanceType] = {}
    for row in rows:
        for kind in _types_of(row) if row.is_up and row.cpus else ():
            types.setdefault(kind.name, kind)
    return [*types.values()]


def _types_of(row: PartitionRow) -> list[InstanceType]:
    if not row.gpus:
        return _valid(row.name, row, row.cpus, row.memory, 0)
    name = f"{row.name}-{row.gpu_kind or 'gpu'}"
    one = _valid(name, row, max(1, row.cpus // row.gpus), row.memory // row.gpus, 1)
    return one if row.gpus == 1 else [*one, *_valid(f"{name}-x{row.gpus}", row, row.cpus, row.memory, row.gpus)]


def _valid(name: str, row: PartitionRow, cpus: int, memory: int, gpus: int) -> list[InstanceType]:
    gres = f"gpu:{row.gpu_kind}:{gpus}" if gpus and row.gpu_kind else ""
    options = {"partition": row.name, **({"gres": gres} if gres else {})}
    kind = {"name": name, "vcpus": cpus, "memory_gib": round(memory / _GIB, 2), "gpus": gpus, "options": options}
    try:
        return [msgspec.convert(kind, InstanceType)]
    except msgspec.ValidationError:
        return []
