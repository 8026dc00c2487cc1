"""``smx.map(function, items)``: run each call as a job of one array; find existing arrays."""

from __future__ import annotations

import inspect
import reprlib
import time
from typing import TYPE_CHECKING, Any

import msgspec

from jupyter_smx.kernel.api.array_session import submit_array
from jupyter_smx.kernel.api.functions import call_spec, check_options
from jupyter_smx.kernel.api.session import current_session, pickle_variables
from jupyter_smx.kernel.handles.job_array import JobArray
from jupyter_smx.kernel.options.keyword_check import keyword_spelling
from jupyter_smx.kernel.request.call import call_of, pickle_by_value
from jupyter_smx.kernel.request.grid import parse_max_concurrent
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.array import MAX_TASKS, TaskOverrides

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from typing_extensions import Unpack

    from jupyter_smx.model.options.table import RemoteOptions


def map(  # noqa: A001 - Python's own word for it
    function: Callable[..., Any],
    iterable: Iterable[Any],
    /,
    *more: Iterable[Any],
    max_concurrent: int | None = None,
    **options: Unpack[RemoteOptions],
) -> JobArray:
    """Call a function for every item, each call as a job of one array, and give the array's handle at once.

    Like Python's own ``map`` it takes one argument of each call from each iterable and ends with the shortest; like
    ``@smx.remote`` function, arguments and values travel by cloudpickle. The function is packed once.

    :param max_concurrent: how many calls may run at a time; default as many as there is room for.
    :param options: those of :func:`jupyter_smx.train` but ``send``, ``receive`` and ``wait``; those of a function that
        is ``@smx.remote`` hold where they are not given here.
    :raises TypeError: an item does not fit the function.
    :raises ValidationError: nothing to map, something that cannot be pickled, or a ``python`` of another version;
        nothing was created.
    """
    with keyword_spelling():
        return _submit_calls(function, (iterable, *more), max_concurrent, options)


def _submit_calls(
    function: Callable[..., Any],
    iterables: Sequence[Iterable[Any]],
    max_concurrent: int | None,
    options: Mapping[str, Any],
) -> JobArray:
    submitted_at = time.time()
    options = check_options(options, "smx.map")
    most = parse_max_concurrent(max_concurrent)
    plain, asked = _unwrap_remote(function, options)
    items = list(zip(*iterables, strict=False))
    _check_items(plain, items)
    call = call_of(plain, items[0])
    session = current_session()
    request, spec = call_spec(session, call, submitted_at, asked)
    shared = {name: value for name, value in call.variables.items() if name != "arguments"}
    with pickle_by_value(plain):
        packed = session.pack(spec, shared, f"{call.label}: ", request.code_files())
        spec = msgspec.structs.replace(packed, shared=packed.send, send=None)
        tasks = [
            TaskOverrides(send=pickle_variables(spec, {"arguments": item}, f"{call.label}, item {index}: "))
            for index, item in enumerate(items)
        ]
    calls = [f"{call.label.removesuffix('()')}({', '.join(reprlib.repr(each) for each in item)})" for item in items]
    title = f"map {call.label.removesuffix('()')}"
    return submit_array(session, spec, tasks, title=title, max_concurrent=most, calls=calls)


def array(ref: str) -> JobArray:
    """Find an array again by id, name, unique prefix, or base name (the newest).

    :raises ResourceNotFoundError: there is none.
    """
    session = current_session()
    detail = session.client.array(ref)
    found = JobArray(detail, session.client, session.attach, session.watcher.refresh_and_watch_array)
    found.update(detail)
    return found


def _unwrap_remote(
    function: Callable[..., Any], options: Mapping[str, Any]
) -> tuple[Callable[..., Any], dict[str, Any]]:
    from jupyter_smx.kernel.api.remote import RemoteFunction  # noqa: PLC0415 - it imports this module

    if isinstance(function, RemoteFunction):
        return function.__wrapped__, {**function.options, **options}
    if callable(function):
        return function, dict(options)
    raise ValidationError(
        f"smx.map: {function!r} is not a function.",
        field="function",
        value=function,
        rule="smx.map calls its first argument once for each item, like map.",
        cure="For example smx.map(fit, [1, 2, 3]).",
    )


def _check_items(function: Callable[..., Any], items: Sequence[tuple[Any, ...]]) -> None:
    if not items:
        raise ValidationError(
            "smx.map: there are no items.",
            field="iterable",
            value=0,
            rule="An array has one task for each item, at least one.",
            cure="Pass a list: an iterator yields its items only once.",
        )
    if len(items) > MAX_TASKS:
        raise ValidationError(
            f"smx.map: {len(items)} items.",
            field="iterable",
            value=len(items),
            rule=f"An array has at most {MAX_TASKS} tasks.",
            cure="Process several items in each call.",
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some builtins have none
        return
    for item in items:
        signature.bind(*item)
