"""Read the members of a request and write its answer or its error, in the protocol of the request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element, SubElement, tostring

import msgspec

from jupyter_smx.aws.protocol.json_form import format_json, parse_json
from jupyter_smx.aws.protocol.models import find_operation, load_model
from jupyter_smx.aws.protocol.query_form import format_xml, parse_form, parse_query
from jupyter_smx.aws.protocol.validation import check_members
from jupyter_smx.aws.service import WAY_BACK, AwsError

if TYPE_CHECKING:
    from jupyter_smx.aws.protocol.targets import RequestTarget

_SERVER_ERROR = 500
_JSON_CODES = {
    "IncompleteSignature": "IncompleteSignatureException",
    "MissingAuthenticationToken": "MissingAuthenticationTokenException",
    "SignatureDoesNotMatch": "InvalidSignatureException",
}
"""Codes of JSON by those that services with forms, and S3, have for the same error of a signature."""


@dataclass(frozen=True)
class AwsAnswer:
    """A status, headers, and a body of HTTP."""

    status: int
    headers: dict[str, str]
    body: bytes


def unavailable_error(name: str) -> AwsError:
    """Return the error of what is not here: it says what is, and how to go back to AWS."""
    return AwsError(
        "ValidationException",
        f"{name} is not available here, because training and processing jobs of SageMaker run on this machine "
        f"(jupyter_smx) and everything else of it needs AWS. {WAY_BACK}",
    )


def read_members(target: RequestTarget, body: bytes) -> dict[str, Any]:
    """Return the members of a request, checked by their shapes.

    :raises AwsError: the service has no such operation, or members are invalid.
    """
    operation = find_operation(target.service, target.operation) if target.service else None
    if operation is None:
        raise unavailable_error(target.label)
    shape = operation.input_shape
    members = parse_query(shape, parse_form(body)) if target.form == "query" else parse_json(shape, body)
    check_members(target.service, shape, members)
    return members


def write_answer(target: RequestTarget, members: dict[str, Any], request_id: str) -> AwsAnswer:
    """Return the answer of an operation that worked."""
    operation = find_operation(target.service, target.operation)
    shape = None if operation is None else operation.output_shape
    headers = {"Content-Type": target.content_type, "x-amzn-RequestId": request_id}
    if target.form == "query":
        return AwsAnswer(200, headers, format_xml(operation, members, request_id))
    # An operation without a result has an empty body.
    return AwsAnswer(200, headers, format_json(shape, members) if shape is not None or members else b"")


def write_error(target: RequestTarget, error: AwsError, request_id: str) -> AwsAnswer:
    """Return the answer of an error."""
    status = int(error.status)
    if target.form == "query":
        headers = {"Content-Type": target.content_type, "x-amzn-RequestId": request_id}
        return AwsAnswer(status, headers, _format_xml_error(target, error, request_id))
    code = _JSON_CODES.get(error.code, error.code)
    headers = {"Content-Type": target.content_type, "x-amzn-RequestId": request_id, "x-amzn-ErrorType": code}
    if target.service == "cloudwatch":  # clients compare the codes of its former protocol
        headers["x-amzn-query-error"] = f"{error.code};{_fault(error)}"
    document = {"__type": code, "message": error.message}
    return AwsAnswer(status, headers, msgspec.json.encode(document))


def _fault(error: AwsError) -> str:
    return "Sender" if error.status < _SERVER_ERROR else "Receiver"


def _format_xml_error(target: RequestTarget, error: AwsError, request_id: str) -> bytes:
    namespace = load_model(target.service).metadata.get("xmlNamespace", "") if target.service else ""
    root = Element("ErrorResponse", {"xmlns": namespace} if namespace else {})
    described = SubElement(root, "Error")
    SubElement(described, "Type").text = _fault(error)
    SubElement(described, "Code").text = error.code
    SubElement(described, "Message").text = error.message
    SubElement(root, "RequestId").text = request_id
    body: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return body
