"""The Docker engine's harness for the contract: this machine through ``/proc`` and files, and the daemon.

Nothing here uses the engine or the library that it uses: ``docker`` of the command line asks the daemon at its own
socket, while the engine's way to it leads through a door that can be closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import socket
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.engines.docker.engine import DockerEngine
from jupyter_smx.model.records.cluster import Handle
from jupyter_smx.testing import process_scan
from jupyter_smx.testing.data_folder import provide_archive
from jupyter_smx.testing.harness import Harness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_smx.engines.base import ClusterRequest

RUN = "JUPYTER_SMX_TEST_RUN"
_COSTLY = (*host_layout.FOLDERS, host_layout.SOCKET, host_layout.SHORTCUT)
_INITS = ("/sbin/docker-init", "/run/podman-init", "/dev/init")
"""Process 1 of a container, of Docker and of two ages of Podman."""
_ENGINE_VARIABLES = ("JUPYTER_SMX_HOST", "HOME", "USER", "LOGNAME", "NVIDIA_VISIBLE_DEVICES", RUN)
_CONFIG = ("Image", "Hostname", "User", "Entrypoint", "Cmd", "WorkingDir", "StopSignal", "Healthcheck")
_HOST_CONFIG = (
    *("Mounts", "Tmpfs", "NetworkMode", "ReadonlyRootfs", "CapDrop", "SecurityOpt", "Init", "IpcMode", "NanoCpus"),
    *("CpuPeriod", "CpuQuota", "PidsLimit", "ShmSize", "LogConfig", "Memory", "MemorySwap", "ExtraHosts"),
    *("Dns", "DnsOptions"),
)
_ABSENT: tuple[object, ...] = (None, 0, [], {})


class SocketProxy:
    """A way to a daemon that can be closed, so that it cannot be reached, or held, so that it does not answer."""

    def __init__(self, path: Path, daemon: str) -> None:
        self.path = path
        self._daemon = daemon.removeprefix("unix://")
        self._listener: socket.socket | None = None
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._delays: list[tuple[bytes, threading.Event, threading.Event]] = []
        self.open()

    def open(self) -> None:
        """Let requests of the engine through."""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(os.fspath(self.path))
        self._listener.listen(64)
        threading.Thread(target=self._serve, args=(self._listener,), daemon=True).start()

    def close(self) -> None:
        """Cut every connection and take none any more."""
        if self._listener is not None:
            # A thread that waits in accept is woken by this alone.
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        self.path.unlink(missing_ok=True)
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def delay(self, words: bytes) -> Iterator[threading.Event]:
        """Delay requests with these words until the ``with`` ends; yield an event that is set when one came."""
        asked, go = threading.Event(), threading.Event()
        self._delays.append((words, asked, go))
        try:
            yield asked
        finally:
            self._delays.remove((words, asked, go))
            go.set()

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                visitor, _ = listener.accept()
            except OSError:
                return
            there = socket.socket(socket.AF_UNIX)
            try:
                there.connect(self._daemon)
            except OSError:  # the daemon itself is away
                visitor.close()
                there.close()
                continue
            with self._lock:
                self._open |= {visitor, there}
            for pair in ((visitor, there), (there, visitor)):
                threading.Thread(target=self._forward, args=pair, daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                for words, asked, go in [*self._delays]:
                    if words in data:
                        asked.set()
                        go.wait()
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open -= {source, target}


class DockerHarness(Harness):
    """A Docker engine with a data folder of its own, at a daemon that others may use."""

    def __init__(
        self, folder: Path, daemon: str, image: str, *, image_settings: tuple[str, ...] = (), **traits: object
    ) -> None:
        provide_archive(folder)
        self.folder = folder
        self.daemon = daemon
        self.proxy = SocketProxy(Path(f"/tmp/smx-door-{secrets.token_hex(4)}.sock"), daemon)  # noqa: S108 - no other name is short
        self.image = self.run_docker("image", "inspect", "--format", "{{.Id}}", image)
        self.image_settings = image_settings
        self.traits: dict[str, Any] = {"variables": [RUN], **traits}
        self.engine = self.new_engine()

    def new_engine(self) -> DockerEngine:
        """Make another instance that shares the disk and the daemon."""
        url = f"unix://{self.proxy.path}"
        return DockerEngine(data_dir=os.fspath(self.folder), docker_host=url, **self.traits)

    def python(self) -> str:
        """Return "": the interpreter is the image's."""
        return ""

    def request(self, hosts: int = 1, *, cluster: str = "", preload: tuple[str, ...] = ()) -> ClusterRequest:
        """Return a request for containers of the image."""
        asked = super().request(hosts, cluster=cluster, preload=preload)
        return replace(asked, image=self.image, image_settings=self.image_settings)

    def run_docker(self, *words: str) -> str:
        """Run Docker's own command line program; return its output."""
        return subprocess.run(
            ["docker", "-H", self.daemon, *words],  # noqa: S607 - whichever is installed
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    def cluster_folder(self, cluster: str) -> Path:
        """Return a cluster's folder."""
        return self.folder / "clusters" / cluster

    def containers(self, cluster: str) -> list[str]:
        """List the ids of a cluster's containers, also of those that ended."""
        return self.run_docker("ps", "-aq", "--no-trunc", "--filter", f"label=jupyter-smx.cluster={cluster}").split()

    def networks(self, cluster: str) -> list[str]:
        """List the ids of a cluster's networks."""
        return self.run_docker("network", "ls", "-q", "--filter", f"label=jupyter-smx.cluster={cluster}").split()

    def inspect(self, cluster: str) -> list[dict[str, Any]]:
        """Return the daemon's description of a cluster's containers."""
        found = self.containers(cluster)
        return list(json.loads(self.run_docker("inspect", *found))) if found else []

    def agents(self, cluster: str) -> dict[str, int]:
        """Return the agents among the processes of this machine, by host: children of the containers' init."""
        found: dict[str, int] = {}
        for seen in process_scan.cluster_processes(cluster):
            if set(process_scan.arguments(_parent(seen.pid))[:1]) & {*_INITS} and "serve" in process_scan.arguments(
                seen.pid
            ):
                found[seen.host().partition("/")[2]] = seen.pid
        return found

    def live_hosts(self, cluster: str) -> set[str]:
        """Scan ``/proc`` for agents."""
        return set(self.agents(cluster))

    def launch_counts(self, cluster: str) -> dict[str, int]:
        """Count the containers of each host that were ever started."""
        found: dict[str, int] = {}
        for one in self.inspect(cluster):
            host = one["Config"]["Labels"]["jupyter-smx.host"]
            found[host] = found.get(host, 0) + (not one["State"]["StartedAt"].startswith("0001"))
        return found

    def command_lines(self, cluster: str) -> list[str]:
        """Show what ``ps`` would."""
        return [seen.command for seen in process_scan.cluster_processes(cluster)]

    def command_lines_with(self, token: str) -> list[str]:
        """Search the whole machine."""
        return [seen.command for seen in process_scan.processes() if token in seen.command]

    def actual_plan(self, cluster: str) -> dict[str, object]:
        """Return ``host.json``, and the daemon's containers and network in the form of requests for them."""
        rows = {one["Config"]["Labels"]["jupyter-smx.host"]: one for one in self.inspect(cluster)}
        return {
            "engine": "docker",
            "network": self._actual_network(cluster),
            "hosts": {
                host: {
                    "name": one["Name"].lstrip("/"),
                    "container": _container_request(one),
                    "endpoint": _endpoint(one),
                    host_layout.DESCRIPTION: process_scan.read_json(
                        self.cluster_folder(cluster) / host / host_layout.DESCRIPTION
                    ),
                }
                for host, one in sorted(rows.items())
            },
        }

    def _actual_network(self, cluster: str) -> dict[str, object] | None:
        found = self.networks(cluster)
        if not found:
            return None
        told = json.loads(self.run_docker("network", "inspect", *found))[0]
        plain = {name: told[name] for name in ("Name", "Driver", "Internal", "Labels")}
        return plain | {"Options": told.get("Options") or {}}  # Podman leaves out what is empty

    def leftovers(self, cluster: str) -> list[str]:
        """List living processes, containers, networks, and folders that only a living host needs."""
        left = [f"{seen.pid} {seen.command}" for seen in process_scan.cluster_processes(cluster)]
        left += [f"container {one}" for one in self.containers(cluster)]
        left += [f"network {one}" for one in self.networks(cluster)]
        return left + [os.fspath(path) for name in _COSTLY for path in self.cluster_folder(cluster).glob(f"*/{name}")]

    def stored_bytes(self, cluster: str) -> bytes:
        """Read all files of the cluster except the jobs' spools and folders, and the daemon's data and log."""
        hosts = [path for path in self.cluster_folder(cluster).iterdir() if path.is_dir()]
        files = [path for host in hosts for path in host.iterdir() if path.is_file()]
        said = [path.read_bytes() for path in files]
        said += [self.run_docker("inspect", one).encode() for one in self.containers(cluster)]
        return b"\n".join([*said, *(self.run_docker("logs", one).encode() for one in self.containers(cluster))])

    def agent_memory(self, cluster: str, host: str) -> int:
        """Read the agent's resident memory."""
        pid = self.agents(cluster)[host]
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    def kill_agent(self, cluster: str, host: str) -> None:
        """Send SIGKILL and wait until the daemon reports the end of the container."""
        process_scan.kill_and_wait(self.agents(cluster)[host])
        self.run_docker("wait", f"jupyter-smx-{cluster}-{host}")

    def purge_cluster(self, cluster: str) -> None:
        """Remove the containers behind the engine's back."""
        self.run_docker("rm", "-f", *self.containers(cluster))

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Close the door to the daemon."""
        self.proxy.close()
        try:
            yield
        finally:
            self.proxy.open()

    def invalid_request(self) -> ClusterRequest:
        """Return a request for an image that does not exist."""
        return replace(self.request(), image="nowhere/nothing:1")

    async def close(self) -> None:
        """Release every cluster that is or was here, even forgotten ones."""
        engine = self.new_engine()
        known = {path.name for path in (self.folder / "clusters").glob("*")}
        await asyncio.gather(*(engine.release(Handle(engine="docker", cluster=cluster)) for cluster in known))
        self.proxy.close()


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _endpoint(told: dict[str, Any]) -> dict[str, Any]:
    """Read which network a container joined that was made in none."""
    if told["HostConfig"]["NetworkMode"] != "none":
        return {}
    for name, one in told["NetworkSettings"]["Networks"].items():
        if name == "bridge":
            return {"net_id": name}
        if name != "none":
            return {"net_id": name, "aliases": [alias for alias in one["Aliases"] if alias != told["Id"][:12]]}
    return {}


def _limits_once(told: dict[str, Any]) -> dict[str, Any]:
    """Leave out a limit of CPU that Podman reports twice."""
    return {**told, "CpuPeriod": 0, "CpuQuota": 0} if told.get("NanoCpus") else told


def _container_request(told: dict[str, Any]) -> dict[str, Any]:
    """Turn the daemon's description of a container into the request that creates it."""
    config, host_config = told["Config"], _limits_once(told["HostConfig"])
    networks = told["NetworkSettings"]["Networks"]
    is_own = host_config["NetworkMode"] not in ("none", "bridge")
    short = told["Id"][:12]
    return {
        **{name: config.get(name) for name in _CONFIG},
        "Cmd": config["Cmd"] or [],
        "Env": [line for line in config["Env"] if line.partition("=")[0] in _ENGINE_VARIABLES],
        "Labels": {name: text for name, text in config["Labels"].items() if name.startswith("jupyter-smx.")},
        "HostConfig": {name: host_config[name] for name in _HOST_CONFIG if host_config.get(name) not in _ABSENT},
        "NetworkingConfig": {
            "EndpointsConfig": {
                name: {"Aliases": [alias for alias in one["Aliases"] if alias != short]}
                for name, one in networks.items()
                if is_own
            }
        },
    }
