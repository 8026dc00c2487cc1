"""Choose what a job runs: the cell or a file of the user, and the files beside it."""

from __future__ import annotations

import ast
import os
import re
import shlex
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.kernel.options.option_values import expand_user, path_kind
from jupyter_smx.kernel.request.cell import suppress_compile_warnings
from jupyter_smx.model.errors import ValidationError, suggest_names
from jupyter_smx.model.spec.job_spec import TRAIN, is_entry_point

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.model.options.code_options import Requirements
    from jupyter_smx.model.options.option import Kind

_CODE = (".py", ".so", ".pyd")
_OPTION = "--entry-point"
_SHELL = ".sh"
_SCRIPTS = (".py", _SHELL)
_NOTEBOOK = ".ipynb"
_RULE = "A job runs a script, of Python or of a shell, which is read here."
_SHEBANG = b"#!"
ARCHIVES = (".tar.gz", ".tgz")
"""How a source folder ends that is an archive."""
_PROGRAMS = (_SHEBANG, b"\x7fELF")
_HEAD_BYTES = 1024
"""Bytes at the start of a file that show its type."""
_PLAIN_PYTHON = (("python",), ("python3",))
_PYTHON_NAMES = re.compile(rb"(?:python|pypy)[\d.]*")
_LANGUAGE_SUFFIX = re.compile(r"\.[A-Za-z]\w*")
_INTERPRETERS = {
    ".bash": "bash",
    ".jl": "julia",
    ".js": "node",
    ".lua": "lua",
    ".pl": "perl",
    ".php": "php",
    ".r": "Rscript",
    ".rb": "ruby",
    ".zsh": "zsh",
}
"""Programs that run the files of a suffix, for a cure."""
_PROGRAM_RULE = "A job runs Python (.py), a shell script (.sh), or a program whose first line begins with #!."
REQUIREMENTS = "requirements.txt"
"""File beside the script: SageMaker installs it first."""


class Script(Struct, frozen=True, kw_only=True):
    """The text of a script. ``filename`` is the file that it was read from, "" for a cell.

    ``entry_point`` is its name within its folder.
    """

    text: str
    filename: str = ""
    entry_point: str = ""
    command: tuple[str, ...] = ()
    """Program and words that run it; without an entry point the whole command."""
    is_image_program: bool = False
    """True if the image of the hosts has it."""

    def is_python(self) -> bool:
        """Return True if a job reads it as Python; anything else is a program that it starts."""
        if self.is_image_program:
            return False
        return self.entry_point.endswith(".py") if self.entry_point else not self.command


def image_program(kind: Kind) -> Script:
    """Return the program that SageMaker starts in the image of a job without a script."""
    if kind == "train":
        return Script(text=f"{TRAIN}\n", command=(TRAIN,), is_image_program=True)
    return Script(text="# The ENTRYPOINT and CMD of the image.\n", is_image_program=True)


def choose_script(code: str, source_dir: str, entry_point: str, folder: Path, command: Sequence[str] = ()) -> Script:
    """Return the entry point if there is one, else the cell; relative paths start at ``folder``.

    With a ``command`` it is a file of any kind, which the command runs. Without an entry point that is all that runs.

    :raises ValidationError: both exist, or the entry point is no readable script.
    """
    if not entry_point and not command:
        return Script(text=code)
    if not is_empty(code):
        option, word = ("--entry-point", entry_point) if entry_point else ("--command", shlex.join(command))
        raise ValidationError(
            f"{option}: {word} cannot be combined with code.",
            field="entry_point" if entry_point else "command",
            value=word,
            rule="A job runs one script: the entry point or the given code, each with an optional --source-dir.",
            cure=f"Empty the cell (comments may stay), or remove {option}.",
        )
    if not entry_point:
        return Script(text=f"{shlex.join(command)}\n", command=tuple(command))
    if Path(entry_point).is_absolute() and source_dir:
        entry_point = _relative_path(Path(entry_point), source_dir) or entry_point
    name = entry_point if source_dir else Path(entry_point).name
    path = Path(source_dir or folder, expand_user(entry_point))
    _check(entry_point, name, path, source_dir, folder, is_run=bool(command))
    return Script(
        text=_text_of_entry_point(path, entry_point, source_dir),
        filename=str(path),
        entry_point=name,
        command=() if path.suffix == ".py" and _is_plain_python(command) else tuple(command),
    )


