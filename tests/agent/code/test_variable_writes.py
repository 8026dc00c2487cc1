"""Which variables a script sets for itself, read from its source."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.agent.code.environ.writes import Write, may_write, writes_in

OS = ("os",)


@pytest.mark.parametrize(
    ("source", "writes"),
    [
        ('import os\nos.environ["X"] = "1"', [Write("X", "1", imported=OS)]),
        ('import os as o\no.environ["X"] = str(4)', [Write("X", "4", imported=OS)]),
        ('from os import environ\nenviron["X"] = f"{1}"', [Write("X", None, known=False, imported=OS)]),
        ('import os\nenv = os.environ\nenv["X"] = "1"', [Write("X", "1", imported=OS)]),
        ('import os\nos.environ.setdefault("X", "1")', [Write("X", "1", default=True, imported=OS)]),
        ('import os\nos.putenv("X", "1")', [Write("X", "1", imported=OS)]),
        ('from os import putenv as p\np("X", "1")', [Write("X", "1", imported=OS)]),
        ('import os\nos.unsetenv("X")', [Write("X", None, imported=OS)]),
        ('import os\ndel os.environ["X"]', [Write("X", None, imported=OS)]),
        ('import os\nos.environ.pop("X", None)', [Write("X", None, imported=OS)]),
        ('import os\nos.environ |= {"X": "1"}', [Write("X", "1", imported=OS)]),
        ('import os\nos.environ["X"] += ":b"', [Write("X", None, known=False, imported=OS)]),
        (
            'import os\nos.environ.update({"X": "1"}, Y="2", **dict(Z="3"))',
            [Write("X", "1", imported=OS), Write("Y", "2", imported=OS), Write("Z", "3", imported=OS)],
        ),
        (
            'import os\nos.environ["X"], other = "1", 2\na = os.environ["Y"] = "2"',
            [Write("X", "1", imported=OS), Write("Y", "2", imported=OS)],
        ),
        (
            'import os\nfor name in ("X", "not a name"):\n    os.environ[name] = "1"',
            [Write("X", None, known=False, imported=OS), Write("1", None, known=False)][:1],
        ),
    ],
)
def test_each_way_to_set_a_variable_is_found(source: str, writes: list[Write]) -> None:
    assert list(writes_in(source)) == writes


def test_what_is_imported_for_certain_before_a_change_is_told() -> None:
    source = """
import os, numpy.random
try:
    import torch
except ImportError:
    import other
if os.path.exists("x"):
    import maybe
def later():
    import never
from . import own
from sklearn.cluster import KMeans
os.environ["X"] = "1"
import pandas
"""
    (write,) = writes_in(source)
    assert write.imported == ("numpy", "os", "sklearn", "torch")


@pytest.mark.parametrize(
    "source",
    [
        "import os\nprint(os.environ['SM_X'], os.environ.get('Y', 'x'), dict(os.environ))\nz = 1",
        "import os\nfor name in os.environ: pass\nassert os.environ['X'] == '1'\nif 'X' in os.environ: pass\n",
        "parser.add_argument('--x', default=os.environ['SM_MODEL_DIR'])\n",
    ],
)
def test_a_script_that_only_reads_need_not_be_parsed(source: str) -> None:
    assert not may_write(source)
    assert writes_in(source) == ()


@pytest.mark.parametrize("source", ["os.environ['X'] = (", "os.environ[" * 9999, "os.environ\0"])
def test_what_is_no_python_sets_nothing(source: str) -> None:
    assert writes_in(source) == ()


@given(st.text("oseniron.[]'X=1dlpu\n ", max_size=60))
def test_any_text_is_read(text: str) -> None:
    writes_in(f"import os\n{text}os.environ['X'] = '1'")
