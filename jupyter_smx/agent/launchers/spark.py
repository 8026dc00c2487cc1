"""Run a standalone Spark cluster over the hosts of a processing job while its script runs.

The first host has the master, the script, and a worker if its memory allows; each other host has a worker. They connect
to the first host, by a socket in its folder or by its address; the connection closes when the script has ended.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, NoReturn, Optional, Sequence, Tuple

from jupyter_smx.agent.contract import entry_point, script
from jupyter_smx.agent.errors import RefusalError
from jupyter_smx.agent.launchers import (
    address_rendezvous,
    child_processes,
    executor_output,
    rendezvous,
    spark_settings,
)
from jupyter_smx.agent.launchers.child_processes import SignalWaiter
from jupyter_smx.agent.paths import ML
from jupyter_smx.agent.system.named_tuple import NamedTuple
from jupyter_smx.agent.system.processes import process
from jupyter_smx.agent.system.resources import cgroups, memory

if TYPE_CHECKING:
    from jupyter_smx.agent.contract.distribution import Distribution
    from jupyter_smx.agent.frames import CompleteSpec
    from jupyter_smx.agent.launchers.address_rendezvous import Rendezvous
    from jupyter_smx.agent.launchers.host_connection import HostConnection
    from jupyter_smx.agent.launchers.spark_settings import HostSettings, WorkerOffer
    from jupyter_smx.agent.paths import HostInfo

_SOCKET_NAME = "spark.sock"
_LOG_INTERVAL = 0.5
"""Seconds between copies of the executors' output to the log."""
_START_PATIENCE = 120.0
_END_PATIENCE = 10.0
"""Seconds that JVMs have to end by themselves; then they are killed."""
_CONFIGURATION = ("processing", "input", "conf", "configuration.json")


class ClusterError(Exception):
    """The cluster ended before the script did; the text is a sentence."""


class HostPart(NamedTuple):
    """One host's part in one job; ``job`` is the job's folder here, ``first_line`` reports the begin of work."""

    found: Distribution
    spec: CompleteSpec
    place: HostInfo
    job: str
    first_line: Callable[[], None]

    def is_leader(self) -> bool:
        """Return True if the script runs on this host."""
        return self.place.host == self.found.hosts[0]

    def rendezvous(self) -> Rendezvous:
        """Return where the hosts connect to each other.

        :raises RefusalError: they cannot.
        """
        return address_rendezvous.make_rendezvous(self.place, self.spec["key"], self.job, _SOCKET_NAME)

    def memory(self) -> int:
        """Return the bytes of memory that the job may use on this host."""
        whole = memory.machine_memory().get("MemTotal", 0) // self.place.hosts_per_machine()
        return cgroups.current().memory or whole


def run_host_part(part: HostPart) -> bool:
    """Do this host's part. Return True in the process that has to run the script; the supervisor never returns.

    :raises RefusalError: this host has no Java, or the job's Python no Spark.
    :raises ClusterError: a part of the cluster ended while the script ran.
    :raises OSError: the cluster's files or sockets cannot be made.
    """
    if not process.LINUX:
        raise RefusalError("distribution: pyspark runs on Linux hosts only, where a script can be forked safely.")
    if not part.place.shares_machine() and part.place.base != ML:
        raise RefusalError(
            "distribution: pyspark on several machines needs hosts with an /opt/ml of their own, because executors "
            "write to the paths of the script, and these hosts have none (jupyter smx doctor says why). Use "
            "--instance-count 1, or machines that allow namespaces."
        )
    spark, configuration = _require_spark(), _read_configuration(part.place.path(*_CONFIGURATION))
    sys.stdout.flush()
    settings = _settings(part, spark)
    process.become_subreaper()
    ours = {**spark_settings.variables(settings, sys.executable), **configuration.variables}
    os.environ.update({name: value for name, value in ours.items() if name not in part.spec["environment"]})
    cluster = _Cluster(part, settings, SignalWaiter())
    try:
        return _run_leader(cluster, configuration) if part.is_leader() else _run_worker(cluster)
    except _StopRequestedError:
        cluster.terminate()
        child_processes.exit_by_signal(signal.SIGTERM)
    except EOFError as error:
        cluster.terminate()
        raise ClusterError("There is no Spark cluster: another host ended.") from error
    except BaseException:
        cluster.terminate()
        raise


