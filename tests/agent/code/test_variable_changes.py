"""Which packages a job must not find preloaded, decided from what they read and what it changes."""

from __future__ import annotations

import pytest

from jupyter_smx.agent.code.environ import changes as environ_changes
from jupyter_smx.agent.code.environ.changes import BY_CODE, BY_JOB, VariableChange
from jupyter_smx.agent.code.environ.reads import Reads

READS = [
    Reads("base", frozenset({"BASE_MODE", "OMP_NUM_THREADS"}), (), frozenset({"base", "user"})),
    Reads("lister", frozenset(), ("LIST_",), frozenset({"lister"})),
    Reads("numpy", frozenset(), (), frozenset({"numpy", "user"})),
    Reads("torch", frozenset(), (), frozenset({"torch"})),
    Reads("matplotlib", frozenset({"MPLBACKEND"}), (), frozenset({"matplotlib"})),
]
BEFORE = {"BASE_MODE": "old", "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}


def readers(environment: dict[str, str], source: str = "", *, ranks: bool = False) -> dict[str, list[str]]:
    changes = environ_changes.changes_of(environment, source, BEFORE, ranks=ranks)
    return environ_changes.readers(READS, environ_changes.differing(changes, BEFORE))


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({"OTHER": "1"}, {}),
        ({"BASE_MODE": "old"}, {}),
        ({"BASE_MODE": "new"}, {"base": ["BASE_MODE"]}),
        ({"LIST_A": "1", "LISTB": "1"}, {"lister": ["LIST_A"]}),
        ({"KMP_BLOCKTIME": "0"}, {"numpy": ["KMP_BLOCKTIME"], "torch": ["KMP_BLOCKTIME"]}),
        ({"OPENBLAS_NUM_THREADS": "1"}, {"numpy": ["OPENBLAS_NUM_THREADS"]}),
        ({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}, {"base": ["OMP_NUM_THREADS"]}),
        ({"OMP_NUM_THREADS": "many"}, {name: ["OMP_NUM_THREADS"] for name in ("base", "numpy", "torch")}),
        ({"CUDA_VISIBLE_DEVICES": "1"}, {}),
        ({"CUDA_LAUNCH_BLOCKING": "1"}, {"torch": ["CUDA_LAUNCH_BLOCKING"]}),
        ({"MPLBACKEND": "svg", "PYTHONPATH": "/x", "PYTHONWARNINGS": "ignore"}, {}),
    ],
)
def test_packages_that_read_another_value_are_found(environment: dict[str, str], found: dict[str, list[str]]) -> None:
    assert readers(environment) == found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import os\nos.environ['BASE_MODE'] = 'new'", {"base": ["BASE_MODE"]}),
        ("import os, user\nos.environ['BASE_MODE'] = 'new'", {}),
        ("import os, lister\nos.environ['BASE_MODE'] = 'new'", {"base": ["BASE_MODE"]}),
        ("import os\nos.environ['BASE_MODE'] = 'old'", {}),
        ("import os\nos.environ.setdefault('BASE_MODE', 'new')", {}),
        ("import os\ndel os.environ['BASE_MODE']", {"base": ["BASE_MODE"]}),
        ("import os\nos.environ['MPLBACKEND'] = 'svg'", {"matplotlib": ["MPLBACKEND"]}),
        (
            "import os\nos.environ['OMP_NUM_THREADS'] = '1'",
            {n: ["OMP_NUM_THREADS"] for n in ("base", "numpy", "torch")},
        ),
    ],
)
def test_what_the_source_changes_counts_for_what_is_imported_after_it(source: str, found: dict[str, list[str]]) -> None:
    assert readers({}, source) == found


def test_variables_of_ranks_are_other_ones_in_each() -> None:
    reads = [Reads("ranked", frozenset({"LOCAL_RANK"}), (), frozenset({"ranked"}))]
    changes = environ_changes.changes_of({}, "", BEFORE, ranks=True)
    assert environ_changes.readers(reads, changes) == {"ranked": ["LOCAL_RANK"]}
    assert environ_changes.users_of(READS, ["base"]) == {"base", "user"}


@pytest.mark.parametrize(
    ("environment", "before", "names"),
    [
        ({"PYTHONHASHSEED": "0"}, {}, ["PYTHONHASHSEED"]),
        ({"PYTHONHASHSEED": "0"}, {"PYTHONHASHSEED": "0"}, []),
        ({"LD_LIBRARY_PATH": "/x", "MALLOC_ARENA_MAX": "2"}, {}, ["LD_LIBRARY_PATH", "MALLOC_ARENA_MAX"]),
        ({"PYTHON_VERSION": "3.11", "PYTHONUNBUFFERED": "1", "PYTHONPATH": "/x"}, {}, []),
        ({"PYTHONPYCACHEPREFIX": "/x"}, {}, []),
        ({"LANG": "de_DE.UTF-8"}, {}, ["LANG"]),
        ({"LANG": "de_DE.UTF-8"}, {"LC_ALL": "C.UTF-8"}, []),
        ({"LC_ALL": "C.UTF-8"}, {"LANG": "C"}, []),
        ({"LC_NUMERIC": "de_DE.UTF-8"}, {}, []),
    ],
)
def test_what_a_process_reads_when_it_begins(
    environment: dict[str, str], before: dict[str, str], names: list[str]
) -> None:
    assert environ_changes.read_at_start(environment, before) == names


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (VariableChange("NCCL_DEBUG", "INFO", BY_JOB), ["NCCL_DEBUG"]),
        (VariableChange("ARROW_X", "1", BY_CODE), ["ARROW_X"]),
        (VariableChange("OMP_NUM_THREADS", "1", BY_JOB), []),
        (VariableChange("OMP_NUM_THREADS", "1", BY_CODE), ["OMP_NUM_THREADS"]),
        (VariableChange("CUDA_VISIBLE_DEVICES", "1", BY_JOB), []),
        (VariableChange("EPOCHS", "1", BY_JOB), []),
    ],
)
def test_what_compiled_code_may_have_read_unseen(change: VariableChange, names: list[str]) -> None:
    assert environ_changes.unseen([change], []) == names
    assert environ_changes.unseen([change], names) == []
