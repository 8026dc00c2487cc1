"""Requests to the daemon for one host, as pure functions: names, labels, mounts, limits, given-up settings."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from jupyter_smx.agent.paths import AWS_FRONT, INTERFACE, KEPT_PACKAGES, ML, PORT
from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.agent.system.files.host_folder import CONFIGS, SKELETON
from jupyter_smx.engines.docker.containers import allowed_mounts, gpus, image_parts, isolation, kept_files
from jupyter_smx.engines.docker.containers.image_parts import NO_PARTS, ImageParts
from jupyter_smx.engines.docker.daemon import cli_config
from jupyter_smx.engines.docker.daemon.daemon_info import DaemonInfo
from jupyter_smx.engines.machine.host_folder import MARK, description
from jupyter_smx.engines.machine.share import share_limits
from jupyter_smx.model.errors import RefusedError
from jupyter_smx.model.text import format_size

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from jupyter_smx.engines.base import ClusterRequest, HostSpec
    from jupyter_smx.engines.machine.host_folder import HostFolder

CLUSTER, HOST, OWNER = "jupyter-smx.cluster", "jupyter-smx.host", "jupyter-smx.data-dir"
"""Labels of containers and networks: whose they are."""
USER = "jupyter-smx.user"
"""Label of a container that runs as the user of its image: that user, as ``uid:gid``."""
DEFAULT_NETWORK = "jupyter-smx.default-network"
"""Label of a container that joins the daemon's default network by configuration, not because no other is free."""
PROBE = "jupyter-smx.probe"
"""Label of a container by which something is tried; its text is the number of the process that looks."""
HOST_FOLDER = "/run/smx"
"""Path of the host's folder in its container: short, whatever its path on the machine."""
PROVIDED_FILES = f"{HOST_FOLDER}/{host_layout.PROVIDED}"
AGENT_ARCHIVE = "/run/smx.pyz"
_START = (
    "import sys; del sys.argv[0]; sys.path[: not sys.flags.isolated] = sys.argv[:1]; "
    "from jupyter_smx.agent.__main__ import main; main()"
)
"""Code that runs the agent of the archive in its first word, as ``python ARCHIVE`` does.

That loads ``runpy`` first, which takes half as long as an interpreter needs to start.

The archive takes the place of the working folder, which an isolated Python has not among its paths.
"""
BRIDGE = "bridge"
"""Docker's name for its default network, and for the driver of all of them."""
NONE = "none"
"""The daemon's name of the network mode without any connection."""
_ISOLATED_GATEWAY = {"com.docker.network.bridge.gateway_mode_ipv4": "isolated"}
"""Option of an isolated network that also cuts it off from the machine."""
_NO_EXTERNAL_DNS = {"Dns": ["127.0.0.1"], "DnsOptions": ["timeout:1", "attempts:2"]}
"""Look up external names in the container, where the lookup fails, and not through the daemon.

Some daemons send no answer then, so the resolver must not wait long.
"""
_LOOPBACK = "127.0.0.1"
_HOST_GATEWAY = "host-gateway"
_MACHINE_NAME = "host.docker.internal"
_MACHINE = f"{_MACHINE_NAME}:{_HOST_GATEWAY}"
"""Docker's name of the machine in containers, and its word for the address; Podman has the name by itself."""
NO_GPU_VARIABLES = {"NVIDIA_VISIBLE_DEVICES": "void"}
"""If NVIDIA's runtime is the default, images request all GPUs by this variable, and get them."""
_BYTECODE = "/run/smx-bytecode"
"""Path in a container of the ``.pyc`` files of its image."""
TMP = "/tmp"  # noqa: S108 - the container's own, the only place that each user of it can write to
_HOME = TMP
_DIGITS = 12
_CPU_PERIOD = 250_000
"""Microseconds; in each of them a host gets its share of the processors' time, and then waits for the next one.

Docker's own 100 ms are too short for a start on one processor: an agent and its first zygote start side by side, use up
their share in half of that time, and would stop for the rest.
"""
_MIN_SHM = 64 << 20
_DEFAULT_SHM = 1 << 30
LOG_CONFIG = {"Type": "json-file", "Config": {"max-size": "1m"}}
"""Options for the output of containers: the newest part of it, on the disk of their daemon."""
OPT_ML_FOLDERS = tuple(sorted({path for name in SKELETON for path in (name, name.rpartition("/")[0]) if path}))
"""Folders of ``/opt/ml`` that stay from job to job, outer ones first."""
MOUNTED_FOLDERS = (
    host_layout.ML,
    *(f"{host_layout.ML}/{name}" for name in OPT_ML_FOLDERS),
    host_layout.TMP,
    host_layout.PROVIDED,
)
"""Folders of a host that exist before its container, outer ones first."""
JOB_FOLDERS = tuple(name for name in MOUNTED_FOLDERS if name != host_layout.PROVIDED)
"""Those that are the jobs' own."""
_TMPFS_OPTIONS = "rw,nosuid,nodev,noexec,size=16m,mode=1777"


