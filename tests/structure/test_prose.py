"""New and changed prose is plain technical English: docstrings, and lines of the documentation.

Only lines that changed since the check exists are looked at. Several thousand docstrings are older; they are rewritten
when they are touched, and a whole file at once would hide a change behind its wording.
"""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from test_frame import FIRST

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
WORDS = Path(__file__).with_name("prose_words.txt")
MAX_WORDS = 25
"""Words of a docstring's first sentence."""
QUOTES = {
    "docs/contributors/history.md", "docs/moved.md", "docs/glossary.md", "docs/developers/browser.md",
    "docs/developers/controller.md", "docs/developers/kernel.md",
}  # fmt: skip
"""Pages that quote old words, and sections of the old architecture, which were moved as they were."""
CODE = re.compile(r"`[^`]*`|:\w+:`[^`]*`|https?://\S+")


def patterns() -> list[tuple[re.Pattern[str], str]]:
    rows = [line.split(" : ", 1) for line in WORDS.read_text(encoding="utf-8").splitlines() if " : " in line]
    return [(re.compile(word, re.IGNORECASE), cure.strip()) for word, cure in rows if not word.startswith("#")]


def changed_lines() -> dict[str, set[int]]:
    """Give the numbers of the lines that are new or changed, by file; empty without the history."""
    command = [
        "git",
        "diff",
        "--unified=0",
        "--no-color",
        "--diff-filter=AMR",
        FIRST,
        "--",
        "jupyter_smx",
        "docs",
        "README.md",
    ]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found: dict[str, set[int]] = {}
    path = ""
    for line in result.stdout.splitlines():
        if line.startswith("+++ b/"):
            path = line.removeprefix("+++ b/")
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            found.setdefault(path, set()).update(range(first, first + count))
    return found


def docstrings(source: str) -> Iterator[tuple[int, int, str]]:
    """Give first line, last line and text of each docstring."""
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for child in body:
            if (
                isinstance(child, ast.Expr)
                and isinstance(child.value, ast.Constant)
                and isinstance(child.value.value, str)
            ):
                yield child.lineno, child.end_lineno or child.lineno, child.value.value


def faults(text: str) -> list[str]:
    plain = CODE.sub("", text)
    return [f"{found[0]!r}: {cure}" for pattern, cure in patterns() if (found := pattern.search(plain))]


def long_sentence(text: str) -> list[str]:
    first = re.split(r"(?<=[.:])\s|\n\n", CODE.sub("x", text), maxsplit=1)[0]
    count = len(first.split())
    return [f"the first sentence has {count} words: at most {MAX_WORDS}"] if count > MAX_WORDS else []


@pytest.mark.processes  # it starts git
def test_changed_prose_is_plain() -> None:
    changed = changed_lines()
    if not changed:
        pytest.skip(f"The history does not reach back to {FIRST}.")
    found = []
    for path, lines in changed.items():
        text = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).exists() and path not in QUOTES else ""
        if path.endswith(".py"):
            for first, last, doc in docstrings(text):
                if lines >= set(range(first, last + 1)):  # the whole docstring is new
                    found += [f"{path}:{first}: {fault}" for fault in [*faults(doc), *long_sentence(doc)]]
        elif path.endswith(".md"):
            rows = enumerate(text.splitlines(), 1)
            found += [f"{path}:{number}: {fault}" for number, row in rows if number in lines for fault in faults(row)]
    assert not found, "\n".join(found)


def test_the_list_finds_what_it_is_for() -> None:
    assert faults("Tell whoever waits.") == ["'whoever': name the actor"]
    assert faults("Return `nobody` and the known names.") == []
    assert long_sentence(" ".join(["word"] * 26) + ". Short.") == ["the first sentence has 26 words: at most 25"]
