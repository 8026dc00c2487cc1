"""Choose the Python of a job: the kernel's or the one of ``--python``, with what is required beside it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from jupyter_smx.kernel.options.option_values import expand_user, path_kind
from jupyter_smx.model import python_version as interpreter
from jupyter_smx.model.errors import ValidationError, suggest_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.model.options.code_options import Requirements
    from jupyter_smx.model.spec.job_spec import JobSpec

NO_REQUIREMENTS = "none"
"""Value of ``--requirements`` that also ignores the file beside the script."""
_CONDA = "conda:"
_UV = "uv:"
_PICKLER = "cloudpickle"
_OLDEST = ".".join(map(str, interpreter.MIN_PYTHON))


class InterpreterChoice(Struct, frozen=True, kw_only=True):
    """An interpreter (absolute path, version as ``3.11``), requirements, and whether they replace its packages.

    On an engine with interpreters of its own the first is what the user typed, or "", and the version is unknown ("").
    """

    python: str
    python_version: str
    requirements: tuple[str, ...] = ()
    requirements_only: bool = False


def choose_interpreter(word: str, required: Requirements, own: InterpreterChoice, folder: Path) -> InterpreterChoice:
    """Read ``--python`` and ``--requirements``; without them a job runs ``own``, the submitting kernel's Python.

    Relative paths start at ``folder``. Another interpreter is started once, to read its version.

    :raises ValidationError: the interpreter does not exist or is none, or a requirement is invalid.
    """
    lines = _read_requirements(required, folder)
    if word.startswith(_UV):
        alone = _uv_requirements(word.removeprefix(_UV), folder)
        return InterpreterChoice(
            python=own.python, python_version=own.python_version, requirements=(*alone, *lines), requirements_only=True
        )
    if not word:
        return InterpreterChoice(python=own.python, python_version=own.python_version, requirements=lines)
    if word.startswith(_CONDA):
        from jupyter_smx.kernel.request import conda  # noqa: PLC0415 - costs a millisecond, and few jobs need it

        prefix = conda.prefix_of(word.removeprefix(_CONDA))
        python = _interpreter_in(prefix, f"the environment of conda at {prefix}", word)
    else:
        python = _find_interpreter(word, folder)
    return InterpreterChoice(python=python, python_version=_query_version(python, word), requirements=lines)


def pass_on_interpreter(word: str, required: Requirements, folder: Path) -> InterpreterChoice:
    """Leave ``--python`` to an engine with interpreters of its own: nothing is looked up on this machine.

    :raises ValidationError: a requirement is invalid.
    """
    lines = _read_requirements(required, folder)
    if word.startswith(_UV):
        alone = _uv_requirements(word.removeprefix(_UV), folder)
        return InterpreterChoice(python="", python_version="", requirements=(*alone, *lines), requirements_only=True)
    return InterpreterChoice(python=word, python_version="", requirements=lines)


def check_send(spec: JobSpec, own_version: str, code: Sequence[str]) -> None:
    """Refuse to send functions and classes to another version of Python; if it is unknown, the controller checks it.

    ``code`` names those whose code was packed, as ``the function scale``.

    :raises ValidationError: the job's Python cannot run their code; the text has both versions.
    """
    if not code or spec.python_version in ("", own_version):
        return
    raise ValidationError(
        f"--python: this kernel runs Python {own_version} and the job would run {spec.python_version}, "
        f"which cannot run {code[0]}.",
        field="send",
        value=spec.python_version,
        rule="The code of functions and classes runs only in the Python version that compiled it. Values, arrays and "
        "tables travel to any version.",
        cure=f"Choose a --python of {own_version}, bring the code as text in the cell, a script or --source-dir, or "
        "send values only.",
    )


def add_cloudpickle(spec: JobSpec) -> JobSpec:
    """Add cloudpickle, which pickles functions, to requirements of an environment of their own."""
    if not spec.requirements_only or any(line.startswith(_PICKLER) for line in spec.requirements):
        return spec
    import cloudpickle  # noqa: PLC0415 - a call that sends a function loads it anyway

    line = f"{_PICKLER}=={cloudpickle.__version__}"
    return msgspec.structs.replace(spec, requirements=(*spec.requirements, line))


def _read_requirements(required: Requirements, folder: Path) -> tuple[str, ...]:
    if isinstance(required, (str, Path)) and str(required) in ("", NO_REQUIREMENTS):
        return ()
    from jupyter_smx.kernel.request import requirements  # noqa: PLC0415 - costs milliseconds, and few jobs need it

    if isinstance(required, (str, Path)):
        return requirements.read(required, folder)
    return requirements.specifiers([str(each) for each in required])


def _uv_requirements(text: str, folder: Path) -> tuple[str, ...]:
    """Read what stands behind ``uv:``: a file, or requirements between commas."""
    from jupyter_smx.kernel.request import requirements  # noqa: PLC0415 - as above

    path = folder / expand_user(text) if text else folder
    if path_kind(path) == "file" or text.endswith((".txt", ".in")):
        found = requirements.read(text, folder)
    else:
        found = requirements.specifiers(requirements.split(text), "--python uv")
    if found:
        return found
    raise ValidationError(
        f"--python {_UV}{text}: no packages were given.",
        field="python",
        value=text,
        rule="It takes a requirements file, or requirements separated by commas.",
        cure="For example uv:numpy,pandas==2.2.",
    )


def _find_interpreter(word: str, folder: Path) -> str:
    # Not resolved: the interpreter of a virtual environment is a link, and the link's name is what matters.
    path = Path(os.path.normpath(folder / expand_user(word)))
    kind = path_kind(path)
    if kind == "folder":
        return _interpreter_in(path, f"the folder {path}", word)
    if not kind:
        raise _python_error(word, "does not exist", f"It was looked for at {path}.", _nearest_file(path))
    return _check_executable(path, word)


def _interpreter_in(folder: Path, what: str, word: str) -> str:
    for name in ("bin/python", "bin/python3"):
        if (folder / name).exists():
            return _check_executable(folder / name, word)
    raise _python_error(word, "has no Python", f"There is no bin/python in {what}.", "")


def _check_executable(path: Path, word: str) -> str:
    if not os.access(path, os.X_OK):
        raise _python_error(
            word, "cannot be executed", f"{path} is not an executable file.", f"`chmod +x {path}`, if it is one."
        )
    return str(path)


def _query_version(python: str, word: str) -> str:
    try:
        found = interpreter.version(python)
    except (OSError, ValueError, subprocess.SubprocessError) as problem:
        raise _python_error(word, "is not a Python that can be started", f"({problem})", "") from None
    if found < interpreter.MIN_PYTHON:
        raise _python_error(word, f"is Python {found[0]}.{found[1]}", f"A job runs {_OLDEST} or newer.", "")
    return f"{found[0]}.{found[1]}"


def _nearest_file(path: Path) -> str:
    try:
        beside = [found.name for found in path.parent.iterdir()]
    except OSError:
        return f"There is no folder {path.parent}."
    return suggest_names(path.name, beside)


def _python_error(word: str, what: str, rule: str, cure: str) -> ValidationError:
    return ValidationError(
        f"--python: {word!r} {what}.",
        field="python",
        value=word,
        rule=rule,
        cure=cure or "It takes an interpreter, the folder of a virtual environment, conda:NAME or uv:REQUIREMENTS.",
    )
