"""Convert a call of a function to a job: the cell that makes the call, and the variables that it needs."""

from __future__ import annotations

import functools
import inspect
import linecache
import re
import sys
import sysconfig
import threading
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from jupyter_smx.kernel.request import cell
from jupyter_smx.model.name import base_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

VALUE, RAISED = "value", "raised"
"""Variables of the job that are returned: the function's value, and its exception."""

RECEIVE = (VALUE, RAISED)

_CELL = """\
try: value = function(*arguments, **keywords); value = {awaited}
except Exception as error:
    __import__("linecache").cache.update(lines)
    raised = error
    raise
else: raised = None
"""
"""``try`` and the call share a line, which is pushed down to where the function stands: the job's traceback then has
no line that the user did not write."""

_AWAIT_EXPRESSION = (
    '__import__("asyncio").run(value) if isinstance(value, __import__("types").CoroutineType) else value'
)
"""Only the call itself shows whether there is something to await: decorators make functions async, and plain again."""

_by_value_lock = threading.Lock()


class Call(Struct, frozen=True, kw_only=True):
    """Code and names of a call in the job.

    ``name`` is a base name made of the function's, ``label`` a text for users, as ``fit_one()``. ``filename`` is the
    file of the function ("" if it has none), so that a failure names the function's line. ``imports`` are the modules
    that its code names.
    """

    name: str
    label: str
    source: str
    filename: str
    imports: tuple[str, ...]
    variables: Mapping[str, Any]


def remove_call_frame(traceback: str, filename: str, source: str) -> str:
    """Return the traceback of a job without the frame of :data:`_CELL`, which shows a line of the function's file.

    ``filename`` and ``source`` are those of the job's request.
    """
    number = len(source) - len(source.lstrip("\n")) + 1
    head = rf'^(?P<margin>[ |]*?)  File "{re.escape(filename)}", line {number}, in <module>\n'
    return re.sub(rf"{head}(?:(?P=margin)    .*\n)*", "", traceback, flags=re.MULTILINE)


def is_async(function: Callable[..., Any]) -> bool:
    """Return True if a call returns an awaitable, as far as the function, or the one that it wraps, shows."""
    ways = (function, inspect.unwrap(function), type(function).__call__)
    return any(map(inspect.iscoroutinefunction, ways))


def call_of(
    function: Callable[..., Any], arguments: Sequence[Any] = (), keywords: Mapping[str, Any] | None = None
) -> Call:
    """Create the call; nothing is pickled yet.

    :raises TypeError: the arguments do not fit the function, with Python's own message.
    """
    keywords = dict(keywords or {})
    _check_arguments(function, arguments, keywords)
    code = _code(function)
    name = getattr(inspect.unwrap(function), "__name__", type(function).__name__)
    source = _CELL.format(awaited=_AWAIT_EXPRESSION)
    if code:
        from jupyter_smx.agent.code.installs import sent_functions  # noqa: PLC0415 - only jobs of functions need it

        source = sent_functions.add_flag(source, "".join(linecache.getlines(code.co_filename)))
    return Call(
        name=base_name(name, "function"),
        label=f"{name}()",
        source=cell.prepend_blank_lines(source, code.co_firstlineno - 1 if code else 0),
        filename=code.co_filename if code else "",
        imports=_imports(function, code) if code else (),
        variables={
            "function": function,
            "arguments": tuple(arguments),
            "keywords": keywords,
            "lines": _lines(code.co_filename) if code else {},
        },
    )


@contextmanager
def pickle_by_value(function: Callable[..., Any]) -> Iterator[None]:
    """Make cloudpickle include the function's own module; a job cannot import a file of this machine.

    Installed modules stay references, since the job's Python has them too.
    """
    import cloudpickle  # noqa: PLC0415 - takes 20 ms, and only calls that send something need it

    module = sys.modules.get(getattr(_unwrap_callable(function), "__module__", None) or "")
    with _by_value_lock:  # cloudpickle's register is one for all threads
        if (
            module is None
            or not _is_local_module(module)
            or module.__name__ in cloudpickle.list_registry_pickle_by_value()
        ):
            yield
            return
        cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            cloudpickle.unregister_pickle_by_value(module)


def _check_arguments(function: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some builtins have none
        return
    signature.bind(*arguments, **keywords)


def _unwrap_callable(function: Any) -> Any:
    """Return the innermost callable: the one that decorators and partials wrap."""
    found = inspect.unwrap(function)
    while isinstance(found, functools.partial):
        found = inspect.unwrap(found.func)
    return found


def _code(function: Any) -> CodeType | None:
    """Return the code of a function or of a method's function; None for other callables."""
    code = getattr(_unwrap_callable(function), "__code__", None)
    return code if isinstance(code, CodeType) else None


def _imports(function: Any, code: CodeType) -> tuple[str, ...]:
    known = getattr(_unwrap_callable(function), "__globals__", {})
    found = (known.get(name) for name in code.co_names)
    return tuple(dict.fromkeys(module.__name__ for module in found if isinstance(module, ModuleType)))


def _lines(filename: str) -> dict[str, Any]:
    """Take the text of the function's file or cell along, which the job may not be able to read."""
    lines = linecache.getlines(filename)
    return {filename: (sum(map(len, lines)), None, lines, filename)} if lines else {}


@functools.cache
def _installed_folders() -> tuple[Path, ...]:
    return tuple({Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def _is_local_module(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    if module.__name__ == "__main__" or not file:
        return False  # cloudpickle takes __main__ along by itself
    path = Path(file).resolve()
    return not any(path.is_relative_to(folder) for folder in _installed_folders())
