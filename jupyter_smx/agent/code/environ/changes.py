"""Decide which packages a job must not find preloaded, since it changes variables that they read at import. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, FrozenSet, Iterable, List, Mapping, Optional, Sequence, Tuple

from jupyter_smx.agent.code.environ.reads import C_READERS, THREADS_SET_LATER, Reads
from jupyter_smx.agent.system.named_tuple import NamedTuple
from jupyter_smx.agent.system.processes.environment import THREAD_VARIABLES

if TYPE_CHECKING:
    from jupyter_smx.agent.code.environ.writes import Write

BY_JOB, BY_CODE, BY_RANK = "job", "code", "rank"
RANK_VARIABLES = (
    "RANK",
    "LOCAL_RANK",
    "GROUP_RANK",
    "ROLE_RANK",
    "ROLE_NAME",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_WORLD_SIZE",
    "ROLE_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_USE_AGENT_STORE",
    "TORCHELASTIC_ERROR_FILE",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
)
"""Variables that torchrun gives to each rank."""
_FAMILIES = ("OMP_", "MKL_", "OPENBLAS_", "KMP_", "GOMP_", "ARROW_", "CUDA_", "NCCL_", "LD_")
"""Prefixes of variables that compiled code reads."""
_READ_WHEN_NEEDED = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "TF_CONFIG")
"""Variables that no compiled code reads before it uses a device, or the other hosts."""
_DONE_HERE = ("PYTHONPATH", "PYTHONPYCACHEPREFIX", "PYTHONWARNINGS")
"""Variables whose effect ``startup_variables`` brings about."""
_NAMES_AT_START = """
    PYTHONCASEOK PYTHONCOERCECLOCALE PYTHONDEBUG PYTHONDEVMODE PYTHONDUMPREFS PYTHONDUMPREFSFILE PYTHONEXECUTABLE
    PYTHONFAULTHANDLER PYTHONHASHSEED PYTHONHOME PYTHONINTMAXSTRDIGITS PYTHONMALLOC PYTHONMALLOCSTATS
    PYTHONNODEBUGRANGES PYTHONNOUSERSITE PYTHONOPTIMIZE PYTHONPERFSUPPORT PYTHONPLATLIBDIR PYTHONPROFILEIMPORTTIME
    PYTHONSAFEPATH PYTHONTHREADDEBUG PYTHONTRACEMALLOC PYTHONUSERBASE PYTHONUTF8 PYTHONVERBOSE
    PYTHONWARNDEFAULTENCODING PYTHON_CONTEXT_AWARE_WARNINGS PYTHON_CPU_COUNT PYTHON_DISABLE_REMOTE_DEBUG
    PYTHON_FROZEN_MODULES PYTHON_GIL PYTHON_JIT PYTHON_PERF_JIT_SUPPORT PYTHON_PRESITE
    PYTHON_THREAD_INHERIT_CONTEXT PYTHON_TLBC GCONV_PATH GLIBC_TUNABLES OPENSSL_CONF OPENSSL_MODULES
