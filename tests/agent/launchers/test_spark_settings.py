"""The settings of each host of a Spark cluster: its offer of resources, the daemons' commands, files and variables."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.agent.contract import distribution, scriptmode
from jupyter_smx.agent.launchers import spark_settings
from jupyter_smx.agent.launchers.spark_settings import HostSettings, MemoryShare, WorkerOffer
from jupyter_smx.agent.paths import HostInfo

GIB = 1 << 30
MEMORY, CPUS = "spark.executor.memory", "spark.executor.cores"
HERE = HostSettings("algo-1", "/py/pyspark", "/spool/job/spark", "/scratch/spark local", "key")


def on(host: str, count: int = 2) -> HostInfo:
    hosts = [f"algo-{number}" for number in range(1, count + 1)]
    return HostInfo(host=host, hosts=hosts, groups=[], group="g", instance_type="ml.m5.xlarge", cpus=4, gpus=0)


def wish(**fields: Any) -> dict[str, Any]:
    return scriptmode.complete({"source": "pass", "kind": "process", **fields})


def test_all_hosts_of_a_processing_job_take_part_and_the_first_one_leads_also_of_eleven() -> None:
    found = distribution.host_distribution(wish(distribution="pyspark"), on("algo-10", 11))
    assert found is not None
    assert (found.runner, found.hosts[0], len(found.hosts)) == ("pyspark", "algo-1", 11)


@pytest.mark.parametrize("kind", ["process", "train"])
def test_without_the_word_or_in_a_training_job_there_is_no_cluster(kind: str) -> None:
    told = {"process": "", "train": "pyspark"}[kind]
    assert distribution.host_distribution(wish(kind=kind, distribution=told), on("algo-1")) is None


def test_a_script_sees_no_hyperparameters_or_variables_of_a_distribution() -> None:
    alone, spread = (scriptmode.variables(wish(distribution=one), on("algo-1")) for one in ("", "pyspark"))
    assert alone == spread


@pytest.mark.parametrize(
    ("memory", "leads", "share"),
    [
        (16 * GIB, True, MemoryShare(driver=3276, executors=16384 - 2 * 384 - 3276 - 384)),
        (16 * GIB, False, MemoryShare(driver=0, executors=16384 - 384)),
        (4 * GIB, True, MemoryShare(driver=819, executors=4096 - 2 * 384 - 819 - 384)),
        (64 * GIB, True, MemoryShare(driver=8192, executors=65536 - 2 * 384 - 8192 - 819)),
        (GIB, True, MemoryShare(driver=512, executors=0)),
        (GIB // 2, False, MemoryShare(driver=0, executors=512)),
    ],
)
def test_the_first_host_has_the_driver_and_the_master_of_its_memory(
    memory: int, *, leads: bool, share: MemoryShare
) -> None:
    assert spark_settings.memory_share(memory, leads=leads) == share


@pytest.mark.parametrize(
    ("share", "alone", "offer"),
    [
        (MemoryShare(819, 2125), False, WorkerOffer(4, 2125)),
        (MemoryShare(512, 700), False, WorkerOffer(0, 0)),  # no executor fits beside the driver
        (MemoryShare(512, 700), True, WorkerOffer(4, 700)),  # but there is no other host
        (MemoryShare(512, 0), True, WorkerOffer(4, 512)),
        (MemoryShare(0, 512), False, WorkerOffer(4, 512)),
    ],
)
def test_the_first_host_has_a_worker_where_its_memory_lets_it(
    share: MemoryShare, *, alone: bool, offer: WorkerOffer
) -> None:
    assert spark_settings.worker_offer(share, 4, alone=alone) == offer


@given(st.lists(st.integers(GIB // 2, 512 * GIB), min_size=1, max_size=5), st.integers(1, 96))
def test_each_worker_has_room_for_an_executor_and_a_host_for_all_that_runs_on_it(
    memories: list[int], cpus: int
) -> None:
    shares = [spark_settings.memory_share(memory, leads=not number) for number, memory in enumerate(memories)]
    alone = len(memories) == 1
    offers = [spark_settings.worker_offer(share, cpus, alone=alone) for share in shares]
    heap = spark_settings.executor_heap(offers)
    workers = [offer for offer in offers if offer.cpus]
    assert workers
    assert all(512 <= heap <= offer.memory for offer in workers)
    for memory, share, offer in zip(memories, shares, offers, strict=True):
        if offer.cpus and memory >= 4 * GIB:
            assert share.driver + heap < memory >> 20, "and the rest is the JVMs' own and the Python workers'"


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        *(("2g", True), ("3712m", True), ("3713M", False), ("4GB", False), ("1t", False), ("9999k", True)),
        *(("3712", True), ("3713", False), ("1p", False), ("1PB", False), (f"{3712 << 20}b", True)),
        *((f"{3713 << 20}b", False), ("4g ", False)),
        *(("much", True), ("", True), ("1.5t", True), ("9" * 20, True)),  # not a size for Spark, which says so itself
    ],
)
def test_an_executor_that_fits_on_no_host_is_not_waited_for(asked: str, *, fits: bool) -> None:
    said = spark_settings.oversize_reason({MEMORY: asked}, [WorkerOffer(4, 2125), WorkerOffer(4, 3712)])
    wanted = f"spark.executor.memory is {asked}, and the largest host of this job has 3712m and 4 CPU(s) for executors"
    assert (said == "") if fits else (wanted in said)
    assert spark_settings.oversize_reason({}, [WorkerOffer(4, 2125)]) == ""


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({CPUS: "2"}, ""),
        ({CPUS: "3"}, "spark.executor.cores is 3, and the largest host of this job has 3712m and 2 CPU(s)"),
        ({CPUS: "3", MEMORY: "1g"}, "spark.executor.memory is 1g and spark.executor.cores is 3, and"),
        ({CPUS: "2", MEMORY: "3g"}, ""),
        ({CPUS: "2", MEMORY: "9g"}, "spark.executor.memory is 9g and spark.executor.cores is 2, and"),
        ({CPUS: "many"}, ""),
    ],
)
def test_an_executor_with_more_cpus_than_any_host_has_is_not_waited_for(wanted: dict[str, str], said: str) -> None:
    found = spark_settings.oversize_reason(wanted, [WorkerOffer(2, 2125), WorkerOffer(2, 3712)])
    assert (said in found) if said else (found == "")


@pytest.mark.parametrize(
    ("wanted", "offers", "cpus"),
    [
        ({}, [WorkerOffer(4, 2125), WorkerOffer(4, 3712)], "8"),
        ({}, [WorkerOffer(0, 0), WorkerOffer(4, 3712)], "4"),
        ({MEMORY: "2g"}, [WorkerOffer(4, 2125), WorkerOffer(4, 3712)], "8"),
        ({MEMORY: "3g"}, [WorkerOffer(4, 2125), WorkerOffer(4, 3712)], "4"),
        ({MEMORY: "2g", CPUS: "1"}, [WorkerOffer(4, 5402), WorkerOffer(4, 7808)], "5"),
        ({MEMORY: "2g", CPUS: "1"}, [WorkerOffer(4, 11956), WorkerOffer(4, 16000)], "8"),
        ({MEMORY: "1g", CPUS: " 2 "}, [WorkerOffer(3, 5402), WorkerOffer(3, 7808)], "4"),
        ({MEMORY: "much", CPUS: "many"}, [WorkerOffer(4, 2125), WorkerOffer(4, 3712)], "8"),
    ],
)
def test_a_script_waits_for_executors_that_can_come_and_for_no_other(
    wanted: dict[str, str], offers: list[WorkerOffer], cpus: str
) -> None:
    found = spark_settings.executor_properties(wanted, offers)
    assert found["spark.cores.max"] == cpus
    assert found["spark.scheduler.minRegisteredResourcesRatio"] == "1.0"


@pytest.mark.parametrize(
    ("cpus", "offers", "memory", "total"),
    [
        ("", [WorkerOffer(4, 16000), WorkerOffer(4, 11956)], "8369m", "8"),
        ("4", [WorkerOffer(4, 16000), WorkerOffer(4, 11956)], "8369m", "8"),
        ("2", [WorkerOffer(4, 16000), WorkerOffer(4, 11956)], "4184m", "8"),
        ("1", [WorkerOffer(0, 0), WorkerOffer(4, 11956)], "2092m", "4"),
        ("3", [WorkerOffer(4, 11956)], "8369m", "3"),
        ("1", [WorkerOffer(4, 2125), WorkerOffer(4, 3712)], "743m", "6"),  # with four the heap is too small for Spark
        ("1", [WorkerOffer(4, 512)], "512m", "1"),
    ],
)
def test_executors_with_fewer_cpus_have_less_memory_each(
    cpus: str, offers: list[WorkerOffer], memory: str, total: str
) -> None:
    found = spark_settings.executor_properties({CPUS: cpus}, offers)
    assert (found[MEMORY], found["spark.cores.max"]) == (memory, total)


@given(st.lists(st.integers(512, 20000), min_size=1, max_size=4), st.integers(1, 9), st.integers(1, 20000), st.data())
def test_what_a_script_waits_for_is_what_spark_gives_it(
    memories: list[int], cpus: int, memory: int, data: st.DataObject
) -> None:
    each = data.draw(st.integers(0, cpus + 1))
    wanted = {MEMORY: f"{memory}m"} | ({CPUS: str(each)} if each else {})
    given_out = 0
    for free in memories:  # as Spark's master does: one executor after another, while CPUs and memory remain
        left, cores = free, cpus
        while left >= memory and cores >= (each or cpus):
            left, cores, given_out = left - memory, cores - (each or cpus), given_out + (each or cpus)
    offers = [WorkerOffer(cpus, free) for free in memories]
    assert spark_settings.executor_properties(wanted, offers)["spark.cores.max"] == str(given_out)


@pytest.mark.parametrize(("asked", "ratio"), [("true", "0.0"), (" True", "0.0"), ("false", "1.0"), ("", "1.0")])
def test_executors_that_come_when_there_is_work_are_not_waited_for(asked: str, ratio: str) -> None:
    found = spark_settings.executor_properties({"spark.dynamicAllocation.enabled": asked}, [WorkerOffer(4, 2125)])
    assert found["spark.scheduler.minRegisteredResourcesRatio"] == ratio


def test_the_log_says_what_a_script_gets() -> None:
    offers = [WorkerOffer(4, 2125), WorkerOffer(4, 3712)]
    assert spark_settings.format_summary("spark://a:1", {}, offers) == (
        "Spark at spark://a:1: 8 CPU(s) on 2 host(s), 1487 MiB for each executor."
    )
    assert spark_settings.format_summary("spark://a:1", {MEMORY: "3g"}, offers) == (
        "Spark at spark://a:1: 4 of 8 CPU(s) on 1 host(s), 3072 MiB for each executor."
    )


def test_the_words_of_the_daemons() -> None:
    assert spark_settings.master_command(HERE, 7077) == [
        *("/py/pyspark/bin/spark-class", "org.apache.spark.deploy.master.Master"),
        *("--host", "algo-1", "--port", "7077", "--webui-port", "0"),
    ]
    assert spark_settings.worker_command(HERE, WorkerOffer(4, 2125), "spark://algo-1:7077") == [
        *("/py/pyspark/bin/spark-class", "org.apache.spark.deploy.worker.Worker"),
        *("--host", "algo-1", "--port", "0", "--webui-port", "0", "--cores", "4", "--memory", "2125m"),
        *("--work-dir", "/spool/job/spark/work", "spark://algo-1:7077"),
    ]


def test_everything_of_spark_is_bound_to_the_address_of_its_host_and_keeps_its_files_there() -> None:
    found = spark_settings.variables(HERE, "/py/bin/python")
    assert found["SPARK_LOCAL_IP"] == found["SPARK_PUBLIC_DNS"] == "algo-1"
    assert found["SPARK_LOCAL_DIRS"] == "/scratch/spark local"
    assert found["SPARK_CONF_DIR"] == "/spool/job/spark/conf"
    assert found["PYSPARK_PYTHON"] == "/py/bin/python"
    assert '"-Djava.io.tmpdir=/scratch/spark local"' in found["SPARK_DAEMON_JAVA_OPTS"]


def test_the_properties_with_which_a_script_finds_the_cluster() -> None:
    found = spark_settings.driver_properties(HERE, "spark://algo-1:7077", "etl.py", 819)
    found.update(spark_settings.executor_properties({}, [WorkerOffer(4, 2125), WorkerOffer(4, 3712)]))
    assert {name: value for name, value in found.items() if "Options" not in name} == {
        "spark.master": "spark://algo-1:7077",
        "spark.submit.deployMode": "client",
        "spark.app.name": "etl.py",
        "spark.authenticate": "true",
        "spark.authenticate.secret": "key",
        "spark.ui.killEnabled": "false",
        "spark.driver.host": "algo-1",
        "spark.driver.bindAddress": "algo-1",
        "spark.driver.memory": "819m",
        "spark.executor.memory": "1487m",
        "spark.cores.max": "8",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "180s",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    }
    assert spark_settings.worker_properties(HERE) == {
        "spark.authenticate": "true",
        "spark.authenticate.secret": "key",
        "spark.ui.killEnabled": "false",
    }, "a worker that cannot prove who it is would be let in nowhere"


def test_properties_are_written_as_java_reads_them() -> None:
    written = spark_settings.format_properties({"b": "C:\\x\ny", "a": " x ", "k:=k": "1"})
    assert written == "a=\\ x \nb=C:\\\\x\\ny\nk\\:\\=k=1\n"


def test_the_configuration_of_sagemakers_sdk_is_read() -> None:
    text = json.dumps(
        [
            {"Classification": "spark-defaults", "Properties": {"spark.executor.memory": "2g", "spark.x": 3}},
            {"Classification": "core-site", "Properties": {"fs.s3a.endpoint": "here"}},
            {
                "Classification": "spark-env",
                "Properties": {},
                "Configurations": [{"Classification": "export", "Properties": {"A": "b"}}],
            },
            {"Classification": "hive-site", "Properties": {"x": "y"}},
            {"Classification": "spark", "Properties": {}},
        ]
    )
    found = spark_settings.parse_configuration(text)
    assert found.properties == {"spark.executor.memory": "2g", "spark.x": "3", "spark.hadoop.fs.s3a.endpoint": "here"}
    assert found.variables == {"A": "b"}
    assert found.unused == ("hive-site",)


def test_one_classification_needs_no_list_and_none_leads_the_script_out_of_the_cluster() -> None:
    lost = {"spark.master": "yarn", "spark.authenticate": "false", "spark.submit.deployMode": "cluster", "a": "b"}
    found = spark_settings.parse_configuration(json.dumps({"Classification": "spark-defaults", "Properties": lost}))
    assert found.properties == {"a": "b"}


def exported(variables: str) -> str:
    """Return a configuration that sets the variables of a JSON text."""
    inner = f'[{{"Classification": "export", "Properties": {variables}}}]'
    return f'{{"Classification": "spark-env", "Properties": {{}}, "Configurations": {inner}}}'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "it is not valid JSON"),
        ("3", "int is not a list of classifications"),
        ("[3]", '^3 is not {"Classification": …'),
        ('[{"Classification": "spark-defaults", "Properties": []}]', "is not {"),
        ('[{"Properties": {}}]', "is not {"),
        ('[{"Classification": "a", "Configurations": {"b": 1}}]', "dict is not a list"),
        ('[{"Classification": "spark-defaults", "Properties": {"a": "\\ud800"}}]', "spark-defaults: 'a' has a letter"),
        (exported('{"A=B": "x"}'), "spark-env: 'A=B' cannot be set; a name holds no ="),
        (exported('{"": "x"}'), "spark-env: '' cannot be set"),
        (exported('{"A": "x\\u0000"}'), "spark-env: 'A' cannot be set"),
    ],
)
def test_what_is_no_configuration_is_said(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        spark_settings.parse_configuration(text)


OF_RDD = """Traceback (most recent call last):
  File "<etl>", line 3, in <module>
