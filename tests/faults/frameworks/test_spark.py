"""``--distribution pyspark`` with real Spark on real hosts: a cluster for one script, which ends with it."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from pytorch import with_pyspark
from world import KEPT, kill
from worlds.executors_meet import BOTH, HASTY, MARKS, PATIENCE

from jupyter_smx.agent.launchers import spark_settings
from jupyter_smx.kernel.client.autostart import retry_while_unavailable
from jupyter_smx.kernel.request import source_dir
from jupyter_smx.model.spec.channel import Channel, Output
from jupyter_smx.model.spec.distribution import Distribution
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.status import is_final
from jupyter_smx.testing import process_scan
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable

    from world import Ran, World

    from jupyter_smx.model.records.job import Job

pytestmark = [pytest.mark.heavy("spark"), *MARKS]

LAUNCHER = "org.apache.spark.launcher.Main"

HELPERS = "def double(number):\n    return 2 * number\n"
ETL = """
import json, os, sys
import helpers
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

def where(numbers):
    import helpers
    yield os.environ["SPARK_LOCAL_IP"], sum(map(helpers.double, numbers))

spark = SparkSession.builder.getOrCreate()
context = spark.sparkContext
hosts = context.parallelize(range(100), 4).mapPartitions(where).collect()
doubled = sum(total for _, total in hosts)
double = udf(helpers.double, "long")
frame = spark.range(0, 100, 1, 4)
frame.select(double("id").alias("twice")).write.csv(os.path.join(os.environ["SMX_OUTPUT_ROWS"], "csv"))
conf = dict(context.getConf().getAll())
print(json.dumps(["found", sorted(hosts), conf, sys.argv, os.getpid()]), flush=True)
"""


@pytest.fixture(scope="module")
def python() -> str:
    return with_pyspark()


def host_log(ran: Ran, host: str) -> str:
    return ran.world.client.log(ran.id, host, 0).data.decode()


def submitted(world: World, body: str, python: str, **fields: Any) -> Ran:
    wish = {"python": python, "python_version": f"{sys.version_info[0]}.{sys.version_info[1]}", "kind": "process"}
    wish |= {"instance_groups": (InstanceGroup(instance_count=2),), "distribution": Distribution(runner="pyspark")}
    return world.submit(body, **wish | {"keep_alive": 0, "environment": HASTY} | fields)


def ended(ran: Ran) -> Job:
    """Wait for the verdict; no process of Spark's is left on the hosts, and none had to be killed."""
    job = retry_while_unavailable(lambda: ran.world.client.wait(ran.id, PATIENCE))
    assert is_final(job.state), (job.state, *(host_log(ran, host) for host in BOTH))
    assert [seen.command for seen in process_scan.cluster_processes(job.cluster) if "java" in seen.command] == []
    return job


def workers(world: World) -> list[int]:
    """Find the JVMs of workers, by words of their command that the shell and the launcher before them have, too."""
    family = [one for agent in world.agents() for one in psutil.Process(agent).children(recursive=True)]
    found = []
    for one in family:
        with contextlib.suppress(psutil.Error):
            words = one.cmdline()
            if one.name() == "java" and spark_settings.WORKER in words and LAUNCHER not in words:
                found.append(one.pid)
    return found


def left_behind(job: Job) -> dict[str, tuple[str, ...]]:
    return {end.host: end.left_behind for end in job.hosts}


def run_etl(world: World, python: str, folder: Path, keep_alive: int = 0) -> tuple[Job, list[Any]]:
    """Run a script with a module beside it, arguments, an output and SageMaker's form of a configuration."""
    code, conf = folder / "code", folder / "conf"
    code.mkdir()
    conf.mkdir()
    (code / "helpers.py").write_text(HELPERS)
    (code / "etl.py").write_text(ETL)
    wished = [{"Classification": "spark-defaults", "Properties": {"spark.executor.memory": "600m", "spark.ours": "y"}}]
    (conf / "configuration.json").write_text(json.dumps(wished))
    ran = submitted(
        world,
        ETL,
        python,
        source_dir=source_dir.pack(str(code), world.data / "payloads", "etl.py"),
        entry_point="etl.py",
        filename=str(code / "etl.py"),
        arguments=("--day", "1"),
        channels=(Channel(name="conf", source=str(conf)),),
        outputs=(Output(name="rows", path="processing/output/rows"),),
        receive=("doubled",),
        keep_alive=keep_alive,
    )
    job = ended(ran)
    log = host_log(ran, "algo-1")
    assert job.state.value == "Completed", (job.failure_reason, log, host_log(ran, "algo-2"))
    (line,) = [line for line in log.splitlines() if line.startswith('["found"')]
    assert "a Spark worker with 1 CPU(s) works here for" in host_log(ran, "algo-2")
    return job, json.loads(line)[1:]


def check_etl(job: Job, said: list[Any]) -> None:
    hosts, conf, words, _pid = said
    assert sum(total for _, total in hosts) == 9900
    assert len({host for host, _ in hosts}) == 2, "each host computed a part"
    assert (Path(words[0]).name, words[1:]) == ("etl.py", ["--day", "1"])
    assert conf["spark.master"].startswith("spark://")
    wanted = {"spark.app.name": "etl.py", "spark.cores.max": "2", "spark.ui.enabled": "false"}
    wanted |= {"spark.executor.memory": "600m", "spark.ours": "y", "spark.authenticate": "true"}
    assert {name: conf.get(name) for name in wanted} == wanted
    parts = [Path(one.path) for one in job.artifacts if Path(one.name).name.startswith("part-")]
    numbers = [int(line) for part in parts for line in part.read_text().split()]
    assert sorted(numbers) == list(range(0, 200, 2)), "what executors wrote on either host comes home"
    assert not [one.name for one in job.artifacts if "_temporary" in one.name]
    assert list(job.received) == ["doubled"]
    assert left_behind(job) == dict.fromkeys(BOTH, ())
    assert [(end.host, end.cause, end.exit_code) for end in job.hosts] == [(host, "exit", 0) for host in BOTH]
    assert job.provenance is not None
    assert job.provenance.packages["pyspark"] == "3.5.9"


