"""Packages that read a variable while they are imported: a warm job finds in them what a cold one finds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from far_side import ready_for_next_test

from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from far_side import Agent

LIBRARIES = {
    "getter.py": "import os\nSEEN = os.environ.get('GETTER_MODE', 'none')\n",
    "indexer.py": "import os\nSEEN = os.environ['INDEXER_MODE'] if 'INDEXER_MODE' in os.environ else 'none'\n",
    "function.py": "from os import getenv\nSEEN = getenv('FUNCTION_MODE', 'none')\n",
    "prefix.py": "import os\nSEEN = sorted(k[4:] for k, v in os.environ.items() if k.startswith('PRE_'))\n",
    "copier.py": "import os\nSEEN = 'none'\nCOPY = os.environ.copy(), dict(os.environ), [*os.environ]\n",
    "user_of_getter.py": "import getter\nSEEN = getter.SEEN\n",
    "bystander.py": "SEEN = 'none'\n",
    "ranked.py": "import os\nSEEN = os.environ.get('RANK', 'none') + os.environ.get('LOCAL_RANK', 'none')\n",
    "threads.py": "import os\nSEEN = os.environ.get('OMP_NUM_THREADS', 'none')\n",
    "contract.py": "import os\nSEEN = os.environ.get('SM_HPS', 'none')\n",
    "of_host.py": "import os\nSEEN = os.environ.get('SM_NUM_CPUS', 'none')\n",
    "torch.py": """
class _Any:
    is_initialized = _is_in_bad_fork = staticmethod(lambda: False)
    manual_seed = sum = backward = __matmul__ = lambda self, *_: self
    initial_seed = lambda self: 2**50
cuda = default_generator = _Any()
set_num_threads = lambda count: None
ones = lambda *shape, **options: _Any()
""",
}
NAMES = [name[: -len(".py")] for name in LIBRARIES]
SEE = "import json, sys, importlib\nnames = NAMES\nthere = [n for n in names if n in sys.modules]\n"
SHOW = "print(json.dumps({'there': there, **{n: getattr(importlib.import_module(n), 'SEEN', '') for n in names}}))\n"


def see(names: list[str], before: str = "") -> str:
    """Write a job that says which modules it finds and, after it did something, what they saw."""
    return SEE.replace("NAMES", repr(names)) + before + SHOW


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with the libraries."""
    folder = tmp_path_factory.mktemp("lib") / "site-packages"
    folder.mkdir()
    for name, text in LIBRARIES.items():
        (folder / name).write_text(text)
    return folder


def with_preloads(agent: Agent, names: tuple[str, ...]) -> Agent:
    if names:
        agent.client.ask("preload", modules=list(names))
        assert agent.client.event("preload")["loaded"] == list(names)
    return agent


@pytest.fixture
def warm(start_agent: Callable[..., Agent], site: Path) -> Callable[..., Agent]:
    """Start a host that has imported these of the libraries for jobs to come."""

    def start(*names: str, environment: dict[str, str] | None = None, **changes: Any) -> Agent:
        return with_preloads(
            start_agent(environment={"PYTHONPATH": str(site), **(environment or {})}, **changes), names
        )

    return start


READERS = ("getter", "indexer", "function", "prefix", "user_of_getter", "bystander")
SHARED: dict[tuple[str, ...], dict[str, str]] = {
    (): {},
    ("getter",): {},
    ("getter", "bystander"): {},
    ("numpy",): {},
    ("user_of_getter", "bystander"): {"GETTER_MODE": "none at all"},
    READERS: {},
}
"""Preloads of the hosts that several tests share, and variables of each: what one job changes, no later one sees."""


@pytest.fixture(scope="module")
def hosts(site: Path, start_shared_agent: Callable[..., Agent]) -> dict[tuple[str, ...], Agent]:
    return {
        names: with_preloads(start_shared_agent({"PYTHONPATH": str(site), **variables}), names)
        for names, variables in SHARED.items()
    }


@pytest.fixture
def shared(hosts: dict[tuple[str, ...], Agent]) -> Iterator[Callable[..., Agent]]:
    """Return the host that imported these of the libraries; it serves other tests, too."""
    yield lambda *names: hosts[names]
    for agent in hosts.values():
        ready_for_next_test(agent)


