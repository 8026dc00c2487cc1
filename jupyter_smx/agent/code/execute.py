"""Execute the user's code as ``__main__``, end it as Python ends a program, and describe it in a report."""

from __future__ import annotations

import atexit
import builtins
import contextlib
import gc
import importlib
import linecache
import mmap
import os
import pickle
import sys
import threading
import time
import traceback
import types
import weakref
from importlib.machinery import SourceFileLoader
from typing import IO, TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from jupyter_smx.agent import errors
from jupyter_smx.agent.code import variable_file, variable_reason, variable_unpickler
from jupyter_smx.agent.errors import RefusalError
from jupyter_smx.agent.stores import digest
from jupyter_smx.agent.system.processes import process
from jupyter_smx.agent.system.resources import disk, memory

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import PayloadSpec

_LIMIT = 64 * 1024
_MESSAGE_LIMIT = 4096
_EMERGENCY_MEMORY = [mmap.mmap(-1, 1 << 22, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)]
"""Reserved address space (untouched pages take no memory) to describe an end that was caused by a lack of it."""
_CODE_RULE = (
    "Values, arrays and tables travel to other versions, functions and classes do not: send their data only, put their "
    "code into the job, or use the same Python."
)
"""What to do about a variable that another version of Python cannot read."""
_MAX_HASHED_BYTES = 64 * 1024 * 1024
"""Bytes; to hash more would take longer than everything else that happens before the first line."""

_AT_EXIT = (
    ("logging", "shutdown"),
    ("multiprocessing.util", "_exit_function"),
    ("concurrent.futures.process", "_python_exit"),  # from Python 3.9 on threading calls these two
    ("concurrent.futures.thread", "_python_exit"),
    ("jax._src.dispatch", "wait_for_tokens"),
    ("mlflow.tracking.fluent", "_safe_end_run"),
)
"""Exit handlers that bring to its end what the program began; another one may remove what later jobs need as well."""


def versions() -> str:
    """Return the versions of Python and cloudpickle here, in the format of ``send.protocol``."""
    cloudpickle = _pickler()
    return f"{variable_unpickler.python_version()}/{getattr(cloudpickle, '__version__', '')}"


def _pickler() -> Any:
    try:
        import cloudpickle  # noqa: PLC0415 # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        return _carried_pickler()
    return cloudpickle


def _carried_pickler() -> Any:
    """Import the cloudpickle that came with the agent, after all installed packages; pickle if none came."""
    folder = os.path.join(process.entry(), "jupyter_smx", "agent", "carried")
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        return importlib.import_module("cloudpickle")
    except ImportError:
        return pickle


def make_main(path: str) -> types.ModuleType:
    """Make an empty ``__main__`` and put it in the place of the zygote's."""
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    set_main_file(main, path)
    sys.modules["__main__"] = main
    return main


def set_main_file(main: types.ModuleType, path: str) -> None:
    """Set the file of ``__main__``, with all the attributes that Python sets for a script."""
    about = {"__file__": path, "__cached__": None, "__loader__": SourceFileLoader("__main__", path)}
    main.__dict__.update(about)


def set_argv(words: List[str]) -> None:
    """Set the arguments of the program; a program that restarts itself finds the whole command."""
    sys.argv = words
    if hasattr(sys, "orig_argv"):  # since Python 3.10
        sys.orig_argv = [sys.executable, *words]


def unpack(send: Optional[PayloadSpec]) -> Dict[str, Any]:
    """Read the variables that the notebook sent.

    :raises RefusalError: the file is missing or damaged, or a value cannot be read by this Python.
    """
    if not send:
        return {}
    theirs, ours = str(send.get("protocol") or ""), versions()
    writer = theirs.partition("/")[0]
    try:
        file = open(send["path"], "rb")  # noqa: SIM115 - closed below, after it was looked at
    except OSError as error:
        raise RefusalError(f"send: {send['path']} cannot be read on this host ({error.strerror}).") from error
    values = {}
    name = "the packed file"
    try:
        with file:
            _check(file, send)
            for name, head, buffers in variable_file.read(file):
                values[name] = variable_unpickler.loads(head, buffers=buffers, writer=writer)
    except RefusalError:
        raise
    except variable_unpickler.CodeVersionError as error:
        raise RefusalError(f"send: {name} contains {error}. {_CODE_RULE}") from error
    except Exception as error:  # border: unpickling runs code of any library
        kind = type(error).__name__
        raise RefusalError(
            f"send: {name} cannot be read on this host ({kind}: {error}).{_format_versions(theirs, ours)}"
        ) from error
    return values


