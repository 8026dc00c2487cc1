"""Redact values of variables, recognized by their names as the page does it, and parts of URLs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PATTERN = re.compile(
    r"TOKEN(?!IZ)|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|PRIVATE|API_?KEY|CONNECTION_?STRING|(^|_)(KEY|SAS)(_|$)",
    re.IGNORECASE,
)

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,31}://\S*")
"""Of a longer scheme the end is one, too; without a bound each letter of a long text would be tried to its end."""
_PASSWORD = re.compile(r"(://[^/?#\s:@]*):[^/?#\s]*@")
"""A user and a password; the last @ before the path ends it, as Python's own reading of URLs has it."""
_TOKEN = re.compile(r"(\bhttps?://)[^/?#\s:@]{20,}(?=@)", re.IGNORECASE)
"""A user without a password, where such a long one is a token, as GitHub has it."""
_WORD = re.compile(r"([?&;])([^=&;#\s]+)=[^&;#\s]+")
_SIGNATURES = ("sig", "signature")
"""What the last part of a word is called by which a URL is signed; to have the URL is to have the right then."""


def is_secret(name: str) -> bool:
    """Say whether a variable of this name is one."""
    return PATTERN.search(name) is not None


def redact_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Give variables as they may leave this machine: secrets have their names only, URLs no passwords."""
    return {name: "" if is_secret(name) else redact_text(value) for name, value in variables.items()}


def redact_values(values: Mapping[str, str]) -> dict[str, str]:
    """Give hyperparameters, or what else people have names for, as people may see them: :func:`redact_text`, each."""
    return {name: redact_text(value) for name, value in values.items()}


def redact_text(text: str) -> str:
    """Give a URL, or a sentence with some, as people may see it: without passwords, signatures and tokens."""
    if "://" not in text:
        return text
    return _URL.sub(
        lambda found: _WORD.sub(_redact_parameter, _TOKEN.sub(r"\1…", _PASSWORD.sub(r"\1:…@", found[0]))), text
    )


def _redact_parameter(found: re.Match[str]) -> str:
    name = found[2].lower().replace("-", "_")
    hides = is_secret(name) or name.rpartition("_")[2] in _SIGNATURES
    return f"{found[1]}{found[2]}=…" if hides else found[0]


def redact_record(record: dict[str, Any]) -> dict[str, Any]:
    """Give the JSON of a job's record as people may see it: without secrets of variables and what opens URLs.

    Sentences in it were made without.
    """
    spec = record["spec"]
    places: list[tuple[str, Callable[[Any], Any]]] = [
        ("checkpoint", redact_text),
        ("environment", redact_variables),
        ("hyperparameters", redact_values),
        ("arguments", lambda words: [redact_text(word) for word in words]),
        ("channels", lambda rows: [{**row, "source": redact_text(row["source"])} for row in rows]),
        ("outputs", lambda rows: [{**row, "destination": redact_text(row["destination"])} for row in rows]),
    ]
    return {**record, "spec": {**spec, **{name: show(spec[name]) for name, show in places if spec.get(name)}}}
