"""Folders of clusters on this machine, and which of these clusters were released."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.engines.machine.host_folder import RELEASED_MARKER, HostFolder, host_names
from jupyter_smx.engines.machine.request_validation import is_valid_name
from jupyter_smx.model.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping


class ClusterFolders(Struct, frozen=True):
    """``<data_dir>/clusters/<cluster>/<host>`` of one data folder. Everything here blocks."""

    root: Path

    @property
    def clusters(self) -> Path:
        """Give the folder that has one for each cluster."""
        return self.root / "clusters"

    def host(self, cluster: str, host: str) -> HostFolder:
        """Give the folder of a host, which need not be there."""
        return HostFolder(self.clusters / cluster / host)

    def hosts(self, cluster: str) -> list[HostFolder]:
        """List the folders of a cluster's hosts, in the job's order.

        :raises OSError: the cluster's folder cannot be read.
        """
        return [self.host(cluster, name) for name in host_names(self.clusters / cluster)]

    def is_released(self, cluster: str) -> bool:
        """Say whether a cluster was given back."""
        return _exists(self.clusters / cluster / RELEASED_MARKER)

    def live_cluster(self, cluster: str) -> Path | None:
        """Give the folder of a cluster that was acquired and not released.

        :raises OSError: a disk is away, which says nothing about any cluster.
        """
        if not is_valid_name(cluster):
            return None
        self.root.stat()
        folder = self.clusters / cluster
        return folder if _exists(folder) and not _exists(folder / RELEASED_MARKER) else None

    def close(self, cluster: str) -> list[HostFolder]:
        """Make sure that nothing can start in a cluster's folders any more; lists them, none where there is no cluster.

        :raises OSError: that cannot be written down.
        """
        self.root.stat()
        if not _exists(self.clusters / cluster):
            return []
        (self.clusters / cluster / RELEASED_MARKER).touch(mode=0o600)
        folders = self.hosts(cluster)
        for folder in folders:
            folder.claim()
        return folders

    def try_to_close(self, cluster: str) -> tuple[list[HostFolder], OSError | None]:
        """Close a cluster's folders as far as that is possible; lists them, and gives what went wrong."""
        try:
            return self.close(cluster), None
        except OSError as problem:
            return [], problem

    def release_error(self, cluster: str, problem: OSError) -> UnavailableError:
        """Say that a release cannot be written down, so that it is not over."""
        return UnavailableError(
            f"data_dir: the release of cluster {cluster} cannot be recorded ({problem}).",
            field="data_dir",
            value=self.root,
            cure="The controller will try again.",
            transient=True,
        )

    def unreadable_error(self, cluster: str, problem: Exception) -> UnavailableError:
        """Say that nothing is known of a cluster, which does not mean that there is none."""
        return UnavailableError(
            f"data_dir: the records of cluster {cluster!r} cannot be read ({problem}).",
            field="data_dir",
            value=self.root,
            transient=True,
        )

    def write_exit_reasons(self, cluster: str, ends: Mapping[str, str]) -> None:
        """Keep how hosts ended where no job could reach it; words for a sentence never hold up a release."""
        for host, text in ends.items():
            with suppress(OSError):
                self._exit_reason_path(cluster, host).write_text(text, encoding="utf-8")

    def exit_reason(self, cluster: str, host: str) -> str:
        """Give what was written down of the end of a host, "" where that is nothing."""
        try:
            return self._exit_reason_path(cluster, host).read_text(encoding="utf-8").strip()
        except OSError:
            return ""

    def _exit_reason_path(self, cluster: str, host: str) -> Path:
        return self.clusters / cluster / f"obituary-{host}"


def _exists(path: Path) -> bool:
    """Say whether a file is there; unlike :meth:`Path.exists` an unreadable folder is an error and not a no."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    return True