def _format_versions(theirs: str, ours: str) -> str:
    """Return which versions packed and read variables; "" if they are equal, because then they are not the cause."""
    if theirs == ours:
        return ""
    packed = _format_version(theirs) if theirs else "an unknown version"
    return f" It was packed by {packed}, this host has {_format_version(ours)}."


def _format_version(version: str) -> str:
    python, _, cloudpickle = version.partition("/")
    return f"Python {python} with {f'cloudpickle {cloudpickle}' if cloudpickle else 'no cloudpickle'}"


def _check(file: IO[bytes], send: PayloadSpec) -> None:
    """Refuse a file that differs from the packed one, by digest if it is small, else by size."""
    size = os.fstat(file.fileno()).st_size
    if size <= _MAX_HASHED_BYTES and send.get("sha256"):
        differs = "" if digest.hash_file(file) == send["sha256"] else "SHA-256"
        file.seek(0)
    else:
        differs = "" if size == send.get("size", size) else "size"
    if differs:
        raise RefusalError(f"send: {send['path']} is not the file that was packed; its {differs} differs.")


def load(source: str, filename: str, main: types.ModuleType) -> types.CodeType:
    """Compile the cell and let tracebacks and :mod:`inspect` see its lines.

    :raises SyntaxError: the cell is not Python.
    :raises RecursionError: it is nested too deep for Python; also MemoryError, OverflowError and ValueError.
    """
    lines = source.splitlines(keepends=True)
    linecache.cache[filename] = (len(source), None, lines, filename)
    code = compile(source, filename, "exec", dont_inherit=True)
    main.__dict__.setdefault("__annotations__", {})
    return code


def _line(error: BaseException, filenames: Tuple[str, str]) -> Optional[int]:
    found = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename in filenames:
            found = line
    if found is None and isinstance(error, SyntaxError) and error.filename in filenames:
        return error.lineno
    return found


def describe_exception(error: BaseException, filename: str, cell: str = "") -> Dict[str, Any]:
    """Return class, text, traceback, and the last line of the cell that an exception went through.

    ``cell`` is what the notebook calls the code in ``filename``, or the file of the function that this code calls; ''
    where ``filename`` is a file of the user's.
    """
    try:
        message = str(error)
    except Exception as second:  # noqa: BLE001 - border: str() of a user's class
        message = f"<{type(second).__name__} while the message was made>"
    text = _format_traceback(error, filename, cell)
    return {
        "type": type(error).__name__,
        "message": message[:_MESSAGE_LIMIT],
        "traceback": text[-_LIMIT:],
        "line": _line(error, (filename, cell)),
    }


def _strip_own_frames(error: BaseException) -> BaseException:
    """Take our own frames from the top of the traceback: the user's program begins at the user's code."""
    trace = error.__traceback__
    ours = _strip_own_frames.__code__.co_filename  # in the packed agent that is not __file__
    while trace is not None and trace.tb_frame.f_code.co_filename == ours:
        trace = trace.tb_next
    return error.with_traceback(trace)


def _exit_code(error: SystemExit) -> Tuple[int, str]:
    """Return the exit code that Python would use: a number is cut to a byte, a text goes to stderr and means 1.

    The second item is the text, "" where there is none.
    """
    if error.code is None:
        return 0, ""
    if isinstance(error.code, int):
        return (error.code & 0xFF if abs(error.code) <= sys.maxsize else 0xFF), ""
    text = ""
    with contextlib.suppress(Exception):  # the user's object may have no text, and there may be no stderr
        text = str(error.code)
        sys.stderr.write(text + "\n")
    return 1, text.strip()[:_MESSAGE_LIMIT]


