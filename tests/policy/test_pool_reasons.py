"""The pages recognize ends of pools by the controller's reasons, which are written in two languages."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_pages_have_the_reasons_of_the_controller() -> None:
    text = (ROOT / "src" / "notifications" / "messages.ts").read_text(encoding="utf-8")
    part = text[text.index("const RELEASED") : text.index("export function isExpectedEnd")]
    reasons = [double or single for single, double in re.findall(r"""'([A-Z][^'\n]+\.)'|"([A-Z][^"\n]+\.)\"""", part)]
    assert len(reasons) == 5
    sources = [path.read_text(encoding="utf-8") for layer in ("controller", "policy") for path in python_files(layer)]
    assert [reason for reason in reasons if not any(f'"{reason}"' in source for source in sources)] == []


def python_files(layer: str) -> list[Path]:
    return [*(ROOT / "jupyter_smx" / layer).rglob("*.py")]
