"""Configuration of a host (``host.json``), which the engine writes before it starts the agent."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Mapping

from jupyter_smx.agent import wire
from jupyter_smx.agent.paths import PORT
from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.agent.system.isolation import opt_ml_links
from jupyter_smx.agent.system.named_tuple import NamedTuple
from jupyter_smx.agent.system.resources import disk_wait

LOOPBACK = "127.0.0.1"


class HostConfig(NamedTuple):
    """Names, shares and limits of one host; ``idle_limit`` and ``grace`` are seconds, ``threads`` counts CPUs.

    ``signals_jobs`` means that a scheduler sends SIGTERM to the jobs of the host, too.
    ``notice_grace`` is the number of seconds from SIGTERM to the agent until its machine is taken away; 0 ends the host
    at once.

    ``keep_uncollected`` is the number of seconds for which the agent keeps results of jobs after the host's end, until
    a controller has read them; 0 where they can be read without the agent.

    ``addresses`` has the address of each host's servers, if the hosts share one machine; ``port`` is where the first
    host of a distributed job listens.

    ``preload_memory`` and ``input_hash_limit`` are MiB. 0 means no limit for the first, and for the second that no
    content of inputs is read. The attribute :attr:`courier` is an interpreter of this machine that may have fsspec, ""
    if there is none.
    """

    cluster: str
    host: str
    hosts: List[str]
    addresses: Dict[str, str]
    port: int
    groups: List[Dict[str, Any]]
    group: str
    instance_type: str
    idle_limit: float
    preload: List[str]
    threads: int
    gpus: int
    start_method: str
    isolate: bool
    machine_opt_ml: str
    """When the machine's ``/opt/ml`` leads to this host if it cannot have one of its own: ``host``, from its start to
    its end; ``job``, while it runs a job and no other host does; "", never."""
    contained: bool
    """The host is a container: its ``/opt/ml``, ``/tmp`` and shared memory are its own already."""
    image_files: str
    """Folder with the files that the host's image has in ``/opt/ml``; "" if there are none."""
    image_workdir: str
    """Working folder of the host's image, "" for ``/``."""
    interface: str
    """Network interface with the hosts' names, as soon as there are jobs; "" for the one with the host's address."""
    grace: float
    disk_patience: float
    """Seconds for which the end of a job waits for room on a full disk."""
    notice_grace: float
    signals_jobs: bool
    keep_uncollected: float
    preload_memory: int
    input_hash_limit: int
    log_limit: int
    """Bytes that the log of a job may take on disk; 0 means no limit."""
    courier: str
    aws_front: str
    """Folder with the socket of the front for clients of AWS; "" if jobs need no relay to it, or must not reach it."""
    limits: Dict[str, Any]
    """CPUs, bytes of memory and control groups of jobs; see :mod:`jupyter_smx.agent.system.resources.cgroups`."""

    def marker(self) -> str:
        """Return the value of ``JUPYTER_SMX_HOST`` in every process of this host."""
        return self.cluster + "/" + self.host


class ConfigError(Exception):
    """``host.json`` cannot be used; the text says which field, which value and which rule."""


def parse(raw: Dict[str, Any]) -> HostConfig:
    """Check and complete the content of ``host.json``.

    :raises ConfigError: another protocol, a name that is missing, an unknown start method.
    """
    if raw.get("protocol") != wire.PROTOCOL:
        raise ConfigError(f"protocol: {raw.get('protocol')!r}; this agent uses {wire.PROTOCOL}. Pack the agent again.")
    for name in ("cluster", "host"):
        if not isinstance(raw.get(name), str) or not raw[name]:
            raise ConfigError(f"{name}: {raw.get(name)!r}; it must be a name.")
    method = raw.get("start_method") or "fork"
    if method not in ("fork", "spawn"):
        raise ConfigError(f"start_method: {method!r}; it must be fork or spawn.")
    hosts = list(raw.get("hosts") or [raw["host"]])
    group = raw.get("group") or "homogeneousCluster"
    instance_type = raw.get("instance_type") or "local"
    groups = raw.get("groups") or [{"instance_group_name": group, "instance_type": instance_type, "hosts": hosts}]
    return HostConfig(
        cluster=raw["cluster"],
        host=raw["host"],
        hosts=hosts,
        addresses={name: str((raw.get("addresses") or {}).get(name) or LOOPBACK) for name in hosts},
        port=int(raw.get("port") or PORT),
        groups=list(groups),
        group=group,
        instance_type=instance_type,
        idle_limit=float(raw.get("idle_limit", 120.0)),
        preload=list(raw.get("preload") or []),
        threads=int(raw.get("threads") or os.cpu_count() or 1),
        gpus=granted_gpus(raw, os.environ),
        start_method=method,
        isolate=bool(raw.get("isolate", True)),
        machine_opt_ml=_machine_opt_ml(raw),
        contained=bool(raw.get("contained", False)),
        image_files=str(raw.get("image_files") or ""),
        image_workdir=str(raw.get("image_workdir") or ""),
        interface=str(raw.get("interface") or ""),
        grace=float(raw.get("grace", 120.0)),
        disk_patience=float(raw.get("disk_patience", disk_wait.LIMIT)),
        notice_grace=float(raw.get("notice_grace", 30.0)),
        signals_jobs=bool(raw.get("signals_jobs", False)),
        keep_uncollected=float(raw.get("keep_uncollected") or 0.0),
        preload_memory=int(raw.get("preload_memory") or 0),
        input_hash_limit=int(raw.get("input_hash_limit", 1024)),
        log_limit=int(raw.get("log_limit", 1 << 30)),
        courier=str(raw.get("courier") or ""),
        aws_front=str(raw.get("aws_front") or ""),
        limits=dict(raw.get("limits") or {}),
    )


def granted_gpus(raw: Dict[str, Any], variables: Mapping[str, str]) -> int:
    """Return the number of GPUs of a host: by the variable of its scheduler, or else by its description; pure.

    The variable counts what the step of the agent has, which its jobs see. On a node that a Slurm job has alone that
    may be less than the GPUs of the job: steps get those of its request.
    """
    text = variables.get(str(raw.get("gpus_variable") or ""), "")
    return int(text) if text.isdecimal() else int(raw.get("gpus") or 0)


def _machine_opt_ml(raw: Dict[str, Any]) -> str:
    when = raw.get("machine_opt_ml") or ""
    if when not in ("", opt_ml_links.PER_HOST, opt_ml_links.PER_JOB):
        raise ConfigError(f"machine_opt_ml: {when!r}; it must be host or job.")
    return str(when)


def read(folder: str) -> HostConfig:
    """Read ``host.json`` of a host's folder.

    :raises ConfigError: the file is missing, no JSON, or does not describe a host.
    """
    path = os.path.join(folder, host_layout.DESCRIPTION)
    try:
        with open(path, encoding="utf-8") as file:
            raw = json.load(file)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: {type(raw).__name__} is not a JSON object.")
    return parse(raw)
