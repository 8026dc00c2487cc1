from __future__ import annotations

import threading
import warnings

import pytest

from jupyter_smx.kernel.request import cell, script
from jupyter_smx.model.errors import ValidationError


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
        ("files = !ls", "work in the notebook only. Run the command with subprocess.run. Nothing was started."),
        ("a, b = !ls -1", "Run the command with subprocess.run"),
        ("for name in !ls:\n    print(name)", "Run the command with subprocess.run"),
        ("best = %timeit -o f()", "work in the notebook only. Nothing was started."),
        ("x = y = = !3", "^(?!.*notebook)"),
        ("if x != !y: pass", "^(?!.*notebook)"),
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


def test_names_of_the_notebook_are_those_that_the_code_reads_and_never_assigns() -> None:
    source = "print(cfg, np.pi, unknown, _hidden)\nown = cfg\nfor each in own: print(each)\ndel gone"
    names = {"cfg": 1, "np": warnings, "own": 2, "each": 3, "gone": 4, "_hidden": 5, "unread": 6}
    assert cell.notebook_names(cell.parse_cell(source, "<train>"), names) == {"cfg": "", "np": "warnings"}


def test_names_of_the_notebook_are_counted_each_once() -> None:
    tree = cell.parse_cell("np.x\n" * 250 + "df.y", "<train>")
    assert cell.notebook_names(tree, {"np": warnings, "df": 1}) == {"np": "warnings", "df": ""}


@pytest.mark.parametrize(
    ("local", "found"),
    [
        ("def clean():\n    df = 1\n    return df", {"df": ""}),
        ("class Clean:\n    df = 1", {"df": ""}),
        ("rows = [df for df in range(3)]", {"df": ""}),
        ("def load():\n    global df\n    df = 1\nload()", {}),
        ("if True:\n    df = 1", {}),
    ],
)
def test_a_name_that_is_local_to_a_function_is_still_one_of_the_notebook(local: str, found: dict[str, str]) -> None:
    assert cell.notebook_names(cell.parse_cell(f"{local}\nprint(df)", "<train>"), {"df": 1}) == found


def test_what_python_warns_of_is_told_by_the_job_alone() -> None:
    source = "x = '\\d'\nassert (x, 'always true')\n"
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        compile(source, "<train-digits>", "exec")
        assert len(told) == 2, "Python itself warns of both"
        told.clear()
        cell.parse_cell(source, "<train-digits>")
        assert not script.is_empty(source)
        assert cell.missing_variable_hint("y", source) == ""
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


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "def fit():\n    model = 1\n",
            "It is a local variable of fit(). Return it and assign it at the top level.",
        ),
        ("async def fit():\n    for model in []: pass\n", "It is a local variable of fit()"),
        ("class A:\n    def fit(self):\n        with x as model: pass\n", "It is a local variable of fit()"),
        ("def fit():\n    return model\n", ""),
        ("def (", ""),
    ],
)
def test_a_variable_that_is_local_to_a_function_is_said_to_be(source: str, said: str) -> None:
    found = cell.missing_variable_hint("model", source)
    assert found.startswith(said) if said else found == ""
