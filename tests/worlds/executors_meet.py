"""Executors of Spark that compute for one script over hosts on two machines, and what the script has to say."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pytorch import with_pyspark
from worlds.machine_libraries import packages_on

from jupyter_smx.kernel.client.autostart import retry_while_unavailable
from jupyter_smx.model.spec.channel import Channel, Output
from jupyter_smx.model.spec.distribution import Distribution
from jupyter_smx.model.spec.instance import InstanceGroup

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from world import Ran
    from worlds.ssh.machine import Machine

    from jupyter_smx.model.records.job import Job

MARKS = (
    pytest.mark.timeout(400),  # the first of them may have to install PySpark
    pytest.mark.skipif(
        shutil.which("java") is None, reason="Java is not installed: apt-get install default-jre-headless"
    ),
)
PATIENCE = 200.0
"""Seconds: a job on two hosts starts six JVMs, on however few CPUs there are."""
BOTH = ("algo-1", "algo-2")
HASTY = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""For JVMs that live for seconds; long jobs are better off without."""
ETL = """
import json, os
from pyspark.sql import SparkSession

def where(numbers):
    import socket
    yield socket.gethostname(), sum(numbers)

spark = SparkSession.builder.getOrCreate()
context = spark.sparkContext
found = context.parallelize(range(100), 4).mapPartitions(where).collect()
spark.range(0, 100, 1, 4).write.csv(os.path.join(os.environ["SMX_OUTPUT_ROWS"], "csv"))
print(json.dumps(["found", found, context.master, context.getConf().get("spark.authenticate")]), flush=True)
"""


@contextmanager
def spark_on(machines: Sequence[Machine]) -> Iterator[list[Machine]]:
    """Give two machines whose Python has PySpark, and that have what Debian's Java reads below ``/etc``."""
    with packages_on(machines, with_pyspark(), "pyspark") as found:
        for machine in found:
            for folder in Path("/etc").glob("java*"):
                shutil.copytree(folder, machine.root / "etc" / folder.name, symlinks=True, dirs_exist_ok=True)
        yield found


def etl_fields(folder: Path) -> dict[str, Any]:
    """Give what a job needs to run ``ETL`` on two hosts with small executors; its configuration lies in ``folder``."""
    wished = [{"Classification": "spark-defaults", "Properties": {"spark.executor.memory": "600m"}}]
    (folder / "conf").mkdir()
    (folder / "conf" / "configuration.json").write_text(json.dumps(wished))
    return {
        "kind": "process",
        "distribution": Distribution(runner="pyspark"),
        "environment": HASTY,
        "instance_groups": (InstanceGroup(instance_count=2),),
        "channels": (Channel(name="conf", source=str(folder / "conf")),),
        "outputs": (Output(name="rows", path="processing/output/rows"),),
    }


def log(ran: Ran, host: str) -> str:
    """Give the log of one host."""
    return ran.world.client.log(ran.id, host, 0).data.decode()


def check_computed(ran: Ran) -> Job:
    """Check that executors on both hosts computed with the job's key, and that what they wrote came home."""
    job = retry_while_unavailable(lambda: ran.world.client.wait(ran.id, PATIENCE))
    logs = [log(ran, host) for host in BOTH]
    assert job.state.value == "Completed", (job.failure_reason, *logs)
    (line,) = [line for line in logs[0].splitlines() if line.startswith('["found"')]
    _found, computed, master, authenticates = json.loads(line)
    assert sum(total for _host, total in computed) == 4950
    assert {host for host, _total in computed} == set(BOTH), "each machine computed a part"
    assert master.startswith("spark://algo-1:")
    assert authenticates == "true"
    parts = [Path(one.path) for one in job.artifacts if Path(one.name).name.startswith("part-")]
    assert sorted(int(text) for part in parts for text in part.read_text().split()) == list(range(100))
    assert [end.left_behind for end in job.hosts] == [(), ()]
    return job