def add_worker_exception(report: Dict[str, Any]) -> None:
    """Add to what is known of an exception of the script's what a function of its raised on another host."""
    if report["exception"] and not report["remark"]:
        report["remark"] = spark_settings.worker_exception(report["exception"]["traceback"])


# What there must be


def _require_spark() -> str:
    """Return the folder of Spark; raise if Java, bash or PySpark is missing."""
    spark = _spark_home()
    java = os.environ.get("JAVA_HOME", "")
    if not (java and os.path.exists(os.path.join(java, "bin", "java"))) and shutil.which("java") is None:
        raise RefusalError(
            "distribution: Spark needs Java, which this machine does not have. "
            "On Debian: apt install default-jre-headless. Elsewhere install Java 17 and set JAVA_HOME to its folder."
        )
    if shutil.which("bash") is None:
        raise RefusalError("distribution: Spark needs bash, which this machine does not have.")
    return spark


def _settings(part: HostPart, spark: str) -> HostSettings:
    """Create the folders of this host; the one outside the job's folder comes last, so that a failure leaves none."""
    folder = os.path.join(part.job, "spark")
    os.makedirs(os.path.join(folder, "conf"), mode=0o700)
    temporary = tempfile.mkdtemp(prefix="spark-local-")
    return spark_settings.HostSettings(part.place.address_of(part.place.host), spark, folder, temporary, "")


def _spark_home() -> str:
    """Return the folder of Spark: from the environment, as for PySpark itself, or that of the package."""
    found = importlib.util.find_spec("pyspark")
    if found is None:
        raise RefusalError(
            "distribution: pyspark is not installed in the job's Python. Install it there (pip install pyspark), "
            "add pyspark to --requirements, or choose another Python with --python."
        )
    named = os.environ.get("SPARK_HOME", "")
    inside = os.path.dirname(found.origin or "")
    for folder in (named, inside):
        if folder and os.path.exists(os.path.join(folder, "bin", "spark-class")):
            return folder
    raise RefusalError(
        f"distribution: pyspark in {inside} contains only the client of Spark. Install all of it: pip install pyspark."
    )


def _read_configuration(path: str) -> spark_settings.RequestedConfiguration:
    """Read the configuration that SageMaker's SDK would hand in, where the job has one."""
    try:
        with open(path, encoding="utf-8") as file:
            found = spark_settings.parse_configuration(file.read())
    except OSError:
        return spark_settings.RequestedConfiguration({}, {}, ())
    except ValueError as error:
        raise RefusalError(f"{path}: {error}.") from error
    if found.unused:
        entry_point.print_note(f"{path}: {', '.join(found.unused)} has no effect and is ignored.")
    return found


# The cluster


class _StopRequestedError(Exception):
    """The job was asked to stop."""


class _Cluster:
    """The daemons of this host, their files, and how all of that ends."""

    def __init__(self, part: HostPart, settings: HostSettings, signals: SignalWaiter) -> None:
        self.part = part
        self.settings = settings
        self.signals = signals
        self.daemons: Dict[str, subprocess.Popen[bytes]] = {}
        self._outputs = executor_output.ExecutorLogs(
            os.path.join(settings.folder, "work"), executor_output.write_to_log
        )

    def configure(self, secret: str, properties: Callable[[HostSettings], Dict[str, str]]) -> None:
        """Write the files that Spark's programs read."""
        self.settings = self.settings._replace(secret=secret)
        texts = {"spark-defaults.conf": spark_settings.format_properties(properties(self.settings))}
        texts["log4j2.properties"] = spark_settings.LOGGING
        for name, text in texts.items():
            path = os.path.join(self.settings.folder, "conf", name)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                file.write(text)

    def start(self, name: str, words: List[str]) -> None:
        """Start a daemon."""
        self.daemons[name] = subprocess.Popen(words, stdin=subprocess.DEVNULL, cwd=self.settings.temporary)

    def wait(self, others: Sequence[socket.socket] = ()) -> List[socket.socket]:
        """Wait for signals or readable sockets, and copy the output of executors to the log."""
        ready = self.signals.wait(others, _LOG_INTERVAL)
        self._outputs.forward()
        return ready

    def exited_daemon(self) -> str:
        """Return a sentence about a daemon that exited by itself, '' if all run."""
        for name, daemon in self.daemons.items():
            code = daemon.poll()
            if code is not None and not self.signals.has_sigterm:
                how = f"exit code {code}" if code >= 0 else f"signal {-code} ({signal.Signals(-code).name})"
                what = f"The Spark {name} of {self.part.place.host} ended with {how}"
                return f"{what} before the script. Its log has details."
        return ""

    def check(self) -> None:
        """Notice what keeps this host from going on.

        :raises ClusterError: a daemon ended.
        """
        broken = self.exited_daemon()
        if self.signals.has_sigterm:
            raise _StopRequestedError
        if broken:
            raise ClusterError(broken)

    def terminate(self) -> None:
        """End what is left of Spark on this host, workers before their master, and remove its files."""
        for name in reversed(list(self.daemons)):
            daemon = self.daemons[name]
            everything = process.tree([daemon.pid])
            process.kill(everything[:1], signal.SIGTERM)
            process.kill(process.wait_gone(everything, _END_PATIENCE))
            daemon.wait()
        self.daemons.clear()
        self._outputs.forward(last=True)
        for folder in (self.settings.folder, self.settings.temporary):
            shutil.rmtree(folder, ignore_errors=True)


