"""The names in a host's folder: each stands in ``host_layout.py`` alone, and every path is built from it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from jupyter_smx.agent.system.files import host_layout

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "jupyter_smx"
NAMES = {value for name, value in vars(host_layout).items() if name.isupper() and isinstance(value, str)}
FILES = {name for name in NAMES if "." in name}
OTHER_LAYOUTS = {
    "jupyter_smx/agent/remote/allocation.py": {"notice.json"},  # it imports nothing of the package
    "jupyter_smx/agent/stores/input_cache.py": {"trash"},
    "jupyter_smx/kernel/sagemaker/export.py": {"code"},
    "jupyter_smx/kernel/sagemaker/estimator_call.py": {"code"},
    "jupyter_smx/testing/docker/podman.py": {"log"},
}
"""Folders of other kinds, which have such a name as well."""
JOINS = {"join", "joinpath"}
WRITTEN = re.compile(rf"""['"/}}](?:{"|".join(map(re.escape, sorted(NAMES)))})['"/{{]""")
"""A name as a whole part of a text or of an f-string; code without one need not be parsed."""


def parts_of(text: object) -> set[str]:
    return set(text.split("/")) if isinstance(text, str) and " " not in text else set()


def declared_again(code: str) -> set[str]:
    """Give the names that a module writes as text: of files anywhere, of folders where a path is built."""
    found: set[str] = set()
    if not WRITTEN.search(code):
        return found
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Constant):
            found |= parts_of(node.value) & FILES
        operands: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            operands = [node.right]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in JOINS:
            operands = node.args
        for operand in operands:
            if isinstance(operand, ast.Constant):
                found |= parts_of(operand.value) & NAMES
    return found


def test_no_module_but_the_layout_writes_a_name_of_the_hosts_folder() -> None:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if path != Path(host_layout.__file__):
            found[name] = declared_again(path.read_text(encoding="utf-8")) - OTHER_LAYOUTS.get(name, set())
    assert {name: names for name, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("folder / 'spool'", "spool"),
        ("os.path.join(folder, 'given', number)", "given"),
        ("glob('*/agent.json')", "agent.json"),
        ("f'{folder}/end.json'", "end.json"),
    ],
)
def test_a_second_declaration_is_found(code: str, name: str) -> None:
    assert declared_again(code) == {name}


def test_two_names_of_one_folder_are_different() -> None:
    values = [value for name, value in vars(host_layout).items() if name.isupper() and isinstance(value, str)]
    assert len(values) == len(NAMES)
