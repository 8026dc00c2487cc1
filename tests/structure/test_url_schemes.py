"""Schemes of URLs: each list and the pattern of a URL stand in ``agent/stores/url_schemes.py`` alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from jupyter_smx.agent.stores import url_schemes

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "jupyter_smx"
SHIPPED_TESTS = PACKAGE / "testing"
SCHEMES = {*url_schemes.BUCKETS, *url_schemes.WEB, *url_schemes.SERVERS}
PATTERNS = (url_schemes.SCHEME, "[a-z][a-z0-9+.-]*")


def declared_again(code: str) -> list[str]:
    """Give the collections with two schemes or more, and the patterns of a scheme, that a module writes."""
    found: list[str] = []
    quoted = sum(f"{mark}{scheme}{mark}" in code for scheme in SCHEMES for mark in "'\"")
    if quoted < 2 and not any(pattern in code for pattern in PATTERNS):
        return found  # parsing takes longer than all else here
    for node in ast.walk(ast.parse(code)):
        items = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
        schemes = [item.value for item in items if isinstance(item, ast.Constant) and item.value in SCHEMES]
        found += [", ".join(schemes)] if len(schemes) > 1 else []
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found += [node.value for pattern in PATTERNS if pattern in node.value]
    return found


def test_no_module_but_the_schemes_declares_schemes_or_the_form_of_a_url() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): declared_again(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
        if path != Path(url_schemes.__file__) and SHIPPED_TESTS not in path.parents
    }
    assert {name: texts for name, texts in found.items() if texts} == {}


@pytest.mark.parametrize(
    "code", ["WEB = ('http', 'https')", "{'s3': 1, 'gs': 2}", "re.compile(r'[A-Za-z][A-Za-z0-9+.-]+://')"]
)
def test_a_second_declaration_is_found(code: str) -> None:
    assert len(declared_again(code)) == 1


@pytest.mark.parametrize(
    ("text", "is_url"),
    [
        ("s3://b/k", True),
        ("zip://a::s3://b/k", True),
        ("simplecache::s3://b", True),
        ("C:/data", False),
        ("/data", False),
    ],
)
def test_a_url_or_a_chain_is_told_from_a_path(text: str, is_url: bool) -> None:
    assert (url_schemes.URL_OR_CHAIN.match(text) is not None) is is_url