class Settings(Struct, frozen=True, kw_only=True):
    """Settings that all hosts of an engine have in common."""

    data_dir: str
    user: str
    network_isolation: bool
    separate_network: bool = False
    """A cluster of one host has a network of its own, too."""
    pids: int
    grace: float
    variables: Mapping[str, str]
    origin_labels: Mapping[str, str] = {}
    """Labels that say which controller made a container or a network."""
    proxies: Mapping[str, str] = {}
    """Proxy variables, for hosts that reach the outside."""
    kind: DaemonInfo = DaemonInfo()
    visible_gpus: tuple[str, ...] = ()
    """Names of the controller's own GPUs, if it was given some of the machine's."""
    aws_front: str = ""
    """Folder with the socket of the front for clients of AWS, for hosts that reach the outside; "" for none."""


class ContainerPlan(Struct, frozen=True, kw_only=True):
    """Requests to the daemon for one host: its container, and the network that it joins while its agent starts."""

    container: dict[str, Any]
    endpoint: dict[str, Any]
    """The network, and the host's name in that of its cluster; empty if it has none, or is created in it."""

    def is_created_in_network(self) -> bool:
        """Return True if the network has to exist before the container."""
        return bool(self.container["HostConfig"]["NetworkMode"] != NONE)

    def joins_default_network(self) -> bool:
        """Return True if the host joins the daemon's default network, which exists already."""
        return bool(self.endpoint.get("net_id") == BRIDGE)


def owner(data_dir: str) -> str:
    """Return an id of a data folder for labels of containers, which does not show the folder's path."""
    return hashlib.sha256(data_dir.encode(errors="surrogateescape")).hexdigest()[:_DIGITS]


def container_name(cluster: str, host: str) -> str:
    """Name a container; a host always has the same name, so that there can be only one."""
    return f"jupyter-smx-{cluster}-{host}"


def network_name(cluster: str) -> str:
    """Name the network of a cluster."""
    return f"jupyter-smx-{cluster}"


def is_own_container(row: Mapping[str, Any]) -> bool:
    """Return True if we created a listed container; False if its image was made from a container of ours.

    Such an image has our labels. Whatever its containers are called, none has a host's folder.
    """
    told = row.get("Labels") or {}
    name = container_name(told.get(CLUSTER, ""), told.get(HOST, ""))
    mounted = [mount.get("Destination") for mount in row.get("Mounts") or () if isinstance(mount, dict)]
    return PROBE in told or f"/{name}" in (row.get("Names") or ()) or HOST_FOLDER in mounted


def labels(data_dir: str, cluster: str, host: str = "") -> dict[str, str]:
    """Return the labels of all objects of a cluster, or of one of its hosts."""
    return {CLUSTER: cluster, OWNER: owner(data_dir), **({HOST: host} if host else {})}


def filters(data_dir: str, cluster: str) -> list[str]:
    """Return the labels by which a daemon finds the objects of a cluster."""
    return [f"{name}={value}" for name, value in labels(data_dir, cluster).items()]


def network(request: ClusterRequest, settings: Settings) -> dict[str, Any] | None:
    """Return the network that is created for a cluster; None for a single host without one or in the default one."""
    return None if _uses_default_network(request, settings) else separate_network(request, settings)


