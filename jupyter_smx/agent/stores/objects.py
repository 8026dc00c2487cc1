"""Select the objects of a store for a channel as SageMaker does, and derive their file names.

A prefix is a piece of text and no folder: ``s3://b/tr`` means every key that begins with ``tr``. An object's content
is identified by its tag or, if its store has none, by its time. Pure functions.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import time
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Optional, Tuple

from jupyter_smx.agent.errors import RefusalError
from jupyter_smx.agent.stores import url_schemes
from jupyter_smx.agent.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import ShareSpec

_PARTS_OF_NAME = ("", ".", "..")
_TAGS = ("ETag", "etag", "md5Hash", "generation", "checksum", "Content-MD5", "content_hash", "sha")
_TIMES = (
    "LastModified",
    "Last-Modified",
    "last_modified",
    "updated",
    "modificationTime",
    "modified",
    "modify",
    "mtime",
)
_INSIDE = ("CRC",)
"""Keys of a checksum. In an archive times say little: two archives of the same files may have the same times."""
_MILLISECONDS = 1e11


class ObjectsError(RefusalError):
    """A source that means no objects, or objects that cannot be files of one channel."""


class Object(NamedTuple):
    """One object: URL, size in bytes, a mark that changes with its content ('' if unknown), name in the channel."""

    url: str
    size: int
    mark: str
    name: str = ""


def is_url(source: str) -> bool:
    """Return True if a source is no path of this machine."""
    return url_schemes.URL_OR_CHAIN.match(source) is not None


def split_chain(source: str) -> Tuple[str, str]:
    """Split what is inside of an archive from the archive, as ``zip://train/`` and ``::s3://bucket/all.zip``."""
    inside, mark, archive = source.partition("::")
    return (inside, mark + archive) if "://" in archive else (source, "")


def protocol(source: str) -> str:
    """Return the part before ``://``."""
    return re.split(r"://|::", source, maxsplit=1)[0].lower()


def object_url(name: str, path: str, source: str) -> str:
    """Return the URL of the object ``name``, in the user's spelling of ``source``; ``path`` is the store's spelling.

    Stores leave out the protocol, and some the server: the names differ before the common end of both spellings.
    """
    kind, mark, place = source.partition("://")
    written, own = kind + mark + place.rstrip("/"), path.rstrip("/")
    pairs = zip(reversed(written), reversed(own))
    same = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))
    return written[: len(written) - same] + name[len(own) - same :]


def select_pages(links: Iterable[str], folder: str) -> List[str]:
    """Return the pages below ``folder`` among the links of a listing, without links that have a query."""
    import html  # noqa: PLC0415 - for the web alone: each start of a host would wait for it, and it is large
    from urllib.parse import urljoin, urlsplit  # noqa: PLC0415 - as above

    plain = [html.unescape(link) for link in links]
    found = {urljoin(folder, urlsplit(link).path) for link in plain if "?" not in link and "#" not in link}
    return sorted(url for url in found if url.startswith(folder) and not url.endswith("/"))


def object_name(key: str, prefix: str) -> str:
    """Return the name of an object in a channel: the part after the prefix, if that ends a folder's name.

    If the prefix cuts a name, the whole name is kept; if it is the object itself, its last part.
    """
    rest = key[len(prefix) :]
    if not prefix or prefix.endswith("/"):
        return rest
    if rest.startswith("/"):
        return rest[1:]
    return key[prefix.rfind("/") + 1 :]


def select_objects(found: List[Object], source: str) -> List[Object]:
    """Return the objects of a listing of ``source`` that it selects, with names, in the order of their keys.

    Keys that end with a slash stand for folders, and have no content.
    """
    from urllib.parse import unquote, urlsplit  # noqa: PLC0415 - as above

    start, archive = split_chain(source)
    if protocol(source) in url_schemes.WEB and not source.endswith("/"):
        return [one._replace(name=unquote(urlsplit(one.url).path).rsplit("/", 1)[-1] or "index") for one in found]
    keys = [(one.url[: len(one.url) - len(archive)], one) for one in found]
    meant = sorted((key, one) for key, one in keys if key.startswith(start) and not key.endswith("/"))
    plain = unquote if protocol(source) in url_schemes.WEB else str
    return [one._replace(name=plain(object_name(key, start))) for key, one in meant]


