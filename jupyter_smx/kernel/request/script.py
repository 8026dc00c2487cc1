"""Choose what a job runs: the cell or a file of the user, and the files beside it."""

from __future__ import annotations

import ast
import os
import shlex
import tokenize
from pathlib import Path

from msgspec import Struct

from jupyter_smx.kernel.options.option_values import expand_user
from jupyter_smx.kernel.request.cell import suppress_compile_warnings
from jupyter_smx.model.errors import ValidationError, suggest_names
from jupyter_smx.model.spec.job_spec import is_entry_point

_CODE = (".py", ".so", ".pyd")
_OPTION = "--entry-point"
_SHELL = ".sh"
_SCRIPTS = (".py", _SHELL)
_NOTEBOOK = ".ipynb"
_RULE = "A job runs a script, of Python or of a shell, which is read here."
_PROGRAMS = (b"#!", b"\x7fELF")
REQUIREMENTS = "requirements.txt"
"""Beside the script: what SageMaker installs before it."""


class Script(Struct, frozen=True, kw_only=True):
    """The text of a script. ``filename`` is the file that it was read from, "" for a cell.

    ``entry_point`` is its name within its folder.
    """

    text: str
    filename: str = ""
    entry_point: str = ""

    def is_python(self) -> bool:
        """Say whether a job reads it as Python; anything else is a program that it starts."""
        return not self.entry_point or self.entry_point.endswith(".py")


def choose_script(code: str, source_dir: str, entry_point: str, folder: Path) -> Script:
    """Take the entry point where one is named, else the cell; relative paths start at ``folder``.

    :raises ValidationError: both are there, or the entry point is no script that can be read.
    """
    if not entry_point:
        return Script(text=code)
    if not is_empty(code):
        raise ValidationError(
            f"--entry-point: {entry_point} cannot be combined with code.",
            field="entry_point",
            value=entry_point,
            rule="A job runs one script: the entry point or the given code, each with an optional --source-dir.",
            cure="Empty the cell (comments may stay), or remove --entry-point.",
        )
    if Path(entry_point).is_absolute() and source_dir:
        entry_point = _relative_path(Path(entry_point), source_dir) or entry_point
    name = entry_point if source_dir else Path(entry_point).name
    path = Path(source_dir or folder, expand_user(entry_point))
    _check(entry_point, name, path, source_dir, folder)
    text = _text_of_program(path) if source_dir and path.suffix not in _SCRIPTS else read_script(str(path), _OPTION)
    return Script(text=text, filename=str(path), entry_point=name)


def _text_of_program(path: Path) -> str:
    """Give the text of a program for the record, or what it is where it has none."""
    data = path.read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"# {path.name} is a program of {len(data)} bytes.\n"


def requirements_file(script: Script, source_dir: str) -> str:
    """Give the requirements file that SageMaker would install for a script, "" where there is none."""
    path = Path(source_dir, REQUIREMENTS)
    return str(path) if source_dir and script.is_python() and path.is_file() else ""


def is_empty(code: str) -> bool:
    """Say whether a cell has nothing to run: blank lines and comments only."""
    try:
        with suppress_compile_warnings():
            return not ast.parse(code).body
    except (SyntaxError, ValueError):
        return False


def _check(word: str, name: str, path: Path, source_dir: str, folder: Path) -> None:
    if source_dir and not path.is_file():
        inside = _relative_path(folder / word, source_dir)
        is_here = inside and (folder / word).is_file()
        meant = Path(source_dir, inside) if inside else path
        cure = (
            f"Its path starts at --source-dir: --entry-point {shlex.quote(inside)}."
            if is_here
            else _nearest_script(meant)
        )
        raise _script_error(
            _OPTION,
            word,
            f"is not a file in {source_dir}.",
            cure,
            "With --source-dir, the entry point is a file in that folder.",
        )
    if path.suffix == _NOTEBOOK:
        raise _notebook_error(_OPTION, word, _shell_path(path, folder))
    if not is_entry_point(name):
        rule = (
            "As on SageMaker, it has only letters, digits, dots, hyphens, underscores and plus signs, and no folder "
            "is . or .. in it."
        )
        raise _script_error(_OPTION, word, "is not a valid script path.", "Rename it.", rule)
    if not _is_program(path, alone=not source_dir):
        rule = "It is a .py or .sh file, or an executable file or #! script in --source-dir."
        executable = f"`chmod +x {_shell_path(path, folder)}`, if it is a program."
        cure = executable if source_dir else "Pass the folder of the program with --source-dir."
        raise _script_error(_OPTION, word, "is not a script that a job can run.", cure, rule)


