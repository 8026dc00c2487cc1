"""A script is ``__main__`` as Python itself makes it: the same text says the same of itself, started either way."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from far_side import Agent

TELL = '''"""What is said of this file."""
text = open(__file__).read()
names = sorted(name for name in globals() if name.startswith("__"))
import inspect, json, os, pickle, sys

class Thing:
    def __init__(self, number):
        self.number = number

def told():
    return {
        "names": names,
        "texts": [__name__, __doc__, __package__, str(__spec__), str(__cached__), os.path.basename(__file__)],
        "loader": [type(__loader__).__name__, __loader__.name, __loader__.get_source("__main__") == text],
        "source": inspect.getsource(Thing),
        "pickled": pickle.loads(pickle.dumps(Thing(3))).number,
        "argv": sys.argv,
        "again": sys.orig_argv[1:] if hasattr(sys, "orig_argv") else sys.argv,
        "is in modules": sys.modules["__main__"].__dict__ is globals(),
        "exit": callable(exit),
        "stdin": sys.stdin.read(),
    }

def square(number):
    return number * number

if __name__ == "__main__":
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    found = told()
    found["method"] = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method("spawn")
    for method in ("fork", "forkserver", "spawn"):
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
            found[method] = list(pool.map(square, [2, 3], timeout=60))
    print(json.dumps(found))
'''


@pytest.mark.parametrize("entry_point", ["train.py", ""])
def test_a_script_says_of_itself_what_it_says_by_python(agent: Agent, tmp_path: Path, entry_point: str) -> None:
    (tmp_path / "train.py").write_text(TELL)
    words = [sys.executable, "train.py", "--name", "x y", "-a", "1"]
    done = subprocess.run(words, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    given = {"name": "x y", "a": "1"}
    theirs = json.loads(done.stdout)
    theirs["argv"] = theirs["again"] = ["train.py", "-a", "1", "--name", "x y"]  # the toolkit sorts them
    assert agent.json(TELL, entry_point=entry_point, hyperparameters=given) == theirs
