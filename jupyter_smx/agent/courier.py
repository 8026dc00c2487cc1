"""The courier: a process with fsspec that lists and brings objects, for an agent that has Python's own library only.

It is started as ``courier`` by an interpreter that has fsspec, reads one JSON object for each wish from its input, and
answers each with one line. ``list`` gives what a source means, ``read`` the text of one object, ``fetch`` brings
objects into files and gives their SHA-256, ``put`` brings files to where the user wants them. What goes wrong is a
sentence; ``lacks`` names a package that is missing.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List, Tuple

from jupyter_smx.agent import digest, objects

_AT_ONCE = 16
_PAUSES = (0.5, 1.0, 2.0)
"""Seconds before another try, beside the tries of the libraries themselves."""
_MARKS = ("ETag", "etag", "md5Hash", "generation", "checksum", "Content-MD5", "LastModified", "Last-Modified", "mtime")
_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "http": "aiohttp", "https": "aiohttp"}
_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "DefaultCredentialsError")
_REFUSED = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "AccessDenied")


class LackError(Exception):
    """A package is not installed here."""


def _mark(info: Dict[str, Any]) -> str:
    """Give what changes with an object's content: its tag, and where it has none its time."""
    return next((f"{name}={info[name]}" for name in _MARKS if info.get(name) not in (None, "")), "")


def _system(url: str) -> Tuple[Any, str]:
    """Find the file system of a URL, and what the URL is called there."""
    try:
        import fsspec.core  # noqa: PLC0415 - only here, and only where it is installed
    except ImportError as error:
        raise LackError("fsspec") from error
    try:
        system, path = fsspec.core.url_to_fs(url, use_listings_cache=False)
    except ImportError as error:
        raise LackError(_PACKAGES.get(objects.protocol(url), str(error))) from error
    return system, str(path)


def _object(system: Any, info: Dict[str, Any]) -> Dict[str, Any]:
    url = system.unstrip_protocol(info["name"])
    return {"url": url, "size": int(info.get("size") or 0), "mark": _mark(info)}


def _of_protocol(found: Dict[str, Any], source: str) -> Dict[str, Any]:
    """Name an object by the protocol that the user wrote: one store may have several."""
    return dict(found, url=f"{source.split('://', 1)[0]}://{found['url'].split('://', 1)[-1]}")


def listing(source: str) -> List[Dict[str, Any]]:
    """List the objects whose URL begins with ``source``, and of the web the one that it is."""
    system, path = _system(source)
    if objects.protocol(source) in ("http", "https") and not source.endswith("/"):
        return [dict(_object(system, system.info(path)), url=source)]
    folder, _, start = path.rpartition("/") if not source.endswith("/") else (path, "", "")
    if not folder:  # the whole of a bucket
        folder, start = path, ""
    # Not every store can be asked for a piece of a name; what is too much is left out later, by its key.
    words = {"prefix": start} if start and objects.protocol(source) in ("s3", "s3a", "gs", "gcs") else {}
    found = system.find(folder, detail=True, **words)
    return [_of_protocol(_object(system, info), source) for info in found.values() if info.get("type") != "directory"]


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
    system, _path = _system(urls[0])
    one: Callable[[str], Dict[str, Any]] = lambda url: dict(  # noqa: E731 - short, and used once
        _object(system, system.info(_system(url)[1])), url=url
    )
    with ThreadPoolExecutor(_AT_ONCE) as workers:
        return list(workers.map(one, urls))


def read(url: str) -> str:
    """Read an object of text."""
    system, path = _system(url)
    return str(system.cat_file(path).decode("utf-8"))


def fetch(pairs: List[List[str]]) -> List[str]:
    """Bring objects into files; gives the SHA-256 of each."""
    if not pairs:
        return []
    system, _path = _system(pairs[0][0])
    bring: Callable[[List[str]], str] = lambda pair: _bring(system, pair[0], pair[1])  # noqa: E731 - short
    with ThreadPoolExecutor(_AT_ONCE) as workers:
        return list(workers.map(bring, pairs))


def _bring(system: Any, url: str, target: str) -> str:
    system.get_file(_system(url)[1], target)
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
        return {"error": explained(error, source)}


def main() -> int:
    """Answer wishes until there are none."""
    out = sys.stdout
    sys.stdout = sys.stderr  # what libraries print is no answer
    for line in sys.stdin:
        out.write(json.dumps(_answer(json.loads(line))) + "\n")
        out.flush()
    return 0
