"""Refuse what no client of AWS sends: requests of web pages and of other names of this machine.

A page in a browser may reach loopback, but its requests have ``Origin`` or ``Sec-Fetch-Site``, or a ``Host`` that a
name server made up. Such a request is refused by its head, before anything of it is read.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING

from jupyter_smx.aws.service import AwsError

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost|\[::1\]):[0-9]{1,5}")
_PAGE_HEADERS = ("Origin", "Sec-Fetch-Site")
MAX_BODY = 4 * 2**20
"""Bytes of a request to a service other than S3; the largest that SageMaker takes has a few hundred kilobytes."""


def find_refusal(method: str, headers: Mapping[str, str], port: int) -> AwsError | None:
    """Return the error of a request that no client of AWS sends; None for others.

    ``port`` is 0 for a request that came by a unix socket, which no page reaches: it began at a port of the host of a
    job, which may be another one.
    """
    if method == "OPTIONS" or any(name in headers for name in _PAGE_HEADERS):
        return _denied("Requests of web pages are not answered here.")
    host = headers.get("Host", "").lower()
    if not port and _LOOPBACK.fullmatch(host):
        return None
    if host not in {f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}"}:
        which = f" and port {port}" if port else " and a port"
        return _denied(f"The header Host must name this machine's loopback{which}.")
    return None


def find_size_refusal(headers: Mapping[str, str]) -> AwsError | None:
    """Return the error of a request whose body is too large for a service other than S3; None for others."""
    length = headers.get("Content-Length", "0")
    if length.isascii() and length.isdigit() and int(length) <= MAX_BODY:
        return None
    return AwsError(
        "RequestEntityTooLargeException",
        f"The body of the request has more than {MAX_BODY} bytes, which is the maximum.",
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    )


def _denied(message: str) -> AwsError:
    return AwsError("AccessDeniedException", message, HTTPStatus.FORBIDDEN)
