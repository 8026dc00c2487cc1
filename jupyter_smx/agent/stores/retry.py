"""Classify errors of a store: whether a retry may succeed, and a sentence with the cure."""

from __future__ import annotations

import itertools
import time
from ftplib import Error, error_perm
from typing import Callable, Iterator, Optional, Sequence

from jupyter_smx.agent import errors
from jupyter_smx.agent.stores import objects
from jupyter_smx.agent.stores.filesystems import PackageMissingError

_NO_ROOM_ON_FTP = ("452", "552")
"""Its answers where the disk is full, or what the user may store is used up."""
_NAMES = (FileExistsError, IsADirectoryError, NotADirectoryError)
"""Errors for a name that belongs to something else already."""
_LASTING = (
    PackageMissingError,
    FileNotFoundError,
    PermissionError,
    *_NAMES,
    NotImplementedError,
    ValueError,
    TypeError,
    error_perm,  # FTP's answers that begin with a 5 are about the file or the user
)
_PAUSES = (0.5, 1.0, 2.0)
"""Seconds before another try, beside the tries of the libraries themselves."""
_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "DefaultCredentialsError")
_EXPIRED = ("ExpiredToken", "RequestExpired", "TokenRefreshRequired", "UnauthorizedSSOTokenError", "SSOTokenLoadError")
_UNKNOWN = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken")
_LOGIN = (
    "AuthenticationException",
    "BadAuthenticationType",
    "PasswordRequiredException",
    "BadHostKeyException",
    "SMBAuthenticationError",
    "LogonFailure",
    "No authentication methods available",
)
"""Errors of file servers for failed logins: SFTP by paramiko, SMB by smbprotocol."""
_STATUS = ("status", "status_code", "code")
"""Attributes with the HTTP status in errors of aiohttp, Azure and Google; botocore's have it in their response."""
_NO_RIGHTS = (401, 403)
_PASSING = (408, 409, 425, 429)
"""Refusals by HTTP that are about the moment."""
_PASSING_CODES = ("RequestTimeout", "IncompleteBody", "BadDigest", "SHA256Mismatch", "Throttl", "LimitExceeded")
"""Codes of S3 and similar stores with status 400 for transient faults: of the transfer, or of too many requests."""
_CREDENTIAL_SOURCES = (
    "Credentials come from --env, else from variables of the terminal of JupyterLab at the start of the controller or "
    "warm host, else from files such as ~/.aws/credentials, which are read each time "
    "and are not visible in containers."
)
_RENEW = "Store them in ~/.aws/credentials, and set --env AWS_PROFILE=NAME."


def retry(work: Callable[[], None]) -> None:
    """Call ``work``; repeat it after transient errors."""
    for pause in _PAUSES:
        if _goes_well(work):
            return
        time.sleep(pause)
    work()


def _goes_well(work: Callable[[], None]) -> bool:
    try:
        work()
    except Exception as error:
        if not is_transient(error):
            raise
        return False
    return True


def is_transient(error: Exception) -> bool:
    """Return True if a repeated request may succeed a moment later; a failed login is permanent."""
    if is_full(error):
        return False
    if isinstance(error, _LASTING) or _is_one_of(error, (*_CREDENTIALS, *_EXPIRED, *_UNKNOWN, *_LOGIN)):
        return False
    return not _is_refusal(error)


def is_full(error: BaseException) -> bool:
    """Return True if the disk or the quota of the destination is full."""
    return errors.find_errno(error) in errors.NO_ROOM or (
        isinstance(error, Error) and str(error)[:3] in _NO_ROOM_ON_FTP
    )


def _is_refusal(error: BaseException) -> bool:
    """Return True if a service refused the request for good."""
    status = _status(error)
    is_passing = any(word in _code(one) for one in _causes(error) for word in _PASSING_CODES)
    return 400 <= status < 500 and status not in _PASSING and not is_passing  # noqa: PLR2004 - as HTTP defines them


def _status(error: BaseException) -> int:
    """Return the HTTP status of a service's answer, 0 if there is none."""
    for one in _causes(error):
        response = getattr(one, "response", None)
        told = response.get("ResponseMetadata") if isinstance(response, dict) else None
        answered = told.get("HTTPStatusCode") if isinstance(told, dict) else None
        numbers = itertools.chain([answered], (getattr(one, name, None) for name in _STATUS))
        found = next((number for number in numbers if isinstance(number, int) and number), 0)
        if found:
            return found
        if isinstance(one, OSError) and str(one).startswith("Forbidden: "):  # gcsfs reports a 403 by this text only
            return 403
    return 0


def _causes(error: Optional[BaseException]) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _code(error: BaseException) -> str:
    """Return the error code of a service's answer, '' if there is none; s3fs has it only in the cause."""
    response = getattr(error, "response", None)
    told = response.get("Error") if isinstance(response, dict) else None
    return str(told.get("Code", "")) if isinstance(told, dict) else ""


def _is_one_of(error: BaseException, names: Sequence[str]) -> bool:
    """Return True if an error or one of its causes has one of these names as its class, its code or in its text."""
    said = [f"{type(one).__name__} {_code(one)} {one}" for one in _causes(error)]
    return any(name in text for name in names for text in said)


def format_error(error: BaseException, source: str) -> str:
    """Return a message with the reason and the cure of an error of a source."""
    denied = f"its disk is full ({error})." if is_full(error) else _format_denied(error)
    if denied:
        return f"{source}: {denied}"
    if isinstance(error, FileNotFoundError):
        return (
            f"{source}: the bucket, object or server does not exist ({error}). Check upper and lower case, and the "
            "slash at the end."
        )
    if isinstance(error, NotImplementedError):
        return f"{source}: fsspec can only read from {objects.protocol(source)}://, not write to it."
    if isinstance(error, ValueError) and "rotocol" in str(error):
        return f"{source}: fsspec does not support {objects.protocol(source)!r} ({error})."
    if isinstance(error, (error_perm, *_NAMES)) or _is_refusal(error):
        return f"{source}: the store refused the request ({error})."
    return f"{source} cannot be reached ({type(error).__name__}: {error})."


def _format_denied(error: BaseException) -> str:
    """Return why a login failed, and where credentials come from; '' for other errors."""
    if _is_one_of(error, _CREDENTIALS):
        return (
            "this host has no credentials for it. Set them with --env, or store them in files of the "
            "controller's user, such as ~/.aws/credentials; containers do not see these files."
        )
    if _is_one_of(error, _EXPIRED):
        return f"access is denied, because the credentials have expired ({error}). {_CREDENTIAL_SOURCES} {_RENEW}"
    if _is_one_of(error, _UNKNOWN):
        return f"access is denied, because the store rejects these credentials ({error}). {_CREDENTIAL_SOURCES}"
    if (
        isinstance(error, PermissionError)
        or _status(error) in _NO_RIGHTS
        or _is_one_of(error, ("AccessDenied", *_LOGIN))
    ):
        return f"access is denied ({error}). Use credentials that may list and read it, or write to it."
    return ""
