"""``--distribution pyspark`` with real Spark on two machines: by address, with a secret that no host sends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from worlds.executors_meet import ETL, MARKS, check_computed, etl_fields, spark_on

if TYPE_CHECKING:
    from pathlib import Path

    from ssh_controller import SshControllerWorld

pytestmark = [pytest.mark.heavy("spark"), *MARKS]


def test_executors_on_two_machines_compute_for_one_script_and_what_they_write_comes_home(
    ssh_controller: SshControllerWorld, tmp_path: Path
) -> None:
    with spark_on(ssh_controller.machines):
        check_computed(ssh_controller.submit(ETL, engine="ssh", **etl_fields(tmp_path)))
