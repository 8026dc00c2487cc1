"""Paths of a job: its host's folder, and the folders below ``/opt/ml``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Tuple

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import ChannelSpec, CompleteSpec

ML = "/opt/ml"
REGION = "us-east-1"
"""The region of a host whose user has none: the prices of the catalogue are for it."""
KEPT_PACKAGES = "/run/smx-packages"
"""Folder of a container with the requirements of earlier jobs of its image; not on hosts without an image."""
MODEL = "model"
ARCHIVES = ((MODEL, "model.tar.gz"), (os.path.join("output", "data"), "output.tar.gz"))
"""Folders below ``/opt/ml`` that are collected as one archive each, and its name."""
AWS_FRONT = "/run/smx-aws"
"""Folder of a container with the socket of the front for clients of AWS, and the configuration of SageMaker's SDK."""
AWS_SOCKET = "front.sock"
AWS_VARIABLES = "JUPYTER_SMX_AWS"
"""``controller_launch.AWS_VARIABLES``: names a job's variables that lead clients to the front, separated by commas."""
AWS_URL_PREFIX = "AWS_ENDPOINT_URL_"
"""Begin of the variables with the front's address, one for each service."""
SDK_CONFIG = "SAGEMAKER_ADMIN_CONFIG_OVERRIDE"
"""Variable of a job with the path of the configuration of SageMaker's SDK."""
INTERFACE = "eth0"
"""Network interface with the names of the hosts on SageMaker, and in containers."""
PORT = 7777
"""Port of the first host in sagemaker-training."""
_LOOPBACK = "127."


class HostInfo(NamedTuple):
    """The host that a job runs on: its names, its share, and where its ``/opt/ml`` really is.

    ``interface`` carries the hosts' names, ``port`` is where the first host of a distribution listens. ``addresses``
    stand for the names of the hosts where these are not found, as where a host has no ``/opt/ml`` of its own.
    ``own_root`` says that what a job writes directly below ``/`` is its own. ``image_files`` is a folder with the files
    that the host's image has in ``/opt/ml``, "" if there are none; ``image_workdir`` is the image's working folder.
    """

    host: str
    hosts: List[str]
    groups: List[Dict[str, Any]]
    group: str
    instance_type: str
    cpus: int
    gpus: int
    base: str = ML
    interface: str = INTERFACE
    region: str = REGION
    port: int = PORT
    addresses: Optional[Dict[str, str]] = None
    own_root: bool = False
    image_files: str = ""
    image_workdir: str = ""

    def path(self, *names: str) -> str:
        """Return a path under ``/opt/ml`` of this host."""
        return os.path.join(self.base, *names)

    def address_of(self, host: str) -> str:
        """Return the name by which other hosts connect to a host."""
        return host if self.base == ML else (self.addresses or {}).get(host, host)

    def shares_machine(self) -> bool:
        """Return True if all hosts are on this machine, each at an address of its loopback."""
        return (self.addresses or {}).get(self.host, _LOOPBACK).startswith(_LOOPBACK)

    def hosts_per_machine(self) -> int:
        """Count the hosts of the job on this machine, this one included."""
        if self.shares_machine():
            return len(self.hosts)
        addresses = self.addresses or {}
        return sum(addresses.get(host) == addresses.get(self.host) for host in self.hosts)

    def real_path(self, path: str, field: str = "outputs") -> str:
        """Return the real path of a folder below ``/opt/ml``; the user's path is absolute, or relative to ``/opt/ml``.

        :raises ValueError: it is not a folder below ``/opt/ml``; the text names it and its field.
        """
        inside = os.path.relpath(os.path.join(ML, path), ML)
        if inside in (os.curdir, os.pardir) or inside.startswith(os.pardir + os.sep):
            raise ValueError(f"spec.{field}: {path!r} is not a folder below {ML}.")
        return os.path.join(self.base, inside)


def checkpoint_folder(spec: CompleteSpec) -> str:
    """Return the folder of a job's checkpoints, as its script sees it."""
    return spec.get("checkpoint_local_path") or f"{ML}/checkpoints"


def visible_path(path: str, hidden: Tuple[Tuple[str, str], ...]) -> str:
    """Return the agent's path for a path of the machine that the host's own folders hide from its jobs."""
    for prefix, real in hidden:
        if path == prefix or path.startswith(prefix + os.sep):
            return real + path[len(prefix) :]
    return path


def machine_path(path: str, hidden: Tuple[Tuple[str, str], ...]) -> str:
    """Return the machine's path for a result of :func:`visible_path`."""
    for prefix, real in hidden:
        if path.startswith(real + os.sep):
            return prefix + path[len(real) :]
    return path


def format_name(name: str) -> str:
    """Return a file's name for a sentence: quoted if it is not printable, so that it makes no line of its own."""
    return name if name.isprintable() else repr(name)


def channel_folder(host_info: HostInfo, kind: str, name: str) -> str:
    """Return the folder in which an input is presented."""
    return host_info.path("processing", "input", name) if kind == "process" else host_info.path("input", "data", name)


def input_folder(host_info: HostInfo, kind: str, channel: ChannelSpec) -> str:
    """Return the folder in which a channel is presented: its own path, else the usual one.

    :raises ValueError: its path is not below ``/opt/ml``.
    """
    path = channel.get("path")
    return host_info.real_path(path, "channels") if path else channel_folder(host_info, kind, channel["name"])


def output_folders(spec: CompleteSpec, host_info: HostInfo) -> List[Tuple[str, str]]:
    """Return name and real folder of each output that is collected as files; most of a training job's are archives.

    :raises ValueError: a folder is not below ``/opt/ml``; the text names it.
    """
    found = [(output["name"], host_info.real_path(output["path"])) for output in spec.get("outputs") or []]
    if spec["kind"] != "train":
        return found
    archived = {host_info.path(folder) for folder, _archive in ARCHIVES}
    if spec.get("disable_output_compression"):
        return [(MODEL, host_info.path(MODEL)), *((name, folder) for name, folder in found if folder not in archived)]
    return [(name, folder) for name, folder in found if folder not in archived]
