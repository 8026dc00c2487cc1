"""Find out which operation of which service a request names, and in which protocol it is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from jupyter_smx.aws.protocol.models import service_of_scope, service_of_target
from jupyter_smx.aws.protocol.query_form import parse_form
from jupyter_smx.aws.service import AwsError

if TYPE_CHECKING:
    from collections.abc import Mapping

Form = Literal["json-1.0", "json-1.1", "query", "rest-json"]

S3_SCOPE = "s3"
_CBOR_PATH = re.compile(r"/service/([A-Za-z0-9_.]+)/operation/([A-Za-z0-9_]+)")
_FORM_TYPE = "application/x-www-form-urlencoded"
_JSON_1_0 = "application/x-amz-json-1.0"
_CONTENT_TYPES: dict[Form, str] = {
    "json-1.0": _JSON_1_0,
    "json-1.1": "application/x-amz-json-1.1",
    "query": "text/xml",
    "rest-json": "application/json",
}


@dataclass(frozen=True)
class RequestTarget:
    """The operation that a request names; ``service`` and ``operation`` are "" if it names none that is here."""

    service: str
    operation: str
    form: Form
    label: str
    """What the request itself names, for an error."""

    @property
    def content_type(self) -> str:
        """Content type of the answer."""
        return _CONTENT_TYPES[self.form]


def is_for_s3(method: str, headers: Mapping[str, str], scope: str) -> bool:
    """Return True if a request is one of S3, by its head alone; ``scope`` is the service of its credential."""
    if headers.get("X-Amz-Target") or headers.get("Smithy-Protocol") or scope not in ("", S3_SCOPE):
        return False
    # Older clients of S3 send the type of a form with a body that is none.
    return scope == S3_SCOPE or method != "POST" or not _is_form(headers)


def find_target(path: str, headers: Mapping[str, str], body: bytes, scope: str) -> RequestTarget:
    """Return the operation that a request other than of S3 names.

    :raises AwsError: a form cannot be read, or the request is in CBOR, which no version of botocore chooses here.
    """
    named = headers.get("X-Amz-Target", "")
    if named:
        prefix, _, operation = named.partition(".")
        form: Form = "json-1.0" if headers.get("Content-Type", "").startswith(_JSON_1_0) else "json-1.1"
        return RequestTarget(service_of_target(prefix), operation, form, named)
    match = _CBOR_PATH.fullmatch(path)
    if match:
        raise AwsError(
            "ValidationException",
            f"{match[1]}.{match[2]}: this request is in CBOR, and jupyter_smx reads JSON and forms. Use a client that "
            "sends these, as boto3 and the AWS CLI do.",
        )
    service = service_of_scope(scope)
    if _is_form(headers):
        operation = parse_form(body).get("Action", "")
        return RequestTarget(service, operation, "query", f"{scope}.{operation}")
    return RequestTarget(service, "", "rest-json", f"{scope} {path}")


def _is_form(headers: Mapping[str, str]) -> bool:
    return headers.get("Content-Type", "").partition(";")[0].strip().lower() == _FORM_TYPE
