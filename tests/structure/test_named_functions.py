"""The pages that follow the code name functions that exist."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "jupyter_smx"
PAGES = ("docs/life-of-a-job.md", "docs/architecture.md")
NAME = re.compile(r"`([a-z_]+(?:\.\w+)+)`")
FILE = re.compile(r"`(src/[\w/.-]+)`")


@functools.cache
def definitions(module: Path) -> dict[str, ast.AST]:
    """Give functions, classes, methods and assigned names of a module, by their dotted names."""
    found: dict[str, ast.AST] = {}
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found[node.name] = node
        if isinstance(node, ast.ClassDef):
            functions = (child for child in node.body if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)))
            found |= {f"{node.name}.{child.name}": child for child in functions}
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        found |= {target.id: node for target in targets if isinstance(target, ast.Name)}
    return found


def exists(name: str) -> bool:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        path, rest = PACKAGE.joinpath(*parts[:length]), ".".join(parts[length:])
        if path.is_dir():
            return not rest
        if path.with_suffix(".py").is_file():
            return not rest or rest in definitions(path.with_suffix(".py"))
    return False


def names(page: str) -> list[str]:
    layers = {path.stem for path in PACKAGE.iterdir()}
    text = (ROOT / page).read_text(encoding="utf-8")
    found = {name for name in NAME.findall(text) if name.split(".")[0] in layers}
    return sorted(name for name in found if not name.endswith((".gz", ".json", ".py", ".sock", ".log", ".1")))


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_exists(page: str) -> None:
    found = names(page)
    assert found
    assert [name for name in found if not exists(name)] == []
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [name for name in FILE.findall(text) if not (ROOT / name).exists()] == []


def test_a_name_that_is_gone_is_noticed() -> None:
    assert exists("policy.lifecycle.next_step.next_job_step")
    assert not exists("policy.lifecycle.next_step.next_job_steps")
    assert not exists("policy.lifecycle.no_module.next_job_step")
