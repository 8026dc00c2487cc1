"""Widely used libraries, cold and warm: a job finds in each what it finds in a new interpreter.

For each library: one variable that it reads at its import, its thread count, draws with and without a seed, the
settings of the process, and the output of a short use. ``docs/users/howto/warm-pools.md`` has the result.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

sys.path.insert(0, os.fspath(Path(__file__).parents[2] / "faults"))

from pytorch import with_libraries

if TYPE_CHECKING:
    from collections.abc import Callable

    from far_side import Agent

pytestmark = [pytest.mark.heavy("libraries"), pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[3]
KEPT = 0.9
"""Part of the libraries that stay preloaded at least in a job that changes nothing which they read."""


class Library(NamedTuple):
    """A module, what shows the value of a variable that it read at its import, and what uses it."""

    module: str
    use: str
    variable: str = ""
    value: str = ""
    see: str = "None"


LIBRARIES = (
    Library("numpy", "m.linalg.inv(m.eye(3) * 2).tolist()", "NPY_PROMOTION_STATE", "weak", "m.ones(2).dtype.name"),
    Library(
        "scipy",
        "importlib.import_module('scipy.stats').norm.cdf(1.0)",
        "SCIPY_ARRAY_API",
        "1",
        "str(importlib.import_module('scipy._lib._array_api').SCIPY_ARRAY_API)",
    ),
    Library("pandas", "m.DataFrame({'a': [1, 2]}).sum().to_dict()"),
    Library(
        "sklearn",
        "importlib.import_module('sklearn.cluster').KMeans(2, random_state=0, n_init=1)"
        ".fit([[0.0], [1.0], [9.0]]).labels_.tolist()",
        "SKLEARN_ASSUME_FINITE",
        "1",
        "m.get_config()['assume_finite']",
    ),
    Library("matplotlib", "sorted(m.rcParams)[:3]", "MPLBACKEND", "svg", "m.get_backend()"),
    Library("numexpr", "m.evaluate('2 + 3').tolist()", "NUMEXPR_NUM_THREADS", "1", "m.nthreads"),
    Library("numba", "m.njit(lambda x: x + 1)(2)", "NUMBA_NUM_THREADS", "1", "m.config.NUMBA_NUM_THREADS"),
    Library(
        "pyarrow",
        "m.array([1, 2]).sum().as_py()",
        "ARROW_DEFAULT_MEMORY_POOL",
        "system",
        "m.default_memory_pool().backend_name",
    ),
    Library(
        "tqdm", "list(m.tqdm(range(2), disable=True))", "TQDM_MININTERVAL", "7", "m.tqdm([], disable=False).mininterval"
    ),
    Library(
        "huggingface_hub",
        "importlib.import_module('huggingface_hub.constants').REPO_TYPE_DATASET",
        "HF_HOME",
        "/far/hf",
        "importlib.import_module('huggingface_hub.constants').HF_HOME",
    ),
    Library(
        "transformers",
        "m.PretrainedConfig().to_dict()['model_type']",
        "TRANSFORMERS_VERBOSITY",
        "error",
        "m.utils.logging.get_verbosity()",
    ),
    Library(
        "datasets",
        "m.Dataset.from_dict({'a': [1, 2]}).num_rows",
        "HF_DATASETS_CACHE",
        "/far/sets",
        "str(m.config.HF_DATASETS_CACHE)",
    ),
    Library(
        "dask",
        "m.delayed(sum)([1, 2]).compute(scheduler='sync')",
        "DASK_OWN__VALUE",
        "3",
        "m.config.get('own.value', None)",
    ),
    Library(
        "sympy",
        "str(m.diff(m.Symbol('x') ** 2))",
        "SYMPY_CACHE_SIZE",
        "17",
        "importlib.import_module('sympy.core.cache').SYMPY_CACHE_SIZE",
    ),
    Library(
        "networkx",
        "list(m.path_graph(3).edges)",
        "NETWORKX_CACHE_CONVERTED_GRAPHS",
        "",
        "m.config.cache_converted_graphs",
    ),
    Library("nltk", "list(m.bigrams([1, 2, 3]))", "NLTK_DATA", "/far/nltk", "m.data.path[0]"),
    Library("msgpack", "list(m.packb({'a': 1}))", "MSGPACK_PUREPYTHON", "1", "m.Packer.__module__"),
    Library(
        "google.protobuf",
        "importlib.import_module('google.protobuf.duration_pb2').Duration(seconds=1).seconds",
        "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION",
        "python",
        "importlib.import_module('google.protobuf.internal.api_implementation').Type()",
    ),
    Library("loguru", "m.logger.level('INFO').no", "LOGURU_INFO_NO", "21", "m.logger.level('INFO').no"),
    Library("joblib", "m.hash([1, 2])"),
    Library("seaborn", "m.color_palette('deep').as_hex()[0]"),
    Library(
        "statsmodels",
        "importlib.import_module('statsmodels.api').OLS([1.0, 2.0, 3.0], [1, 2, 3]).fit().params.tolist()",
    ),
    Library("xarray", "m.DataArray([1, 2]).sum().item()"),
    Library("requests", "m.Request('GET', 'http://a/', params={'b': 1}).prepare().url"),
)

JOB = """
import importlib, json, logging, sys, warnings
there = MODULE in sys.modules
m = importlib.import_module(MODULE)
import threadpoolctl
out = {"seen": SEE, "use": USE}
out["threads"] = sorted(one["num_threads"] for one in threadpoolctl.threadpool_info())
out["settings"] = [len(warnings.filters), logging.getLogger().level, len(logging.getLogger().handlers)]
if "numpy" in sys.modules:
    import numpy
    out["settings"].append(sorted(map(str, numpy.get_printoptions().items())))
    out["settings"].append(sorted(numpy.geterr().items()))
    out["seeded"] = numpy.random.default_rng(7).random()