def _is_program(path: Path, *, alone: bool) -> bool:
    """Say whether a file can be run; what does not exist is told about by who reads it."""
    if path.suffix in _SCRIPTS:
        return True
    if alone:
        return False
    try:
        with path.open("rb") as file:
            return file.read(4).startswith(_PROGRAMS) or os.access(path, os.X_OK)
    except OSError:
        return False


def _relative_path(path: Path, source_dir: str) -> str:
    """Give the path of what lies in a folder, or would, from there; "" elsewhere."""
    try:
        found = path.resolve().relative_to(Path(source_dir).resolve()).as_posix()
    except (OSError, RuntimeError, ValueError):  # RuntimeError: a link in a circle, until Python 3.13
        return ""
    return "" if found == "." else found


def _shell_path(path: Path, folder: Path) -> str:
    """Write a path as a shell in ``folder`` takes it."""
    return shlex.quote(str(path.relative_to(folder) if path.is_relative_to(folder) else path))


def absolute_folder(word: str, folder: Path) -> str:
    """Make the path of a folder absolute from ``folder``; what is on no machine of ours stays as it is."""
    return word if "://" in word or not word else os.path.normpath(folder / expand_user(word))


def check_folder(folder: str) -> None:
    """Refuse what is no folder of this machine.

    :raises ValidationError: says what it is.
    """
    path = Path(folder)
    if path.is_dir():
        return
    if "://" in folder:
        sentence, cure = "is not on this machine", "Fetch it first."
    elif path.is_file():
        sentence, cure = "is a file", f"For the file alone leave --source-dir out: --entry-point {path.name}."
    else:
        sentence, cure = "does not exist", suggest_names(path.name, _folders(path.parent))
    raise ValidationError(
        f"--source-dir: {folder} {sentence}.",
        field="source_dir",
        value=folder,
        rule="--source-dir is a folder of this machine.",
        cure=cure or f"The folder {path.parent} was searched.",
    )


def _folders(parent: Path) -> list[str]:
    try:
        return [found.name for found in parent.iterdir() if found.is_dir()]
    except OSError:
        return []


def own_modules(folder: str) -> frozenset[str]:
    """Name the modules and packages that the code of a folder may import from it."""
    try:
        return frozenset(entry.name.split(".", 1)[0] for entry in os.scandir(folder) if _holds_code(entry))
    except OSError:
        return frozenset()


def _holds_code(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.name.endswith(_CODE) or any(file.suffix in _CODE for file in Path(entry.path).iterdir())
    except OSError:
        return False


def read_script(word: str, where: str) -> str:
    """Read the code of a script, in the encoding that it declares; ``where`` begins a sentence about it.

    :raises ValidationError: no such file, no text, a notebook, or nothing in it.
    """
    path = Path(word)
    if path.suffix == _NOTEBOOK:
        raise _notebook_error(where, word, shlex.quote(word))
    try:
        with tokenize.open(path) as file:
            code = file.read()
    except FileNotFoundError:
        raise _script_error(where, word, "does not exist.", _nearest_script(path)) from None
    except (SyntaxError, UnicodeDecodeError) as error:
        rule = "A script is text, in UTF-8 where its first line declares no other encoding."
        raise _script_error(
            where, word, f"is not text: {error}.", "Save it as UTF-8, or declare its encoding.", rule
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        cure = "Name a file in it." if path.is_dir() else "Name one that you may read."
        raise _script_error(
            where, word, f"cannot be read: {getattr(error, 'strerror', None) or error}.", cure
        ) from None
    if not code.strip():
        raise _script_error(where, word, "is empty.", "Write the code of the job into it, and save it.")
    return code


def _notebook_error(where: str, word: str, typed: str) -> ValidationError:
    return _script_error(
        where, word, "is a notebook.", f"`jupyter nbconvert --to script {typed}` converts it to a script."
    )


def _script_error(where: str, word: str, sentence: str, cure: str, rule: str = _RULE) -> ValidationError:
    field = "entry_point" if where == _OPTION else "source"
    return ValidationError(f"{where}: {word} {sentence}", field=field, value=word, rule=rule, cure=cure)


def _nearest_script(path: Path) -> str:
    try:
        beside = [found.name for found in path.parent.iterdir() if found.suffix in _SCRIPTS]
    except OSError:
        return f"There is no folder {path.parent}."
    return suggest_names(path.name, beside) or f"The folder is {path.parent.absolute()}."
