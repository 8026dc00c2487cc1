"""``--send`` and ``--receive``: write notebook variables to a pickle file, and read the job's from one."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import platform
import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_smx.agent.code import variable_file, variable_unpickler
from jupyter_smx.kernel.options.line_syntax import variable_names
from jupyter_smx.kernel.request import pickle_diagnosis
from jupyter_smx.model.errors import SmxError, UnavailableError, ValidationError, suggest_names
from jupyter_smx.model.records.lost_variables import UNKNOWN_REASON, find_reasons
from jupyter_smx.model.spec.channel import Payload
from jupyter_smx.rerun_spec import touch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

SEND = "--send {}: "
_CODE_CURE = "Return its values, such as a dict, or run the job with the Python version of this kernel."
_THREAD_THRESHOLD = 1024 * 1024
"""Bytes from which a second processor hashes what this one writes."""


class Received(dict[str, Any]):
    """Variables that a job returned, by key and by attribute; ``missing`` has reasons for others."""

    def __init__(self, found: Mapping[str, Any], missing: Mapping[str, str]) -> None:
        super().__init__(found)
        self.missing = dict(missing)

    def __missing__(self, name: str) -> Any:
        """Raise an error with the reason, or the nearest received variable."""
        raise KeyError(
            self.missing.get(name) or f"The job did not return a variable {name!r}. {suggest_names(name, self)}".strip()
        )

    def __getattr__(self, name: str) -> Any:
        """Return a variable by its name."""
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(error.args[0]) from None


def select_variables(names: tuple[str, ...], namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Take the variables to send out of the notebook.

    :raises ValidationError: the notebook has no such variable.
    """
    for name in names:
        if name not in namespace:
            raise ValidationError(
                f"--send: the notebook has no variable {name!r}.",
                field="send",
                value=name,
                rule="--send takes names of the notebook's variables.",
                cure=suggest_names(name, variable_names(namespace)) or "Run the cell that makes it first.",
            )
    return {name: namespace[name] for name in names}


def _accept(_code: Sequence[str]) -> None:
    """Accept all functions and classes."""


def pack(
    chosen: Mapping[str, Any],
    folder: Path,
    where: str = SEND,
    check_code: Callable[[Sequence[str]], None] = _accept,
) -> Payload:
    """Pickle variables into ``folder/<sha256>.pkl``, mode 0600; equal content is the same file.

    ``where`` begins the sentence about a variable that cannot be pickled; ``{}`` in it is the variable's name.
    ``check_code`` gets the names of functions and classes that are packed with their code, before the file is written.

    :raises ValidationError: one of them cannot be pickled; the text names the part.
    :raises UnavailableError: the disk is full or the folder cannot be written.
    """
    import cloudpickle  # noqa: PLC0415 - 20 ms that only --send pays

    from jupyter_smx.kernel.request import pickler  # noqa: PLC0415 - with it

    found: dict[str, list[str]] = {name: [] for name in chosen}
    packed = {
        name: _dump(where, name, value, partial(pickler.dumps, code=found[name])) for name, value in chosen.items()
    }
    code = tuple(_locate_code(where, name, parts[0]) for name, parts in found.items() if parts)
    check_code(code)
    path, digest = store_by_digest(folder, ".pkl", lambda tee: variable_file.write(tee, packed))
    return Payload(
        path=str(path),
        sha256=digest,
        size=path.stat().st_size,
        sizes={name: one.size for name, one in packed.items()},
        protocol=f"{python_version()}/{cloudpickle.__version__}",
        code=code,
    )


def _locate_code(where: str, name: str, part: str) -> str:
    """Name a function or class, with its variable if that is the user's and has another name."""
    return part if where != SEND or part.endswith(f" {name}") else f"{part} in {name}"


def read_pickles(path: Path) -> dict[str, tuple[bytes, list[bytes]]]:
    """Read pickle and buffers of each variable in a file, without loading them.

    :raises OSError: the file was deleted.
    """
    with path.open("rb") as file:
        return {name: (head, [bytes(buffer) for buffer in buffers]) for name, head, buffers in variable_file.read(file)}


def store_by_digest(
    folder: Path, suffix: str, write: Callable[[HashingWriter], None], *, keep: bool = False
) -> tuple[Path, str]:
    """Write a file named by its SHA-256, mode 0600; return its path and the digest.

    With ``keep`` an undamaged file of that name stays, so that its other links stay links to one file.

    :raises UnavailableError: the disk is full or the folder cannot be written.
    """
    try:
        return _write_by_digest(folder, suffix, write, keep=keep)
    except OSError as error:
        raise UnavailableError(
            f"The job's files cannot be stored in {folder}: {error.strerror or error}.",
            field="data_dir",
            value=folder,
            rule="They stay there until the job has them. No job was started.",
            cure="Free some space, or set JUPYTER_SMX_DATA_DIR to a folder on another disk.",
        ) from error


