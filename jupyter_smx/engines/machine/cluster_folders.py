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
        """Return the folder that contains a folder for each cluster."""
        return self.root / "clusters"

    def names(self) -> list[str]:
        """Return the names of all clusters that have a folder, released ones included.

        :raises OSError: the data folder cannot be read.
        """
        try:
            return [path.name for path in self.clusters.iterdir()]
        except FileNotFoundError:
            return []

    def host(self, cluster: str, host: str) -> HostFolder:
        """Return the folder of a host, which need not exist."""
        return HostFolder(self.clusters / cluster / host)

    def hosts(self, cluster: str) -> list[HostFolder]:
        """List the folders of a cluster's hosts, in the job's order.

        :raises OSError: the cluster's folder cannot be read.
        """
        return [self.host(cluster, name) for name in host_names(self.clusters / cluster)]

    def is_released(self, cluster: str) -> bool:
        """Return True if a cluster was released."""
        return _exists(self.clusters / cluster / RELEASED_MARKER)

    def live_cluster(self, cluster: str) -> Path | None:
        """Return the folder of a cluster that was acquired and not released.

        :raises OSError: a disk is unavailable, so nothing is known of any cluster.
        """
        if not is_valid_name(cluster):
            return None
        self.root.stat()
        folder = self.clusters / cluster
        return folder if _exists(folder) and not _exists(folder / RELEASED_MARKER) else None

    def close(self, cluster: str) -> list[HostFolder]:
        """Prevent any further start in a cluster's folders; return them, none if there is no cluster.

        :raises OSError: the record cannot be written.
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
        """Close a cluster's folders as far as possible; return them, and the error, if any."""
        try:
            return self.close(cluster), None
        except OSError as problem:
            return [], problem

    def release_error(self, cluster: str, problem: OSError) -> UnavailableError:
        """Return the error for a release that cannot be recorded, and so is not over."""
        return UnavailableError(
            f"data_dir: the release of cluster {cluster} cannot be recorded ({problem}).",
            field="data_dir",
            value=self.root,
            cure="The controller will try again.",
            transient=True,
        )

    def unreadable_error(self, cluster: str, problem: Exception) -> UnavailableError:
        """Return the error for an unreadable cluster, which may exist all the same."""
        return UnavailableError(
            f"data_dir: the records of cluster {cluster!r} cannot be read ({problem}).",
            field="data_dir",
            value=self.root,
            transient=True,
        )

    def write_exit_reasons(self, cluster: str, ends: Mapping[str, str]) -> None:
        """Write how hosts ended into a file that no job can reach; ignore errors, because a release must not wait."""
        for host, text in ends.items():
            with suppress(OSError):
                self._exit_reason_path(cluster, host).write_text(text, encoding="utf-8")

    def exit_reason(self, cluster: str, host: str) -> str:
        """Return the recorded reason of a host's end, "" if there is none."""
        try:
            return self._exit_reason_path(cluster, host).read_text(encoding="utf-8").strip()
        except OSError:
            return ""

    def _exit_reason_path(self, cluster: str, host: str) -> Path:
        return self.clusters / cluster / f"obituary-{host}"


def _exists(path: Path) -> bool:
    """Return True if a file exists; unlike :meth:`Path.exists`, an unreadable folder is an error."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    return True
