"""Mutation testing: what is changed, what is chosen, and which tests a changed module is tried with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("mutmut", reason="pip install -e .[dev]")

import mutation
from mutation import ROOT, Mutant, find_survivors, imported_modules, mutants_of, sample

if TYPE_CHECKING:
    from mutation import Checkout

PATH = Path("jupyter_smx/policy/some.py")
CODE = """
LIMIT = 3

def refusal(count: int | None) -> str:
    if count > LIMIT and count < 10:
        return text("too many", f"{count}", cure="fewer")
    return ""
"""


def test_decisions_are_changed_and_texts_annotations_and_constants_are_not() -> None:
    changes = [mutant.changes() for mutant in mutants_of(PATH, CODE)]
    assert f"{PATH}:5: - if count > LIMIT and count < 10:  + if count >= LIMIT and count < 10:" in changes
    assert any("count > LIMIT or count < 10" in change for change in changes)
    assert [change for change in changes if "text(" in change or "LIMIT = " in change or "def " in change] == []


def test_a_seed_chooses_the_same_mutants_again() -> None:
    mutants = mutants_of(PATH, CODE)
    assert sample(mutants, 3, 7) == sample(mutants, 3, 7)
    assert sample(mutants, 3, 7) != sample(mutants, 3, 8)
    assert len(sample(mutants, 10_000, 7)) == len(mutants)


def test_a_module_is_tried_with_the_tests_that_import_it_and_then_with_all() -> None:
    first, then, last = mutation.tests_of(Path("jupyter_smx/policy/scheduling/reuse.py"), ROOT)
    assert "tests/policy/scheduling/test_reuse.py" in first
    assert (then, last) == (["tests/policy"], [*mutation.BESIDE])
    nobody = mutation.tests_of(Path("jupyter_smx/policy/scheduling/nothing.py"), ROOT)
    assert nobody[0] == ["tests/policy/scheduling"]
    assert imported_modules("import a.b\nfrom c import d\n") == {"a.b", "c", "c.d"}


def test_what_no_test_notices_survives(capsys: pytest.CaptureFixture[str]) -> None:
    mutants = mutants_of(PATH, CODE)

    class Deaf:
        def survives(self, mutant: Mutant) -> bool:
            return "or count" in mutant.code()

    copies: list[Checkout] = [Deaf(), Deaf()]  # type: ignore[list-item]
    assert [mutant for mutant in mutants if "or count" in mutant.code()] == find_survivors(mutants, copies)
    assert f"survived: {PATH}:5: " in capsys.readouterr().out
