"""Check Signature Version 4 of AWS on the head of a request, from its ``Authorization`` header or its query."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from jupyter_smx.aws.service import AwsError
from jupyter_smx.aws.signing import canonical, dates, keys
from jupyter_smx.aws.signing.chunks import ChunkSignatures

if TYPE_CHECKING:
    from collections.abc import Mapping

ALGORITHM = "AWS4-HMAC-SHA256"
MAX_SKEW = 15 * 60
"""Seconds that the times of client and server may differ."""
MAX_EXPIRES = 7 * 24 * 3600
"""Seconds that a presigned URL may be valid."""
SCOPE_PARTS = 5
MAX_DIGITS = 6
"""Digits of ``MAX_EXPIRES``; Python refuses to read a number with thousands of them."""


@dataclass(frozen=True)
class RequestHead:
    """The first line and the headers of a request, as they came on the wire."""

    method: str
    path: str
    """The raw path, still percent-encoded."""
    query: str
    """The raw query, without the question mark."""
    headers: Mapping[str, str]
    """Header values by name in lower case."""


@dataclass(frozen=True)
class Credential:
    """The parts of a credential scope, and the access key that begins it."""

    access_key: str
    date: str
    region: str
    service: str
    """As ``s3``, ``sagemaker`` or ``sts``."""

    @property
    def scope(self) -> str:
        """Return the scope as the string to sign has it."""
        return f"{self.date}/{self.region}/{self.service}/aws4_request"


@dataclass(frozen=True)
class SignatureFields:
    """The fields of a signature, from the header or the query."""

    credential: Credential
    signed_headers: tuple[str, ...]
    signature: str
    timestamp: str
    """The time of signing, as ``20260131T120000Z``; empty where the request has none."""
    expires: int | None
    """Seconds of validity of a presigned URL, None for a signature in the header."""


def read_credential(head: RequestHead) -> Credential:
    """Return the credential that a request names, unchecked; raise AwsError where there is none."""
    return read_fields(head).credential


def is_presigned(head: RequestHead) -> bool:
    """Return True if the query has the signature, as that of a presigned URL has."""
    return "authorization" not in head.headers and "X-Amz-Signature=" in head.query


def read_fields(head: RequestHead) -> SignatureFields:
    """Return the fields of a request's signature, unchecked; raise AwsError where a part is missing."""
    if header := head.headers.get("authorization"):
        return _read_header(header, head.headers)
    parameters = dict(canonical.split_query(head.query))
    if "X-Amz-Signature" in parameters:
        return _read_query(parameters)
    if "Signature" in parameters and "AWSAccessKeyId" in parameters:
        raise AwsError(
            "InvalidRequest",
            "The URL is signed by Signature Version 2, which is not supported. "
            'Make it by a client with Config(signature_version="s3v4"), or run '
            "`aws configure set default.s3.signature_version s3v4` once, for boto3 and `aws s3 presign`.",
        )
    raise AwsError(
        "MissingAuthenticationToken",
        "The request has no signature. Set the credentials that `jupyter smx aws env` prints.",
        HTTPStatus.FORBIDDEN,
    )


def _read_header(header: str, headers: Mapping[str, str]) -> SignatureFields:
    algorithm, _, rest = header.partition(" ")
    if algorithm != ALGORITHM:
        raise _refusal("InvalidRequest", f"The algorithm of the signature is {algorithm!r}; it must be {ALGORITHM}.")
    fields = dict(part.strip().partition("=")[::2] for part in rest.split(","))
    try:
        credential, signed, signature = fields["Credential"], fields["SignedHeaders"], fields["Signature"]
    except KeyError as error:
        raise _refusal("IncompleteSignature", f"The header Authorization has no {error.args[0]}.") from None
    timestamp = headers.get("x-amz-date") or dates.format_http_date(headers.get("date", ""))
    return SignatureFields(_parse_scope(credential), tuple(signed.split(";")), signature, timestamp, None)


def _read_query(parameters: Mapping[str, str]) -> SignatureFields:
    try:
        algorithm, credential = parameters["X-Amz-Algorithm"], parameters["X-Amz-Credential"]
        signed, timestamp, expires = (parameters[f"X-Amz-{name}"] for name in ("SignedHeaders", "Date", "Expires"))
    except KeyError as error:
        raise _refusal("AuthorizationQueryParametersError", f"The presigned URL has no {error.args[0]}.") from None
    if algorithm != ALGORITHM:
        raise _refusal("AuthorizationQueryParametersError", f"X-Amz-Algorithm must be {ALGORITHM}.")
    if not (expires.isascii() and expires.isdigit() and len(expires) <= MAX_DIGITS and int(expires) <= MAX_EXPIRES):
        raise _refusal(
            "AuthorizationQueryParametersError",
            f"X-Amz-Expires is {expires!r}; it must be a number of seconds up to {MAX_EXPIRES} (seven days).",
        )
    fields = (_parse_scope(credential), tuple(signed.split(";")), parameters["X-Amz-Signature"], timestamp)
    return SignatureFields(*fields, int(expires))