if "pandas" in sys.modules:
    import pandas
    out["settings"].append([pandas.get_option("display.max_rows"), pandas.get_option("display.width")])
if "matplotlib" in sys.modules:
    import matplotlib
    out["settings"].append(sorted(map(str, matplotlib.rcParams.items())))
import random
draws = [random.random()] + ([numpy.random.random()] if "numpy" in sys.modules else [])
print(json.dumps([there, out, draws]))
"""


def job(library: Library) -> str:
    """Write the job that looks at a library."""
    return JOB.replace("MODULE", repr(library.module)).replace("SEE", library.see).replace("USE", library.use)


@pytest.fixture(scope="module")
def python() -> str:
    return with_libraries()


@pytest.fixture
def host(start_agent: Callable[..., Agent], python: str) -> Callable[..., Agent]:
    """Start a host whose interpreter has the libraries, with these of them preloaded."""

    def start(*modules: str) -> Agent:
        agent = start_agent(
            options={"program": (python, "-m", "jupyter_smx.agent")}, environment={"PYTHONPATH": os.fspath(ROOT)}
        )
        if modules:
            agent.client.ask("preload", modules=list(modules))
            told = agent.client.event("preload")
            assert told["loaded"] == list(modules), told
        return agent

    return start


def look(agent: Agent, library: Library, environment: dict[str, str]) -> tuple[bool, dict[str, Any], list[float]]:
    record = agent.run(job(library), environment=environment)
    assert record["exit_code"] == 0, record
    there, out, draws = json.loads(record["text"].splitlines()[-1])
    return there, out, draws


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.module)
def test_a_library_is_in_a_warm_job_what_it_is_in_a_cold_one(host: Callable[..., Agent], library: Library) -> None:
    cold, warm = host(), host(library.module)
    _, right, _ = look(cold, library, {})
    first, second = look(warm, library, {}), look(warm, library, {})
    assert (first[:2], second[:2]) == ((True, right), (True, right))
    assert all(one != other for one, other in zip(first[2], second[2], strict=True)), "draws without a seed differ"
    if library.variable:
        changed = {library.variable: library.value}
        _, right, _ = look(cold, library, changed)
        assert look(warm, library, changed)[1] == right
        assert look(warm, library, changed)[1] == right


@pytest.mark.parametrize("environment", [{}, {"A": "1", "MY_EPOCHS": "2", "PROJECT": "x"}], ids=["plain", "variables"])
def test_nearly_all_libraries_stay_preloaded(host: Callable[..., Agent], environment: dict[str, str]) -> None:
    names = [library.module for library in LIBRARIES]
    agent = host()
    agent.client.ask("preload", modules=names)
    agent.client.event("preload")
    source = f"import json, sys\nprint(json.dumps([name for name in {names!r} if name in sys.modules]))"
    there = agent.json(source, environment=environment)
    assert len(there) >= KEPT * len(names), sorted({*names} - {*there})