def separate_network(request: ClusterRequest, settings: Settings) -> dict[str, Any] | None:
    """Return the network of a cluster, also if it is needed only by a daemon without a default one.

    None for a single isolated host.
    """
    if _is_without_network(request, settings):
        return None
    return {
        "Name": network_name(request.cluster),
        "Driver": BRIDGE,
        "Internal": _is_isolated(request, settings),
        "Options": _ISOLATED_GATEWAY
        if _is_isolated(request, settings) and settings.kind.can_isolate_networks()
        else {},
        "Labels": {**labels(settings.data_dir, request.cluster), **settings.origin_labels},
    }


def _is_isolated(request: ClusterRequest, settings: Settings) -> bool:
    return settings.network_isolation or request.network_isolation


def _is_without_network(request: ClusterRequest, settings: Settings) -> bool:
    return _is_isolated(request, settings) and len(request.hosts) == 1


def missing_isolation(request: ClusterRequest, plan: HostSpec, settings: Settings) -> tuple[str, ...]:
    """Return the parts of a host's isolation that the daemon does not support."""
    isolated = _is_isolated(request, settings) and not _is_without_network(request, settings)
    return isolation.missing_isolation(
        settings.kind,
        settings.user,
        is_open=isolated and not settings.kind.can_isolate_networks(),
        all_gpus=plan.gpus > 0 and not plan.devices,
    )


def use_default_network(container: dict[str, Any], network: str) -> dict[str, Any]:
    """Return the request for a host in the daemon's default network, if the cluster's own cannot be created.

    Podman creates hosts in their network; Docker lets running ones join it.
    """
    if network != BRIDGE:
        return container
    config = {**container["HostConfig"], "NetworkMode": BRIDGE}
    lacks = (isolation.SHARED_NETWORK, *isolation.read(container["Labels"]))
    told = {**container["Labels"], **isolation.label(lacks)}
    return {**container, "HostConfig": config, "NetworkingConfig": {"EndpointsConfig": {}}, "Labels": told}


def without_machine_name(container: Mapping[str, Any], error: str) -> dict[str, Any] | None:
    """Return the request without the machine's name, if a daemon without its default network has no address for it."""
    if _HOST_GATEWAY not in error or _MACHINE not in container["HostConfig"].get("ExtraHosts", ()):
        return None
    config = {name: value for name, value in container["HostConfig"].items() if name != "ExtraHosts"}
    return {**container, "HostConfig": config}


def container_plan(
    request: ClusterRequest,
    plan: HostSpec,
    folder: HostFolder,
    archive: Path,
    python: str,
    settings: Settings,
    parts: ImageParts = NO_PARTS,
) -> ContainerPlan:
    """Return the request for a host.

    Docker takes a third longer to start a container in its own network than without one, and as long again to create
    the network: meanwhile the agent does what needs no network. To join the default network takes a quarter of that.
    """
    asked = container(request, plan, folder, archive, python, settings, parts)
    found = {posixpath.normpath(path) for path in parts.volumes}
    asked["HostConfig"]["Mounts"] += [*_kept_files(request, settings, parts), *_override_volumes(found, folder)]
    asked["HostConfig"]["Mounts"] += [allowed_mounts.daemon_mount(mount) for mount in request.mounts]
    mounted = {mount.target for mount in request.mounts}
    own = {TMP, ML, *(f"{ML}/{name}" for name in OPT_ML_FOLDERS)}
    closed = {posixpath.normpath(path) for path in parts.closed_volumes}
    stay = isolation.persistent_volumes(sorted(found - mounted - own), closed)
    asked["Labels"] |= isolation.label((*isolation.read(asked["Labels"]), *stay))
    return ContainerPlan(
        container=asked,
        endpoint=_endpoint(request, plan, settings),
    )


def _endpoint(request: ClusterRequest, plan: HostSpec, settings: Settings) -> dict[str, Any]:
    if _uses_default_network(request, settings):
        return {"net_id": BRIDGE}
    return separate_endpoint(request.cluster, plan.host) if _is_connected_after_start(request, settings) else {}


def separate_endpoint(cluster: str, host: str) -> dict[str, Any]:
    """Return the endpoint of a running host in the network of its cluster."""
    return {"net_id": network_name(cluster), "aliases": [host]}