def test_an_unmodified_script_finds_a_cluster_of_all_hosts_and_a_warm_pool_has_the_next_one(
    shared: World, python: str, tmp_path: Path
) -> None:
    job, said = run_etl(shared, python, tmp_path, KEPT)
    check_etl(job, said)
    body = """
    from pyspark.sql import SparkSession
    context = SparkSession.builder.getOrCreate().sparkContext
    print(context.master, flush=True)
    def inverse(number):
        print("computes", number, flush=True)
        return 1 // number
    context.parallelize([0], 1).map(inverse).collect()
    """
    ran = submitted(shared, body, python, keep_alive=0)
    failed = ended(ran)
    assert failed.cluster == job.cluster
    assert failed.state.value == "Failed"
    assert said[1]["spark.master"] in host_log(ran, "algo-1").splitlines(), "the same address: nobody is left there"
    assert failed.failure_message.endswith(
        "A Python worker raised ZeroDivisionError: integer division or modulo by zero."
    )
    assert "] computes 0\n" in host_log(ran, "algo-1") + host_log(ran, "algo-2"), "executors are heard"
    guilty = next(end for end in failed.hosts if end.host == "algo-1")
    assert guilty.exception is not None
    assert "context.parallelize([0], 1).map(inverse).collect()" in guilty.exception.traceback
    assert left_behind(failed) == dict.fromkeys(BOTH, ())


def test_a_stop_reaches_the_script_and_ends_the_daemons_of_all_hosts(
    world: World, python: str, configure: Callable[[str], None]
) -> None:
    # JVMs need a moment to end, and here it matters that they are given it.
    configure("c.ControllerApp.grace = 60.0\nc.LocalEngine.grace = 60.0")
    body = """
    import signal
    usual = [signal.getsignal(number) is signal.SIG_DFL for number in (signal.SIGTERM, signal.SIGCHLD)]
    print("signals do what they do in any script:", usual, signal.set_wakeup_fd(-1), flush=True)
    def told(*_):
        print("told", flush=True)
        raise SystemExit(0)
    signal.signal(signal.SIGTERM, told)
    print("waits", flush=True)
    signal.pause()
    """
    ran = submitted(world, body, python)
    eventually_blocking(lambda: "waits" in host_log(ran, "algo-1"), "the script waits", within=PATIENCE)
    # A shell that is about to start one may be killed, and then the host says that it was.
    eventually_blocking(lambda: len(workers(world)) == len(BOTH), "each host has a worker", within=PATIENCE)
    world.client.stop(ran.id)
    job = ended(ran)
    assert job.state.value == "Stopped"
    assert "in any script: [True, True] -1" in host_log(ran, "algo-1")
    assert "told" in host_log(ran, "algo-1").split()
    assert left_behind(job) == dict.fromkeys(BOTH, ())


def test_a_worker_that_is_lost_fails_the_job_with_a_sentence(shared: World, python: str) -> None:
    ran = submitted(shared, "import signal\nprint('waits', flush=True)\nsignal.pause()", python)
    eventually_blocking(lambda: "waits" in host_log(ran, "algo-1"), "the script waits", within=PATIENCE)

    def workers() -> list[int]:
        """Find the worker itself, not what starts it."""
        found = [seen for seen in process_scan.cluster_processes(ran.job().cluster) if seen.host().endswith("algo-2")]
        java = [
            seen for seen in found if seen.command.split()[0].endswith("java") and "launcher.Main" not in seen.command
        ]
        return [seen.pid for seen in java if "worker.Worker" in seen.command]

    eventually_blocking(workers, "the other host has a worker", within=PATIENCE)
    kill(workers()[0])
    job = ended(ran)
    assert job.state.value == "Failed"
    said = "The Spark worker of algo-2 ended with signal 9 (SIGKILL) before the script."
    assert said in job.failure_reason, (job.failure_reason, host_log(ran, "algo-2"))


def test_without_a_world_of_their_own_hosts_make_a_cluster_too(
    world: World, python: str, tmp_path: Path, configure: Callable[[str], None]
) -> None:
    configure("c.LocalEngine.isolate = False\nc.LocalEngine.start_method = 'spawn'")
    job, said = run_etl(world, python, tmp_path)
    check_etl(job, said)


def test_a_python_without_spark_is_told_what_to_install(shared: World) -> None:
    job = ended(submitted(shared, "pass", sys.executable, instance_groups=(InstanceGroup(),)))
    assert job.state.value == "Failed"
    assert "pyspark is not installed in the job's Python" in job.failure_reason
    assert "--requirements" in job.failure_reason


def test_a_machine_without_java_is_told_what_to_install(shared: World, python: str) -> None:
    ran = submitted(shared, "pass", python, environment={"PATH": "/nowhere", "JAVA_HOME": ""})
    job = ended(ran)
    assert job.state.value == "Failed"
    assert "which this machine does not have. On Debian: apt install default-jre-headless" in job.failure_reason