# The first host


def _run_leader(cluster: _Cluster, configuration: spark_settings.RequestedConfiguration) -> bool:
    part, settings = cluster.part, cluster.settings
    share = spark_settings.memory_share(part.memory(), leads=True)
    own = spark_settings.worker_offer(share, part.place.cpus, alone=len(part.found.hosts) == 1)
    place = part.rendezvous()
    with place.listen(len(part.found.hosts)) as listener:
        visitors = _gather(cluster, place, listener)
    offers = [own, *(offer for _, offer in visitors)]
    wanted = configuration.properties
    too_large = spark_settings.oversize_reason(wanted, offers)
    if too_large:
        raise RefusalError(too_large)
    shared, port = place.shared_secret("spark"), _free_port(settings.host)
    secret = shared or os.urandom(32).hex()
    master, name = spark_settings.master_address(settings.host, port), os.path.basename(script.script_name(part.spec))

    def properties(known: HostSettings) -> Dict[str, str]:
        found = spark_settings.driver_properties(known, master, name, share.driver)
        return {**found, **spark_settings.executor_properties(wanted, offers), **wanted}

    cluster.configure(secret, properties)
    cluster.start("master", spark_settings.master_command(cluster.settings, port))
    _await_master(cluster, port)
    for connection, _ in visitors:
        # The network between machines may have other readers: there each host computes the secret.
        connection.send({"master": master, "secret": "" if shared else secret})
    if own.cpus:
        cluster.start("worker", spark_settings.worker_command(cluster.settings, own, master))
    entry_point.print_note(spark_settings.format_summary(master, wanted, offers))
    driver = os.fork()
    if driver == 0:
        cluster.signals.restore_handlers()
        for connection, _ in visitors:
            connection.socket.close()
        return True
    return _watch(cluster, driver, [connection.socket for connection, _ in visitors])


def _versions(place: HostInfo) -> Dict[str, str]:
    """Return what has to be the same on several machines; {} where hosts share one."""
    if place.shares_machine():
        return {}
    spark = ""
    with contextlib.suppress(metadata.PackageNotFoundError):  # as below SPARK_HOME
        spark = metadata.version("pyspark")
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return {"Python": python, "PySpark": spark, "a Python at": sys.executable}


def _gather(cluster: _Cluster, place: Rendezvous, listener: socket.socket) -> List[Tuple[HostConnection, WorkerOffer]]:
    """Wait until the other hosts are connected and have sent their offers.

    :raises RefusalError: they are not there in time, or one has another Spark or Python.
    """
    found: List[Tuple[HostConnection, WorkerOffer]] = []
    until = time.monotonic() + rendezvous.PATIENCE
    while len(found) < len(cluster.part.found.hosts) - 1:
        cluster.check()
        if time.monotonic() > until:
            raise RefusalError(
                f"distribution: not all hosts connected within {rendezvous.PATIENCE:.0f} s, "
                "so there is no Spark cluster."
            )
        visitor = place.accept(listener) if cluster.signals.wait([listener], until - time.monotonic()) else None
        if visitor is not None:
            said = visitor.receive()
            ours = _versions(cluster.part.place)
            different = spark_settings.difference(cluster.part.place.host, ours, said["host"], said["versions"])
            if different:
                raise RefusalError(different)
            found.append((visitor, spark_settings.WorkerOffer(int(said["cpus"]), int(said["memory"]))))
    return found