def _parse_scope(text: str) -> Credential:
    parts = text.rsplit("/", SCOPE_PARTS - 1)
    if len(parts) != SCOPE_PARTS or parts[-1] != "aws4_request":
        message = f"The credential {text!r} must be <key>/<date>/<region>/<service>/aws4_request."
        raise _refusal("IncompleteSignature", message)
    access_key, date, region, service, _ = parts
    return Credential(access_key, date, region, service)


def find_secret(credential: Credential, secrets: Mapping[str, str]) -> str:
    """Return the secret key of a credential; raise AwsError where its access key is none of this server."""
    secret = secrets.get(credential.access_key)
    if secret is None:
        raise _refusal(
            _unknown_key_code(credential.service),
            f"The access key {credential.access_key!r} is not one of this server. "
            "Set the credentials that `jupyter smx aws env` prints.",
        )
    return secret


def check_signature(head: RequestHead, body_sha256: str, secrets: Mapping[str, str], now: float) -> Credential:
    """Return the credential of a request with a valid signature; raise AwsError for any other.

    ``body_sha256`` is the hex digest of the body; for S3 it is the value of ``x-amz-content-sha256``.
    ``secrets`` has the secret key of each access key; ``now`` is in seconds since the epoch.
    """
    fields = read_fields(head)
    credential = fields.credential
    secret = find_secret(credential, secrets)
    _check_time(fields, now)
    _check_signed_headers(head.headers, fields.signed_headers)
    key = keys.signing_key(secret, credential.date, credential.region, credential.service)
    for path in canonical.paths(head.path, credential.service):
        request = canonical.format_request(head.method, path, head.query, head.headers, fields.signed_headers)
        text = keys.string_to_sign(fields.timestamp, credential.scope, f"{request}\n{body_sha256}")
        if hmac.compare_digest(keys.sign(key, text).encode(), fields.signature.encode()):
            return credential
    raise _refusal(
        "SignatureDoesNotMatch",
        "The signature does not match: the secret key is another one, or the request was changed on its way. "
        "Set the credentials that `jupyter smx aws env` prints.",
    )


def _check_time(fields: SignatureFields, now: float) -> None:
    signed = dates.parse_timestamp(fields.timestamp)
    if signed is None or not fields.timestamp.startswith(fields.credential.date):
        raise _refusal(
            "AccessDenied", "The request needs a time of signing in X-Amz-Date, of the day of its credential."
        )
    valid = MAX_SKEW if fields.expires is None else fields.expires
    if signed - MAX_SKEW <= now <= signed + valid:
        return
    times = (
        f"the request was signed at {dates.format_iso(signed)}, and this server's clock says {dates.format_iso(now)}"
    )
    if fields.expires is not None and now > signed + valid:
        raise _refusal("AccessDenied", f"Request has expired: {times}; the URL was valid for {fields.expires} seconds.")
    raise _refusal(
        "RequestTimeTooSkewed",
        f"The difference between the request time and the server's time is too large: {times}. "
        "At most 15 minutes are allowed; set the clock.",
    )


def _check_signed_headers(headers: Mapping[str, str], signed: tuple[str, ...]) -> None:
    """Refuse headers that change what a request does without being signed."""
    unsigned = [name for name in headers if name.startswith("x-amz-") and name not in signed]
    if "host" not in signed:
        unsigned.append("host")
    if unsigned:
        names = ", ".join(sorted(unsigned))
        raise _refusal("AccessDenied", f"There were headers present in the request which were not signed: {names}.")
    if missing := [name for name in signed if name not in headers]:
        raise _refusal("SignatureDoesNotMatch", f"Signed headers are missing: {', '.join(missing)}.")


def _unknown_key_code(service: str) -> str:
    codes = {"s3": "InvalidAccessKeyId", "sts": "InvalidClientTokenId", "iam": "InvalidClientTokenId"}
    return codes.get(service, "UnrecognizedClientException")


def _refusal(code: str, message: str) -> AwsError:
    return AwsError(code, message, HTTPStatus.FORBIDDEN)


def chunk_signatures(head: RequestHead, secrets: Mapping[str, str]) -> ChunkSignatures:
    """Return the chain of chunk signatures that begins with the signature of a head, which was checked before."""
    fields = read_fields(head)
    credential = fields.credential
    secret = secrets[credential.access_key]
    key = keys.signing_key(secret, credential.date, credential.region, credential.service)
    return ChunkSignatures(key, fields.timestamp, credential.scope, fields.signature)