def _kept_files(request: ClusterRequest, settings: Settings, parts: ImageParts) -> list[dict[str, Any]]:
    """Return the mounts of what all hosts of the image keep."""
    name = kept_files.folder_name(request.image, settings.user)
    folders = {kept_files.PACKAGES: KEPT_PACKAGES}
    if _keeps_bytecode(request, parts):
        folders[kept_files.BYTECODE] = _BYTECODE
    return [
        bind_mount(posixpath.join(settings.data_dir, folder, name), target, closed=False)
        for folder, target in folders.items()
    ]


def _keeps_bytecode(request: ClusterRequest, parts: ImageParts) -> bool:
    """Return True if hosts share the ``.pyc`` files that their image lacks.

    Not with mounts: two folders that jobs mount at one path may have files of the same name, size and second.
    """
    return not parts.has_bytecode and not request.mounts


def _uses_default_network(request: ClusterRequest, settings: Settings) -> bool:
    """Return True if a host joins the daemon's default network after its start: alone it has no other host to find."""
    alone = len(request.hosts) == 1 and not settings.separate_network and not _is_isolated(request, settings)
    return alone and not _needs_network(request, settings)


def _is_connected_after_start(request: ClusterRequest, settings: Settings) -> bool:
    """Return True if hosts join their network after their start."""
    return not _is_without_network(request, settings) and not _needs_network(request, settings)


def _is_created_in_network(request: ClusterRequest, settings: Settings) -> bool:
    """Return True if containers are created in their network."""
    return not _is_without_network(request, settings) and _needs_network(request, settings)


def _needs_network(request: ClusterRequest, settings: Settings) -> bool:
    """Return True if a container has to start in its network: Podman requires it, and an entry point may use it."""
    return bool(settings.kind.podman) or image_parts.ENTRYPOINT in request.image_settings


def container(
    request: ClusterRequest,
    plan: HostSpec,
    folder: HostFolder,
    archive: Path,
    python: str,
    settings: Settings,
    parts: ImageParts = NO_PARTS,
) -> dict[str, Any]:
    """Return the body of the request that creates a host's container."""
    name, _, mark = folder.mark.partition("=")
    assert name == MARK  # noqa: S101 - the agent looks for it
    return {
        "Image": request.image,
        "Hostname": plan.host,
        "User": settings.user,
        "Entrypoint": [
            *parts.entrypoint,
            python,
            *([] if _starts_as_zygote(request, plan, settings, parts) else _options(request, parts)),
            "-c",
            _START,
            AGENT_ARCHIVE,
            "serve",
            HOST_FOLDER,
            "--contained",
            *(["--fork-zygote"] if _starts_as_zygote(request, plan, settings, parts) else []),
        ],
        "Cmd": [],
        "WorkingDir": parts.workdir if parts.entrypoint and parts.workdir else "/",
        "StopSignal": "SIGTERM",
        "Healthcheck": {"Test": ["NONE"]},
        "Env": format_environment({**_environment(request, plan, settings, parts), name: mark}),
        "Labels": {
            **labels(settings.data_dir, request.cluster, plan.host),
            **settings.origin_labels,
            **({USER: settings.user} if parts.user else {}),
            **({DEFAULT_NETWORK: "1"} if _uses_default_network(request, settings) else {}),
            **isolation.label(missing_isolation(request, plan, settings)),
        },
        "HostConfig": _host_config(request, plan, folder, archive, settings, parts),
        "NetworkingConfig": {"EndpointsConfig": _endpoints(request, plan, settings)},
    }


def _environment(request: ClusterRequest, plan: HostSpec, settings: Settings, parts: ImageParts) -> dict[str, str]:
    reachable = {} if _is_isolated(request, settings) else settings.proxies
    near = [*(host.host for host in request.hosts), _MACHINE_NAME]
    near += [_LOOPBACK] if settings.aws_front else []
    bytecode = {"PYTHONPYCACHEPREFIX": _BYTECODE} if _keeps_bytecode(request, parts) else {}
    return {**cli_config.add_no_proxy(reachable, near), **bytecode, **settings.variables, **_identity(plan, parts)}


def _starts_as_zygote(request: ClusterRequest, plan: HostSpec, settings: Settings, parts: ImageParts) -> bool:
    """Return True if the agent's Python starts as that of jobs has to, so that its first zygote is forked from it.

    Python takes a seventh of a cold start to come up a second time.
    """
    return parts.has_usual_python and image_parts.is_usual_python(
        _environment(request, plan, settings, parts), has_bytecode=parts.has_bytecode
    )


