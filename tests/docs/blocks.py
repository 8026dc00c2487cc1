"""Fenced blocks of a Markdown page: what each one says, in which language, and what its info string asks for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
HISTORY = ROOT / "docs" / "contributors" / "history.md"
"""Quotes what users typed wrong and what is gone."""
PAGES = sorted({ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")} - {HISTORY})

EXECUTED = ("ipython", "python", "console")
INERT = {"output": "what the block above it prints", "text": "a drawing", "toml": "parsed", "json": "parsed"}

_FENCE = re.compile(r"^(?P<indent> *)(?P<marks>`{3,}|:{3,})(?P<info>.*)$")


class Block(NamedTuple):
    """One fenced block; ``line`` is that of its opening fence, ``info`` the words after the language."""

    page: Path
    line: int
    language: str
    info: tuple[str, ...]
    text: str

    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def option(self, name: str) -> str:
        """Give VALUE of ``name=VALUE`` in the info string."""
        return next((word.partition("=")[2] for word in self.info if word.startswith(f"{name}=")), "")

    def skipped(self) -> str:
        """Give the reason why the block is not executed, after ``skip:``; empty when it is."""
        return " ".join(self.info).partition("skip:")[2].strip()


def blocks(page: Path) -> list[Block]:
    """List the blocks of a page, outermost fences only."""
    found: list[Block] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if fence is None:
            at += 1
            continue
        closing = re.compile(rf"^ *{fence['marks'][0]}{{{len(fence['marks'])},}} *$")
        end = next((number for number in range(at + 1, len(lines)) if closing.match(lines[number])), len(lines))
        inside = [line.removeprefix(fence["indent"]) for line in lines[at + 1 : end]]
        language, *info = fence["info"].split() or [""]
        found.append(Block(page, at + 1, language, tuple(info), "\n".join(inside)))
        at = end + 1
    return found


def is_example(block: Block) -> bool:
    """Say whether a reader does something with the block: runs it, types it in, or keeps it as a file."""
    return (block.language in EXECUTED or bool(block.option("file"))) and not block.skipped()


def expected(page_blocks: list[Block], block: Block) -> str | None:
    """Give the text of the ``output`` block that follows a block, None where there is none."""
    at = page_blocks.index(block) + 1
    following = page_blocks[at] if at < len(page_blocks) else None
    return following.text if following is not None and following.language == "output" else None
