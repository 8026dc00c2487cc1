"""Settings of a Spark cluster over a job's hosts: memory, arguments, variables and files. Pure."""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from jupyter_smx.agent.system.named_tuple import NamedTuple

MASTER_PORT = 7077
"""Spark's own; if it is in use on this address, another one is taken."""
MIN_HEAP = 512
"""MiB; with less than 450 Spark starts no executor."""
_MIB = 1 << 20
_DAEMON_HEAP = 256
_DAEMON = 384
"""MiB of memory of a master or a worker process: it computes little, but a JVM needs more than its heap."""
_HEAP_SHARE = 0.7
"""Share of an executor's memory for its heap: the rest is for its JVM and its Python workers."""
_DRIVER_SHARE = 0.2
_DRIVER_MOST = 8192
_OVERHEAD_LEAST, _OVERHEAD_SHARE = 384, 0.1
"""MiB and share that Spark adds to the heap of a JVM."""

CLASSES = "org.apache.spark.deploy"
MASTER, WORKER = CLASSES + ".master.Master", CLASSES + ".worker.Worker"
DRIVER_CLASS = CLASSES + ".SparkSubmit"
"""Class that PySpark starts for the script."""

_CLUSTER_PROPERTIES = ("spark.master", "spark.submit.deployMode", "spark.authenticate", "spark.authenticate.secret")
"""Properties without which a driver finds no way into the cluster."""
_HADOOP = ("core-site", "hdfs-site")
_EXECUTOR_MEMORY, _EXECUTOR_CPUS = "spark.executor.memory", "spark.executor.cores"
_QUIET_JVM = "-XX:-UsePerfData"
"""Without the files that each JVM leaves in /tmp for tools that look at it."""
_SMALL_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""A JVM that computes next to nothing starts faster without preparations for long work."""


class MemoryShare(NamedTuple):
    """A host's memory in MiB: the heap of the driver's JVM (0: it is elsewhere), and what executors may have."""

    driver: int
    executors: int


class WorkerOffer(NamedTuple):
    """Resources of a host's worker: CPUs, and MiB of memory; 0 CPUs if the host has no worker."""

    cpus: int
    memory: int


class HostSettings(NamedTuple):
    """One host of the cluster: its name, Spark's folder, its own folder, one for temporary files, the key."""

    host: str
    spark: str
    folder: str
    temporary: str
    secret: str


def memory_share(memory: int, *, leads: bool) -> MemoryShare:
    """Part the memory of a host (bytes); the first one has the master and the driver beside its worker."""
    whole = memory // _MIB
    if not leads:
        return MemoryShare(0, max(whole - _DAEMON, MIN_HEAP))
    driver = min(max(int(whole * _DRIVER_SHARE), MIN_HEAP), _DRIVER_MOST)
    left = whole - 2 * _DAEMON - driver - max(_OVERHEAD_LEAST, int(driver * _OVERHEAD_SHARE))
    return MemoryShare(driver, max(left, 0))


def worker_offer(share: MemoryShare, cpus: int, *, alone: bool) -> WorkerOffer:
    """Return the offer of a host's worker. The first of several hosts has no worker if its memory is too small."""
    if alone or _heap(share.executors) >= MIN_HEAP or not share.driver:
        return WorkerOffer(cpus, max(share.executors, MIN_HEAP))
    return WorkerOffer(0, 0)


def _heap(memory: int) -> int:
    return int(memory * _HEAP_SHARE)


