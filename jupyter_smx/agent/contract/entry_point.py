"""Start the code of a job: as a script or module in the job's process, or as a program that replaces it.

The rules are those of sagemaker-training: ``*.sh`` is a command, a folder with ``setup.py`` is a package that is
installed and run with ``-m``, any other ``*.py`` is a script, and what is left is a command.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import signal
import sys
from typing import TYPE_CHECKING, Any, List, NoReturn

from jupyter_smx.agent.contract import script

if TYPE_CHECKING:
    from types import CodeType, ModuleType

    from jupyter_smx.agent.frames import CompleteSpec
    from jupyter_smx.agent.paths import HostInfo

SCRIPT, PACKAGE, COMMAND = "script", "package", "command"
PACKAGES = "packages"
"""Folder below ``/opt/ml`` that a job's own package is installed into: its Python belongs to other jobs as well."""
NO_PROGRAM = (
    "command: its first word is empty, and it should name a program. Correct --command, or ENTRYPOINT and CMD of the "
    "image."
)
_SETUP, _PROJECT = "setup.py", "pyproject.toml"
_BUILDS = re.compile(r"^\s*\[build-system\]", re.MULTILINE)
_MISSING = """
import sys
from importlib.metadata import PackageNotFoundError, distributions, version
try:
    from packaging.requirements import Requirement
except ImportError:
    from pip._vendor.packaging.requirements import Requirement
for found in distributions(path=sys.argv[1:]):
    for line in found.requires or ():
        wanted = Requirement(line)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        wanted.marker = None
        try:
            if wanted.specifier.contains(version(wanted.name), prereleases=True):
                continue
        except PackageNotFoundError:
            pass
        print(wanted)
"""


class InstallError(Exception):
    """The package cannot be installed; the text is what sagemaker-training calls it, and a sentence."""


def entry_kind(spec: CompleteSpec, folder: str) -> str:
    """Return the kind of the code; ``folder`` is where it lies. A cell is always a script."""
    if spec["command"]:
        return COMMAND
    name = str(spec["entry_point"])
    if not name:
        return SCRIPT
    if name.endswith(".sh"):
        return COMMAND
    if _is_package(spec, folder):
        return PACKAGE
    return SCRIPT if name.endswith(".py") else COMMAND


def _is_package(spec: CompleteSpec, folder: str) -> bool:
    # SageMaker's toolkit installs code, and nothing else there does.
    if spec["kind"] != "train" or not spec["source_dir"] or script.is_sdk3_driven(spec):
        return False
    return os.path.isfile(os.path.join(folder, _SETUP)) or _needs_its_project(folder, spec["entry_point"])


def _needs_its_project(folder: str, name: str) -> bool:
    """Return True if a script can hardly run before its ``pyproject.toml`` is installed, which SageMaker does not do.

    It is in a package, or its imports are in ``src``. Elsewhere that file has mostly settings of tools.
    """
    try:
        with open(os.path.join(folder, _PROJECT), encoding="utf-8", errors="replace") as file:
            builds = bool(_BUILDS.search(file.read()))
    except OSError:
        return False
    beside = os.path.join(folder, os.path.dirname(name), "__init__.py")
    return builds and (os.path.isfile(beside) or os.path.isdir(os.path.join(folder, "src")))


def can_run_uninstalled(spec: CompleteSpec, folder: str) -> bool:
    """Return True if SageMaker would run the script of a package that cannot be installed."""
    return str(spec["entry_point"]).endswith(".py") and not os.path.isfile(os.path.join(folder, _SETUP))


# Commands


def shell_command(spec: CompleteSpec, host_info: HostInfo) -> List[str]:
    """Return the command of the program: sagemaker-training runs it with a shell, in the folder of the code.

    A command of the request gets the entry point and its arguments, or it is all that runs.
    """
    if spec["command"]:
        given = script.argv(spec, host_info) if spec["entry_point"] else spec["arguments"]
        return ["/bin/sh", "-c", " ".join(map(shlex.quote, [*spec["command"], *given]))]
    name, *words = script.argv(spec, host_info)
    path = name if os.path.isabs(name) else os.path.join(os.curdir, name)
    return ["/bin/sh", "-c", " ".join(map(shlex.quote, [path, *words]))]


def exec_program(words: List[str], path: str) -> NoReturn:
    """Replace this process by the program, so that signals reach it and its exit code is the job's.

    ``path`` is its file, "" for a command that is found by its name. The shell is replaced, too: a stop would end it at
    once, and with it the job, before the program has cleaned up. An image without a shell may have a program all the
    same, which SageMaker starts as it is.

    :raises OSError: it cannot be started.
    """
    shell, option, line = words
    if path:
        os.chmod(path, 0o755)  # noqa: S103 - as sagemaker-training does; the folder is the job's own
    # Python ignores both signals, and the program would inherit that: a pipe without a reader would never end it.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    if not os.path.exists(shell):
        program = shlex.split(line)
        os.execvpe(program[0], program, os.environ)  # noqa: S606 - the user's program
    os.execve(shell, [shell, option, f"exec {line}"], os.environ)  # noqa: S606 - the same