def found(record: dict[str, Any]) -> dict[str, Any]:
    assert record["exit_code"] == 0, record
    seen: dict[str, Any] = json.loads(record["text"].splitlines()[-1])
    return seen


@pytest.mark.parametrize(
    ("package", "variables", "seen"),
    [
        ("getter", {"GETTER_MODE": "x"}, "x"),
        ("indexer", {"INDEXER_MODE": "x"}, "x"),
        ("function", {"FUNCTION_MODE": "x"}, "x"),
        ("prefix", {"PRE_A": "x"}, ["A"]),
        ("user_of_getter", {"GETTER_MODE": "x"}, "x"),
    ],
)
def test_a_package_that_read_a_variable_at_its_import_is_imported_again_where_a_job_changes_it(
    shared: Callable[..., Agent], package: str, variables: dict[str, str], seen: Any
) -> None:
    agent = shared(*READERS)
    ask = see([package, "bystander"])
    first, second = agent.run(ask, environment=variables), agent.run(ask, environment=variables)
    assert (found(first)[package], found(second)[package]) == (seen, seen)
    (name,) = variables
    read = {"prefix": "prefix", "user_of_getter": "getter"}.get(package, package)
    said = f"Not preloaded: {read}, its import reads {name}, which this job changes."
    assert said in first["missing_preloads"]["reasons"]
    plain = agent.run(ask)
    assert found(plain)["there"] == [package, "bystander"]
    assert plain["missing_preloads"] == {"modules": [], "reasons": []}


def test_the_second_such_job_finds_all_other_preloads(warm: Callable[..., Agent]) -> None:
    agent = warm("user_of_getter", "indexer", "bystander")
    ask = see(["user_of_getter", "indexer", "bystander"])
    changes = {"GETTER_MODE": "x"}
    first = agent.run(ask, environment=changes)
    assert first["missing_preloads"]["modules"] == ["user_of_getter", "indexer", "bystander"]
    assert first["missing_preloads"]["reasons"][-1].startswith("This job began in a new interpreter")
    later = eventually_blocking(
        lambda: record if found(record := agent.run(ask, environment=changes))["there"] else None, "a process for it"
    )
    assert found(later) == {
        "there": ["indexer", "bystander"],
        "user_of_getter": "x",
        "indexer": "none",
        "bystander": "none",
    }
    assert later["missing_preloads"] == {
        "modules": ["user_of_getter"],
        "reasons": [
            "Not preloaded: getter, its import reads GETTER_MODE, which this job changes.",
            "Not preloaded: user_of_getter, which need getter.",
        ],
    }
    other = agent.run(ask, environment={"GETTER_MODE": "y"})
    assert found(other)["user_of_getter"] == "y"
    agent.serves()


@pytest.mark.parametrize(
    ("names", "variables"),
    [
        (["copier", "bystander"], {"ANY": "1", "GETTER_MODE": "x", "PATH": "/bin"}),
        (["getter", "indexer"], {"OTHER": "1", "EPOCHS": "3", "MY_VAR": "z"}),
        (["getter"], {"GETTER_MODE": "of the host"}),
        (["threads", "of_host"], {"OMP_NUM_THREADS": "2"}),
    ],
    ids=["a copy of all", "variables that nothing reads", "an equal value", "equal threads"],
)
def test_what_no_package_read_and_equal_values_cost_nothing(
    warm: Callable[..., Agent], names: list[str], variables: dict[str, str]
) -> None:
    agent = warm(*names, environment={"GETTER_MODE": "of the host"})
    record = agent.run(see(names), environment=variables)
    assert found(record)["there"] == names
    assert record["missing_preloads"] == {"modules": [], "reasons": []}


BEFORE = [
    "import os\nos.environ['GETTER_MODE'] = 'x'\n",
    "from os import environ as e\ne.setdefault('GETTER_MODE', 'x')\n",
    "import os\nos.environ.update({'GETTER_MODE': 'x'})\n",
    "import os\nfor name in ('GETTER_MODE', 'INDEXER_MODE'):\n    os.environ[name] = 'x'\n",
    "import os\nvalue = ''.join('x')\nos.environ['GETTER_MODE'] = value\n",
    "import os\ndef setup():\n    os.environ['GETTER_MODE'] = 'x'\nsetup()\n",
]