py4j.protocol.Py4JJavaError: An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted: Lost task 0.3: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/lib/worker.py", line 1247, in main
    process()
  File "<etl>", line 10, in g
ValueError: in an executor

\tat org.apache.spark.api.python.BasePythonRunner
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/lib/worker.py", line 1247, in main
KeyError: 'later'

\tat x
"""  # noqa: E501 - a line of Java's
OF_FRAME = """pyspark.errors.exceptions.captured.PythonException:
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "<etl>", line 10, in g
ZeroDivisionError: division by zero

"""


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        (OF_RDD, "A Python worker raised ValueError: in an executor."),
        (OF_FRAME, "A Python worker raised ZeroDivisionError: division by zero."),
        (OF_RDD.replace("in an executor", "first line\nsecond line"), "A Python worker raised ValueError: first line."),
        (OF_RDD.replace("in an executor", "x" * 2000), f"A Python worker raised ValueError: {'x' * 288}…"),
        ("Traceback (most recent call last):\nKeyError: 'lost'\n", ""),
        ("", ""),
    ],
)
def test_what_a_function_raised_on_another_host_is_found_among_the_lines_of_java(trace: str, said: str) -> None:
    assert spark_settings.worker_exception(trace) == said


@pytest.mark.parametrize(
    ("its", "said"),
    [
        ({"Python": "3.11", "PySpark": "3.5.9"}, ""),
        ({"Python": "3.12", "PySpark": "3.4.1"}, "algo-1 has Python 3.11, and algo-2 has Python 3.12."),
        ({"Python": "3.11", "PySpark": "3.4.1"}, "algo-1 has PySpark 3.5.9, and algo-2 has PySpark 3.4.1."),
    ],
)
def test_hosts_with_another_python_or_spark_are_named_with_both(its: dict[str, str], said: str) -> None:
    found = spark_settings.difference("algo-1", {"Python": "3.11", "PySpark": "3.5.9"}, "algo-2", its)
    assert (said in found) if said else found == ""
    assert spark_settings.difference("algo-1", {}, "algo-2", its) == "", "hosts of one machine have the same"
