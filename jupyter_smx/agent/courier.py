"""The courier: a process with fsspec that lists and brings objects, for an agent that has Python's own library only.

It is started as ``courier`` by an interpreter that has fsspec, reads one JSON object for each wish from its input, and
answers each with one line. ``list`` gives what a source means, ``read`` the text of one object, ``fetch`` brings
objects into files and gives their SHA-256, ``put`` brings files to where the user wants them. What goes wrong is a
sentence; ``lacks`` names a package that is missing.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, TypeVar

from jupyter_smx.agent import digest, objects

_Made = TypeVar("_Made")
_AT_ONCE = 16
_PAUSES = (0.5, 1.0, 2.0)
"""Seconds before another try, beside the tries of the libraries themselves."""
_MARKS = (
    *("ETag", "etag", "md5Hash", "generation", "checksum", "Content-MD5", "content_hash", "sha"),
    *("LastModified", "Last-Modified", "last_modified", "modificationTime", "modified", "modify", "mtime"),
)
_MARKS_INSIDE = ("CRC",)
"""In an archive times say little: who packs the same twice sets them to the same."""
_WITH_PREFIX = ("s3", "s3a", "gs", "gcs")
_AT_ONCE_EACH = 4
"""Connections to a server of which each takes one wish at a time."""
_CONNECTING, _SILENCE = 30.0, 300.0
"""Seconds that one waits for the web; how long a file takes as a whole says nothing."""
_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "http": "aiohttp", "https": "aiohttp"}
_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "DefaultCredentialsError")
_REFUSED = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "AccessDenied")


class LackError(Exception):
    """A package is not installed here."""


def _mark(info: Dict[str, Any], names: Sequence[str]) -> str:
    """Give what changes with an object's content: its tag, and where it has none its time."""
    return next((f"{name}={info[name]}" for name in names if info.get(name) not in (None, "")), "")


def _is_web(url: str) -> bool:
    return objects.protocol(url) in ("http", "https")


def _options(url: str) -> Dict[str, Any]:
    """Give what the file system of a URL is to know, and inside of an archive also that of the archive."""
    _inside, archive = objects.chain(url)
    if archive:
        return {archive[2:].split("://", 1)[0]: _options(archive[2:])}
    if not _is_web(url):
        return {}
    import aiohttp  # noqa: PLC0415 - only where it is installed

    return {
        "client_kwargs": {"timeout": aiohttp.ClientTimeout(total=None, sock_connect=_CONNECTING, sock_read=_SILENCE)}
    }


def _system(url: str, *, cached: bool = False) -> Tuple[Any, str]:
    """Find the file system of a URL, and what the URL is called there; it may keep its listings where ``cached``."""
    try:
        import fsspec.core  # noqa: PLC0415 - only here, and only where it is installed
    except ImportError as error:
        raise LackError("fsspec") from error
    try:
        words = {**_options(url), "use_listings_cache": cached}
        if "://" not in url or objects.chain(url)[1]:
            system, path = fsspec.core.url_to_fs(url, **words)
        else:  # that function takes every :: for a chain, and a key may have one
            kind = fsspec.get_filesystem_class(url.split("://", 1)[0])
            told = kind._get_kwargs_from_urls(url)  # noqa: SLF001 - as fsspec does
            system, path = kind(**{**told, **words}), kind._strip_protocol(url)  # noqa: SLF001 - as fsspec does
    except ImportError as error:
        raise LackError(_PACKAGES.get(objects.protocol(url), str(error))) from error
    return system, str(path)


def _object(url: str, info: Dict[str, Any]) -> Dict[str, Any]:
    names = _MARKS_INSIDE if objects.chain(url)[1] else _MARKS
    return {"url": url, "size": int(info.get("size") or 0), "mark": _mark(info, names)}


def listing(source: str) -> List[Dict[str, Any]]:
    """List the objects whose URL begins with ``source``, and of a page of the web the one that it is."""
    if _is_web(source):
        return look(_pages(source) if source.endswith("/") else [source])
    system, path = _system(source)
    head, archive = objects.chain(source)
    folder, slash, start = path.rpartition("/") if not head.endswith("/") else (path, "", "")
    if not folder and not archive:  # the whole of a bucket, or of a server
        folder, start = (slash, start) if slash else (path, "")
    # Not every store can be asked for a piece of a name; what is too much is left out later, by its key.
    words = {"prefix": start} if start and objects.protocol(source) in _WITH_PREFIX else {}
    found = system.find(folder, detail=True, **words)
    return [
        _object(objects.url_of(info["name"], path, head) + archive, info)
        for info in found.values()
        if info.get("type") != "directory"
    ]


def _pages(folder: str) -> List[str]:
    """List the pages that a folder of the web links to and that lie in it."""
    system, path = _system(folder)
    return objects.pages(system.find(path), folder)


def peek(source: str) -> bool:
    """Say whether a folder of an object store holds anything, which takes as long however much it holds."""
    system, path = _system(source)
    bucket, _, key = path.partition("/")
    prefix = f"{key.rstrip('/')}/" if key else ""
    return bool(system.call_s3("list_objects_v2", Bucket=bucket, Prefix=prefix, MaxKeys=1).get("Contents"))


