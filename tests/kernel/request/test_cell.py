from __future__ import annotations

import threading
import warnings

import pytest

from jupyter_smx.kernel.failures import hints
from jupyter_smx.kernel.request import cell, script
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.job_spec import JobSpec


def test_a_syntax_error_has_the_line_that_the_notebook_shows() -> None:
    source = cell.prepend_blank_lines("x = 1\ny = = 2\n", 1)
    with pytest.raises(cell.CellSyntaxError, match=r'"<train-digits>", line 3') as raised:
        cell.parse_cell(source, "<train-digits>")
    assert "y = = 2" in str(raised.value)
    assert "Nothing was started" in str(raised.value)


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("await fetch()", "asyncio.run"),
        ("x = 1\n!pip install y", "magics, ! and [?] work in the notebook only"),
        ("%time f()", "work in the notebook only"),
        ("return 3", "outside function"),
        ("x = '\0'", "null bytes"),
        (" \n\n", "The cell is empty"),
    ],
)
def test_what_a_job_cannot_run_is_refused_before_it_costs_anything(code: str, sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        cell.parse_cell(cell.prepend_blank_lines(code, 1), "<train>")


def test_imports_are_listed_once_from_the_top_level_only() -> None:
    tree = cell.parse_cell(
        "from __future__ import annotations\nimport os, sklearn.datasets as d\nfrom sklearn.svm import SVC\n"
        "try:\n  import torch\nexcept ImportError:\n  torch = None\nimport os\nfrom . import x\n"
        "def f():\n  import secret\n",
        "<train>",
    )
    assert cell.top_level_imports(tree) == ("os", "sklearn.datasets", "sklearn.svm", "torch")


def test_what_python_warns_of_is_told_by_the_job_alone() -> None:
    source = "x = '\\d'\nassert (x, 'always true')\n"
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        compile(source, "<train-digits>", "exec")
        assert len(told) == 2, "Python itself warns of both"
        told.clear()
        cell.parse_cell(source, "<train-digits>")
        assert not script.is_empty(source)
        assert hints.missing_variable_hint("y", JobSpec(kind="train", source=source)) == ""
        with pytest.raises(cell.CellSyntaxError):
            cell.parse_cell(source + "return 1", "<train-digits>")
    assert told == []


def test_filters_of_warnings_are_the_notebooks_again_whatever_threads_look_at_code() -> None:
    def two_that_cross() -> None:
        first, second = cell.suppress_compile_warnings(), cell.suppress_compile_warnings()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        second.__exit__(None, None, None)

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        before = list(warnings.filters)
        thread = threading.Thread(target=two_that_cross)
        thread.start()
        thread.join()
        assert list(warnings.filters) == before
        with cell.suppress_compile_warnings():
            warnings.warn("of another thread's code", UserWarning, stacklevel=1)
    assert len(told) == 1, "and what is no compiler's is never kept"