def _write_by_digest(
    folder: Path, suffix: str, write: Callable[[HashingWriter], None], *, keep: bool
) -> tuple[Path, str]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, unfinished = tempfile.mkstemp(dir=folder, suffix=".part")  # mkstemp creates it with mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            tee = HashingWriter(file)
            write(tee)
        digest = tee.digest.hexdigest()
        path = folder / f"{digest}{suffix}"
        if not (keep and _is_same(path, digest) and touch(str(path))):
            Path(unfinished).replace(path)
        else:
            Path(unfinished).unlink()
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(unfinished).unlink()
        raise
    return path, digest


def _is_same(path: Path, digest: str) -> bool:
    """Return True if there is a file with this SHA-256."""
    found = hashlib.sha256()
    try:
        with path.open("rb", buffering=0) as file:
            while piece := file.read(_THREAD_THRESHOLD):
                found.update(piece)
    except OSError:
        return False
    return found.hexdigest() == digest


def python_version() -> str:
    """Return the version of this Python on which pickles and pools depend, as ``3.11``."""
    return ".".join(platform.python_version_tuple()[:2])


def unpack(
    path: Path,
    wanted: Sequence[str] = (),
    said: Sequence[str] = (),
    loads: Callable[..., Any] = variable_unpickler.loads,
    writer: str = "",
) -> Received:
    """Load the variables that a job wrote; one that cannot be loaded is listed as missing, and the others are loaded.

    ``writer`` is the job's version of Python, full or as ``3.9``; "" if unknown.

    :raises SmxError: the file itself cannot be read.
    """
    try:
        with path.open("rb") as file:
            packed = tuple(variable_file.read(file))
    except (OSError, pickle.UnpicklingError, EOFError, ValueError) as error:
        raise SmxError(
            f"The received variables cannot be read: {type(error).__name__}: {error}.",
            field="receive",
            cure=f"They were in {path}.",
        ) from error
    found: dict[str, Any] = {}
    missing = empty_result(wanted, said).missing
    for name, head, buffers in packed:
        reason = _load(name, partial(loads, head, buffers=buffers, writer=".".join(writer.split(".")[:2])), found)
        missing.pop(name, None)
        if reason:
            missing[name] = reason
    return Received(found, missing)


def _load(name: str, load: Callable[[], Any], found: dict[str, Any]) -> str:
    """Load one variable into ``found``, or return why that failed."""
    try:
        found[name] = load()
    except variable_unpickler.CodeVersionError as error:
        return f"{name!r} cannot be loaded in this kernel: it contains {error}. {_CODE_CURE}"
    except Exception as error:  # noqa: BLE001 - border: unpickling runs the user's classes, which raise anything
        return f"{name!r} cannot be loaded in this kernel: {type(error).__name__}: {error}."
    return ""


def empty_result(wanted: Sequence[str], said: Sequence[str] = ()) -> Received:
    """Return the result of a job that returned no variables; ``said`` are the messages of its hosts."""
    return Received({}, {name: _reason(name, said) for name in wanted})


def _reason(name: str, said: Sequence[str]) -> str:
    return f"{name!r} {next(iter(find_reasons(name, said)), UNKNOWN_REASON)}"


class HashingWriter:
    """Hashes what goes into the file, so that it is read once only."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def write(self, data: Any) -> int:
        """Take a piece and give its size in bytes."""
        view = memoryview(data)
        if view.nbytes < _THREAD_THRESHOLD:
            self.digest.update(view)
            self._file.write(view)
        else:
            hashing = threading.Thread(target=self.digest.update, args=(view,))
            hashing.start()
            try:
                self._file.write(view)
            finally:
                hashing.join()
        return view.nbytes

    def flush(self) -> None:
        """Write out what is buffered."""
        self._file.flush()


def _dump(where: str, name: str, value: Any, dumps: Callable[..., bytes]) -> variable_file.Packed:
    try:
        return variable_file.Packed(value, dumps)
    except Exception as error:  # border: reducers are the user's code, which may raise anything
        found = pickle_diagnosis.find_unpicklable(name, value, lambda part: _can_pickle(part, dumps))
        raise ValidationError(
            f"{where.format(name)}{found.path} is a {found.type} and cannot be pickled.",
            field="send",
            value=found.path,
            rule=f"({type(error).__name__}: {error})",
            cure="Send the parts that the job needs, or create this object inside the job.",
        ) from error


def _can_pickle(part: Any, dumps: Callable[..., bytes]) -> bool:
    try:
        dumps(part, protocol=variable_file.PROTOCOL)
    except Exception:  # noqa: BLE001 - border: the question is whether it raises
        return False
    return True
