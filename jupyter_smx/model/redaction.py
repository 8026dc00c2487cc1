"""Redact values of variables, recognized by their names as the page does it, and parts of URLs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from jupyter_smx.model.request_texts import decode_text, encode_text, fill_record, format_hyperparameter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

PATTERN = re.compile(
    r"TOKEN(?!IZ)|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|PRIVATE|API_?KEY|CONNECTION_?STRING|(^|_)(KEY|SAS)(_|$)",
    re.IGNORECASE,
)

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,31}://\S*")
"""Pattern of a URL. The end of a longer scheme also matches; without the limit, long texts would take too long."""
_PASSWORD = re.compile(r"(://[^/?#\s:@]*):[^/?#\s]*@")
"""A user and a password; the last @ before the path ends it, as Python's own reading of URLs has it."""
_TOKEN = re.compile(r"(\bhttps?://)[^/?#\s:@]{20,}(?=@)", re.IGNORECASE)
"""A user without a password, where such a long one is a token, as GitHub has it."""
_WORD = re.compile(r"([?&;])([^=&;#\s]+)=[^&;#\s]+")
_SIGNATURES = ("sig", "signature")
"""Last parts of parameter names for the signature of a URL; such a URL grants access to anyone."""


def is_secret(name: str) -> bool:
    """Return True if a variable of this name is a secret."""
    return PATTERN.search(name) is not None


def redact_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return variables for use outside this machine: only names of secrets, URLs without passwords."""
    return {name: "" if is_secret(name) else redact_text(value) for name, value in variables.items()}


def redact_values(values: Mapping[str, str]) -> dict[str, str]:
    """Return values by name, each after :func:`redact_text`."""
    return {name: redact_text(value) for name, value in values.items()}


def redact_hyperparameters(values: Mapping[str, str]) -> dict[str, str]:
    """Return hyperparameters without passwords in URLs, each still a value that a script can read."""
    return {name: _redact_hyperparameter(value) for name, value in values.items()}


def format_hyperparameters(values: Mapping[str, str]) -> dict[str, str]:
    """Write hyperparameters for people: redacted, and text without the quotes of JSON."""
    return {name: format_hyperparameter(value) for name, value in redact_hyperparameters(values).items()}


def _redact_hyperparameter(value: str) -> str:
    text = decode_text(value)
    # The closing quote of a JSON string would pass for the end of its URL.
    return redact_text(value) if text == value else encode_text(redact_text(text))


def redact_text(text: str) -> str:
    """Return a URL, or a sentence with some, without passwords, signatures and tokens."""
    if "://" not in text:
        return text
    return _URL.sub(
        lambda found: _WORD.sub(_redact_parameter, _TOKEN.sub(r"\1…", _PASSWORD.sub(r"\1:…@", found[0]))), text
    )


def _redact_parameter(found: re.Match[str]) -> str:
    name = found[2].lower().replace("-", "_")
    hides = is_secret(name) or name.rpartition("_")[2] in _SIGNATURES
    return f"{found[1]}{found[2]}=…" if hides else found[0]


def redact_words(words: Iterable[str]) -> list[str]:
    """Return the words of a command or of its arguments, each as :func:`redact_text` does."""
    return [redact_text(word) for word in words]


def _is_only_command(spec: Mapping[str, Any]) -> bool:
    """Return what :meth:`JobSpec.is_only_command` does, of a request in JSON."""
    return bool(spec.get("command")) and not spec.get("entry_point")


def redact_record(record: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON of a job's record without secrets of variables and of URLs.

    Sentences in it were made without. The name of the job stands for ``{job_name}``.
    """
    spec = fill_record(record["spec"], record["name"])
    places: list[tuple[str, Callable[[Any], Any]]] = [
        ("checkpoint", redact_text),
        ("environment", redact_variables),
        ("hyperparameters", redact_hyperparameters),
        ("arguments", redact_words),
        ("command", redact_words),
        ("source", redact_text if _is_only_command(spec) else str),
        ("channels", lambda rows: [{**row, "source": redact_text(row["source"])} for row in rows]),
        ("outputs", lambda rows: [{**row, "destination": redact_text(row["destination"])} for row in rows]),
    ]
    return {**record, "spec": {**spec, **{name: show(spec[name]) for name, show in places if spec.get(name)}}}
