"""What a comparison says, and what it keeps to itself."""

from __future__ import annotations

import re
from pathlib import Path

from jupyter_smx.model import comparison

VIEW = Path(__file__).parents[2] / "src" / "view" / "environment.tsx"


def test_the_page_keeps_the_same_variables_to_itself_as_a_comparison_does() -> None:
    found = re.search(r"^const SECRET = /(.+)/(\w*);$", VIEW.read_text(), re.MULTILINE)
    assert found is not None
    assert found.groups() == (comparison._SECRET.pattern, "i")
    assert comparison._SECRET.flags & re.IGNORECASE