def _is_plain_python(command: Sequence[str]) -> bool:
    """Return True for ``["python3"]`` of SageMaker's processors: a job runs scripts of Python anyway, on warm hosts."""
    return tuple(command) in _PLAIN_PYTHON


def entry_point_of(word: str, source_dir: str, folder: Path, where: str) -> str:
    """Return the entry point that a script means that a user named alone; "" if its text is read and run as a cell is.

    A file that lies in ``source_dir`` only (absolute, "" for none) is the entry point of that folder, and a program
    runs as what it is. Other Python is read as a cell, and so is what does not exist. ``where`` begins a sentence.

    :raises ValidationError: the file is neither Python, nor a shell script, nor a program that can travel alone; or it
        is neither here nor in ``source_dir``.
    """
    path = folder / expand_user(word)
    if path.suffix == _SHELL:
        return word
    if source_dir and not path.exists():
        if is_archive_or_url(source_dir):
            return word
        _check_is_inside(word, source_dir, where)
        return word
    return word if path.is_file() and _is_other_program(path, word, where) else ""


def _check_is_inside(word: str, source_dir: str, where: str) -> None:
    check_folder(source_dir)
    path = Path(source_dir, expand_user(word))
    if not path.exists():
        sentence = f"does not exist, neither here nor in {source_dir}."
        raise _script_error(where, word, sentence, _nearest_script(path))


def _is_other_program(path: Path, word: str, where: str) -> bool:
    """Return True if a file is a program, and not Python.

    :raises ValidationError: it is of another language, without a program to run it.
    """
    if path.suffix in (".py", _NOTEBOOK):
        return False
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return False  # the later reading raises the reason
    if head.startswith(_SHEBANG):
        return not _names_python(head)
    if b"\0" in head:
        raise _binary_error(path, word, where)
    if not _LANGUAGE_SUFFIX.fullmatch(path.suffix):
        return False
    program = _INTERPRETERS.get(path.suffix.lower(), "PROGRAM")
    cure = f"Write `#!/usr/bin/env {program}` as its first line. If it is Python, end its name with .py."
    raise _script_error(where, word, "is not Python, by its name.", cure, _PROGRAM_RULE)


def _names_python(head: bytes) -> bool:
    """Return True if the first line of a script names Python, directly or by ``env``."""
    words = head.partition(b"\n")[0].removeprefix(_SHEBANG).split()
    names = [word.rpartition(b"/")[2] for word in words if not word.startswith(b"-") and b"=" not in word]
    program = names[1:2] if names[:1] == [b"env"] else names[:1]
    return bool(program) and bool(_PYTHON_NAMES.fullmatch(program[0]))


def _binary_error(path: Path, word: str, where: str) -> ValidationError:
    # Quoted, since a name may look like a word of the sentence, which is no value for :func:`spelling.respell`.
    quoted = [shlex.quote(text) for text in (str(Path(word).parent), path.name)]
    folder, name = (text if text.startswith("'") else f"'{text}'" for text in quoted)
    cure = f"Pass its folder: --source-dir {folder} --entry-point {name}."
    rule = "A program alone travels as text. A binary program is sent with its folder."
    return _script_error(where, word, "is a binary program.", cure, rule)


def _text_of_entry_point(path: Path, word: str, source_dir: str) -> str:
    if path.suffix in _SCRIPTS:
        return read_script(str(path), _OPTION)
    if source_dir:
        return _text_of_program(path)
    try:
        return path.read_bytes().decode()  # with its line ends
    except UnicodeDecodeError:
        raise _binary_error(path, word, _OPTION) from None


def _text_of_program(path: Path) -> str:
    """Return the text of a program for the record, or a description if it is binary."""
    data = path.read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"# {path.name} is a program of {len(data)} bytes.\n"


