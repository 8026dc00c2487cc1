"""Read what a request sets on an object from its headers, and write the headers of an answer from it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_TYPE = "binary/octet-stream"
SYSTEM = ("content-type", "cache-control", "content-disposition", "content-encoding", "content-language", "expires")
ENCRYPTION = (
    "x-amz-server-side-encryption",
    "x-amz-server-side-encryption-aws-kms-key-id",
    "x-amz-server-side-encryption-bucket-key-enabled",
)
"""Headers that are accepted and echoed; files here are not encrypted by them."""
USER = "x-amz-meta-"


@dataclass
class ObjectMetadata:
    """What S3 stores with an object besides its bytes."""

    headers: dict[str, str] = field(default_factory=dict)
    """System and user metadata and encryption, by the names of headers in lower case."""
    checksums: dict[str, str] = field(default_factory=dict)
    """Checksums of the whole object in Base64, by algorithm."""
    tags: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are not empty."""
        return {name: value for name, value in asdict(self).items() if value}


def read_metadata(headers: Mapping[str, str]) -> ObjectMetadata:
    """Return the metadata that the headers of a request set."""
    names = [name for name in headers if name in SYSTEM or name in ENCRYPTION or name.startswith(USER)]
    stored = {name: headers[name] for name in names}
    if encoding := _without_chunked(stored.pop("content-encoding", "")):
        stored["content-encoding"] = encoding
    tags = dict(parse_qsl(headers.get("x-amz-tagging", ""), keep_blank_values=True))
    return ObjectMetadata(stored, {}, tags)


def _without_chunked(encoding: str) -> str:
    """Leave out the encoding of the transfer, which is not one of the object."""
    return ",".join(part.strip() for part in encoding.split(",") if part.strip() not in {"", "aws-chunked"})


def encryption_headers(metadata: ObjectMetadata) -> dict[str, str]:
    """Return the headers of encryption, which the answer to a write repeats."""
    return {name: value for name, value in metadata.headers.items() if name in ENCRYPTION}


def checksum_headers(metadata: ObjectMetadata) -> dict[str, str]:
    """Return the headers of the checksums of a whole object."""
    headers = {f"x-amz-checksum-{name}": value for name, value in metadata.checksums.items()}
    return {**headers, "x-amz-checksum-type": "FULL_OBJECT"} if headers else {}


def response_headers(metadata: ObjectMetadata, query: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of an answer with the object; parameters ``response-…`` of the query replace them."""
    replaced = {name: query[f"response-{name}"] for name in SYSTEM if f"response-{name}" in query}
    count = {"x-amz-tagging-count": str(len(metadata.tags))} if metadata.tags else {}
    return {"content-type": DEFAULT_TYPE, **metadata.headers, **count, **replaced}
