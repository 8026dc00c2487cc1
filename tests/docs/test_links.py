"""Links of the pages that Sphinx does not see lead to a file that is there, and to a heading in it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from blocks import PAGES, ROOT

OUTSIDE = sorted([*ROOT.glob("*.md"), *(ROOT / "examples").glob("*.md")])
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def links(page: Path) -> list[str]:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [target for target in _LINK.findall(text) if "://" not in target]


def anchors(page: Path) -> set[str]:
    """Give the names that GitHub and Sphinx make of headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", sorted({*OUTSIDE, *PAGES}), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_inside_leads_somewhere(page: Path) -> None:
    dead = []
    for target in links(page):
        name, _, anchor = target.partition("#")
        found = (page.parent / name).resolve() if name else page
        if not found.exists() or (anchor and anchor not in anchors(found)):
            dead.append(target)
    assert dead == []


def test_there_are_links() -> None:
    assert sum(len(links(page)) for page in PAGES) > 20


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_no_page_needs_the_network(page: Path) -> None:
    assert (
        re.findall(r"!\[[^\]]*\]\(https?://|<(?:script|img|link)[^>]+https?://", page.read_text(encoding="utf-8")) == []
    )
