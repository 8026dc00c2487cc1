"""Functions that travel keep the name of their file, whichever version of cloudpickle there is."""

from __future__ import annotations

import pickle
from types import CodeType
from typing import Any

import pytest
from cloudpickle import CloudPickler

from jupyter_smx.kernel.request import pickler

SOURCE = """
def outer(number):
    def inner():
        return number + 1
    return inner
"""


@pytest.mark.parametrize("nameless", [False, True], ids=["as installed", "as 3.1.3 does it"])
def test_a_function_and_those_in_it_keep_their_file(nameless: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = CloudPickler.dispatch_table[CodeType]
    if nameless:
        forget: Any = lambda code: usual(code.replace(co_filename="<dynamic-code>"))  # noqa: E731 - one word of a test
        monkeypatch.setitem(CloudPickler.dispatch_table, CodeType, forget)
    made: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(SOURCE, "/home/me/naïve file.py", "exec"), made)  # noqa: S102 - as a notebook's cell
    found = pickle.loads(pickler.dumps(made["outer"]))  # noqa: S301 - made a line before
    assert found(41)() == 42
    codes = (found.__code__, found(41).__code__)
    assert [(code.co_filename, code.co_firstlineno) for code in codes] == [
        ("/home/me/naïve file.py", 2),
        ("/home/me/naïve file.py", 3),
    ]


def test_large_values_go_beside_the_pickle() -> None:
    large, beside = pickle.PickleBuffer(bytearray(b"x" * 10)), list[Any]()
    head = pickler.dumps(large, protocol=5, buffer_callback=beside.append)
    assert bytes(pickle.loads(head, buffers=beside)) == b"x" * 10  # noqa: S301 - made a line before
    assert len(beside) == 1
