"""Variables whose values are nobody's business, told by their names: the page has the same pattern."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PATTERN = re.compile(
    r"TOKEN(?!IZ)|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|PRIVATE|API_?KEY|CONNECTION_?STRING|(^|_)(KEY|SAS)(_|$)",
    re.IGNORECASE,
)


def is_secret(name: str) -> bool:
    """Say whether a variable of this name is one."""
    return PATTERN.search(name) is not None


def without(variables: Mapping[str, str]) -> dict[str, str]:
    """Give variables as they may leave this machine: secrets have their names only."""
    return {name: "" if is_secret(name) else value for name, value in variables.items()}