"""
_AT_START = frozenset(_NAMES_AT_START.split())
_AT_START_PREFIXES = ("LD_", "DYLD_", "MALLOC_")
"""Variables that Python, the loader of programs or the C library reads once, when a process begins."""
_LOCALE = ("LC_ALL", "LC_CTYPE", "LANG")
"""Variables of which the first that is set says in which encoding Python reads and writes."""


class VariableChange(NamedTuple):
    """One variable that a job changes: ``value`` is None if it is removed; ``known`` is False if it is computed.

    ``by`` is :data:`BY_JOB` (its environment), :data:`BY_CODE` (its source) or :data:`BY_RANK`. ``imported`` are the
    packages that its code has imported before, which do not see it.
    """

    name: str
    value: Optional[str]
    by: str
    known: bool = True
    imported: Tuple[str, ...] = ()


def changes_of(
    environment: Mapping[str, str], source: str, before: Mapping[str, str], *, ranks: bool
) -> List[VariableChange]:
    """Return what a job changes: by its environment, by its source, and by what its ranks are given.

    ``before`` is the environment that the preloaded packages found.
    """
    changes = [VariableChange(name, value, BY_JOB) for name, value in environment.items()]
    changes += [
        VariableChange(write.name, write.value, BY_CODE, write.known, write.imported)
        for write in _writes_in(source)
        if not (write.default and (write.name in environment or write.name in before))
    ]
    if ranks:
        changes += [VariableChange(name, None, BY_RANK, known=False) for name in RANK_VARIABLES]
    return changes


def _writes_in(source: str) -> Sequence[Write]:
    if "env" not in source:
        return ()
    from jupyter_smx.agent.code.environ.writes import writes_in  # noqa: PLC0415 - most sources name no variable

    return writes_in(source)


def differing(changes: Iterable[VariableChange], before: Mapping[str, str]) -> List[VariableChange]:
    """Leave out changes to the same value, and those whose effect the agent applies itself.

    ``before`` is the environment that the preloaded packages found.
    """
    changes = list(changes)
    threads = next((one.value for one in changes if (one.name, one.by) == (THREAD_VARIABLES[0], BY_JOB)), None)
    same = dict(before)
    if threads is not None and threads.isdecimal():
        same.update(dict.fromkeys(THREAD_VARIABLES[1:], threads))  # all of them are set by the first one
    return [
        one
        for one in changes
        if not (one.known and one.value == same.get(one.name)) and not (one.by == BY_JOB and one.name in _DONE_HERE)
    ]


def readers(reads: Sequence[Reads], changes: Sequence[VariableChange]) -> Dict[str, List[str]]:
    """Return the packages that read what a job changes, and the names of what they read.

    ``changes`` are the result of :func:`differing`.
    """
    found = {}
    for package in reads if changes else ():
        names = sorted({one.name for one in changes if _sees(package, one)})
        if names:
            found[package.package] = names
    return found


def _sees(package: Reads, change: VariableChange) -> bool:
    name = change.name
    read = name in package.names or name.startswith(tuple(package.prefixes))
    if not read and not (name.startswith(C_READERS.get(package.package, ())) and name not in _READ_WHEN_NEEDED):
        return False
    if change.by != BY_CODE and _is_set_later(package.package, change):
        return False
    return not (change.imported and set(change.imported).intersection(package.users))


def _is_set_later(package: str, change: VariableChange) -> bool:
    """Return True if the agent sets the value in the package when the job begins."""
    if change.name == THREAD_VARIABLES[0] and (package in C_READERS or package in THREADS_SET_LATER):
        return not change.known or str(change.value).isdecimal()
    return (package, change.name) == ("matplotlib", "MPLBACKEND")


def users_of(reads: Sequence[Reads], packages: Iterable[str]) -> FrozenSet[str]:
    """Return the top-level packages that need one of these, themselves included."""
    wanted = set(packages)
    return frozenset(user for one in reads if one.package in wanted for user in one.users)


def read_at_start(environment: Mapping[str, str], before: Mapping[str, str]) -> List[str]:
    """Name what a job's environment changes of the variables that are read when a process begins."""
    changed = {name for name, value in environment.items() if before.get(name) != value}
    found = [name for name in changed if name in _AT_START or name.startswith(_AT_START_PREFIXES)]
    if changed.intersection(_LOCALE) and _encoding({**before, **environment}) != _encoding(before):
        found += changed.intersection(_LOCALE)
    return sorted(found)


def _encoding(environment: Mapping[str, str]) -> str:
    named = next((environment[name] for name in _LOCALE if environment.get(name)), "")
    return "C.UTF-8" if named in ("", "C", "POSIX") else named  # what Python takes in the place of these


def unseen(changes: Iterable[VariableChange], known: Iterable[str]) -> List[str]:
    """Name what a job changes of the variables that compiled code may read without being seen to do it."""
    names = {one.name for one in changes if one.name.startswith(_FAMILIES) and not _is_harmless(one)}
    return sorted(names.difference(known))


def _is_harmless(change: VariableChange) -> bool:
    return change.name in _READ_WHEN_NEEDED or (change.by != BY_CODE and _is_set_later("numexpr", change))
