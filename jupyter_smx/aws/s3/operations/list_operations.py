"""List the objects of a bucket in pages, in both versions of the operation."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jupyter_smx.aws.s3.forms.http_dates import format_iso
from jupyter_smx.aws.s3.operations.call import OWNER, S3Answer, S3Call, xml_answer
from jupyter_smx.aws.s3.storage import metadata_files
from jupyter_smx.aws.s3.storage.key_walk import KeyWalk, WalkEntry
from jupyter_smx.aws.s3.storage.object_files import EMPTY_ETAG, format_etag
from jupyter_smx.aws.service import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MAX_KEYS = 1000


@dataclass
class KeyPage:
    """One page of a listing."""

    keys: list[WalkEntry] = field(default_factory=list)
    prefixes: list[str] = field(default_factory=list)
    next_after: str = ""
    """The last name of the page where another one follows, else empty."""

    @property
    def count(self) -> int:
        """Return the number of keys and prefixes."""
        return len(self.keys) + len(self.prefixes)


def collect_page(entries: Iterable[WalkEntry], limit: int) -> KeyPage:
    """Return the first ``limit`` entries, and whether there are more."""
    page, last = KeyPage(), ""
    for entry in entries if limit else ():
        if page.count == limit:
            page.next_after = last
            break
        last = entry.name
        if entry.is_prefix:
            page.prefixes.append(entry.name)
        else:
            page.keys.append(entry)
    return page


def group_entries(entries: Iterable[WalkEntry], prefix: str, delimiter: str, after: str) -> Iterator[WalkEntry]:
    """Replace the keys that have a delimiter after the prefix by one common prefix each."""
    last = after
    for entry in entries:
        end = entry.name.find(delimiter, len(prefix))
        if end < 0 or entry.is_prefix:
            yield entry
            continue
        group = entry.name[: end + len(delimiter)]
        if group != last:
            last = group
            yield WalkEntry(group, None, is_prefix=True)


def list_page(call: S3Call, after: str) -> KeyPage:
    """Return the page of a request, after a name."""
    folder = call.storage.existing_bucket(call.bucket)
    prefix, delimiter = call.query.get("prefix", ""), call.query.get("delimiter", "")
    is_marker = partial(metadata_files.has_marker, call.storage, call.bucket)
    entries: Iterable[WalkEntry] = KeyWalk(folder, is_marker, prefix, after, is_folded=delimiter == "/")
    if delimiter and delimiter != "/":
        entries = group_entries(entries, prefix, delimiter, after)
    return collect_page(entries, call.number("max-keys", MAX_KEYS, MAX_KEYS))


def list_objects(call: S3Call) -> S3Answer:
    """Answer a listing of version 1."""
    encode = _encoder(call)
    marker = call.query.get("marker", "")
    page = list_page(call, marker)
    is_delimited = bool(call.query.get("delimiter"))
    content = {
        **_frame(call, page, encode),
        "Marker": encode(marker),
        "NextMarker": encode(page.next_after) if page.next_after and is_delimited else None,
        **_entries(page, encode, has_owner=True),
    }
    return xml_answer("ListBucketResult", content)


def list_objects_v2(call: S3Call) -> S3Answer:
    """Answer a listing of version 2."""
    encode = _encoder(call)
    token = call.query.get("continuation-token")
    start = call.query.get("start-after", "")
    page = list_page(call, start if token is None else _parse_token(token))
    content = {
        **_frame(call, page, encode),
        "KeyCount": page.count,
        "ContinuationToken": token,
        "NextContinuationToken": _format_token(page.next_after) if page.next_after else None,
        "StartAfter": encode(start) if start else None,
        **_entries(page, encode, has_owner=call.query.get("fetch-owner") == "true"),
    }
    return xml_answer("ListBucketResult", content)


def _encoder(call: S3Call) -> Callable[[str], str]:
    encoding = call.query.get("encoding-type", "")
    if encoding not in {"", "url"}:
        raise AwsError("InvalidArgument", f"encoding-type is {encoding!r}; it must be url.")
    return partial(quote, safe="/*-._") if encoding else str


def _frame(call: S3Call, page: KeyPage, encode: Callable[[str], str]) -> dict[str, Any]:
    delimiter = call.query.get("delimiter", "")
    return {
        "Name": call.bucket,
        "Prefix": encode(call.query.get("prefix", "")),
        "Delimiter": encode(delimiter) if delimiter else None,
        "MaxKeys": call.number("max-keys", MAX_KEYS, MAX_KEYS),
        "EncodingType": call.query.get("encoding-type") or None,
        "IsTruncated": bool(page.next_after),
    }


def _entries(page: KeyPage, encode: Callable[[str], str], *, has_owner: bool) -> dict[str, Any]:
    owner = OWNER if has_owner else None
    contents = [_format_key(entry, encode(entry.name), owner) for entry in page.keys]
    return {"Contents": contents, "CommonPrefixes": [{"Prefix": encode(prefix)} for prefix in page.prefixes]}


def _format_key(entry: WalkEntry, name: str, owner: dict[str, str] | None) -> dict[str, Any]:
    stat = entry.stat
    return {
        "Key": name,
        "LastModified": format_iso(stat.st_mtime if stat else 0),
        "ETag": format_etag(stat) if stat else EMPTY_ETAG,
        "Size": stat.st_size if stat else 0,
        "StorageClass": "STANDARD",
        "Owner": owner,
    }


def _format_token(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode()


def _parse_token(token: str) -> str:
    try:
        return base64.b64decode(token, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise AwsError("InvalidArgument", "The continuation token provided is incorrect.") from None
