"""Names of modules, classes, functions, test files and TypeScript files: the field's words, one meaning each."""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
WORDS = Path(__file__).with_name("name_words.txt")
GLOSSARY = ROOT / "docs" / "glossary.md"
OLD_TEST_FILES = Path(__file__).with_name("old_test_files.txt")
"""Test files that existed before the check; they keep their names."""

SMALL = 40
"""Lines below which a module says in its first line why it is a file of its own."""

ENTRIES, MOST_ENTRIES = 15, 20
"""Entries of a folder; more than the first number need a sentence in the package's docstring."""


class Facts(NamedTuple):
    """What the checks need of a module. Trees would stay in memory, and each look for garbage goes through them."""

    docstring: str
    definitions: list[tuple[int, str]]
    """Line and name of each class and function."""
    classes: list[str]
    """Classes at the top of the module."""


@functools.cache
def facts(path: Path) -> Facts:
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)]
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    return Facts(ast.get_docstring(tree) or "", [(node.lineno, node.name) for node in nodes], classes)


@functools.cache
def banned() -> dict[str, str]:
    rows = [line.split(None, 1) for line in WORDS.read_text(encoding="utf-8").splitlines() if line[:1].isalpha()]
    return {word: instead.strip() for word, instead in rows}


def parts(name: str) -> list[str]:
    return [part.lower() for part in re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+", name)]


def banned_in(name: str) -> list[str]:
    return [f"{part} (write: {banned()[part]})" for part in parts(name) if part in banned()]


BUILT = {"__pycache__", "labextension", "_version.py"}


@functools.cache
def sources() -> list[str]:
    """Return the files that people write, as paths from the top; builds and hidden folders are left out."""
    paths = [path.relative_to(ROOT) for top in ("jupyter_smx", "src", "tests") for path in (ROOT / top).rglob("*")]
    return sorted(
        path.as_posix()
        for path in paths
        if (ROOT / path).is_file() and not any(part in BUILT or part.startswith(".") for part in path.parts)
    )


@functools.cache
def modules() -> list[Path]:
    return [ROOT / name for name in sources() if name.startswith("jupyter_smx/") and name.endswith(".py")]


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def is_exempt(path: Path, name: str) -> bool:
    """Allow names of tests, which are sentences, and of state machine rules of the simulation."""
    return name.startswith("test_") or relative(path).startswith("jupyter_smx/testing/simulation/")


def test_no_class_or_function_has_a_word_of_the_list() -> None:
    found = {
        f"{relative(path)}:{line} {name}": words
        for path in modules()
        for line, name in facts(path).definitions
        if (words := banned_in(name)) and not is_exempt(path, name)
    }
    assert found == {}


def test_no_module_has_a_word_of_the_list() -> None:
    folders = sorted({path.parent for path in modules()})
    assert len(folders) > 50
    assert {relative(path): words for path in (*modules(), *folders) if (words := banned_in(path.stem))} == {}


def test_no_typescript_file_has_a_word_of_the_list() -> None:
    files = [path for kind in ("*.ts", "*.tsx") for path in sorted((ROOT / "src").rglob(kind))]
    assert len(files) > 100
    assert {relative(path): words for path in files if (words := banned_in(path.name.split(".")[0]))} == {}


def test_new_test_files_have_no_word_of_the_list() -> None:
    old = set(OLD_TEST_FILES.read_text(encoding="utf-8").split())
    files = [path for folder in ("tests", "ui-tests") for path in sorted((ROOT / folder).rglob("*.py"))]
    names = {path.stem for path in files}
    assert {name: words for name in names - old if (words := banned_in(name))} == {}
    assert old <= names, "a name that is gone needs no exemption"


def public_classes() -> dict[str, dict[str, list[str]]]:
    """Return the files of each public class by name and layer."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path in modules():
        layer = path.relative_to(ROOT / "jupyter_smx").parts[0]
        for name in facts(path).classes:
            if not name.startswith("_"):
                found[name][layer].append(relative(path))
    return found


def test_a_layer_has_no_two_public_classes_of_one_name() -> None:
    assert {
        name: files for name, layers in public_classes().items() for files in layers.values() if len(files) > 1
    } == {}


def test_the_glossary_says_why_a_class_name_occurs_in_several_layers() -> None:
    shared = GLOSSARY.read_text(encoding="utf-8").partition("## Class names in several layers")[2]
    explained = set(re.findall(r"^\| `(\w+)` \|", shared, re.MULTILINE))
    several = {name for name, layers in public_classes().items() if len(layers) > 1}
    assert several - explained == set()
    assert explained - several == set(), "the glossary explains names that occur once"


def test_a_small_module_says_why_it_is_a_file_of_its_own() -> None:
    reason = re.compile(r"\b(so that|because|apart|separate|of its own)\b", re.IGNORECASE)
    unexplained = [
        relative(path)
        for path in modules()
        if path.name not in {"__init__.py", "__main__.py"}
        and len(path.read_text(encoding="utf-8").splitlines()) < SMALL
        and not reason.search(facts(path).docstring.partition("\n")[0])
        and "/migrations/" not in relative(path)
    ]
    assert unexplained == []


def test_a_folder_has_about_fifteen_entries() -> None:
    entries: dict[str, set[str]] = defaultdict(set)
    for name in sources():
        if name.startswith(("jupyter_smx/", "src/", "tests/")) and "recordings/" not in name:
            first, *rest = name.split("/")
            for part in rest:
                entries[first].add(part)
                first = f"{first}/{part}"
    crowded = {}
    for folder, names in entries.items():
        page = ROOT / folder / "__init__.py"
        explained = not page.exists() or "entries" in facts(page).docstring
        if len(names) > (MOST_ENTRIES if explained else ENTRIES):
            crowded[folder] = len(names)
    assert crowded == {}
