"""Note which environment variables a package reads while it is imported.

While modules are preloaded, ``os.environ`` has a class that notes the names that are read or set: by ``[]``, ``in``,
``get`` and :func:`os.getenv`. A copy of the whole and an iteration name no variable, but an iteration that checks the
prefix of each name notes that prefix. Compiled code calls the system itself, which cannot be observed:
:data:`C_READERS` lists what is known of that.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from typing import Any, Dict, FrozenSet, Iterable, Iterator, List, Mapping, Set, Tuple

from jupyter_smx.agent.code import imports
from jupyter_smx.agent.system.named_tuple import NamedTuple

_OPENMP = ("OMP_", "GOMP_", "KMP_")
_BLAS = (*_OPENMP, "OPENBLAS_", "GOTO_", "MKL_")
C_READERS: Mapping[str, Tuple[str, ...]] = {
    "cupy": ("CUDA_",),
    "faiss": _BLAS,
    "lightgbm": _OPENMP,
    "mkl": (*_OPENMP, "MKL_"),
    "numexpr": (*_OPENMP, "MKL_"),
    "numpy": _BLAS,
    "pyarrow": ("ARROW_",),
    "scipy": _BLAS,
    "sklearn": _OPENMP,
    "tensorflow": (*_OPENMP, "CUDA_", "TF_"),
    "torch": (*_OPENMP, "MKL_", "CUDA_", "PYTORCH_"),
    "xgboost": _OPENMP,
}
"""Packages whose compiled parts read variables when they are loaded, and how the names of these begin."""
THREADS_SET_LATER = frozenset({"numexpr"})
"""Packages that read a number of threads while they are imported, and get that of the job when it begins."""


class Reads(NamedTuple):
    """What one package reads while it is imported: names of variables, and prefixes.

    ``users`` are the top-level packages that need it, itself included.
    """

    package: str
    names: FrozenSet[str]
    prefixes: Tuple[str, ...]
    users: FrozenSet[str]


def as_rows(found: Iterable[Reads]) -> List[List[Any]]:
    """Return reads as rows for the message to the agent."""
    return [[one.package, sorted(one.names), list(one.prefixes), sorted(one.users)] for one in found]


def from_rows(rows: Iterable[List[Any]]) -> List[Reads]:
    """Parse the result of :func:`as_rows`."""
    return [
        Reads(package, frozenset(names), tuple(prefixes), frozenset(users)) for package, names, prefixes, users in rows
    ]


class _Notes:
    """Notes of this process; children of a zygote inherit them."""

    def __init__(self) -> None:
        self.names: Dict[str, Set[str]] = {}
        self.prefixes: Dict[str, Set[str]] = {}
        self.asked_for = ""
        """The package whose import was asked for; '' while nothing is noted."""
        self.before: Dict[str, str] = {}
        """The environment before the first import, with the values that each job of this host finds."""
        self.of_jobs: Dict[str, str] = {}
        self.reads: List[Reads] = []
        self.all_names: FrozenSet[str] = frozenset()
        self.all_prefixes: Tuple[str, ...] = ()


_notes = _Notes()


def _add(found: Dict[str, Set[str]], what: str) -> None:
    if _notes.asked_for:
        found.setdefault(_importing_package(), set()).add(what)


def _importing_package() -> str:
    """Return the package whose import runs: that of the innermost module in the stack that is not Python's own."""
    frame = sys._getframe(2)  # noqa: SLF001 - what is being imported is known by its frame alone
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            name = imports.top_level_package(str(frame.f_globals.get("__name__", "")))
            if name not in imports.STDLIB and name not in ("jupyter_smx", "__main__"):
                return name
        frame = frame.f_back  # type: ignore[assignment]
    return _notes.asked_for


class _Name(str):
    """A variable's name in an iteration; it notes the prefixes with which it is compared."""

    __slots__ = ()

    def startswith(self, prefix: Any, *span: Any) -> bool:
        for one in (prefix,) if isinstance(prefix, str) else prefix:
            _add(_notes.prefixes, str(one))
        return super().startswith(prefix, *span)

    def __reduce_ex__(self, _protocol: Any) -> Tuple[Any, ...]:
        return str, (str(self),)


class _NotingEnviron(type(os.environ)):  # type: ignore[misc] # a class that Python does not name
    """An environment that notes what is asked for by name."""

    def __getitem__(self, name: Any) -> Any:
        if type(name) is not _Name:
            _note_name(name)
            if name in _notes.of_jobs and _importing_package() not in THREADS_SET_LATER:
                return _notes.of_jobs[name]
        return super().__getitem__(name)

    def __setitem__(self, name: Any, value: Any) -> None:
        _note_name(name)
        super().__setitem__(name, value)

    def __delitem__(self, name: Any) -> None:
        _note_name(name)
        super().__delitem__(name)

    def __iter__(self) -> Iterator[Any]:
        _note_iteration()
        return map(_Name, super().__iter__())


def _note_name(name: Any) -> None:
    if isinstance(name, str):
        _add(_notes.names, name)


def _note_iteration() -> None:
    """Note that a package iterates over all variables: it may look for those with its own name as the prefix."""
    _add(_notes.prefixes, f"{_importing_package().upper()}_")


@contextlib.contextmanager
def noting(package: str) -> Iterator[None]:
    """Note what is read while ``package`` is imported."""
    plain = type(os.environ)
    _notes.asked_for = package
    if not _notes.before:
        _notes.before = {**os.environ, **_notes.of_jobs}
    os.environ.__class__ = _NotingEnviron
    try:
        yield
    finally:
        os.environ.__class__ = plain
        _notes.asked_for = ""


def expect(variables: Mapping[str, str]) -> None:
    """Set the values that all jobs of this host have; packages read them in the place of this process's own."""
    _notes.of_jobs = dict(variables)


def before() -> Mapping[str, str]:
    """Return the environment at the first preload; {} if nothing was imported."""
    return _notes.before


def of_every_job() -> Mapping[str, str]:
    """Return the values set by :func:`expect`."""
    return _notes.of_jobs


def finish() -> None:
    """Collect what was read until now, before children are forked, so that they need not do it."""
    compiled = [name for name in C_READERS if name in sys.modules]
    _notes.reads = [
        Reads(
            package,
            frozenset(_notes.names.get(package, ())),
            tuple(sorted(_notes.prefixes.get(package, ()))),
            frozenset(imports.dependents_of({package})),
        )
        for package in sorted({*_notes.names, *_notes.prefixes, *compiled})
    ]
    _notes.all_names = frozenset().union(*_notes.names.values())
    by_c = (prefix for name in compiled for prefix in C_READERS[name])
    _notes.all_prefixes = tuple({*by_c, *(prefix for found in _notes.prefixes.values() for prefix in found)})


def reads() -> List[Reads]:
    """Return what each package that was imported here read, with packages whose compiled parts are known to read."""
    return _notes.reads


def concerned(names: Iterable[str]) -> List[str]:
    """Choose the variables that anything that was imported here reads."""
    return [name for name in names if name in _notes.all_names or name.startswith(_notes.all_prefixes)]


def reads_of(module: str) -> List[Reads]:
    """Import a module in this process; return what it and its dependencies read. For tests and tables."""
    imports.begin_watching()
    try:
        with noting(imports.top_level_package(module)):
            importlib.import_module(module)
    finally:
        imports.end_watching()
    finish()
    return reads()
