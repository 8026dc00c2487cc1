"""Instance types of a cluster come from its partitions and from the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from traitlets import TraitError

from jupyter_smx.engines.slurm import node_types
from jupyter_smx.engines.slurm.engine import SlurmEngine
from jupyter_smx.engines.slurm.parsers import PartitionRow
from jupyter_smx.engines.slurm.partition_store import PartitionStore

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1 << 30
ROWS = [
    PartitionRow(name="main", cpus=16, memory=64 * GIB, nodes=3),
    PartitionRow(name="gpu", cpus=32, memory=256 * GIB, gpus=4, gpu_kind="a100", nodes=2),
    PartitionRow(name="gpu", cpus=64, memory=512 * GIB, gpus=8, gpu_kind="h100", nodes=1),
    PartitionRow(name="old", cpus=8, memory=GIB, gpus=1, nodes=1),
    PartitionRow(name="closed", cpus=8, memory=GIB, nodes=1, is_up=False),
    PartitionRow(name="_internal", cpus=8, memory=GIB, nodes=1),
]


def test_each_kind_of_node_is_a_type_and_a_gpu_has_its_share_of_a_node() -> None:
    found = {kind.name: kind for kind in node_types.partition_types(ROWS)}
    assert [*found] == ["main", "gpu-a100", "gpu-a100-x4", "gpu-h100", "gpu-h100-x8", "old-gpu"]
    one = found["gpu-a100"]
    assert (one.vcpus, one.memory_gib, one.gpus) == (8, 64.0, 1)
    assert one.options == {"partition": "gpu", "gres": "gpu:a100:1"}
    assert found["gpu-h100-x8"].options["gres"] == "gpu:h100:8"
    assert found["old-gpu"].options == {"partition": "old"}


def test_a_type_of_the_configuration_replaces_one_of_a_partition(tmp_path: Path) -> None:
    engine = SlurmEngine(
        data_dir=str(tmp_path),
        node_types={"main": {"cpus": 4, "memory_gib": 8, "partition": "main", "exclusive": True}},
    )
    engine._partitions.write(ROWS[:2])
    main, *_ = engine.instance_types()
    assert (main.vcpus, main.options) == (4, {"partition": "main", "exclusive": "true"})
    again = SlurmEngine(data_dir=str(tmp_path))
    assert [kind.name for kind in again.instance_types()] == ["main", "gpu-a100", "gpu-a100-x4"]


@pytest.mark.parametrize("options", [{"cpu": 4}, {"cpus": 0}, {"memory_gib": "much"}])
def test_an_option_of_a_type_that_is_wrong_is_refused(options: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(TraitError, match="node_types"):
        SlurmEngine(data_dir=str(tmp_path), node_types={"small": options})


@pytest.mark.parametrize(
    ("traits", "message"),
    [
        ({"node_types": {"small": {"time": "60"}}}, "node_types: small: time=60 is not possible"),
        ({"node_types": {"small": {"words": "-Jx"}}}, "node_types: small: words=-Jx is not possible"),
        ({"submit_words": ["--mail-type", "END"]}, "submit_words: words=--mail-type END is not possible"),
    ],
)
def test_a_value_that_each_job_would_be_refused_for_is_no_configuration(
    traits: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(TraitError, match=message):
        SlurmEngine(data_dir=str(tmp_path), **traits)
    SlurmEngine(data_dir=str(tmp_path), submit_words=["--mail-type=END", "--comment=two words"])


def test_gpus_of_a_type_are_those_of_its_generic_resources(tmp_path: Path) -> None:
    engine = SlurmEngine(data_dir=str(tmp_path), node_types={"big": {"cpus": 4, "gres": "gpu:a100:2"}})
    assert [kind.gpus for kind in engine.instance_types()] == [2]


def test_partitions_are_unknown_where_the_file_is_broken(tmp_path: Path) -> None:
    (tmp_path / "partitions.json").write_text("{")
    assert PartitionStore(tmp_path / "partitions.json").read() == []