def executor_heap(offers: Sequence[WorkerOffer], cpus: int = 0) -> int:
    """Return the MiB of each executor's heap, equal on all hosts: that of the smallest host, or a part of it.

    With ``cpus`` each host has several executors, as many as its CPUs and the minimum heap allow.
    """
    smallest = min((offer for offer in offers if offer.cpus), key=lambda offer: offer.memory)
    heap = _heap(smallest.memory)
    count = min(smallest.cpus // cpus, heap // MIN_HEAP) if cpus else 1
    return max(heap // max(count, 1), MIN_HEAP)


def usable_cpus(wanted: Mapping[str, str], offers: Sequence[WorkerOffer]) -> List[int]:
    """Count on each host the CPUs for executors of the requested size; each of several needs its memory."""
    cpus, memory = _executor_cpus(wanted), _mebibytes(_executor_memory(wanted, offers))
    rooms = [(offer, offer.memory // memory) for offer in offers]
    if not cpus:
        return [offer.cpus if room else 0 for offer, room in rooms]
    return [min(room, offer.cpus // cpus) * cpus for offer, room in rooms]


def format_summary(master: str, wanted: Mapping[str, str], offers: Sequence[WorkerOffer]) -> str:
    """Return a sentence about the resources of a script."""
    found, whole = usable_cpus(wanted, offers), sum(offer.cpus for offer in offers)
    cpus = f"{whole} CPU(s)" if sum(found) == whole else f"{sum(found)} of {whole} CPU(s)"
    hosts, memory = len(list(filter(None, found))), _mebibytes(_executor_memory(wanted, offers))
    return f"Spark at {master}: {cpus} on {hosts} host(s), {memory} MiB for each executor."


def _executor_memory(wanted: Mapping[str, str], offers: Sequence[WorkerOffer]) -> str:
    asked = wanted.get(_EXECUTOR_MEMORY, "")
    return asked if _mebibytes(asked) else f"{executor_heap(offers, _executor_cpus(wanted))}m"


def _executor_cpus(wanted: Mapping[str, str]) -> int:
    """Read the CPUs of each executor; 0 is Spark's usual, one executor with all CPUs of its host."""
    found = _COUNT.fullmatch(wanted.get(_EXECUTOR_CPUS, "").strip())
    return int(found.group()) if found else 0


def _mebibytes(asked: str) -> int:
    """Read a size as Spark does, which takes MiB where there is no unit; 0 of what is none, which Spark refuses."""
    found = _SIZE.fullmatch(asked.strip().lower())
    return int(found.group(1)) * _BYTES[(found.group(2) or "m")[0]] // _MIB if found else 0


def difference(leader: str, ours: Mapping[str, str], host: str, its: Mapping[str, str]) -> str:
    """Return a sentence about the first thing that two hosts must have in common, and have not; else ''."""
    found = [name for name in ours if its.get(name) != ours[name]]
    if not found:
        return ""
    name = found[0]
    return (
        f"distribution: pyspark needs the same Python and Spark on every host: {leader} has {name} {ours[name]}, and "
        f"{host} has {name} {its.get(name)}. Choose machines that have the same, or a --python whose path is the same "
        "on all."
    )


def oversize_reason(wanted: Mapping[str, str], offers: Sequence[WorkerOffer]) -> str:
    """Return a sentence if executors of the requested size fit on no host, where Spark would wait forever; else ''."""
    if any(usable_cpus(wanted, offers)):
        return ""
    asked = " and ".join(f"{name} is {wanted[name]}" for name in (_EXECUTOR_MEMORY, _EXECUTOR_CPUS) if name in wanted)
    cpus, memory = max(offers)
    return (
        f"configuration.json: {asked}, and the largest host of this job has {memory}m and {cpus} CPU(s) for executors. "
        "Use less, or a larger --instance-type."
    )


def master_address(host: str, port: int) -> str:
    """Return the address of a master."""
    return f"spark://{host}:{port}"


def master_command(settings: HostSettings, port: int) -> List[str]:
    """Return the command of the master."""
    return [_program(settings), MASTER, "--host", settings.host, "--port", str(port), "--webui-port", "0"]


def worker_command(settings: HostSettings, offer: WorkerOffer, master: str) -> List[str]:
    """Return the command of a host's worker."""
    words = [_program(settings), WORKER, "--host", settings.host, "--port", "0", "--webui-port", "0"]
    words += ["--cores", str(offer.cpus), "--memory", f"{offer.memory}m"]
    return [*words, "--work-dir", os.path.join(settings.folder, "work"), master]


def _program(settings: HostSettings) -> str:
    return os.path.join(settings.spark, "bin", "spark-class")


def variables(settings: HostSettings, python: str) -> Dict[str, str]:
    """Return the variables for all processes of Spark on a host, the script included."""
    return {
        "SPARK_HOME": settings.spark,
        "SPARK_CONF_DIR": os.path.join(settings.folder, "conf"),
        "SPARK_LOCAL_IP": settings.host,
        "SPARK_PUBLIC_DNS": settings.host,
        "SPARK_LOCAL_DIRS": settings.temporary,
        "SPARK_DAEMON_MEMORY": f"{_DAEMON_HEAP}m",
        "SPARK_DAEMON_JAVA_OPTS": f"{_SMALL_JVM} {_java_options(settings)}",
        "SPARK_LAUNCHER_OPTS": f"{_SMALL_JVM} {_QUIET_JVM}",
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
    }


def _java_options(settings: HostSettings) -> str:
    return f'{_QUIET_JVM} "-Djava.io.tmpdir={settings.temporary}"'


def _security_properties(settings: HostSettings) -> Dict[str, str]:
    # A client that may connect to a cluster may run anything in it, and other users may share this machine.
    key = {"spark.authenticate": "true", "spark.authenticate.secret": settings.secret}
    return {**key, "spark.ui.killEnabled": "false"}


def worker_properties(settings: HostSettings) -> Dict[str, str]:
    """Return the properties of a host that only has a worker."""
    return _security_properties(settings)


def driver_properties(settings: HostSettings, master: str, name: str, driver: int) -> Dict[str, str]:
    """Return the properties of the driver's host; ``driver`` is the MiB of its heap, ``name`` is the script's."""
    return {
        **_security_properties(settings),
        "spark.master": master,
        "spark.submit.deployMode": "client",
        "spark.app.name": name,
        "spark.driver.host": settings.host,
        "spark.driver.bindAddress": settings.host,
        "spark.driver.memory": f"{driver}m",
        "spark.driver.defaultJavaOptions": _java_options(settings),
        "spark.executor.defaultJavaOptions": _QUIET_JVM,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Each host has its own /opt/ml: the output of a task must be in place before the driver looks for it.
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    }


def executor_properties(wanted: Mapping[str, str], offers: Sequence[WorkerOffer]) -> Dict[str, str]:
    """Return the properties of the executors, and how many of them a script waits for at its first line of Spark."""
    # With dynamic allocation Spark has no executors before there is work.
    by_need = wanted.get("spark.dynamicAllocation.enabled", "").strip().lower() == "true"
    return {
        _EXECUTOR_MEMORY: _executor_memory(wanted, offers),
        # So that all hosts share the first stage of a script, not only the first one that is ready. Executors that can
        # never start are not waited for.
        "spark.cores.max": str(sum(usable_cpus(wanted, offers))),
        "spark.scheduler.minRegisteredResourcesRatio": "0.0" if by_need else "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "180s",
    }


_COUNT = re.compile(r"\d{1,9}")
_SIZE = re.compile(r"(\d{1,18})(b|[kmgtp]b?)?")
_BYTES = {"b": 1, "k": 1 << 10, "m": _MIB, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
_MAX_EXCEPTION_LENGTH = 300
"""Maximum characters of an exception in a failure, which has 1024 with the driver's own text."""
_OF_WORKER = re.compile(
    r"PythonException:(?:[^\n]*\n){0,3}?[^\n]*Traceback \(most recent call last\):\n(.*?)\n(?:\s*\n|\s*at |\Z)",
    re.DOTALL,
)


def worker_exception(trace: str) -> str:
    """Return what a function raised on a host; PySpark reports it in the middle of Java's stack trace."""
    found = _OF_WORKER.search(trace)
    if found is None:
        return ""
    # Lines of code are indented; the first that is not names the exception, and its text may have more lines.
    said = next((line.rstrip() for line in found.group(1).splitlines() if line[:1].strip()), "an exception")
    return f"A Python worker raised {said[:_MAX_EXCEPTION_LENGTH]}{'…' if len(said) > _MAX_EXCEPTION_LENGTH else '.'}"


LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
appender.stderr.filter.end.type = RegexFilter
appender.stderr.filter.end.regex = RECEIVED SIGNAL TERM|Got status update for unknown executor .*
appender.stderr.filter.end.onMatch = DENY
appender.stderr.filter.end.onMismatch = NEUTRAL
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
"""
"""Warnings and errors, without those at the end of each job and those of every PySpark from PyPI."""


def format_properties(found: Mapping[str, str]) -> str:
    """Write properties as ``spark-defaults.conf`` has them."""
    return "".join(f"{_escape(name, ' :=')}={_escape(value)}\n" for name, value in sorted(found.items()))


def _escape(text: str, also: str = "") -> str:
    found = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    for letter in also:
        found = found.replace(letter, "\\" + letter)
    return "\\" + found if found[:1] == " " else found


class RequestedConfiguration(NamedTuple):
    """The content of SageMaker's ``configuration=``: properties, variables, and classifications without effect here."""

    properties: Dict[str, str]
    variables: Dict[str, str]
    unused: Tuple[str, ...]


def parse_configuration(text: str) -> RequestedConfiguration:
    """Read ``configuration.json``: one classification or a list of them.

    :raises ValueError: the text is no classification; the message names the fault.
    """
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise ValueError(f"it is not valid JSON ({error})") from error
    found, environment, unused = {}, {}, []  # type: Dict[str, str], Dict[str, str], List[str]
    for name, own in _classes([raw] if isinstance(raw, dict) else raw):
        if name == "spark-defaults":
            found.update(own)
        elif name in _HADOOP:
            found.update({f"spark.hadoop.{key}": value for key, value in own.items()})
        elif name == "spark-env/export":
            environment.update(own)
        elif own:
            unused.append(name)
    for name, value in environment.items():
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(f"spark-env: {name!a} cannot be set; a name holds no =, neither it nor its value a NUL")
    taken = {name: value for name, value in found.items() if name not in _CLUSTER_PROPERTIES}
    return RequestedConfiguration(taken, environment, tuple(unused))


def _classes(raw: Any, above: str = "") -> Iterator[Tuple[str, Dict[str, str]]]:
    """Yield each classification, those within another one too, by its name and with its properties as text."""
    if not isinstance(raw, list):
        raise ValueError(f"{type(raw).__name__} is not a list of classifications")  # noqa: TRY004 - one kind for all
    for one in raw:
        name: Optional[Any] = one.get("Classification") if isinstance(one, dict) else None
        own = one.get("Properties", {}) if isinstance(name, str) else None
        if not isinstance(name, str) or not isinstance(own, dict):
            shown = json.dumps(one)[:80]
            raise ValueError(f'{shown} is not {{"Classification": …, "Properties": {{…}}}}')  # noqa: TRY004 - as above
        found = {key: value if isinstance(value, str) else json.dumps(value) for key, value in own.items()}
        unwritable = next((key for key, value in found.items() if not _can_be_written(key + value)), None)
        if unwritable is not None:
            raise ValueError(f"{name}: {unwritable!a} has a letter that cannot be written")
        yield above + name, found
        yield from _classes(one.get("Configurations") or [], f"{above}{name}/")


def _can_be_written(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