def _format_traceback(error: BaseException, filename: str, cell: str) -> str:
    """Format an exception as Python does, and name the file of a cell as the notebook does."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return text.replace(f'  File "{filename}", line ', f'  File "{cell}", line ') if cell else text


def _print(text: str) -> None:
    with contextlib.suppress(Exception):  # the user's code may have put anything in the place of stderr
        sys.stderr.write(text)


class RunResult:
    """The result of the user's code: exit code, exception, and sentences about what went wrong."""

    def __init__(self) -> None:
        self.exit_code = 0
        self.report: Dict[str, Any] = {"refused": None, "exception": None}
        self.report.update(errors=[], received={}, imported={}, remark="", failure="", exit_text="")
        self.report["missing_preloads"] = {"modules": [], "reasons": [], "variables": []}
        self.places: disk.DiskPaths = ()
        self.cell = ""
        """Name of the code in the notebook; see :func:`describe_exception`."""

    def refuse(self, sentence: str) -> None:
        """End a job that never began."""
        self.exit_code = 1
        self.report["refused"] = sentence
        sys.stderr.write(sentence + "\n")

    def fail_with_message(self, sentence: str) -> None:
        """Fail a job whose code could not be prepared, with the message that SageMaker has for it."""
        self.exit_code = 1
        self.report["failure"] = sentence
        sys.stderr.write(sentence + "\n")

    def refuse_unexpected(self, error: BaseException, filename: str) -> None:
        """End a job that never began, for an unexpected error of its own, so that no other host is tried."""
        self.fail(error, filename)
        exception = self.report["exception"]
        self.report["refused"] = f"job: it could not be made ready ({exception['type']}: {exception['message']})."

    def rename_traceback_files(self, folder: str, theirs: str) -> None:
        """Let the traceback of the exception name the user's files in ``theirs``, not their copies in ``folder``.

        ``traceback`` of the report stays as the script printed it, because SageMaker uses that as the reason.
        """
        exception = self.report["exception"]
        if exception is not None and theirs:
            self.report["traceback"] = exception["traceback"]
            shown = exception["traceback"].replace(f'File "{folder}/', f'File "{theirs}/')
            exception["traceback"] = shown

    def fail(self, error: BaseException, filename: str) -> None:
        """Print an exception as Python would and keep it."""
        self.exit_code = 1
        if isinstance(error, MemoryError):
            _EMERGENCY_MEMORY.clear()
        self.report["exception"] = describe_exception(_strip_own_frames(error), filename, self.cell)
        # Any library may raise its own error for a full disk, so check the disk after every exception.
        self.report["remark"] = (
            memory.format_own_memory() if isinstance(error, MemoryError) else disk.format_full_disk(self.places)
        )
        hook = getattr(sys, "excepthook", None)
        if hook is sys.__excepthook__ or not callable(hook):
            _print(_format_traceback(error, filename, self.cell))
            return
        try:
            hook(type(error), error, error.__traceback__)
        except SystemExit as leaving:
            self.exit_code, _text = _exit_code(leaving)
        except BaseException:  # noqa: BLE001 - border: a hook that the user's code installed
            _print(_format_traceback(error, filename, self.cell))


def execute(code: types.CodeType, main: types.ModuleType, first_line: Callable[[], None], result: RunResult) -> None:
    """Run the code; ``first_line`` is called as the very last thing before it."""
    try:
        first_line()
        exec(code, main.__dict__)  # noqa: S102 - this is what jobs are
    except SystemExit as error:
        result.exit_code, result.report["exit_text"] = _exit_code(error)
    except BaseException as error:  # noqa: BLE001 - border: the user's code
        result.fail(error, code.co_filename)


def drop_exit_handlers() -> None:
    """Drop the exit handlers of the zygote's modules, except those that work for any program."""
    atexit._clear()  # noqa: SLF001 - there is no public way
    for module, name in _AT_EXIT:
        handler = getattr(sys.modules.get(module), name, None)
        if handler is not None:
            atexit.register(handler)
    # What the zygote's modules have to finalise is theirs, and the first of a job's own asks again to be called.
    finalize: Any = weakref.finalize
    for one in list(finalize._registry):  # noqa: SLF001
        one.atexit = False
    finalize._registered_with_atexit = False  # noqa: SLF001