@pytest.mark.parametrize("before", BEFORE)
def test_what_the_source_sets_before_its_imports_counts(shared: Callable[..., Agent], before: str) -> None:
    agent = shared("getter", "bystander")
    record = agent.run(see(["getter", "bystander"], before))
    assert found(record)["getter"] == "x"
    assert (
        "Not preloaded: getter, its import reads GETTER_MODE, which this job changes."
        in record["missing_preloads"]["reasons"]
    )


@pytest.mark.parametrize(
    "source",
    [
        "import getter, os\nos.environ['GETTER_MODE'] = 'x'\nimport json\nprint(getter.SEEN)",
        "import user_of_getter\nimport os\nos.environ['GETTER_MODE'] = 'x'\nimport getter\nprint(getter.SEEN)",
        "import os\nos.environ['GETTER_MODE'] = 'none at all'\nimport getter\nprint(getter.SEEN)",
        "import os\nos.environ.setdefault('GETTER_MODE', 'x')\nimport getter\nprint(getter.SEEN)",
    ],
    ids=["after the import", "after what needs it", "an equal value", "a default of what is set"],
)
def test_what_the_source_sets_too_late_or_to_what_it_is_costs_nothing(
    shared: Callable[..., Agent], source: str
) -> None:
    agent = shared("user_of_getter", "bystander")
    record = agent.run(f"import sys\nassert 'getter' in sys.modules\n{source}")
    assert (record["text"], record["missing_preloads"]["reasons"]) == ("none at all\n", [])


def test_a_change_that_no_source_shows_is_told(shared: Callable[..., Agent]) -> None:
    agent = shared("getter", "bystander")
    hidden = "import os\ngetattr(os, 'env' + 'iron').__setitem__('GETTER_' + 'MODE', 'x')\nimport bystander, getter\n"
    record = agent.run(hidden)
    (said,) = record["missing_preloads"]["reasons"]
    assert said.startswith(
        "getter had been preloaded before this job's code changed GETTER_MODE, which its import reads"
    )
    assert agent.run("import bystander, getter")["missing_preloads"]["reasons"] == []


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_what_the_contract_sets_is_read_as_in_a_cold_job(warm: Callable[..., Agent], method: str) -> None:
    ask, given = see(["contract", "bystander"]), {"hyperparameters": {"lr": "0.1"}}
    cold = found(warm().run(ask, **given))
    record = warm("contract", "bystander", start_method=method).run(ask, **given)
    assert (found(record)["contract"], record["errors"]) == (cold["contract"], [])
    assert (
        "Not preloaded: contract, its import reads SM_HPS, which this job changes."
        in record["missing_preloads"]["reasons"]
    )


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_what_all_jobs_of_a_host_find_is_found_by_a_preload(warm: Callable[..., Agent], method: str) -> None:
    record = warm("of_host", "threads", start_method=method, threads=3).run(see(["of_host", "threads"]))
    assert found(record) == {"there": ["of_host", "threads"], "of_host": "3", "threads": "3"}
    assert record["missing_preloads"]["reasons"] == []


def test_jobs_without_what_reads_the_contract_keep_the_rest(warm: Callable[..., Agent]) -> None:
    agent = warm("contract", "bystander")
    ask = see(["contract", "bystander"])
    seen = [found(agent.run(ask, hyperparameters={"n": str(turn)})) for turn in range(2)]
    assert [json.loads(one["contract"]) for one in seen] == [{"n": 0}, {"n": 1}]
    eventually_blocking(lambda: found(agent.run(ask))["there"] == ["bystander"], "there is a process without contract")


START = [
    ("PYTHONHASHSEED", "0", "hash('a') % 97", 69),
    ("PYTHONUTF8", "1", "sys.flags.utf8_mode", 1),
    ("PYTHONOPTIMIZE", "1", "sys.flags.optimize", 1),
    ("PYTHONFAULTHANDLER", "1", "__import__('faulthandler').is_enabled()", True),
    ("MALLOC_ARENA_MAX", "1", "os.environ['MALLOC_ARENA_MAX']", "1"),
]


