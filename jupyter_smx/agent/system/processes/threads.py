"""Set the number of threads in numeric libraries that a job has loaded already."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from typing import Any, List, Tuple

from jupyter_smx.agent.system.named_tuple import NamedTuple
from jupyter_smx.agent.system.processes.environment import THREAD_VARIABLES

# Part of a library's file name, and the functions of which it has one.
_SETTERS: Tuple[Tuple[str, Tuple[str, ...]], ...] = (
    (
        "openblas",
        (
            "scipy_openblas_set_num_threads64_",
            "scipy_openblas_set_num_threads",
            "openblas_set_num_threads64_",
            "openblas_set_num_threads",
        ),
    ),
    ("libmkl_rt", ("MKL_Set_Num_Threads",)),
    ("libblis", ("bli_thread_set_num_threads",)),
    ("libflexiblas", ("flexiblas_set_num_threads",)),
    ("libgomp", ("omp_set_num_threads",)),
    ("libomp", ("omp_set_num_threads",)),
    ("libiomp", ("omp_set_num_threads",)),
)
_PRESET_LIBRARIES = ("openblas", "libgomp")
"""Parts of the names of libraries that start no threads in a zygote that sets the thread count of its children."""


class _ThreadedLibraries(NamedTuple):
    """Numeric libraries of a zygote, found once: reading the list of maps takes a megabyte of each child's memory."""

    libraries: List[str]
    threads: int

    def preset(self) -> List[str]:
        """Return the libraries that got their thread count before the fork."""
        return [path for path in self.libraries if any(part in os.path.basename(path) for part in _PRESET_LIBRARIES)]

    def unset(self, count: int) -> List[str]:
        """Return the libraries that do not have this thread count yet."""
        known = self.preset() if count == self.threads else []
        return [path for path in self.libraries if path not in known]


_ahead: List[_ThreadedLibraries] = []


def prepare_libraries(count: int) -> None:
    """Find the numeric libraries of this process for its later children; it loads no others from here on.

    Some get the thread count of a child before the fork. If it is set in a forked process, OpenBLAS starts its threads
    at once. If it is set before the fork, it starts them with the first computation, which most jobs never do; GNU's
    OpenMP only stores the number.
    """
    _ahead[:] = [_ThreadedLibraries(_numeric_libraries(), count)]
    _set_in(_ahead[0].preset(), count)


def _numeric_libraries() -> List[str]:
    loaded = _loaded_libraries()
    return [path for path in loaded if any(part in os.path.basename(path) for part, _ in _SETTERS)]


def _loaded_libraries() -> List[str]:
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            paths = {line.split(None, 5)[5].strip() for line in file if "/" in line}
    except OSError:
        return []
    return sorted(path for path in paths if ".so" in path)


def _set_in_library(path: str, count: int) -> None:
    base = os.path.basename(path)
    for part, names in _SETTERS:
        if part in base:
            library = ctypes.CDLL(path)
            for name in names:
                function = getattr(library, name, None)
                if function is not None:
                    function(ctypes.c_int(count))
                    return


def _set_in(libraries: List[str], count: int) -> None:
    for path in libraries:
        with contextlib.suppress(OSError):
            _set_in_library(path, count)


def show(count: int) -> None:
    """Set the variables that Python code reads to ``count`` threads; compiled code still sees one.

    A package that reads the number at its import gets that of the jobs; OpenBLAS would start as many at its own import.
    """
    variables: Any = getattr(os.environ, "_data", {})
    for name in THREAD_VARIABLES:
        if name in os.environ:
            variables[os.fsencode(name)] = os.fsencode(str(count))


def limit(count: int) -> None:
    """Let every numeric library use ``count`` threads: loaded ones by their API, later ones by the environment."""
    for name in THREAD_VARIABLES:
        os.environ[name] = str(count)
    _set_in(_ahead[0].unset(count) if _ahead else _numeric_libraries(), count)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(count)
