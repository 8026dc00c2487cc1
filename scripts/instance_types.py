"""Write the catalog of instance types: all names of SageMaker's API model, with the figures of published tables.

Run it in a checkout, with botocore in the environment and the three tables as files::

    python scripts/instance_types.py KARPENTER.md AUTOSCALER.go AUTOSCALER_2024.go

The names are those that training and processing jobs take (``TrainingInstanceType`` and ``ProcessingInstanceType`` of
botocore's ``sagemaker/2017-07-24/service-2``). The tables copy EC2's ``DescribeInstanceTypes`` and price list:

1. ``website/content/en/preview/reference/instance-types.md`` of github.com/aws/karpenter-provider-aws (1d92708),
2. ``cluster-autoscaler/cloudprovider/aws/ec2_instance_types.go`` of github.com/kubernetes/autoscaler (55c37cd),
3. the same file before types of the second GPU generation left it (parent of 432cb11).

The first table that has a type gives its figures. Prices are not in these tables: the catalog keeps those that it has.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from botocore.loaders import Loader

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CATALOG = Path(__file__).parents[1] / "jupyter_smx" / "model" / "instance_types.json"
ENUMS = ("TrainingInstanceType", "ProcessingInstanceType")
MIB_PER_GIB = 1024
SOURCES = (
    "EC2's API, as listed by karpenter-provider-aws on 2026-08-21",
    "EC2's price list, as listed by kubernetes/autoscaler on 2026-01-22",
    "EC2's price list, as listed by kubernetes/autoscaler on 2024-10-02",
)
ORDER = ("t", "m", "c", "r", "g", "p", "trn")
"""Kinds of machines, in the order of the catalog."""


class Size(NamedTuple):
    """What one instance has."""

    vcpus: int
    memory_gib: float
    gpus: int
    source: str


UNLISTED = {"p6e-gb200.36xlarge": Size(144, 960, 4, "third-party table (tsaol/aws-gpu, 2026-01-21), not verified")}
"""Types that none of the tables has."""
_LABEL = re.compile(r"\|(?:karpenter\.k8s\.aws/)?instance-(cpu|memory|gpu-count)\|(\d+)\|")
_FIELD = re.compile(r"(VCPU|MemoryMb|GPU): +(\d+)")


def read_karpenter(text: str, source: str) -> dict[str, Size]:
    """Read the page of Karpenter: a heading for each type, and a row for each label."""
    found = {}
    for part in text.split("\n### `")[1:]:
        labels = {name: int(value) for name, value in _LABEL.findall(part)}
        memory = labels["memory"] / MIB_PER_GIB
        found[part.partition("`")[0]] = Size(labels["cpu"], memory, labels.get("gpu-count", 0), source)
    return found


def read_autoscaler(text: str, source: str) -> dict[str, Size]:
    """Read the table of the cluster autoscaler: a literal of Go for each type."""
    found = {}
    for name, body in re.findall(r'"([^"]+)": \{([^}]*)\}', text):
        fields = {key: int(value) for key, value in _FIELD.findall(body)}
        found[name] = Size(fields["VCPU"], fields["MemoryMb"] / MIB_PER_GIB, fields["GPU"], source)
    return found


def api_names() -> list[str]:
    """Return the instance types that SageMaker's API takes, without ``ml.``."""
    shapes = Loader().load_service_model("sagemaker", "service-2")["shapes"]
    return sorted({name.removeprefix("ml.") for enum in ENUMS for name in shapes[enum]["enum"]})


def sort_key(name: str, size: Size) -> tuple[int, int, str, int]:
    """Order types by kind, generation, family and size."""
    family = name.partition(".")[0]
    kind, generation = re.findall(r"^([a-z]+)(\d+)", family)[0]
    return (ORDER.index(kind), int(generation), family, size.vcpus)


def rows(names: Iterable[str], sizes: Mapping[str, Size], old: Iterable[Mapping[str, object]]) -> list[str]:
    """Return the rows of the catalog as JSON; the prices, and types that are not SageMaker's, are those of ``old``."""
    before = {str(row["name"]): row for row in old}
    written = [json.dumps(row) for name, row in before.items() if not name.startswith("ml.")]
    for name in sorted(names, key=lambda name: sort_key(name, sizes[name])):
        size, price = sizes[name], before.get(f"ml.{name}", {})
        row = {
            "name": f"ml.{name}",
            "vcpus": size.vcpus,
            "memory_gib": int(size.memory_gib) if size.memory_gib == int(size.memory_gib) else size.memory_gib,
            "gpus": size.gpus,
            "price_per_hour": price.get("price_per_hour"),
            "source": price.get("source", ""),
            "hardware_source": size.source,
        }
        written.append(json.dumps(row))
    return written


def main() -> None:
    """Read the tables and write the catalog."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("karpenter", type=Path)
    parser.add_argument("autoscaler", type=Path)
    parser.add_argument("older_autoscaler", type=Path)
    given = parser.parse_args()
    sizes = {
        **UNLISTED,
        **read_autoscaler(given.older_autoscaler.read_text("utf-8"), SOURCES[2]),
        **read_autoscaler(given.autoscaler.read_text("utf-8"), SOURCES[1]),
        **read_karpenter(given.karpenter.read_text("utf-8"), SOURCES[0]),
    }
    names = api_names()
    unknown = [name for name in names if name not in sizes]
    if unknown:
        parser.error(f"No table has {', '.join(unknown)}.")
    lines = rows(names, sizes, json.loads(CATALOG.read_text("utf-8")))
    CATALOG.write_text("[\n  " + ",\n  ".join(lines) + "\n]\n", "utf-8")


if __name__ == "__main__":
    main()