@pytest.mark.parametrize("preloads", [(), ("getter",)], ids=["cold", "warm"])
@pytest.mark.parametrize(("name", "value", "ask", "right"), START)
def test_what_only_python_or_the_loader_reads_gets_an_interpreter_of_its_own(
    shared: Callable[..., Agent], preloads: tuple[str, ...], name: str, value: str, ask: str, right: Any
) -> None:
    agent = shared(*preloads)
    record = agent.run(
        f"import json, os, sys\nprint(json.dumps([{ask}, 'getter' in sys.modules]))", environment={name: value}
    )
    assert json.loads(record["text"]) == [right, False]
    (said,) = record["missing_preloads"]["reasons"]
    assert said.startswith(f"{name} is read when Python starts: this job began in a new interpreter")
    literal = agent.run(f"import os\nos.environ[{name!r}] = {value!r}\nimport getter, sys\nprint(sys.flags.optimize)")
    assert literal["missing_preloads"] == {"modules": [], "reasons": []}, (
        "such a change comes too late on every machine"
    )


def test_unbuffered_output_needs_no_interpreter_of_its_own(shared: Callable[..., Agent]) -> None:
    agent = shared("getter")
    code = "import sys\nprint([sys.stdout.write_through, sys.dont_write_bytecode, 'getter' in sys.modules])"
    variables = {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    assert agent.run(code, environment=variables)["text"] == "[True, True, True]\n"


def test_a_folder_for_compiled_modules_needs_no_interpreter_of_its_own(
    shared: Callable[..., Agent], tmp_path: Path
) -> None:
    agent = shared("getter")
    code = "import sys\nprint([sys.pycache_prefix, 'getter' in sys.modules])"
    prefix = str(tmp_path / "pyc")
    assert agent.run(code, environment={"PYTHONPYCACHEPREFIX": prefix})["text"] == f"[{prefix!r}, True]\n"
    assert agent.run(code)["text"] == "[None, True]\n"


def test_a_variable_that_compiled_code_may_read_is_named(warm: Callable[..., Agent]) -> None:
    agent = warm("msgspec", "bystander")
    record = agent.run(
        "import msgspec", environment={"NCCL_DEBUG": "INFO", "CUDA_VISIBLE_DEVICES": "0", "OMP_NUM_THREADS": "1"}
    )
    (said,) = record["missing_preloads"]["reasons"]
    assert said.startswith("NCCL_DEBUG: the compiled parts of msgspec may have read it before this job")
    assert record["missing_preloads"]["modules"] == []


@pytest.mark.parametrize(
    ("variables", "source", "left_out"),
    [
        ({"OPENBLAS_NUM_THREADS": "1"}, "", True),
        ({"OMP_NUM_THREADS": "1"}, "", False),
        ({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}, "", False),
        ({}, "import os\nos.environ['OPENBLAS_NUM_THREADS'] = '1'\n", True),
        ({}, "import os, numpy\nos.environ['OPENBLAS_NUM_THREADS'] = '1'\n", False),
    ],
)
def test_threads_of_numpy_are_those_of_a_cold_job(
    shared: Callable[..., Agent], variables: dict[str, str], source: str, left_out: bool
) -> None:
    code = source + (
        "import json, numpy\nfrom threadpoolctl import threadpool_info\n"
        "print(json.dumps([one['num_threads'] for one in threadpool_info()]))"
    )
    cold = shared().run(code, environment=variables)
    hot = shared("numpy").run(code, environment=variables)
    assert hot["text"] == cold["text"] != "[]\n"
    assert any("Not preloaded: numpy" in said for said in hot["missing_preloads"]["reasons"]) is left_out


def test_a_process_for_ranks_is_there_before_the_first_of_them(warm: Callable[..., Agent]) -> None:
    agent = warm("torch", "ranked", "bystander")
    assert len(agent.zygotes()) == 2
    record = agent.run("pass", hyperparameters={"sagemaker_torch_distributed_enabled": "true"})
    assert record["missing_preloads"] == {
        "modules": ["ranked"],
        "reasons": ["Not preloaded: ranked, its import reads LOCAL_RANK, RANK, which this job changes."],
    }
    assert found(agent.run(see(["torch", "ranked", "bystander"])))["there"] == ["torch", "ranked", "bystander"]


def test_the_host_has_no_process_too_many_after_other_changes(warm: Callable[..., Agent]) -> None:
    agent = warm("getter", "indexer", "function", "bystander")
    for name in ("GETTER_MODE", "INDEXER_MODE", "FUNCTION_MODE"):
        agent.run("pass", environment={name: "x"})
    eventually_blocking(lambda: len(agent.zygotes()) == 2, "one for all, and one without what read the last")
