"""The agent's client of the fsspec worker: list a URL, and download what the host does not have."""

from __future__ import annotations

import errno
import json
import os
import sys
from typing import IO, TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

from jupyter_smx.agent import errors
from jupyter_smx.agent.errors import RefusalError
from jupyter_smx.agent.stores import digest, filesystems, objects
from jupyter_smx.agent.stores.listing import ChannelListing, Item
from jupyter_smx.agent.stores.worker_environment import worker_environment
from jupyter_smx.agent.system.named_tuple import NamedTuple
from jupyter_smx.agent.system.processes import process

if TYPE_CHECKING:
    import subprocess

    from jupyter_smx.agent.frames import ChannelSpec, ShareSpec
    from jupyter_smx.agent.stores.input_cache import CacheEntry, InputCache

_MODE = 0o644
_WITHOUT = ("memory", "data")
"""Protocols whose objects live in the process that made them."""
_PASSING = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
"""Errors of an overloaded machine."""


class FetchError(RefusalError):
    """Objects cannot be had."""


class WorkerUnavailableError(FetchError):
    """No interpreter has what it takes."""


class WorkerOptions(NamedTuple):
    """Interpreters that may have fsspec, the best first; the program to start; and the job's own variables.

    ``kept`` are descriptors, by whose paths files of the store are named.
    """

    pythons: Tuple[str, ...] = ()
    entry: str = ""
    environment: Optional[Dict[str, str]] = None
    kept: Tuple[int, ...] = ()


class FsspecWorker:
    """One fsspec worker, until it is closed; ``what`` is its purpose in messages, as ``channel train``."""

    def __init__(self, options: WorkerOptions, what: str) -> None:
        self._options = options
        self._what = what
        self._pythons = list(dict.fromkeys(options.pythons))
        self._lacks: List[str] = []
        self._process: Optional["subprocess.Popen[str]"] = None

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def request(self, source: str, do: str, **words: Any) -> Any:
        """Send a request to an fsspec worker; if that lacks a package, to the next interpreter's.

        :raises FetchError: the request failed; the text has the reason, and what to install where.
        :raises OSError: there is no space for the files.
        """
        while True:
            if self._process is None:
                self._start(source)
                continue
            answer = self._exchange(self._process, dict(words, source=source, do=do))
            if "result" in answer:
                return answer["result"]
            if answer.get("errno") in errors.NO_ROOM:
                raise OSError(answer["errno"], os.strerror(answer["errno"]), source)
            if "error" in answer:
                raise FetchError(f"{self._what}: {answer['error']}")
            self._lacks.append(f"{self._pythons.pop(0)} lacks {answer['lacks']}")
            self.close()

    def _start(self, source: str) -> None:
        if not self._pythons:
            raise WorkerUnavailableError(
                f"{self._what}: {source} needs fsspec, but {', and '.join(self._lacks)}. "
                f"Install the missing packages in one of them: pip install {filesystems.required_packages(source)}; "
                "for containers, when the image is built."
            )
        import subprocess  # noqa: PLC0415 - an agent starts in less time without it

        python = self._pythons[0]
        is_ours = python == sys.executable
        given = self._options.environment or {}
        try:
            self._process = subprocess.Popen(
                [python, self._options.entry, "courier"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=worker_environment(os.environ, given, is_ours=is_ours, is_the_jobs=is_ours),
                pass_fds=self._options.kept,
                text=True,
                preexec_fn=process.die_with_parent,  # noqa: PLW1509 - an errand has one thread
            )
        except OSError as error:
            if error.errno in _PASSING:  # the interpreter is as good as before
                raise FetchError(f"{self._what}: no process could be started ({error.strerror}).") from None
            self._lacks.append(f"{self._pythons.pop(0)} cannot be started ({error.strerror})")

    def _exchange(self, running: "subprocess.Popen[str]", request: Dict[str, Any]) -> Dict[str, Any]:
        try:
            _pipe(running.stdin).write(json.dumps(request) + "\n")
            _pipe(running.stdin).flush()
            line = _pipe(running.stdout).readline()
        except OSError:
            line = ""
        if not line.endswith("\n"):  # it ended in the middle of a long one
            return {"error": f"{request['source']} cannot be read: the process that reads it has ended; see agent.log."}
        return dict(json.loads(line))


def _pipe(pipe: Optional[IO[str]]) -> IO[str]:
    if pipe is None:
        raise BrokenPipeError
    return pipe


def find_objects(worker: FsspecWorker, channel: ChannelSpec) -> List[objects.Object]:
    """Find the objects that a channel selects on this host.

    :raises RefusalError: there are none, or they cannot be files of one channel.
    """
    name, source = channel["name"], channel["source"]
    through = objects.split_chain(source)[0]
    if "://" not in through and not _is_manifest(channel):
        raise FetchError(f"channel {name}: {source} uses {through!r}. Remove that part: hosts cache their inputs.")
    if objects.protocol(source) in _WITHOUT:
        raise FetchError(
            f"channel {name}: {source} exists only in the memory of one process. Pass the value with --send."
        )
    found = (
        _read_manifest(worker, source)
        if _is_manifest(channel)
        else objects.select_objects(_list_objects(worker, source), source)
    )
    if not found:
        raise FetchError(
            f"channel {name}: no object begins with {source}. Prefixes are compared character by character."
        )
    objects.check_objects(found, name)
    whole: ShareSpec = {"turn": 0, "count": 1}
    return objects.select_share(found, channel.get("share") or whole)


def _is_manifest(channel: ChannelSpec) -> bool:
    return bool(channel.get("data_type") == "ManifestFile")


def _list_objects(worker: FsspecWorker, source: str) -> List[objects.Object]:
    return [objects.Object(**one) for one in worker.request(source, "list")]


def _read_manifest(worker: FsspecWorker, source: str) -> List[objects.Object]:
    if objects.is_url(source):
        text = worker.request(source, "read", url=source)
    else:
        with open(source, encoding="utf-8") as file:
            text = file.read()
    rows = objects.parse_manifest(text, source)
    described = _describe_objects(worker, source, [url for url, _name in rows])
    return [one._replace(name=name) for (_url, name), one in zip(rows, described)]


def _describe_objects(worker: FsspecWorker, source: str, urls: List[str]) -> List[objects.Object]:
    return [objects.Object(**one) for one in worker.request(source, "look", urls=urls)]


def download_objects(
    worker: FsspecWorker, store: InputCache, channel: ChannelSpec, found: Sequence[objects.Object]
) -> CacheEntry:
    """Download the objects of a channel that the store lacks.

    :raises FetchError: an object cannot be downloaded.
    :raises OSError: the disk is full.
    """
    source = channel["source"]

    def download(pairs: List[Tuple[Item, str]]) -> List[Tuple[str, bool]]:
        urls = [item.file.path for item, _part in pairs]
        contents = worker.request(source, "fetch", pairs=[[item.file.path, part] for item, part in pairs])
        if not any(item.file.settled for item, _part in pairs):
            return [(content, False) for content in contents]
        # What was written between the listing and the fetch would have come under the tag of what it replaced.
        again = _describe_objects(worker, source, urls) if _is_manifest(channel) else _list_objects(worker, source)
        tags = {one.url: one.mark for one in again}
        same = [tags.get(item.file.path) == item.file.identity[0] for item, _part in pairs]
        return list(zip(contents, same))

    return store.add_objects(ChannelListing([_item(one) for one in found], []), download)


def _item(one: objects.Object) -> Item:
    return Item(one.name, _MODE, digest.ChannelFile(one.name, one.url, one.size, 0, (one.mark,), bool(one.mark)))