def check_objects(objects: List[Object], channel: str) -> None:
    """Check that objects can be files of one channel.

    :raises ObjectsError: a name that leads elsewhere, two of one name, or a name that is a folder's as well.
    """
    files: Dict[str, str] = {}
    for one in objects:
        parts = one.name.split("/")
        if any(part in _PARTS_OF_NAME for part in parts):
            raise ObjectsError(f"channel {channel}: {one.url} cannot be a file: a part of its key is empty, . or ...")
        if one.name in files:
            raise ObjectsError(f"channel {channel}: {files[one.name]} and {one.url} would both be {one.name}.")
        files[one.name] = one.url
    for name, url in files.items():
        parts = name.split("/")
        above = next((files["/".join(parts[:n])] for n in range(1, len(parts)) if "/".join(parts[:n]) in files), "")
        if above:
            raise ObjectsError(f"channel {channel}: {above} would be a file, but {url} needs a folder of that name.")


def select_share(objects: List[Object], part: ShareSpec) -> List[Object]:
    """Return a host's part of the objects: every ``count``-th, from ``turn`` on, in the order of keys."""
    if part["count"] == 1:
        return objects
    return sorted(objects, key=lambda one: one.url)[part["turn"] :: part["count"]]


def parse_manifest(text: str, source: str) -> List[Tuple[str, str]]:
    """Read a manifest; return its objects, and their names in the channel, which are their keys.

    :raises ObjectsError: it is no manifest; the text has the reason.
    """
    try:
        rows: Any = json.loads(text)
    except ValueError as error:
        raise ObjectsError(f"{source} is not a manifest: it is not valid JSON ({error}).") from error
    if not isinstance(rows, list) or not rows or not isinstance(rows[0], dict) or set(rows[0]) != {"prefix"}:
        raise ObjectsError(
            f'{source} is not a manifest. A manifest is a list that begins with {{"prefix": "s3://BUCKET/…"}}.'
        )
    prefix, names = rows[0]["prefix"], rows[1:]
    wrong = next((name for name in names if not isinstance(name, str)), None)
    if not isinstance(prefix, str) or wrong is not None:
        raise ObjectsError(f"{source} is not a manifest: {wrong if wrong is not None else prefix!r} is not a string.")
    if not names:
        raise ObjectsError(f"{source} is not a manifest: it has a prefix but names no object.")
    inside = prefix.split("://", 1)[-1].split("/", 1)
    key = inside[1] if len(inside) > 1 else ""
    return [(prefix + name, (key + name).lstrip("/")) for name in names]


def change_tag(info: Dict[str, Any], now: float, *, inside: bool) -> str:
    """Return a tag that changes with an object's content, '' if there is none, or if it was written just now.

    A time in an unknown form may be exact to minutes only, as of some FTP servers, so it is no tag either.
    ``inside`` says that the object is in an archive.
    """
    name = next((name for name in (_INSIDE if inside else (*_TAGS, *_TIMES)) if info.get(name) not in (None, "")), "")
    if not name or (name in _TIMES and _is_new(info[name], now)):
        return ""
    return f"{name}={info[name]}"


def modified_time(info: Dict[str, Any]) -> Optional[float]:
    """Return when an object was written, in seconds; None if its store gives no time, or one in an unknown form."""
    told = next((info[name] for name in _TIMES if info.get(name) not in (None, "")), None)
    return None if told is None else _seconds(told)


def _is_new(told: Any, now: float) -> bool:
    from jupyter_smx.agent.stores import digest  # noqa: PLC0415 - for the worker alone

    seconds = _seconds(told)
    return seconds is None or seconds > now - digest.RACY


def _seconds(told: Any) -> Optional[float]:
    """Read a time as stores of different kinds write it; None for one in an unknown form."""
    import calendar  # noqa: PLC0415 - as above
    import datetime as dt  # noqa: PLC0415 - as above
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - as above

    if isinstance(told, dt.datetime):
        return (told if told.tzinfo else told.replace(tzinfo=dt.timezone.utc)).timestamp()
    if isinstance(told, (int, float)):
        return told / 1000 if told > _MILLISECONDS else float(told)
    text = str(told)
    with contextlib.suppress(ValueError):  # FTP
        return float(calendar.timegm(time.strptime(text[:14], "%Y%m%d%H%M%S")))
    with contextlib.suppress(ValueError):
        return _seconds(dt.datetime.fromisoformat(text.replace("Z", "+00:00")))
    with contextlib.suppress(ValueError, TypeError):  # the web; before Python 3.10 it raises the other one
        return parsedate_to_datetime(text).timestamp()
    return None
