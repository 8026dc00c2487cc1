"""Checkpoints and outputs at a URL, through the fsspec worker; and the choice between a URL and a folder."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from typing import Any, Dict, List, Optional, Set, Tuple

from jupyter_smx.agent.channels.checkpoint import CheckpointError, CheckpointStore, FolderStore, UploadRow
from jupyter_smx.agent.errors import DONE, FULL, MISSING, REFUSED, UNREACHABLE, FileResult
from jupyter_smx.agent.stores import objects, url_schemes, worker_client

PATIENCE = 60.0
"""Seconds that a store which does not answer is waited for before a job begins, and when it is over."""
_RETRY_DELAY = 2.0
_BATCH_SIZE = 256
"""Files per request; the end of a job waits for the request under way."""
_NO_PARTS = ("", ".", "..")


def usable_names(names: List[str]) -> List[str]:
    """Return the names that can be files of one folder; of a file and a folder of one name, keep the folder."""
    good = [name for name in names if "\0" not in name and not any(part in _NO_PARTS for part in name.split("/"))]
    folders: Set[str] = set()
    for name in good:
        parts = name.split("/")
        folders.update("/".join(parts[:count]) for count in range(1, len(parts)))
    return [name for name in good if name not in folders]


class ObjectStore:
    """The content below a URL: objects, which never conflict with folders, or files of a server.

    ``writer`` is part of the names of temporary files, so that hosts and jobs that share the URL do not collide.
    """

    patience = PATIENCE

    def __init__(self, url: str, writer: str, options: worker_client.WorkerOptions, what: str) -> None:
        self.is_flat = objects.protocol(url) not in url_schemes.SERVERS
        self._url = url.rstrip("/")
        self._writer = writer
        self._what = what
        self._worker = worker_client.FsspecWorker(options, what)
        self._modified_times: Dict[str, Optional[float]] = {}

    def _request(self, do: str, **words: Any) -> Any:
        try:
            return self._worker.request(self._url, do, top=self._url, **words)
        except worker_client.FetchError:
            self._worker.close()  # the next request starts another one
            raise

    def names(self) -> List[str]:
        """Name the objects that can be files; others are left alone.

        :raises RefusalError: they cannot be listed.
        """
        until = time.monotonic() + PATIENCE
        answer = self._request("names", writer=self._writer)
        while "away" in answer and time.monotonic() < until:
            time.sleep(_RETRY_DELAY)
            answer = self._request("names", writer=self._writer)
        if "away" in answer:
            raise CheckpointError(f"{self._what}: {answer['away']}")
        self._modified_times = dict(answer["rows"])
        return usable_names(list(self._modified_times))

    def remove_partial_files(self) -> None:
        """Delete the temporary files that this writer left on a server when it was killed."""
        if objects.protocol(self._url) in url_schemes.RENAMING:
            with contextlib.suppress(worker_client.FetchError, OSError):
                self._request("sweep", writer=self._writer)

    def download(self, rows: List[Tuple[str, str]]) -> List[bool]:
        """Download objects into files, which get the modification times of the objects.

        :raises RefusalError: an object cannot be downloaded.
        :raises OSError: the host's disk is full.
        """
        until = time.monotonic() + PATIENCE
        found = self._download(rows)
        while (away := [row for row in rows if found[row[0]].status == UNREACHABLE]) and time.monotonic() < until:
            time.sleep(_RETRY_DELAY)
            found.update(self._download(away))
        for name, path in rows:
            if found[name].status == FULL:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            if found[name].status not in (DONE, MISSING):
                raise CheckpointError(f"{self._what}: {name} cannot be restored ({found[name].message}).")
        return [found[name].status == DONE for name, _path in rows]

    def _download(self, rows: List[Tuple[str, str]]) -> Dict[str, FileResult]:
        wanted = [[name, path, self._modified_times.get(name)] for name, path in rows]
        return dict(zip([name for name, _path in rows], _parse_results(self._request("bring", rows=wanted))))

    def upload(self, rows: List[UploadRow]) -> List[FileResult]:
        """Upload files; a file that changes while it is read does not appear in the store."""
        return self._request_in_batches("keep", [list(row) for row in rows], writer=self._writer)

    def delete(self, names: List[str]) -> List[FileResult]:
        """Delete objects."""
        return self._request_in_batches("drop", names)

    def _request_in_batches(self, do: str, rows: List[Any], **words: str) -> List[FileResult]:
        found: List[FileResult] = []
        for start in range(0, len(rows), _BATCH_SIZE):
            away = next((one for one in found if one.status == UNREACHABLE), None)
            if away is not None:
                # Each failing try takes long, and callers that wait for a store repeat all rows.
                return found + [away] * (len(rows) - start)
            part = rows[start : start + _BATCH_SIZE]
            try:
                found += _parse_results(self._request(do, rows=part, **words))
            except worker_client.FetchError as error:
                how = REFUSED if isinstance(error, worker_client.WorkerUnavailableError) else UNREACHABLE
                found += [FileResult(how, str(error).rstrip("."))] * len(part)
            except OSError as error:
                found += [FileResult(FULL, str(error.strerror))] * len(part)
        return found


def _parse_results(answer: List[List[str]]) -> List[FileResult]:
    return [FileResult(*one) for one in answer]


def open_store(
    place: str, writer: str, options: worker_client.WorkerOptions, *, what: str, is_ours: bool = True
) -> Optional[CheckpointStore]:
    """Return the store of a place: a URL, or a folder as this process sees it; None for ''."""
    if objects.is_url(place):
        return ObjectStore(place, writer, options, what)
    return FolderStore(place, writer, is_ours=is_ours) if place else None
