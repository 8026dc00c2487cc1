"""Clocks that imports start, and numbers of threads that they read: a warm job has those of a cold one."""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime, timedelta, timezone
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.system.interpreter.clocks import Moments, StartTimes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from far_side import Agent

    Preload = Callable[..., tuple[Agent, dict[str, Any]]]

METHODS = pytest.mark.parametrize("method", ["fork", "spawn"])
CLOCKS = """
import datetime, logging, time
START, START_NS, SECONDS = time.time(), time.time_ns(), int(time.time())
BOOT, BOOT_NS, COUNTER = time.monotonic(), time.monotonic_ns(), time.perf_counter()
HERE, UTC, NAIVE_UTC = datetime.datetime.now(), datetime.datetime.now(datetime.timezone.utc), datetime.datetime.utcnow()
OLD, HOUR, LATER = time.time() - 86400, 3600.0, time.time() + 600
"""
AGES = """
import datetime, json, logging, time, clocks
now, boot = time.time(), time.monotonic()
record = logging.LogRecord("x", 10, "x", 1, "x", (), None)
print(json.dumps([
    now - clocks.START, now - clocks.START_NS / 1e9, now - clocks.SECONDS,
    boot - clocks.BOOT, boot - clocks.BOOT_NS / 1e9, boot - clocks.COUNTER,
    now - clocks.HERE.timestamp(), now - clocks.UTC.timestamp(),
    now - clocks.NAIVE_UTC.replace(tzinfo=datetime.timezone.utc).timestamp(), record.relativeCreated / 1000,
    clocks.OLD, clocks.HOUR, clocks.LATER]))
"""


@METHODS
def test_clocks_of_modules_begin_with_the_job(preload: Preload, site: Path, method: str) -> None:
    (site / "clocks.py").write_text(CLOCKS)
    agent, news = preload("clocks", start_method=method)
    assert news["loaded"] == ["clocks"], news
    for _ in range(2):
        record = agent.run(AGES)
        *ages, old, hour, later = json.loads(record["text"])
        # From the start of the job's process to its end, and the part of a second that SECONDS leaves out.
        most = record["at"]["exited"] - record["at"]["received"] + 1.0
        assert [age for age in ages if not -0.001 <= age <= most] == []
        assert hour == 3600.0
        assert later - old == pytest.approx(87000, abs=1)
        assert time.time() - old > 86400


def test_only_moments_of_the_imports_are_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    utc = datetime.now(timezone.utc)
    module = ModuleType("kept")
    values: dict[str, Any] = {
        "huge": 10**5000, "inside": now - 50.0, "before": now - 200.0, "after": now + 5.0, "flag": True, "zero": 0,
        "boot": 1000.123456, "round": 1000.5, "zoned": utc - timedelta(seconds=50), "date": utc - timedelta(days=1),
    }  # fmt: skip
    vars(module).update(values)
    monkeypatch.setitem(sys.modules, "kept", module)
    times = StartTimes(Moments(now - 100, 990.0))
    times.find(Moments(now - 10, 1010.0))
    times.restart()
    moved = {name for name, value in values.items() if getattr(module, name) != value}
    assert moved == {"inside", "boot", "zoned"}
    assert now <= module.inside <= time.time()
    assert utc <= module.zoned <= datetime.now(timezone.utc)


@METHODS
def test_a_package_that_reads_the_number_of_threads_at_its_import_has_that_of_the_job(
    preload: Preload, site: Path, method: str
) -> None:
    names = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"
    (site / "reading.py").write_text(f"import os\nread = [os.environ[name] for name in {names}]\n")
    agent, news = preload("reading", threads=3, start_method=method)
    assert news["loaded"] == ["reading"], news
    seen = "import json, os, reading\nprint(json.dumps([*reading.read, os.environ['OMP_NUM_THREADS']]))"
    assert agent.json(seen) == ["3"] * 4


NUMEXPR = {
    "__init__": "from numexpr.utils import _init_num_threads\nnthreads = _init_num_threads()\n",
    "utils": """
import os
from numexpr.interpreter import _set_num_threads
def _init_num_threads():
    count = int(os.environ["OMP_NUM_THREADS"])
    _set_num_threads(count)
    return count
""",
    "interpreter": """
import threading
started = []
def _set_num_threads(count):
    for _ in range(count if count > 1 else 0):
        started.append(threading.Event())
        threading.Thread(target=started[-1].wait, daemon=True).start()
    return 1
""",
}
"""Stands in for numexpr, which starts its threads when it is imported."""


@METHODS
def test_numexpr_is_preloaded_and_has_its_threads_in_the_job_that_imports_it(
    preload: Preload, site: Path, method: str
) -> None:
    (site / "numexpr").mkdir()
    for name, text in NUMEXPR.items():
        (site / "numexpr" / f"{name}.py").write_text(text)
    (site / "frames.py").write_text("import numexpr\n")
    agent, news = preload("frames", threads=3, start_method=method)
    assert news["loaded"] == ["frames"], news
    look = "import json, sys, threading\n{0}\nprint(json.dumps([threading.active_count() - 1, {1}]))"
    assert agent.json(look.format("import frames", "sys.modules['numexpr'].nthreads")) == [3, 3]
    assert agent.json(look.format("import numexpr", "numexpr.nthreads")) == [3, 3]
    assert agent.json(look.format("", "'numexpr' in sys.modules")) == [0, True]


def test_the_code_of_a_cell_is_in_a_file_that_libraries_can_open_and_its_traceback_names_the_cell(agent: Agent) -> None:
    """Numba keeps what it has compiled beside the file of a function, and refuses one that is in no file."""
    source = """
import inspect
def f(): raise ValueError(inspect.getsource(f) in open(f.__code__.co_filename).read())
f()
"""
    record = agent.run(source)
    assert record["exception"]["message"] == "True"
    assert record["exception"]["line"] == 3
    trace = record["exception"]["traceback"]
    assert trace.count('File "<train-1>", line ') == 2
    assert "train.py" not in trace
    assert trace == record["text"]
