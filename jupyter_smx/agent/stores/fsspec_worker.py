"""The fsspec worker: a process that lists and downloads objects, because the agent has no third-party packages.

It is started from the agent's archive by an interpreter that has fsspec, reads one JSON object for each request from
its input, and answers each with one line. ``list`` resolves a source, ``read`` returns the text of one object,
``fetch`` downloads objects into files and returns their SHA-256; requests that write are in ``upload``. Errors are
sentences; ``lacks`` names a package that is missing.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List, Sequence, TypeVar

from jupyter_smx.agent import errors
from jupyter_smx.agent.stores import digest, filesystems, objects, retry, upload, url_schemes
from jupyter_smx.agent.system.processes import process

_Result = TypeVar("_Result")
_THREADS = 16
_CONNECTIONS = 4
"""Connections to a server of which each takes one request at a time."""


def _object(url: str, info: Dict[str, Any]) -> Dict[str, Any]:
    tag = objects.change_tag(info, time.time(), inside=bool(objects.split_chain(url)[1]))
    return {"url": url, "size": int(info.get("size") or 0), "mark": tag}


def list_objects(source: str) -> List[Dict[str, Any]]:
    """List the objects whose URL begins with ``source``; for a web page that is no folder, the page itself."""
    if filesystems.is_web(source):
        return describe_objects(_pages(source) if source.endswith("/") else [source])
    system, path = filesystems.find_filesystem(source)
    head, archive = objects.split_chain(source)
    folder, slash, start = path.rpartition("/") if not head.endswith("/") else (path, "", "")
    if not folder and not archive:  # the whole of a bucket, or of a server
        root = "/" if objects.protocol(source) in url_schemes.SERVERS else ""
        folder, start = (slash, start) if slash else (path or root, "")
    # Not every store can filter by a part of a name; other objects are dropped later, by key.
    words = (
        {"prefix": start} if start and objects.protocol(source) in (*url_schemes.AMAZON, *url_schemes.GOOGLE) else {}
    )
    found = system.find(folder, detail=True, **words)
    return [
        _object(objects.object_url(info["name"], path, head) + archive, info)
        for info in found.values()
        if info.get("type") != "directory"
    ]


def _pages(folder: str) -> List[str]:
    """List the pages that a folder of the web links to and that lie in it."""
    system, path = filesystems.find_filesystem(folder)
    return objects.select_pages(system.find(path), folder)


def peek(source: str) -> Dict[str, Any]:
    """Return whether a folder of a store has content, and the kind of credentials; its size does not matter."""
    system, path = filesystems.find_filesystem(source)
    bucket, _, key = path.partition("/")
    prefix = f"{key.rstrip('/')}/" if key else ""
    if objects.protocol(source) in url_schemes.GOOGLE:
        page = system.call("GET", "b/{}/o", bucket, prefix=prefix, maxResults=1, json_out=True)
        return {"found": bool(page.get("items")), "access": system.credentials.method}
    page = system.call_s3("list_objects_v2", Bucket=bucket, Prefix=prefix, MaxKeys=1)
    return {"found": bool(page.get("Contents")), "access": ""}


def describe_objects(urls: List[str]) -> List[Dict[str, Any]]:
    """Describe the objects of these URLs."""
    if not urls:
        return []
    return _map_parallel(lambda system, path, url: _object(url, system.info(path)), [(url, url) for url in urls])


def _map_parallel(
    work: Callable[[Any, str, str], _Result], pairs: Sequence[Sequence[str]], *, cached: bool = False
) -> List[_Result]:
    """Call a function for each of these URLs: its file system, its path there, and its other values.

    If a file system is a single connection, each thread has one of its own.
    """
    shared, _path = filesystems.find_filesystem(pairs[0][0])
    mine = threading.local()

    def one(pair: Sequence[str]) -> _Result:
        system = shared
        if not shared.async_impl:
            if not hasattr(mine, "system"):
                mine.system, _path = filesystems.find_filesystem(pairs[0][0], cached=cached)
            system = mine.system
        path = system._strip_protocol(objects.split_chain(pair[0])[0])  # noqa: SLF001 - what fsspec does with a URL
        return work(system, path, pair[1])

    with ThreadPoolExecutor(_THREADS if shared.async_impl else _CONNECTIONS) as workers:
        return list(workers.map(one, pairs))


def read_object(url: str) -> str:
    """Read an object of text."""
    system, path = filesystems.find_filesystem(url)
    return str(system.cat_file(path).decode("utf-8"))


def fetch_objects(pairs: List[List[str]]) -> List[str]:
    """Download objects into files; return the SHA-256 of each."""
    if not pairs:
        return []
    return _map_parallel(_fetch_one, pairs, cached=True)


def _fetch_one(system: Any, path: str, target: str) -> str:
    system.get_file(path, target)
    return digest.hash_path(target)


def _handle_request(request: Dict[str, Any]) -> Dict[str, Any]:
    words = dict(request)
    source = str(words.pop("source"))
    does: Dict[str, Callable[..., Any]] = {
        "list": list_objects,
        "look": describe_objects,
        "read": read_object,
        "peek": peek,
        "fetch": fetch_objects,
        "put": upload.put_files,
        "names": upload.list_files,
        "sweep": upload.remove_partial_files,
        "bring": upload.download,
        "keep": upload.upload,
        "drop": upload.delete,
    }
    try:
        return {"result": does[words.pop("do")](**(words or {"source": source}))}
    except filesystems.PackageMissingError as lack:
        return {"lacks": str(lack)}
    except Exception as error:  # noqa: BLE001 - border: libraries of stores raise whatever they like
        return {"error": retry.format_error(error, source), "errno": errors.find_errno(error)}


def main() -> int:
    """Answer requests until the input ends or no client reads the answers."""
    process.die_with_parent()
    out = sys.stdout
    sys.stdout = sys.stderr  # what libraries print is no answer
    for line in sys.stdin:
        out.write(json.dumps(_handle_request(json.loads(line))) + "\n")
        out.flush()
    return 0
