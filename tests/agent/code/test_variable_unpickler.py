"""Variables of other versions of Python, numpy and pandas: values are read, and code is refused."""

from __future__ import annotations

import enum
import subprocess
import sys
import warnings
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path, PurePosixPath
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np
import pytest
from other_pythons import pythons

from jupyter_smx.agent.code import variable_unpickler
from jupyter_smx.kernel.request import payload

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[3]
OTHER = "3.8" if variable_unpickler.python_version() != "3.8" else "3.9"
PLAIN = {
    "numbers": [1, -(2**80), 2.5, float("inf"), 1j, True, None],
    "words": ("ä ✓", b"\x00\xff", bytearray(b"x")),
    "nested": {"a": [1, (2, {3})], frozenset({4}): {"b": []}},
    "times": [date(2026, 1, 2), datetime(2026, 1, 2, 3, 4, tzinfo=timezone(timedelta(hours=2))), timedelta(5)],
    "exact": Decimal("1.10"),
    "path": PurePosixPath("/opt/ml"),
    "large": bytearray(200_000),
}
_COPY = """
import io, pickle, sys
sys.path.insert(0, sys.argv[1])
from jupyter_smx.agent.code import variable_file, variable_unpickler
with open(sys.argv[2], "rb") as file:
    values = {
        name: variable_unpickler.loads(head, buffers=buffers, writer=sys.argv[4])
        for name, head, buffers in variable_file.read(file)
    }
with open(sys.argv[3], "wb") as file:
    variable_file.write(file, {name: variable_file.Packed(value, pickle.dumps) for name, value in values.items()})
print(variable_unpickler.python_version())
"""
_OLD_NUMPY = {
    "__init__.py": "class ndarray: pass\nclass dtype:\n"
    "    def __init__(self, *facts): self.facts = facts\n    def __setstate__(self, state): pass\n",
    "core/__init__.py": "",
    "core/numeric.py": "def _frombuffer(data, kind, shape, order): return [bytes(data), kind.facts[0], shape, order]\n",
}
_READ = """
import sys
sys.path[:0] = sys.argv[1:3]
from jupyter_smx.agent.code import variable_file, variable_unpickler
with open(sys.argv[3], "rb") as file:
    for name, head, buffers in variable_file.read(file):
        print(variable_unpickler.loads(head, buffers=buffers))
"""


def run_python(python: str, code: str, *words: object) -> str:
    command = [python, "-B", "-c", code, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.processes
@pytest.mark.parametrize("python", pythons())
def test_plain_values_go_to_every_python_and_come_back(python: str, tmp_path: Path) -> None:
    packed = payload.pack(PLAIN, tmp_path)
    back = tmp_path / "back"
    version = run_python(python, _COPY, ROOT, packed.path, back, packed.python_version()).strip()
    assert dict(payload.unpack(back, writer=version)) == PLAIN


@pytest.mark.processes
@pytest.mark.parametrize("python", pythons())
def test_an_array_of_numpy_2_is_read_where_numpy_has_the_old_names(python: str, tmp_path: Path) -> None:
    packed = payload.pack({"small": np.arange(3, dtype=np.uint8), "large": np.zeros(100_000)}, tmp_path / "sent")
    for name, text in _OLD_NUMPY.items():
        path = tmp_path / "old" / "numpy" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    read = run_python(python, _READ, ROOT, tmp_path / "old", packed.path).splitlines()
    assert read[0] == r"[b'\x00\x01\x02', 'u1', (3,), 'C']"
    assert read[1].endswith("'f8', (100000,), 'C']")


def by_name(module: str, name: str, argument: str) -> bytes:
    """Pickle a call of a function that need not exist here."""
    return f"c{module}\n{name}\n(V{argument}\ntR.".encode()


def test_an_array_of_numpy_1_is_read_without_a_warning_that_may_be_an_error() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = variable_unpickler.loads(b"cnumpy.core.numeric\n_frombuffer\n.")
    assert found is np._core.numeric._frombuffer  # type: ignore[attr-defined]


def test_a_path_of_python_3_13_is_read() -> None:
    assert variable_unpickler.loads(by_name("pathlib._local", "PurePosixPath", "/opt")) == PurePosixPath("/opt")


def test_a_class_of_an_earlier_pandas_is_found_where_pandas_says(monkeypatch: pytest.MonkeyPatch) -> None:
    places = {("pandas.old", "Int64Index"): ("pandas.new", "Index")}
    modules: Mapping[str, dict[str, Any]] = {
        "pandas": {},
        "pandas.compat": {},
        "pandas.compat.pickle_compat": {"_class_locations_map": places},
        "pandas.new": {"Index": str},
    }
    for name, content in modules.items():
        module = ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
    assert variable_unpickler.loads(by_name("pandas.old", "Int64Index", "x")) == "x"
    with pytest.raises(ModuleNotFoundError, match=r"pandas\.gone"):
        variable_unpickler.loads(by_name("pandas.gone", "Index", "x"))


@pytest.mark.parametrize("module", ["no_such", "numpy._core.no_such", "pandas.no_such"])
def test_a_name_that_is_nowhere_is_the_error_of_the_name_that_was_written(module: str) -> None:
    with pytest.raises(ImportError, match=f"No module named '{module.partition('.no')[0]}"):
        variable_unpickler.loads(by_name(module, "thing", "x"))


def make_code() -> dict[str, Any]:
    offset = 2
    names: dict[str, Any] = {"__name__": "__main__"}
    exec("class Net:\n    width = 3\nclass Color(__import__('enum').Enum):\n    RED = 1\n", names)  # noqa: S102
    color = names["Color"]
    assert issubclass(color, enum.Enum)
    return {
        "function": lambda x: x + offset,
        "class": names["Net"],
        "object": names["Net"](),
        "member": color.RED,
        "inside": {"deep": [lambda: 1]},
        "code": compile("1 + 1", "cell", "eval"),
    }


@pytest.mark.parametrize("name", make_code())
def test_code_is_refused_from_another_python_and_read_from_the_same(name: str) -> None:
    written = cloudpickle.dumps(make_code()[name], protocol=5)
    with pytest.raises(variable_unpickler.CodeVersionError, match=f"which Python {OTHER} compiled"):
        variable_unpickler.loads(written, writer=OTHER)
    for writer in ("", variable_unpickler.python_version()):
        variable_unpickler.loads(written, writer=writer)


@pytest.mark.parametrize("value", [SimpleNamespace(a=1), {}.keys(), len, Path, np.dtype("f4")])
def test_what_cloudpickle_writes_by_name_is_read_from_another_python(value: Any) -> None:
    read = variable_unpickler.loads(cloudpickle.dumps(value, protocol=5), writer=OTHER)
    assert list(read) == list(value) if isinstance(value, type({}.keys())) else read == value