def finalize_interpreter() -> Optional[OSError]:
    """Do what Python does at the end of a program: join threads, run exit handlers, flush.

    As in any program nothing that is raised here changes the exit code, not even the exit of a signal's handler.
    """
    with contextlib.suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined] # noqa: SLF001 - what Python itself calls
    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()  # noqa: SLF001 - what Python itself calls
    return flush()


def clear_modules(modules: List[types.ModuleType]) -> None:
    """Clear modules as Python does at the end of a program, so that open files are closed with all of their text.

    Errors of background threads are dropped: Python would have stopped these threads, and here they miss their names.
    """
    threading.excepthook = lambda _told: None
    with contextlib.suppress(BaseException):  # a signal's handler may raise
        gc.collect()
        for module in modules:
            names = [name for name in module.__dict__ if isinstance(name, str) and name != "__builtins__"]
            for name in sorted(names, key=_is_private, reverse=True):
                module.__dict__[name] = None
        gc.collect()  # of values that hold each other


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _flush_one(stream: Any) -> Optional[OSError]:
    try:
        stream.flush()
    except Exception as error:  # noqa: BLE001 - border: the user's code may have put anything there
        return error if isinstance(error, OSError) and errors.is_full(error) else None
    return None


def flush() -> Optional[OSError]:
    """Write out everything that is buffered, C libraries included; return the error when a disk had no room for it."""
    errors = [_flush_one(stream) for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)]
    with contextlib.suppress(Exception):
        process.libc().fflush(None)
    return next(filter(None, errors), None)


def _suggest_name(name: str, main: types.ModuleType) -> str:
    import difflib  # noqa: PLC0415 - needed only for a missing variable

    found = difflib.get_close_matches(name, [known for known in main.__dict__ if not known.startswith("_")], 1)
    return f" Did you mean {found[0]}?" if found else ""


def _keep(packed: Dict[str, variable_file.Packed], path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".part", "wb") as file:
        variable_file.write(file, packed)
    os.replace(path + ".part", path)


WritePatiently = Callable[[Callable[[], None]], None]
"""Calls what writes a file, again after a while where a disk fails; raises OSError where it still fails."""


def collect(
    names: List[str], main: types.ModuleType, path: str, result: RunResult, write_patiently: WritePatiently
) -> None:
    """Pickle the variables to return to the notebook; a missing one, or one that cannot be pickled, is a sentence."""
    packed = _pack_variables(names, main, result)
    why = ""

    def keep() -> None:
        nonlocal why
        try:
            _keep(packed, path)
        except OSError as error:
            why = disk.format_error(error, result.places)  # while half of the file still fills the disk
            with contextlib.suppress(OSError):
                os.unlink(path + ".part")
            raise

    try:
        if packed:
            write_patiently(keep)
    except OSError:
        result.report["errors"] += [variable_reason.format_reason(name, f"could not be kept: {why}") for name in packed]
        packed = {}
    result.report["received"] = {name: one.size for name, one in packed.items()}


def _pack_variables(names: List[str], main: types.ModuleType, result: RunResult) -> Dict[str, variable_file.Packed]:
    pickler = _pickler()
    packed = {}
    for name in names:
        if name not in main.__dict__:
            if result.report["exception"] is None:
                near = _suggest_name(name, main)
                said = f"{variable_reason.NOT_DEFINED} at the end of the cell.{near}"
                result.report["errors"].append(variable_reason.format_reason(name, said))
            continue
        try:
            packed[name] = variable_file.Packed(main.__dict__[name], pickler.dumps)
        except Exception as error:  # noqa: BLE001 - border: pickling runs code of any library
            kind = type(error).__name__
            said = f"{variable_reason.NOT_PICKLED} ({kind}: {error})."
            result.report["errors"].append(variable_reason.format_reason(name, said))
    return packed


def now() -> float:
    """Seconds since the epoch."""
    return time.time()
