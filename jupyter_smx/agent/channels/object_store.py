"""A URL as a place for checkpoints and outputs, by a courier; and the choice between that and a folder."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from typing import Any, Dict, List, Optional, Set, Tuple

from jupyter_smx.agent import file_result
from jupyter_smx.agent.channels.checkpoint import CheckpointError, FolderStore, Row, Store
from jupyter_smx.agent.file_result import Outcome
from jupyter_smx.agent.stores import objects, worker_client

PATIENCE = 60.0
"""Seconds that a store which does not answer is waited for before a job begins, and when it is over."""
_AGAIN = 2.0
_AT_ONCE = 256
"""Files of one wish; a job's end waits for the wish that is under way."""
_NO_PARTS = ("", ".", "..")


def usable(names: List[str]) -> List[str]:
    """Give the names that can be files of one folder; of a file and a folder of one name the folder stays."""
    good = [name for name in names if "\0" not in name and not any(part in _NO_PARTS for part in name.split("/"))]
    folders: Set[str] = set()
    for name in good:
        parts = name.split("/")
        folders.update("/".join(parts[:count]) for count in range(1, len(parts)))
    return [name for name in good if name not in folders]


class ObjectStore:
    """What lies below a URL: objects, of which no folder is in the way, or files of a server.

    ``writer`` names what is written aside on a server, so that hosts and jobs which share the place do not meet there.
    """

    patience = PATIENCE

    def __init__(self, url: str, writer: str, means: worker_client.Means, what: str) -> None:
        self.is_flat = objects.protocol(url) not in objects.SERVERS
        self._url = url.rstrip("/")
        self._writer = writer
        self._what = what
        self._courier = worker_client.Courier(means, what)
        self._changed: Dict[str, Optional[float]] = {}

    def _ask(self, do: str, **words: Any) -> Any:
        try:
            return self._courier.ask(self._url, do, top=self._url, **words)
        except worker_client.FetchError:
            self._courier.close()  # the next wish gets another one
            raise

    def names(self) -> List[str]:
        """Name the objects that can be files; others are left alone.

        :raises RefusalError: they cannot be listed.
        """
        until = time.monotonic() + PATIENCE
        answer = self._ask("names", writer=self._writer)
        while "away" in answer and time.monotonic() < until:
            time.sleep(_AGAIN)
            answer = self._ask("names", writer=self._writer)
        if "away" in answer:
            raise CheckpointError(f"{self._what}: {answer['away']}")
        self._changed = dict(answer["rows"])
        return usable(list(self._changed))

    def sweep(self) -> None:
        """Delete what this writer was writing aside on a server when it was killed; it only takes room."""
        if objects.protocol(self._url) in objects.RENAMING:
            with contextlib.suppress(worker_client.FetchError, OSError):
                self._ask("sweep", writer=self._writer)

    def bring(self, rows: List[Tuple[str, str]]) -> List[bool]:
        """Bring objects into files, which get the times of the objects.

        :raises RefusalError: one of them cannot be had.
        :raises OSError: the host's disk is full.
        """
        until = time.monotonic() + PATIENCE
        found = self._bring(rows)
        while (away := [row for row in rows if found[row[0]].how == file_result.AWAY]) and time.monotonic() < until:
            time.sleep(_AGAIN)
            found.update(self._bring(away))
        for name, path in rows:
            if found[name].how == file_result.FULL:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            if found[name].how not in (file_result.DONE, file_result.GONE):
                raise CheckpointError(f"{self._what}: {name} cannot be restored ({found[name].said}).")
        return [found[name].how == file_result.DONE for name, _path in rows]

    def _bring(self, rows: List[Tuple[str, str]]) -> Dict[str, Outcome]:
        wish = [[name, path, self._changed.get(name)] for name, path in rows]
        return dict(zip([name for name, _path in rows], _outcomes(self._ask("bring", rows=wish))))  # noqa: B905 - 3.10

    def keep(self, rows: List[Row]) -> List[Outcome]:
        """Put files there; of one that changes while it is read nothing is seen there."""
        return self._each("keep", [list(row) for row in rows], writer=self._writer)

    def forget(self, names: List[str]) -> List[Outcome]:
        """Delete objects."""
        return self._each("drop", names)

    def _each(self, do: str, rows: List[Any], **words: str) -> List[Outcome]:
        found: List[Outcome] = []
        for start in range(0, len(rows), _AT_ONCE):
            away = next((one for one in found if one.how == file_result.AWAY), None)
            if away is not None:
                # Each try takes its time, and who waits for a store comes back to all of them.
                return found + [away] * (len(rows) - start)
            part = rows[start : start + _AT_ONCE]
            try:
                found += _outcomes(self._ask(do, rows=part, **words))
            except worker_client.FetchError as error:
                how = file_result.REFUSED if isinstance(error, worker_client.LackingError) else file_result.AWAY
                found += [Outcome(how, str(error).rstrip("."))] * len(part)
            except OSError as error:
                found += [Outcome(file_result.FULL, str(error.strerror))] * len(part)
        return found


def _outcomes(answer: List[List[str]]) -> List[Outcome]:
    return [Outcome(*one) for one in answer]


def store_of(
    place: str, writer: str, means: worker_client.Means, *, what: str, is_ours: bool = True
) -> Optional[Store]:
    """Give the store of a place, which is a URL, a folder as this process finds it, or '' for none."""
    if objects.is_url(place):
        return ObjectStore(place, writer, means, what)
    return FolderStore(place, writer, is_ours=is_ours) if place else None
