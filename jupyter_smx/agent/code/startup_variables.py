"""Apply environment variables that Python reads only at its start, if a running process can still apply them.

Other variables need a new process: see :mod:`jupyter_smx.agent.code.environ.changes`.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from typing import Dict, List, Mapping

from jupyter_smx.agent.code import imports, sourcedir
from jupyter_smx.agent.errors import RefusalError


def apply_variables(variables: Dict[str, str], inherited: Mapping[str, str], at: int, code: List[str]) -> List[str]:
    """Apply the variables that differ from the host's own; return a sentence for each that is not applied.

    Imports look in ``sys.path`` before ``at`` first, that is in the job's code, and programs in the folders ``code``.

    :raises RefusalError: a library has no such setting.
    """
    new = {name: value for name, value in variables.items() if inherited.get(name) != value}
    _apply_python_variables(new)
    _choose_backend(new.get("MPLBACKEND", ""))
    if "PYTHONPATH" not in variables:
        return []
    entries = [os.path.abspath(entry) for entry in variables["PYTHONPATH"].split(os.pathsep) if entry]
    sys.path[at:at] = entries
    os.environ["PYTHONPATH"] = os.pathsep.join([*code, *entries])
    kept = sourcedir.unload_shadowing_modules(entries, keep=imports.compiled_packages())
    return [
        f"environment: PYTHONPATH has another {name}, but this host has imported one already and it has compiled "
        "parts, which no process can change; name that other one in --requirements."
        for name in sorted(kept)
    ]


def _apply_python_variables(new: Mapping[str, str]) -> None:
    """Do what Python does with its own variables at its start."""
    if "TZ" in new:
        time.tzset()
    options = [option for option in new.get("PYTHONWARNINGS", "").split(",") if option]
    sys.warnoptions += options
    warnings._processoptions(options)  # type: ignore[attr-defined]  # noqa: SLF001 - how Python itself reads them
    if new.get("PYTHONDONTWRITEBYTECODE"):
        sys.dont_write_bytecode = True
    if "PYTHONPYCACHEPREFIX" in new:
        sys.pycache_prefix = new["PYTHONPYCACHEPREFIX"] or None
    if new.get("PYTHONUNBUFFERED"):
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(write_through=True)  # type: ignore[union-attr]


def _choose_backend(name: str) -> None:
    """Set matplotlib's backend: the module is compiled, and reads the variable at its import only."""
    matplotlib = sys.modules.get("matplotlib")
    if matplotlib is None or not name:
        return
    try:
        matplotlib.rcParams["backend"] = name
    except ValueError as error:
        raise RefusalError(f"environment: MPLBACKEND is {name!r}, which matplotlib does not accept: {error}") from error
