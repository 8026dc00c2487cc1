"""The pages recognize some facts by the controller's sentences, which are written in two languages."""

from __future__ import annotations

import re
from pathlib import Path

from jupyter_smx.policy.lifecycle.launch import WAIT_PREFIX

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "src"


def test_the_pages_have_the_reasons_for_which_pools_end() -> None:
    text = (PAGES / "notifications" / "messages.ts").read_text(encoding="utf-8")
    part = text[text.index("const RELEASED") : text.index("export function isExpectedEnd")]
    reasons = [one or other for one, other in re.findall(r"""'([A-Z][^'\n]+\.)'|"([A-Z][^"\n]+\.)\"""", part)]
    assert len(reasons) == 5
    layers = (ROOT / "jupyter_smx" / layer for layer in ("controller", "policy"))
    sources = [path.read_text(encoding="utf-8") for layer in layers for path in layer.rglob("*.py")]
    assert [reason for reason in reasons if not any(f'"{reason}"' in source for source in sources)] == []


def test_the_pages_have_the_beginning_of_a_wait_at_an_engine() -> None:
    assert f"'{WAIT_PREFIX}'" in (PAGES / "state" / "waiting.ts").read_text(encoding="utf-8")
