"""Folders of hosts on this machine before their containers exist, and their paths inside the containers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_smx.controller_launch import ensure_aws_socket_dir
from jupyter_smx.engines.docker.containers import container_spec, kept_files
from jupyter_smx.engines.docker.containers.image_parts import NO_PARTS, ImageParts
from jupyter_smx.engines.machine import agent_zipapp, request_validation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.engines.base import ClusterRequest
    from jupyter_smx.engines.docker.daemon.users import ContainerUser
    from jupyter_smx.engines.machine.cluster_folders import ClusterFolders
    from jupyter_smx.engines.machine.host_folder import HostFolder

_DAEMON = "daemon"
"""File in a cluster's folder that no job can write: the address of the daemon that has its containers."""


def prepare(
    folders: ClusterFolders,
    request: ClusterRequest,
    settings: container_spec.Settings,
    users: ContainerUser,
    daemon: str,
    *,
    parts: ImageParts = NO_PARTS,
) -> Path:
    """Write all files that agents read, and the record of their daemon; return the packed agent. Blocks.

    :raises RefusedError: it cannot be written, or the cluster was released.
    """
    try:
        if folders.is_released(request.cluster):
            raise request_validation.released_error(request.cluster)
        folders.clusters.mkdir(mode=0o700, parents=True, exist_ok=True)
        agent_zipapp.write_archive(folders.root).chmod(0o644)
        if settings.aws_front:  # the front may start later; a daemon refuses to mount what does not exist
            ensure_aws_socket_dir()
        kept_files.make(folders.root, kept_files.folder_name(request.image, settings.user), users)
        cluster = folders.clusters / request.cluster
        cluster.mkdir(mode=0o700, exist_ok=True)
        if not read_daemon_url(folders, request.cluster):  # also if a kill or a full disk left the file empty
            (cluster / _DAEMON).write_text(daemon)
        for plan in request.hosts:
            _describe(
                folders.host(request.cluster, plan.host),
                container_spec.host_json(request, plan, settings, parts),
                users,
                parts.volumes,
            )
    except OSError as problem:
        raise request_validation.not_writable_error(folders.root, problem) from problem
    return archive_path(folders.root, parts)


def archive_path(root: Path, parts: ImageParts) -> Path:
    """Return the packed agent that hosts of an image get."""
    return Path(parts.archive) if parts.archive else root / agent_zipapp.file_name()


def read_daemon_url(folders: ClusterFolders, cluster: str) -> str:
    """Return the address of the daemon with a cluster's containers, "" if it was not recorded. Blocks."""
    try:
        return (folders.clusters / cluster / _DAEMON).read_text()
    except OSError:
        return ""


def _describe(folder: HostFolder, description: dict[str, object], users: ContainerUser, volumes: Sequence[str]) -> None:
    if folder.make():
        return
    at_volumes = container_spec.tmp_volume_folders(volumes)
    for name in (*container_spec.MOUNTED_FOLDERS, *at_volumes):
        (folder.path / name).mkdir(exist_ok=True)
        # Independent of this process's umask: another user runs in the container.
        (folder.path / name).chmod(container_spec.folder_mode(name))
    users.chown(folder.path, *map(folder.path.joinpath, (*container_spec.JOB_FOLDERS, *at_volumes)))
    # Last, as the sign that all else is done: after a crash before this line, the next launch does all again.
    folder.describe(description, users.chown)


def join_lock_path(folders: ClusterFolders, cluster: str, host: str) -> Path:
    """Return the file that is locked while a host joins the network of its cluster."""
    return folders.clusters / cluster / f"{host}.lock"


def network_lock_path(folders: ClusterFolders, cluster: str) -> Path:
    """Return the file that is locked while the network of a cluster is made."""
    return folders.clusters / cluster / "network.lock"
