"""The request and the answer of an operation, without tornado."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jupyter_smx.aws.s3.forms import xml
from jupyter_smx.aws.s3.storage.temporary_file import TemporaryFile
from jupyter_smx.aws.service import AwsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_smx.aws.s3.received_body import ReceivedBody
    from jupyter_smx.aws.s3.storage.layout import S3Storage

OWNER = {"ID": "0" * 64, "DisplayName": "local"}
ACCOUNT = "000000000000"
MAX_DIGITS = 20
"""Digits of a number; Python refuses to read one with thousands of them."""


def is_number(text: str) -> bool:
    """Return True for a number from 0 on."""
    return text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS


@dataclass(frozen=True)
class S3Call:
    """A request with a valid signature."""

    storage: S3Storage
    method: str
    bucket: str
    key: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    region: str
    """The region of the credential scope."""
    body: ReceivedBody | None = None

    @property
    def document(self) -> bytes:
        """Return the body of a request that carries a document."""
        return b"" if self.body is None else self.body.document

    @property
    def file(self) -> TemporaryFile:
        """Return the file with the body of a request that carries an object."""
        file = None if self.body is None else self.body.file
        if not isinstance(file, TemporaryFile):
            raise AwsError("MissingRequestBodyError", "The request has no body.")
        return file

    @property
    def resource(self) -> str:
        """Return the path of bucket and key, as errors name it."""
        return f"/{self.bucket}/{self.key}" if self.key else f"/{self.bucket}"

    def number(self, name: str, default: int, most: int) -> int:
        """Return a parameter of the query that is a number, at most ``most``; raise AwsError for anything else."""
        text = self.query.get(name, "")
        if not text:
            return default
        if not is_number(text):
            raise AwsError("InvalidArgument", f"{name} is {text!r}; it must be a number from 0 on.")
        return min(int(text), most)


@dataclass
class FileSegment:
    """Bytes of an open file; the answer's owner closes it."""

    descriptor: int
    start: int
    length: int

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


@dataclass
class S3Answer:
    """Status, headers, and a body in memory or in a file."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    segment: FileSegment | None = None


def xml_answer(name: str, content: object, headers: Mapping[str, str] | None = None) -> S3Answer:
    """Return an answer with an XML document."""
    body = xml.write_document(name, content)
    return S3Answer(headers={"content-type": "application/xml", **(headers or {})}, body=body)
