"""What imports of a zygote change for the whole process: a job has it when it imports the package, and not before."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.code.import_effects import ImportEffects
from jupyter_smx.agent.system.interpreter.global_settings import Setting

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from far_side import Agent

METHODS = pytest.mark.parametrize("method", ["fork", "spawn"])

LIBRARIES = {
    "matplotlib/__init__": "from matplotlib import units, cm\nrcParams = {'size': 10, 'own': 0}\nrcParams['own'] = 1",
    "matplotlib/units": "registry = {int: 1}",
    "matplotlib/cm": "class _colormaps: _cmaps = {'viridis': 1}",
    "pandas/__init__": """
from pandas._config import config
def set_option(name, value):
    part, _, last = name.rpartition(".")
    config._global_config[part][last] = value
set_option("display.width", 80)
""",
    "pandas/_config/__init__": "",
    "pandas/_config/config": "_global_config = {'display': {'width': None, 'rows': 60}}",
    "torch": """
_values = {"type": 32, "precision": "highest", "deterministic": False, "gradients": True, "benchmark": False}
def get_default_dtype(): return _values["type"]
def set_default_dtype(value): _values["type"] = value
def get_float32_matmul_precision(): return _values["precision"]
def set_float32_matmul_precision(value): _values["precision"] = value
def are_deterministic_algorithms_enabled(): return _values["deterministic"]
def use_deterministic_algorithms(value): _values["deterministic"] = value
def is_grad_enabled(): return _values["gradients"]
def set_grad_enabled(value): _values["gradients"] = value
def set_num_threads(count): pass
class _C:
    _get_cudnn_benchmark = staticmethod(lambda: _values["benchmark"])
    _set_cudnn_benchmark = staticmethod(lambda value: _values.update(benchmark=value))
class ones:
    def __init__(self, *shape, requires_grad=False): pass
    def __matmul__(self, other): return self
    def sum(self): return self
    def backward(self): pass
""",
}
"""Stand in for libraries that are too large for this test: their settings where the real ones have them."""
CHANGES = """
import builtins, decimal, locale, logging, os, signal, socket, sys, threading, warnings
import numpy, pandas, matplotlib, torch
warnings.filterwarnings("ignore", message="of changing")
warnings.filterwarnings("error", category=FutureWarning, append=True)
warnings.showwarning = lambda *words, **more: print("shown")
os.environ["CHANGED"] = "yes"
os.environ.setdefault("DEFAULT", "of the package")
sys.path.append("/changing")
sys.setrecursionlimit(3210)
sys.excepthook = lambda *error: print("hook")
socket.setdefaulttimeout(12.5)
decimal.getcontext().prec = 50
logging.getLogger().setLevel(logging.DEBUG)
logging.getLogger().addHandler(logging.NullHandler())
signal.signal(signal.SIGUSR2, signal.SIG_IGN)
numpy.set_printoptions(precision=3)
numpy.seterr(all="ignore")
pandas.set_option("display.rows", 5)
matplotlib.rcParams["size"] = 20
matplotlib.units.registry[str] = 2
matplotlib.cm._colormaps._cmaps["mako"] = 2
torch.set_default_dtype(64)
torch.set_float32_matmul_precision("high")
torch.set_grad_enabled(False)
torch._C._set_cudnn_benchmark(True)
"""
STATE = """
import decimal, json, logging, os, signal, socket, sys, warnings
import numpy, pandas, matplotlib, torch

def state():
    numpy_print = numpy.get_printoptions()
    return json.loads(json.dumps({
        "filters": [str(one) for one in warnings.filters],
        "showwarning": warnings.showwarning.__name__,
        "variables": [os.environ.get(name) for name in ("CHANGED", "DEFAULT")],
        "path": "/changing" in sys.path,
        "recursion": sys.getrecursionlimit(),
        "hook": sys.excepthook.__name__,
        "timeout": socket.getdefaulttimeout(),
        "precision": decimal.getcontext().prec,
        "logging": [logging.getLogger().level, len(logging.getLogger().handlers)],
        "signal": int(signal.getsignal(signal.SIGUSR2)),
        "numpy": [numpy_print["precision"], numpy.geterr()],
        "pandas": pandas._config.config._global_config,
        "matplotlib": [matplotlib.rcParams, len(matplotlib.units.registry), len(matplotlib.cm._colormaps._cmaps)],
        "torch": torch._values,
    }))
