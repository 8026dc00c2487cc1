"""Hints for the exception of a failed job: its likely cause, and the option that fixes it.

A job has its own folder, files and names. A file, module or name that exists in the notebook but not in the job is
searched in the notebook's environment, and the hint names it.
"""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from jupyter_smx.kernel.options.line_syntax import variable_names
from jupyter_smx.kernel.request.cell import suppress_compile_warnings
from jupyter_smx.model.name import slug
from jupyter_smx.model.spec.channel import input_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jupyter_smx.model.records.job import RemoteException
    from jupyter_smx.model.spec.job_spec import JobSpec

_QUOTED = re.compile(r"'([^']+)'|\"([^\"]+)\"")
_MODULE = re.compile(r"No module named '([\w.]+)'")
_NAME = re.compile(r"name '(\w+)' is not defined")
_MAX_FOLDERS = 200
"""Folders beside the notebook that are looked into for a module."""


def failure_hint(spec: JobSpec, exception: RemoteException, namespace: Mapping[str, Any]) -> str:
    """Return one or two sentences, "" if the exception has no explanation here. Reads the disk, sends no request."""
    try:
        if exception.type == "FileNotFoundError":
            return next(filter(None, (_file_hint(spec, path) for path in _paths(exception.message))), "")
        if exception.type == "ModuleNotFoundError" and (found := _MODULE.search(exception.message)):
            return _module_hint(spec, found[1].partition(".")[0])
        if exception.type == "NameError" and (found := _NAME.search(exception.message)):
            return _variable_hint(found[1], namespace)
    except (OSError, ValueError):
        return ""  # a name that no file can have, or a folder that cannot be read: there is nothing to say
    return ""


def _paths(message: str) -> list[str]:
    return [single or double for single, double in _QUOTED.findall(message)]


def _folder_text(spec: JobSpec) -> str:
    return "in the folder of the notebook" if spec.notebook else f"in {spec.working_directory}"


def _file_hint(spec: JobSpec, word: str) -> str:
    here = Path(spec.working_directory, word)
    if spec.source_dir and not Path(word).is_absolute() and Path(spec.source_dir.folder, word).exists():
        return f"{_not_packed_hint(word, spec.source_dir.folder)} {_input_option_hint(spec, word)}"
    if not spec.working_directory or word.startswith("/opt/ml/") or not here.exists():
        return ""
    for channel in spec.channels:
        inside = os.path.relpath(here, channel.source)
        if channel.source and not inside.startswith(".."):
            name = inside if inside != "." else here.name if here.is_file() else ""
            folder = input_folder(spec.kind, channel.name, channel.path)
            return f"It is in channel {channel.name}: {folder}/{name} in the job."
    if Path(word).is_absolute():
        return f"{word} exists on this machine but not in the job. {_input_option_hint(spec, word)}"
    return f"{word} is {_folder_text(spec)} but not in the job. {_input_option_hint(spec, word)}"


def _not_packed_hint(word: str, folder: str) -> str:
    return f"{word} is in {folder} but was not sent: .gitignore excludes it, or it was added later."


def _input_option_hint(spec: JobSpec, word: str) -> str:
    """Name the option for a file: the folder that it lies in goes as a whole, unless that is the notebook's own."""
    parts = Path(word).parts
    is_deep = not Path(word).is_absolute() and ".." not in parts and len(parts) > 1
    source = parts[0] if is_deep else word
    name = slug(Path(source).stem)[:64].strip("-") or "data"
    return f"Add --input {name}={source} to provide it as {input_folder(spec.kind, name)}."


def _module_hint(spec: JobSpec, name: str) -> str:
    if spec.source_dir and _has_module(Path(spec.source_dir.folder), name):
        return _not_packed_hint(name, spec.source_dir.folder)
    if spec.source_dir and not spec.requirements and Path(spec.source_dir.folder, "requirements.txt").is_file():
        return f"{spec.source_dir.folder}/requirements.txt may list it. Add --requirements"
    here = Path(spec.working_directory)
    if not spec.working_directory:
        return ""
    if _has_module(here, name):
        already = " instead" if spec.source_dir else ""
        return f"{name} is {_folder_text(spec)} but not in the job. Add --source-dir .{already}"
    for folder in sorted(
        path for path in _first_entries(here.iterdir()) if path.is_dir() and not path.name.startswith(".")
    ):
        if _has_module(folder, name):
            return f"{name} is in {folder.name} {_folder_text(spec)} but not in the job. Add --source-dir {folder.name}"
    return ""


def _first_entries(paths: Iterator[Path]) -> list[Path]:
    return [path for path, _ in zip(paths, range(_MAX_FOLDERS), strict=False)]


def _has_module(folder: Path, name: str) -> bool:
    return (folder / f"{name}.py").is_file() or any((folder / name).glob("*.py"))


def _variable_hint(name: str, namespace: Mapping[str, Any]) -> str:
    if name not in variable_names(namespace):
        return ""
    value = namespace[name]
    if isinstance(value, ModuleType):
        alias = "" if value.__name__ == name else f" as {name}"
        return f"{name} is a module that the notebook imported. Import it in the cell: import {value.__name__}{alias}"
    return f"{name} is a notebook variable that was not sent to the job. Add --send {name}"


def missing_variable_hint(name: str, spec: JobSpec) -> str:
    """Say why a variable did not come back, where the code tells it: it is local to a function."""
    try:
        with suppress_compile_warnings():
            tree = ast.parse(spec.source)
    except (SyntaxError, ValueError):
        return ""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and _assigns(node, name):
            return f"It is a local variable of {node.name}(). Return it and assign it at the top level."
    return ""


def _assigns(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        for node in ast.walk(function)
    )