def start_failure(shell: str, error: OSError) -> str:
    """Return why a program did not start: scripts are started by a shell, which some images lack."""
    if os.path.exists(shell):
        return error.strerror or str(error)
    return (
        f"{error.strerror or error}; this host has no {shell}, which starts scripts of a shell: use an image with one, "
        "or a script in Python"
    )


# Packages


def install(folder: str, target: str) -> None:
    """Install the package of a folder with missing dependencies for this job alone, and add it to the path.

    :raises InstallError: the installation failed; the log has details.
    """
    print_note(f"{folder} is a package and is installed into {target}, for this job alone.")
    has_pip = importlib.util.find_spec("pip") is not None
    program = [*(_pip() if has_pip else _uv()), "--target", target]
    if has_pip or importlib.util.find_spec("packaging") is not None:
        _call([*program, "--no-deps", *_build_arguments(folder), folder])
        # With --target the installer would install again what is there already.
        missing = _call([sys.executable, "-I", "-c", _MISSING, target], listen=True).splitlines()
        if missing:
            _call([*program, *missing])
    else:
        _call([*program, folder])  # nothing here can read what it needs
    add_to_path(folder, [target], os.path.join(target, "bin"))


def add_to_path(code: str, folders: List[str], programs: str) -> None:
    """Add packages and their programs to the paths of this process and its children, after the folder ``code``."""
    known = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    for path in (sys.path, known):
        at = _code_end_index(path, code)
        path[at:at] = folders
    os.environ["PYTHONPATH"] = os.pathsep.join(known)
    os.environ["PATH"] = os.pathsep.join([programs, os.environ.get("PATH", os.defpath)])


def print_note(sentence: str) -> None:
    """Write a sentence to the job's log, marked as ours."""
    sys.stdout.write(f"jupyter_smx: {sentence}\n")
    sys.stdout.flush()


def _code_end_index(path: List[str], folder: str) -> int:
    """Return the index after the folders of the code itself, which come first, as on SageMaker."""
    return max((number + 1 for number, entry in enumerate(path) if entry.startswith(folder)), default=0)


def _build_arguments(folder: str) -> List[str]:
    here = all(importlib.util.find_spec(name) is not None for name in ("setuptools", "wheel"))
    if here and not os.path.exists(os.path.join(folder, _PROJECT)):
        return ["--no-build-isolation"]  # the requirements of setup.py are installed, so nothing has to be downloaded
    return []


def _pip() -> List[str]:
    return [sys.executable, "-I", "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]


def _uv() -> List[str]:
    import shutil  # noqa: PLC0415 - see `startup.AFTER_START`

    uv = shutil.which("uv")
    if uv:
        return [uv, "pip", "install", "--python", sys.executable]
    raise InstallError(
        f"InstallModuleError: {sys.executable} has no pip, and there is no uv. "
        "Install pip there, or name the package in --requirements."
    )


def _call(words: List[str], *, listen: bool = False) -> str:
    import subprocess  # noqa: PLC0415 - jobs without a package do without it

    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if listen else None, check=False)
    if done.returncode:
        raise InstallError(
            f"InstallModuleError: the package in the folder of code cannot be installed: {os.path.basename(words[0])} "
            f"ended with exit code {done.returncode}. The log says why."
        )
    return (done.stdout or b"").decode(errors="replace")


def module_name(spec: CompleteSpec, folder: str) -> str:
    """Return the argument of ``-m``: ``src/`` is no part of a module's name."""
    parts = script.script_module(spec["entry_point"]).split("/")
    if parts[0] == "src" and len(parts) > 1 and not os.path.exists(os.path.join(folder, "src", "__init__.py")):
        del parts[0]
    return ".".join(parts)


def load_module(name: str, main: ModuleType) -> CodeType:
    """Find a module as ``python -m`` does and set ``main``'s attributes for it; return its code.

    :raises ImportError: there is none; importing its parent packages runs the user's code.
    """
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    loader: Any = None if spec is None else spec.loader
    code = None if spec is None or loader is None else loader.get_code(spec.name)
    if spec is None or code is None:
        raise ModuleNotFoundError(f"No module named {name}", name=name)
    about = {"__file__": spec.origin, "__cached__": spec.cached, "__package__": spec.parent}
    main.__dict__.update(about, __spec__=spec, __loader__=loader)
    return code  # type: ignore[no-any-return]  # that is what loaders of source and of bytecode give
