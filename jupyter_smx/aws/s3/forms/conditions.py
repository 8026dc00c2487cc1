"""Decide by the conditional headers of a request whether it is answered; apart, so that copies and reads share it."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from jupyter_smx.aws.s3.forms.http_dates import parse_http_date
from jupyter_smx.aws.service import AwsError

if TYPE_CHECKING:
    from collections.abc import Mapping


class NotModifiedError(Exception):
    """The client has the object as it is: HTTP 304."""


def check_read(headers: Mapping[str, str], etag: str, modified: float) -> None:
    """Raise NotModifiedError (304) or AwsError (412) where a condition of a read does not hold."""
    if (match := headers.get("if-match")) is not None:
        if not has_etag(match, etag):
            raise precondition_failed("If-Match")
    elif is_modified_since(headers.get("if-unmodified-since"), modified):
        raise precondition_failed("If-Unmodified-Since")
    if (unwanted := headers.get("if-none-match")) is not None:
        if has_etag(unwanted, etag):
            raise NotModifiedError
    elif is_modified_since(headers.get("if-modified-since"), modified) is False:
        raise NotModifiedError


def check_copy(headers: Mapping[str, str], etag: str, modified: float) -> None:
    """Raise AwsError (412) where a condition of the source of a copy does not hold."""
    prefix = "x-amz-copy-source-"
    conditions = {name.removeprefix(prefix): value for name, value in headers.items() if name.startswith(prefix)}
    try:
        check_read(conditions, etag, modified)
    except NotModifiedError:
        raise precondition_failed("x-amz-copy-source-if-…") from None


def check_write(headers: Mapping[str, str], etag: str | None) -> None:
    """Raise AwsError where a write must not replace what there is; ``etag`` is None where there is no object."""
    if headers.get("if-none-match") == "*" and etag is not None:
        raise precondition_failed("If-None-Match")
    if (match := headers.get("if-match")) is not None:
        if etag is None:
            raise AwsError("NoSuchKey", "The specified key does not exist, and If-Match needs one.", 404)
        if not has_etag(match, etag):
            raise precondition_failed("If-Match")


def has_etag(header: str, etag: str) -> bool:
    """Return True if a list of ETags, or ``*``, contains one."""
    values = [part.strip().removeprefix("W/").strip('"') for part in header.split(",")]
    return "*" in values or etag.strip('"') in values


def is_modified_since(header: str | None, modified: float) -> bool | None:
    """Return True if the time of an object is after that of a header; None without a valid header."""
    limit = parse_http_date(header or "")
    return None if limit is None else int(modified) > limit


def precondition_failed(condition: str) -> AwsError:
    """Return the error of a condition that does not hold."""
    message = f"At least one of the preconditions you specified did not hold: {condition}."
    return AwsError("PreconditionFailed", message, HTTPStatus.PRECONDITION_FAILED)
