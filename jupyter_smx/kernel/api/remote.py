"""``@smx.remote``: run the calls of a function as jobs, and return their values and exceptions."""

from __future__ import annotations

import asyncio
import copy
import functools
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, overload

from jupyter_smx.kernel.api.functions import check_options, submit_call
from jupyter_smx.kernel.handles.future import Reply
from jupyter_smx.kernel.request.call import is_async
from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import Unpack

    from jupyter_smx.model.options.table import RemoteOptions

_Arguments = ParamSpec("_Arguments")
_Value = TypeVar("_Value")


class RemoteFunction(Generic[_Arguments, _Value]):
    """A function whose calls run as training jobs; ``__wrapped__`` is the function itself.

    Sent to a job, within another function for example, it is the plain function: a job starts no jobs by accident.
    """

    __wrapped__: Callable[_Arguments, _Value]

    def __init__(self, function: Callable[_Arguments, _Value], options: Mapping[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.options = dict(options)

    def __call__(self, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Value:
        """Run the function as a job, wait for it and return its value; for an ``async def`` an awaitable of it.

        :raises BaseException: an exception of the function, or one of :meth:`Reply.result`.
        :raises ValidationError: the function or an argument cannot be pickled; the text names the part.
        """
        __tracebackhide__ = True  # IPython leaves the frame out: it is not the user's code
        if is_async(self.__wrapped__):
            return cast("_Value", self.aio(*args, **kwargs))  # a coroutine, as the function itself returns
        return cast("_Value", self.submit(*args, **kwargs).result())

    def submit(self, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> Reply[Any]:
        """Start the job and return at once; ``submit(...).result()`` waits, ``submit(...).job`` is its handle.

        :raises ValidationError: the function or an argument cannot be pickled; nothing was created.
        """
        return Reply(submit_call(self.__wrapped__, args, kwargs, self.options))

    async def aio(self, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> Any:
        """Do what a call does without blocking the event loop, pickling included; cancelling leaves the job alone."""
        return await (await asyncio.to_thread(self.submit, *args, **kwargs))

    def __get__(self, owner: Any, kind: type | None = None) -> RemoteFunction[..., _Value]:
        """Bind to an object, as a method does."""
        if owner is None:
            return self
        return RemoteFunction(self.__wrapped__.__get__(owner, kind), self.options)

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as the plain function."""
        return copy.copy, (self.__wrapped__,)  # a copy of a function is the function

    def __repr__(self) -> str:
        """Return a description of the call."""
        return f"<remote {self.__wrapped__!r}>"


@overload
def remote(function: Callable[_Arguments, _Value], /) -> RemoteFunction[_Arguments, _Value]: ...


@overload
def remote(
    function: None = None, /, **options: Unpack[RemoteOptions]
) -> Callable[[Callable[_Arguments, _Value]], RemoteFunction[_Arguments, _Value]]: ...


def remote(function: Any = None, /, **options: Any) -> Any:
    """Make a function whose calls run as training jobs: ``@smx.remote`` or ``@smx.remote(keep_alive="10m")``.

    Function, arguments and value are sent with cloudpickle. An exception of the function is raised here with its own
    class, with the job's traceback as its cause. Options are those of :func:`jupyter_smx.train` except ``send``,
    ``receive`` and ``wait``; without ``name`` jobs have the function's name.

    :raises ValidationError: the argument is no function, or an option does not exist.
    """
    options = check_options(options, "@smx.remote")
    if function is None:
        return lambda found: RemoteFunction(_check_callable(found), options)
    return RemoteFunction(_check_callable(function), options)


def _check_callable(function: Any) -> Any:
    if callable(function):
        return function
    raise ValidationError(
        f"@smx.remote: {function!r} is not a function.",
        field="function",
        value=function,
        rule="The decorator needs a function.",
        cure="Options have names, for example @smx.remote(instance_type='ml.m5.xlarge').",
    )
