"""Apply environment variables that Python reads only at its start, or a library only at its import.

The process of a job has both behind it, so what they would have made of them is done here.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
import warnings
from typing import TYPE_CHECKING, Dict, List, Mapping, Optional

from jupyter_smx.agent.code import imports, sourcedir
from jupyter_smx.agent.errors import RefusalError

if TYPE_CHECKING:
    from types import ModuleType

_READ_AT_IMPORT = (
    (("HF_", "HUGGINGFACE_", "HUGGING_FACE_"), ("huggingface_hub", "transformers", "datasets")),
    (("TRANSFORMERS_",), ("transformers",)),
)
"""How names of settings begin, and the packages that read them when they are imported; which are in Python alone."""
_ONCE = {"datasets": "datasets.config"}
"""Packages that pass their types to compiled ones, which accept these once; and the module of their settings."""
_READ_WHEN_NEEDED = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
_MESSAGES = "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"
"""Of what protobuf makes the classes of messages; old generated code works with ``python`` only."""


def apply_variables(variables: Dict[str, str], inherited: Mapping[str, str], at: int, code: List[str]) -> List[str]:
    """Do what those variables say that are other ones than the host's own; gives a sentence for each that is not done.

    Imports look in ``sys.path`` before ``at`` first, that is in the job's code, and programs in the folders ``code``.

    :raises RefusalError: a library has no such setting.
    """
    new = {name: value for name, value in variables.items() if inherited.get(name) != value}
    _apply_python_variables(new)
    _choose_backend(new.get("MPLBACKEND", ""))
    _unload_readers(new)
    said = _choose_protobuf_backend(new.get(_MESSAGES, ""))
    if "PYTHONPATH" not in variables:
        return said
    entries = [os.path.abspath(entry) for entry in variables["PYTHONPATH"].split(os.pathsep) if entry]
    sys.path[at:at] = entries
    os.environ["PYTHONPATH"] = os.pathsep.join([*code, *entries])
    kept = sourcedir.unload_shadowing_modules(entries, keep=imports.compiled_packages())
    return said + [
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


def _choose_backend(name: str) -> None:
    """Let matplotlib draw with a backend: it is compiled, and reads the variable when it is imported."""
    matplotlib = sys.modules.get("matplotlib")
    if matplotlib is None or not name:
        return
    try:
        matplotlib.rcParams["backend"] = name
    except ValueError as error:
        raise RefusalError(f"environment: MPLBACKEND is {name!r}, which matplotlib does not accept: {error}") from error


def _choose_protobuf_backend(implementation: str) -> List[str]:
    """Let the next import of protobuf choose again, where nothing compiled has classes of its first choice."""
    chosen = sys.modules.get("google.protobuf.internal.api_implementation")
    if not implementation or chosen is None or chosen.Type() == implementation:
        return []
    users = imports.dependents_of({"google"})
    bound = sorted(users & imports.compiled_packages() - {"google"})
    if not bound:
        imports.unload(users)
        return []
    held = f"{', '.join(bound)}, which no process can load twice; have the administrator name google in preload_never."
    return [
        f"environment: {_MESSAGES} is {implementation}, but this host has imported google.protobuf already, and {held}"
    ]


def _unload_readers(new: Mapping[str, str]) -> None:
    """Let the next import read its settings, in the packages that read them and in all that hold parts of these."""
    readers = {
        package
        for name in new
        if name not in _READ_WHEN_NEEDED
        for prefixes, packages in _READ_AT_IMPORT
        if name.startswith(prefixes)
        for package in packages
    }
    if readers & sys.modules.keys():
        affected = imports.dependents_of(readers)
        imports.unload(affected - imports.compiled_packages() - _ONCE.keys())
        for package in affected & _ONCE.keys():
            _reload_settings(package, sys.modules.get(_ONCE[package]))


def _reload_settings(package: str, settings: Optional[ModuleType]) -> None:
    """Let a module read its settings where it is: its package cannot be loaded twice into one process."""
    if settings is None:
        return
    try:
        importlib.reload(settings)
    except (ValueError, TypeError, ImportError) as error:
        kind = type(error).__name__
        raise RefusalError(f"environment: {package} rejects its settings ({kind}: {error}).") from error
