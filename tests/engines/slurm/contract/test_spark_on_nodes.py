"""``--distribution pyspark`` with real Spark on nodes of a cluster: by address, with a secret that no host sends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from worlds.executors_meet import ETL, MARKS, check_computed, etl_fields, spark_on

if TYPE_CHECKING:
    from pathlib import Path

    from slurm_controller import SlurmControllerWorld

pytestmark = [pytest.mark.heavy("spark"), *MARKS]


def test_executors_on_two_nodes_compute_for_one_script_and_what_they_write_comes_home(
    slurm_controller: SlurmControllerWorld, tmp_path: Path
) -> None:
    with spark_on(slurm_controller.slurm.nodes) as nodes:
        wish = {"engine_options": {"words": "--nodelist=" + ",".join(node.host_name for node in nodes)}}
        first = slurm_controller.submit(ETL, keep_alive=600, **etl_fields(tmp_path), **wish)
        check_computed(first)
        (pool,) = slurm_controller.pools()
        assert pool.state == "Available"