def _options(request: ClusterRequest, parts: ImageParts) -> list[str]:
    """Return the options of the agent's Python, which reads no variables."""
    return ["-I", *(["-X", f"pycache_prefix={_BYTECODE}"] if _keeps_bytecode(request, parts) else [])]


def _identity(plan: HostSpec, parts: ImageParts) -> dict[str, str]:
    # Most images have no entry for the controller's user, but libraries look up a name and a home.
    found = {"HOME": _HOME, "USER": "smx", "LOGNAME": "smx"} | (parts.user.variables() if parts.user else {})
    return found if plan.gpus else {**found, **NO_GPU_VARIABLES}


def format_environment(variables: Mapping[str, str]) -> list[str]:
    """Format variables for the daemon."""
    return [f"{key}={value}" for key, value in variables.items()]


def _endpoints(request: ClusterRequest, plan: HostSpec, settings: Settings) -> dict[str, Any]:
    return (
        {network_name(request.cluster): {"Aliases": [plan.host]}} if _is_created_in_network(request, settings) else {}
    )


def _host_config(
    request: ClusterRequest,
    plan: HostSpec,
    folder: HostFolder,
    archive: Path,
    settings: Settings,
    parts: ImageParts,
) -> dict[str, Any]:
    alone = _is_without_network(request, settings)
    found: dict[str, Any] = {
        "Mounts": [*mounts(folder, archive), *_image_files(parts), *_aws_front(request, settings)],
        # A processing job's configuration has its variables, and with them its secrets.
        "Tmpfs": {f"{ML}/{name}": _TMPFS_OPTIONS for name in CONFIGS},
        "NetworkMode": network_name(request.cluster) if _is_created_in_network(request, settings) else NONE,
        "ReadonlyRootfs": True,
        "CapDrop": ["ALL"],
        "SecurityOpt": isolation.security_options(settings.kind),
        "Init": True,
        "IpcMode": "private",
        **supported_limits(settings.kind, vcpus=plan.vcpus, memory=plan.memory, pids=settings.pids),
        "ShmSize": request.shm_size or max(_MIN_SHM, plan.memory // 2 or _DEFAULT_SHM),
        "LogConfig": LOG_CONFIG,
        **parts.groups(),
    }
    if alone:
        found["ExtraHosts"] = [f"{plan.host}:{_LOOPBACK}"]  # a container without a network does not know its own name
    elif _is_isolated(request, settings) and not settings.kind.podman:
        found |= _NO_EXTERNAL_DNS
    elif settings.kind.can_name_machine():
        found["ExtraHosts"] = [_MACHINE]
    if plan.gpus:
        found["DeviceRequests"] = [gpus.device_request(settings.kind, plan.devices, settings.visible_gpus)]
    return found


def check_shm_size(request: ClusterRequest) -> None:
    """Check that ``/dev/shm`` fits into the memory of each host, of which it is a part.

    :raises RefusedError: it does not.
    """
    for plan in request.hosts:
        if plan.memory and request.shm_size > plan.memory:
            raise RefusedError(
                f"--shm-size: {format_size(request.shm_size)} is more than {plan.instance_type} has.",
                field="shm_size",
                value=request.shm_size,
                rule=f"It is part of the memory of a host, which is {format_size(plan.memory)}.",
                cure="Use a smaller size, or a larger instance type.",
            )


def supported_limits(kind: DaemonInfo, *, vcpus: int = 0, memory: int, pids: int) -> dict[str, int]:
    """Return the limits, 0 is none, without those that the daemon cannot set: some would refuse the container."""
    quota = {"CpuPeriod": _CPU_PERIOD if vcpus else 0, "CpuQuota": vcpus * _CPU_PERIOD}
    wish = {
        "cpu": {"NanoCpus": vcpus * 10**9} if kind.podman else quota,
        "memory": {"Memory": memory, "MemorySwap": memory},
        "pids": {"PidsLimit": pids},
    }
    asked = [limits for what, limits in wish.items() if kind.can_limit(what)]
    return {name: size for limits in asked for name, size in limits.items() if size}


def folder_mode(name: str) -> int:
    """Return the permissions of a folder that exists before its container.

    Some daemons copy them to the memory file system that is mounted over it, and keep that themselves.
    """
    return 0o1777 if name.removeprefix(f"{host_layout.ML}/") in CONFIGS else 0o755


def mounts(folder: HostFolder, archive: Path) -> list[dict[str, Any]]:
    """List what of this machine is seen in a container: folders of its own host, and our agent."""
    inside = {"": HOST_FOLDER, host_layout.ML: ML, host_layout.TMP: TMP, host_layout.PROVIDED: PROVIDED_FILES}
    found = [
        bind_mount(str(folder.path / name), target, closed=name == host_layout.PROVIDED)
        for name, target in inside.items()
    ]
    return [*found, bind_mount(str(archive), AGENT_ARCHIVE, closed=True)]


def _image_files(parts: ImageParts) -> list[dict[str, Any]]:
    """Mount the files that the image has in ``/opt/ml``, which the host's own folder hides there."""
    return [bind_mount(parts.files, image_parts.IMAGE_ML, closed=True)] if parts.files else []


def _aws_front(request: ClusterRequest, settings: Settings) -> list[dict[str, Any]]:
    """Mount the folder with the front's socket, and not the socket: a front that starts again makes another one."""
    if not settings.aws_front or _is_isolated(request, settings):
        return []
    return [bind_mount(settings.aws_front, AWS_FRONT, closed=True)]


def _override_volumes(volumes: AbstractSet[str], folder: HostFolder) -> list[dict[str, Any]]:
    """Mount the host's folders of ``/opt/ml`` over volumes that the image declares, which are root's and stay."""
    own = {f"{ML}/{name}": name for name in OPT_ML_FOLDERS if name not in CONFIGS}
    return [
        bind_mount(str(folder.path / host_layout.ML / name), path, closed=False)
        for path, name in own.items()
        if path in volumes
    ]


def tmp_volume_folders(volumes: Sequence[str]) -> list[str]:
    """Return the folders of a host, outer ones first, where volumes of its image are mounted below ``/tmp``.

    If the daemon has to create them, they belong to root, and other users cannot remove their content.
    """
    names = [posixpath.normpath(path)[1:] for path in volumes if posixpath.normpath(path).startswith(f"{TMP}/")]
    return sorted({"/".join(name.split("/")[:depth]) for name in names for depth in range(2, name.count("/") + 2)})


def job_volumes(volumes: Sequence[str]) -> list[str]:
    """Name those volumes of an image that would lie in a folder of ``/opt/ml``, and are none of these."""
    own = {f"{ML}/{name}" for name in OPT_ML_FOLDERS}
    return [path for path in map(posixpath.normpath, volumes) if path.startswith(f"{ML}/") and path not in own]


def bind_mount(source: str, target: str, *, closed: bool) -> dict[str, Any]:
    """Return the mount of a file or folder of this machine for a container."""
    found: dict[str, Any] = {"Type": "bind", "Source": source, "Target": target}
    return found | ({"ReadOnly": True} if closed else {})


def host_json(
    request: ClusterRequest, plan: HostSpec, settings: Settings, parts: ImageParts = NO_PARTS
) -> dict[str, object]:
    """Return the description of the host for an agent in a container; ``parts`` are those of its image."""
    enforced = [name for name in ("cpu", "memory") if settings.kind.can_limit(name)]
    limits = share_limits(plan, enforced, settings.kind.reason)
    told = description(request, plan, start_method="fork", isolate=False, grace=settings.grace, limits=limits)
    alone = _is_without_network(request, settings)
    # Each host has a network of its own, in which the hosts' names lead to them and all ports are free.
    addresses = {host.host: _LOOPBACK if alone else host.host for host in request.hosts}
    # An agent that starts before its network sees no interface yet.
    interface = INTERFACE if _is_connected_after_start(request, settings) else ""
    return told | {
        "notice_grace": 0.0,
        "contained": True,
        "addresses": addresses,
        "port": PORT,
        "courier": "",
        "interface": interface,
        "aws_front": AWS_FRONT if _aws_front(request, settings) else "",
        **parts.facts(),
    }