def requirements_file(script: Script, source_dir: str) -> str:
    """Return the requirements file that SageMaker's toolkit would install for a script, "" if there is none."""
    path = Path(source_dir, REQUIREMENTS)
    return str(path) if source_dir and script.is_python() and path.is_file() else ""


def file_in_source_dir(required: Requirements, source_dir: str, folder: Path) -> Requirements:
    """Find a requirements file as ``SourceCode(requirements=…)`` of SDK 3 does: its path starts at the source folder.

    A file of that path in ``folder`` comes first, as for every option; anything else is given back.
    """
    if not isinstance(required, (str, Path)) or not source_dir or (folder / expand_user(required)).exists():
        return required
    inside = Path(source_dir, required)
    return str(inside) if inside.is_file() else required


def is_empty(code: str) -> bool:
    """Return True if a cell has nothing to run: blank lines and comments only."""
    try:
        with suppress_compile_warnings():
            return not ast.parse(code).body
    except (SyntaxError, ValueError):
        return False


def _check(word: str, name: str, path: Path, source_dir: str, folder: Path, *, is_run: bool) -> None:
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
    if is_run and not path.is_file():
        raise _script_error(_OPTION, word, "does not exist.", _nearest_script(path))
    if not is_run and not _is_program(path, alone=not source_dir):
        rule = "It is a .py or .sh file, or a program that begins with #!; in --source-dir any executable file."
        executable = f"`chmod +x {_shell_path(path, folder)}`, if it is a program."
        cure = executable if source_dir else "Pass the folder of the program with --source-dir."
        raise _script_error(_OPTION, word, "is not a script that a job can run.", cure, rule)


def _is_program(path: Path, *, alone: bool) -> bool:
    """Return True if a file can be run; a missing script is reported by the code that reads it."""
    if path.suffix in _SCRIPTS:
        return True
    try:
        with path.open("rb") as file:
            head = file.read(len(_PROGRAMS[-1]))
    except OSError:
        return False
    return head.startswith(_SHEBANG) if alone else head.startswith(_PROGRAMS) or os.access(path, os.X_OK)


def _relative_path(path: Path, source_dir: str) -> str:
    """Return the path of a file relative to its folder, also if it does not exist; "" outside of that."""
    try:
        found = path.resolve().relative_to(Path(source_dir).resolve()).as_posix()
    except (OSError, RuntimeError, ValueError):  # RuntimeError: a link in a circle, until Python 3.13
        return ""
    return "" if found == "." else found


def _shell_path(path: Path, folder: Path) -> str:
    """Write a path as a shell in ``folder`` takes it."""
    return shlex.quote(str(path.relative_to(folder) if path.is_relative_to(folder) else path))


def absolute_folder(word: str, folder: Path) -> str:
    """Make the path of a folder absolute from ``folder``; a URL stays as it is."""
    return word if "://" in word or not word else os.path.normpath(folder / expand_user(word))


def is_archive_or_url(word: str) -> bool:
    """Return True if a source folder (absolute) is an archive of this machine, or a URL."""
    return "://" in word or (word.endswith(ARCHIVES) and path_kind(word) == "file")


def check_folder(folder: str) -> None:
    """Refuse a path that is no folder of this machine.

    :raises ValidationError: the text describes the path.
    """
    path = Path(folder)
    kind = path_kind(path)
    if kind == "folder":
        return
    if kind == "file":
        sentence, cure = "is a file", f"For the file alone leave --source-dir out: --entry-point {path.name}."
    else:
        sentence, cure = "does not exist", suggest_names(path.name, _folders(path.parent))
    raise ValidationError(
        f"--source-dir: {folder} {sentence}.",
        field="source_dir",
        value=folder,
        rule="--source-dir is a folder of this machine, a .tar.gz archive, or a URL of one of them.",
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
    if entry.name.endswith(_CODE) or not entry.is_dir():
        return entry.name.endswith(_CODE)
    try:
        with os.scandir(entry.path) as inside:
            return any(file.name.endswith(_CODE) for file in inside)
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