def look(urls: List[str]) -> List[Dict[str, Any]]:
    """Describe the objects of these URLs."""
    if not urls:
        return []
    return _side_by_side(lambda system, path, url: _object(url, system.info(path)), [(url, url) for url in urls])


def _side_by_side(
    work: Callable[[Any, str, str], _Made], pairs: Sequence[Sequence[str]], *, cached: bool = False
) -> List[_Made]:
    """Do something with each of these URLs: its file system, its path there, and what stands beside it.

    Where a system is no more than one connection, each thread has one of its own.
    """
    shared, _path = _system(pairs[0][0])
    mine = threading.local()

    def one(pair: Sequence[str]) -> _Made:
        system = shared
        if not shared.async_impl:
            if not hasattr(mine, "system"):
                mine.system, _path = _system(pairs[0][0], cached=cached)
            system = mine.system
        path = system._strip_protocol(objects.chain(pair[0])[0])  # noqa: SLF001 - what fsspec does with a URL
        return work(system, path, pair[1])

    with ThreadPoolExecutor(_AT_ONCE if shared.async_impl else _AT_ONCE_EACH) as workers:
        return list(workers.map(one, pairs))


def read(url: str) -> str:
    """Read an object of text."""
    system, path = _system(url)
    return str(system.cat_file(path).decode("utf-8"))


def fetch(pairs: List[List[str]]) -> List[str]:
    """Bring objects into files; gives the SHA-256 of each."""
    if not pairs:
        return []
    return _side_by_side(_bring, pairs, cached=True)


def _bring(system: Any, path: str, target: str) -> str:
    system.get_file(path, target)
    return digest.of_path(target)


def put(pairs: List[List[str]]) -> List[str]:
    """Put files at URLs; what may pass is tried again. Gives what was put."""
    for source, url in pairs:
        _surely(lambda source=source, url=url: _put(source, url))  # type: ignore[misc]  # mypy knows no such lambda
    return [url for _source, url in pairs]


def _put(source: str, url: str) -> None:
    system, path = _system(url)
    if system.protocol == "file" or "file" in system.protocol:
        system.auto_mkdir = True
    system.put_file(source, path)


def _surely(work: Callable[[], None]) -> None:
    for pause in _PAUSES:
        if _goes_well(work):
            return
        time.sleep(pause)
    work()


def _goes_well(work: Callable[[], None]) -> bool:
    try:
        work()
    except Exception as error:
        if not _may_pass(error):
            raise
        return False
    return True


def _may_pass(error: Exception) -> bool:
    """Say whether the same may go well a moment later: who is refused stays refused."""
    lasting = (LackError, FileNotFoundError, PermissionError, NotImplementedError, ValueError, TypeError)
    return not isinstance(error, lasting) and type(error).__name__ not in _CREDENTIALS


def explained(error: BaseException, source: str) -> str:
    """Say what went wrong with a source, and what helps."""
    said = f"{type(error).__name__}: {error}"
    if type(error).__name__ in _CREDENTIALS:
        return (
            f"{source}: there are no credentials for it here. Give them to the job by --env, or put them where the "
            "controller's user has them, as ~/.aws/credentials."
        )
    if isinstance(error, PermissionError) or any(word in said for word in _REFUSED):
        return f"{source}: access is denied ({error}). Use credentials that may list and read it."
    if isinstance(error, FileNotFoundError):
        return f"{source}: there is no such bucket, object or server ({error}). Mind capitals, and a slash at its end."
    if isinstance(error, NotImplementedError):
        return f"{source}: fsspec can only read from {objects.protocol(source)}://, and nothing can be written there."
    if isinstance(error, ValueError) and "rotocol" in said:
        return f"{source}: fsspec knows no {objects.protocol(source)!r} ({error})."
    return f"{source} cannot be reached ({said})."


def _number(error: Optional[BaseException]) -> int:
    """Give the system's number of an error, also where a library put its words over it; 0 where there is none."""
    while error is not None:
        if isinstance(error, OSError) and error.errno:
            return error.errno
        error = error.__cause__ or error.__context__
    return 0


def _answer(wish: Dict[str, Any]) -> Dict[str, Any]:
    words = dict(wish)
    source = str(words.pop("source"))
    does: Dict[str, Callable[..., Any]] = {
        "list": listing,
        "look": look,
        "read": read,
        "peek": peek,
        "fetch": fetch,
        "put": put,
    }
    try:
        return {"result": does[words.pop("do")](**(words or {"source": source}))}
    except LackError as lack:
        return {"lacks": str(lack)}
    except Exception as error:  # noqa: BLE001 - border: libraries of stores raise whatever they like
        return {"error": explained(error, source), "errno": _number(error)}


def main() -> int:
    """Answer wishes until there are none."""
    out = sys.stdout
    sys.stdout = sys.stderr  # what libraries print is no answer
    for line in sys.stdin:
        out.write(json.dumps(_answer(json.loads(line))) + "\n")
        out.flush()
    return 0
