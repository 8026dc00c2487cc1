"""The hierarchy of errors; each one names the field, the value, the rule and the cure.

::

    SmxError
    ├── ValidationError          the request itself is invalid                  HTTP 400
    ├── ResourceNotFoundError    no such job, pool or cluster                   HTTP 404
    ├── ResourceInUseError       it exists, and it is in the way                HTTP 409
    ├── ResourceLimitError       a quota or a cap of the administrator          HTTP 422
    ├── RefusedError             an engine refused before launching anything    HTTP 422
    ├── UnavailableError         controller, agent or engine cannot be reached  HTTP 503
    └── VersionMismatchError     two sides speak different protocols            HTTP 426

The codes are those of SageMaker's API, if it has one.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct

from jupyter_smx.model import redaction
from jupyter_smx.model.text import format_value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Self


def text_of(value: object) -> str:
    """Return a value as text; a short form if Python refuses, as for a number of thousands of digits."""
    try:
        return str(value)
    except ValueError:
        return format_value(value)


class ErrorBody(Struct, frozen=True, kw_only=True):
    """An error as it travels in an HTTP answer."""

    code: str
    message: str
    field: str = ""
    value: str = ""
    rule: str = ""
    cure: str = ""
    transient: bool = False


class SmxError(Exception):
    """Base of everything that this package raises on purpose."""

    code: ClassVar[str] = "InternalServerError"
    status: ClassVar[int] = 500

    def __init__(
        self,
        message: str,
        *,
        field: str = "",
        value: object = "",
        rule: str = "",
        cure: str = "",
        transient: bool = False,
    ) -> None:
        # An error ends in notebooks, records and logs of others.
        self.message = redaction.redact_text(message)
        super().__init__(self.message)
        self.field = field
        self.value = redaction.redact_text(value if isinstance(value, str) else text_of(value))
        self.rule = rule
        self.cure = cure
        self.transient = transient

    def __str__(self) -> str:
        """Message, then the rule that was broken, then the cure, as one paragraph."""
        return " ".join(part for part in (self.message, self.rule, self.cure) if part)

    def with_cure(self, cure: str) -> Self:
        """Return the same error with another cure."""
        return type(self)(
            self.message, field=self.field, value=self.value, rule=self.rule, cure=cure, transient=self.transient
        )

    def with_message(self, message: str) -> Self:
        """Return the same error with another message."""
        return type(self)(
            message, field=self.field, value=self.value, rule=self.rule, cure=self.cure, transient=self.transient
        )

    def body(self) -> ErrorBody:
        """Return the error as the JSON object for another process."""
        return ErrorBody(
            code=self.code,
            message=self.message,
            field=self.field,
            value=self.value,
            rule=self.rule,
            cure=self.cure,
            transient=self.transient,
        )


class ValidationError(SmxError):
    """A field of the request has a value that no engine can satisfy."""

    code = "ValidationException"
    status = 400


class RequestTooLargeError(ValidationError):
    """The body of a request is larger than the maximum."""

    code = "RequestTooLarge"
    status = 413


class ResourceNotFoundError(SmxError):
    """Nothing with that name exists here."""

    code = "ResourceNotFound"
    status = 404


class ResourceInUseError(SmxError):
    """The thing exists and is busy, or its name is taken."""

    code = "ResourceInUse"
    status = 409


class ResourceLimitError(SmxError):
    """A quota or cap that the administrator set would be exceeded."""

    code = "ResourceLimitExceeded"
    status = 422


class RefusedError(SmxError):
    """An engine refused before it launched anything; ``transient`` is True if a retry may help."""

    code = "Refused"
    status = 422


class UnavailableError(SmxError):
    """A process that should answer does not."""

    code = "ServiceUnavailable"
    status = 503


class VersionMismatchError(SmxError):
    """Two sides use different versions of a protocol."""

    code = "VersionMismatch"
    status = 426


_BY_CODE: dict[str, type[SmxError]] = {
    kind.code: kind
    for kind in (
        ValidationError,
        RequestTooLargeError,
        ResourceNotFoundError,
        ResourceInUseError,
        ResourceLimitError,
        RefusedError,
        UnavailableError,
        VersionMismatchError,
    )
}


def from_body(body: ErrorBody) -> SmxError:
    """Return the exception for an answer of another process; an unknown code becomes the base class."""
    kind = _BY_CODE.get(body.code, SmxError)
    return kind(
        body.message,
        field=body.field,
        value=body.value,
        rule=body.rule,
        cure=body.cure,
        transient=body.transient,
    )


def suggest_names(word: str, known: Iterable[str]) -> str:
    """Return the known names nearest to ``word``: a cure for a typing error, empty if none is near.

    Names that begin with ``word`` come first, three at most in all.
    """
    names = list(known)
    begun = [name for name in names if word and name.startswith(word)]
    matches = list(dict.fromkeys([*begun, *get_close_matches(word, names, n=3, cutoff=0.5)]))[:3]
    if not matches:
        return ""
    return f"Did you mean {' or '.join(matches)}?"