"""


@pytest.fixture
def packages(site: Path) -> None:
    """Install the libraries, a package that changes their settings and Python's, and one that imports that package."""
    for name, text in {
        **LIBRARIES,
        "changing": CHANGES,
        "above": "import changing\n",
        "beside": "import numpy\n",
    }.items():
        path = site / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@METHODS
@pytest.mark.usefixtures("packages")
def test_a_job_has_the_settings_of_what_it_imports_and_of_nothing_else(
    preload: Callable[..., tuple[Agent, dict[str, Any]]], site: Path, method: str
) -> None:
    preloads = ("beside", "above", "changing", "pandas", "matplotlib", "torch")
    agent, news = preload(*preloads, start_method=method)
    assert news["loaded"] == list(preloads), news
    for imported in ("", "import beside", "import above", "import importlib; importlib.import_module('changing')"):
        source = f"{STATE}\nbefore = state()\n{imported}\nprint(json.dumps([before, state()]))"
        environment = {"DEFAULT": "of the job"}
        code = [sys.executable, "-c", source]
        cold = json.loads(subprocess.check_output(code, env={"PYTHONPATH": str(site), **environment}))
        warm = agent.json(source, environment=environment)
        assert warm == cold, imported
        assert (warm[0] == warm[1]) == (imported in ("", "import beside"))


@pytest.mark.usefixtures("packages")
def test_a_change_holds_from_the_first_import_on_and_what_the_job_sets_afterwards_stays(
    preload: Callable[..., tuple[Agent, dict[str, Any]]],
) -> None:
    agent, _news = preload("changing")
    seen = agent.json("""
import json, os, pandas, warnings
seen = ["CHANGED" in os.environ]
import changing
seen.append("CHANGED" in os.environ)
os.environ["CHANGED"] = "mine"
pandas.set_option("display.rows", 7)
warnings.resetwarnings()
import changing
seen += [os.environ["CHANGED"], pandas._config.config._global_config["display"]["rows"], warnings.filters]
print(json.dumps(seen))
""")
    assert seen == [False, True, "mine", 7, []]


def _listed(*packages: tuple[str, list[int]]) -> tuple[ImportEffects, list[int]]:
    """Let packages, one after the other, make a list what they give; the list belongs to ``owner``."""
    values = [1, 2]
    effects = ImportEffects([Setting("owner", lambda: [*values], lambda new: values.__setitem__(slice(None), new))])
    for package, new in packages:
        effects.begin_module(package)
        values[:] = new
        effects._compare()
        effects._packages.pop()
    return effects, values


def test_what_the_owner_of_a_setting_does_to_it_is_no_change() -> None:
    effects, values = _listed(("owner", [1, 2, 3]), ("other", [0, 1, 2, 3]), ("owner.part", [0, 1, 2, 3, 4]))
    effects.undo()
    assert values == [1, 2, 3, 4]


def test_changes_of_packages_that_a_job_does_not_import_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    effects, values = _listed(("first", [5, 1, 2]), ("second", [5, 1]), ("third", [6, 5, 1, 7]))
    effects.undo()
    assert values == [1, 2]
    monkeypatch.setattr(
        effects, "_affected", {"third": {"third"}, "first": {"first"}, "top": {"first", "second", "third"}}
    )
    effects.redo("third")
    assert values == [6, 1, 2, 7]
    effects.redo("unknown")
    effects.redo("first")
    assert values == [5, 6, 1, 2, 7]
    effects.redo("top")
    effects.redo("top")
    assert values == [5, 6, 1, 7]