def _free_port(host: str) -> int:
    """Return the port of the master: Spark's own, unless it is in use."""
    for port in (spark_settings.MASTER_PORT, 0):
        with contextlib.suppress(OSError), socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((host, port))
            return int(trial.getsockname()[1])
    raise RefusalError(f"distribution: no server can listen at {host}, so there is no Spark cluster.")


def _await_master(cluster: _Cluster, port: int) -> None:
    until = time.monotonic() + _START_PATIENCE
    while True:
        cluster.check()
        with contextlib.suppress(OSError), socket.create_connection((cluster.settings.host, port), _END_PATIENCE):
            return
        if time.monotonic() > until:
            raise ClusterError(f"The Spark master did not listen within {_START_PATIENCE:.0f} s. Its log has details.")
        cluster.signals.wait(seconds=rendezvous.RETRY_DELAY)


def _watch(cluster: _Cluster, driver: int, visitors: List[socket.socket]) -> NoReturn:
    """Wait until the script has ended, end the cluster, and end as the script did."""
    status: Optional[int] = None
    while status is None:
        broken = cluster.exited_daemon()
        if broken:
            child_processes.terminate_script(driver)  # it waits for a cluster that has ended
            raise ClusterError(broken)
        pid, found = os.waitpid(driver, os.WNOHANG)
        if pid:
            status = found
        else:
            cluster.wait()
    # Its JVM ends by itself, and with it what it has in the cluster.
    process.wait_gone(_gateways(), _END_PATIENCE)
    for visitor in visitors:
        with contextlib.suppress(OSError):
            visitor.shutdown(socket.SHUT_WR)
    for visitor in visitors:
        visitor.settimeout(_END_PATIENCE)
        with contextlib.suppress(OSError):
            visitor.recv(1)
    cluster.terminate()
    child_processes.exit_like(status)


def _gateways() -> List[int]:
    """Find the JVMs that PySpark started for the script, which has ended."""
    words = {pid: process.read_file(f"/proc/{pid}/cmdline") for pid in process.children(os.getpid())}
    return [pid for pid, line in words.items() if spark_settings.DRIVER_CLASS in line]


# Other hosts


def _run_worker(cluster: _Cluster) -> bool:
    """Run a worker while the script runs."""
    part = cluster.part
    share = spark_settings.memory_share(part.memory(), leads=False)
    offer = spark_settings.worker_offer(share, part.place.cpus, alone=False)
    place = part.rendezvous()
    with _connect_to_leader(cluster, place) as connection:
        connection.send({**offer._asdict(), "host": part.place.host, "versions": _versions(part.place)})
        try:
            while not cluster.signals.wait([connection.socket]):
                cluster.check()
            said = connection.receive()
        except EOFError:
            cluster.terminate()  # the first host has failed, and reports why
            return False
        cluster.configure(said["secret"] or place.shared_secret("spark"), spark_settings.worker_properties)
        entry_point.print_note(f"a Spark worker with {offer.cpus} CPU(s) works here for {said['master']}.")
        cluster.start("worker", spark_settings.worker_command(cluster.settings, offer, said["master"]))
        part.first_line()
        while not cluster.wait([connection.socket]):
            cluster.check()
        cluster.terminate()
    return False


@contextlib.contextmanager
def _connect_to_leader(cluster: _Cluster, place: Rendezvous) -> Iterator[HostConnection]:
    """Connect to the first host, which may not listen yet.

    :raises RefusalError: it does not start in time, or its machine is out of reach.
    """
    leader, until = cluster.part.found.hosts[0], time.monotonic() + rendezvous.PATIENCE
    connection = place.connect(leader)
    while connection is None:
        cluster.check()
        if time.monotonic() > until:
            raise RefusalError(f"distribution: {leader} did not start within {rendezvous.PATIENCE:.0f} s.")
        cluster.signals.wait(seconds=rendezvous.RETRY_DELAY)
        connection = place.connect(leader)
    with connection.socket:
        yield connection
