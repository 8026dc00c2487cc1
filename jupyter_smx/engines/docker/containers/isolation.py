"""Describe the isolation features that a daemon does not support, in sentences for users. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from jupyter_smx.engines.docker.daemon.daemon_info import DaemonInfo

LABEL = "jupyter-smx.given-up"
"""Label of a container with these sentences as JSON, so that every controller reads the same limitations."""
SHARED_NETWORK = (
    "It shares the daemon's default network with other containers, because no separate network was available."
)
_ROOT = "0"
_NO_NEW_PRIVILEGES = "no-new-privileges"
_NO_SELINUX_LABEL = "label=disable"
"""Leaves SELinux out of one container. Labels for its folders would be given to files of users, and stay with them."""


def security_options(kind: DaemonInfo) -> list[str]:
    """Return the security options of a container that sees folders of this machine."""
    return [_NO_NEW_PRIVILEGES, _NO_SELINUX_LABEL] if kind.is_labelled else [_NO_NEW_PRIVILEGES]


def missing_isolation(kind: DaemonInfo, user: str, *, is_open: bool = False, all_gpus: bool = False) -> tuple[str, ...]:
    """Return sentences on the isolation that hosts lack.

    ``user`` is the user inside, as ``uid:gid``. ``all_gpus``: a host sees all GPUs. ``is_open``: its network, which
    must be closed, reaches this machine. Sharing a network is known later (:data:`SHARED_NETWORK`).
    """
    found = {
        f"It can reach servers of this machine that listen on all addresses, and resolve names: {kind.name} "
        f"{'does not block this' if kind.podman else 'blocks this from version 28 on'}.": is_open,
        "It sees all GPUs of this machine, also those of other hosts.": all_gpus,
        "Its jobs run as root in their container, by DockerEngine.user or --user image.": is_root(user)
        and not kind.is_rootless,
        "SELinux separation is off for its container, because it would block the shared folders.": kind.is_labelled,
        f"{_capitalize(kind.missing_limits())} of its jobs cannot be limited: {kind.reason}.": bool(kind.unlimited),
    }
    return tuple(sentence for sentence, is_so in found.items() if is_so)


def persistent_volumes(volumes: Collection[str], closed: Collection[str] = ()) -> tuple[str, ...]:
    """Report that the volumes of an image are not emptied between jobs, or that jobs cannot write to them."""
    writable = ", ".join(path for path in volumes if path not in closed)
    others = ", ".join(path for path in volumes if path in closed)
    found = {
        f"Files that a job writes to {writable} remain for later jobs, because the image declares a volume.": writable,
        f"Its jobs cannot write to {others}: the image declares a volume there, which belongs to another user.": others,
    }
    return tuple(sentence for sentence, names in found.items() if names)


def is_root(user: str) -> bool:
    """Return True if ``uid:gid`` is root's."""
    return user.partition(":")[0] == _ROOT


def label(sentences: Iterable[str]) -> dict[str, str]:
    """Return the label that stores sentences with a container, even none: its image may have a label of this name."""
    return {LABEL: json.dumps(list(sentences))}


def read(labels: Mapping[str, str] | None) -> tuple[str, ...]:
    """Read the sentences from a container's labels."""
    try:
        return tuple(str(row) for row in json.loads((labels or {}).get(LABEL, "[]")))
    except (ValueError, TypeError):
        return ()  # a label of this name by another program


def _capitalize(words: str) -> str:
    return words[:1].upper() + words[1:]
