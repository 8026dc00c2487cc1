"""``Reply``: the future value of a call that runs as a job; awaitable."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec.structs import replace

from jupyter_smx.agent.code.variable_unpickler import VariableUnpickler
from jupyter_smx.agent.system.files.host_layout import RESULT
from jupyter_smx.kernel.failures.exceptions import JobFailed, MissingVariables
from jupyter_smx.kernel.request import payload
from jupyter_smx.kernel.request.call import RAISED, RECEIVE, VALUE, remove_call_frame
from jupyter_smx.model.errors import SmxError
from jupyter_smx.model.records.lost_variables import lost_variables_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from jupyter_smx.kernel.handles.job import Job

_Value = TypeVar("_Value")


class RemoteTraceback(JobFailed):
    """The cause of an exception that a job raised: its text has the job's traceback."""

    def __str__(self) -> str:
        """Return the traceback before the message, as Python does."""
        return f"\n{self.remote_traceback}\n{super().__str__()}"


class Reply(Generic[_Value]):
    """The outcome of one call. :attr:`job` is the handle of its job, with log, status and ``stop()``."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def done(self) -> bool:
        """Return True if the job has its verdict."""
        return self.job.done()

    def result(self, timeout: float | None = None) -> _Value:
        """Wait, and return the function's value.

        :raises BaseException: the function's exception, with its own class; its cause has the job's traceback.
        :raises JobFailed: that class cannot be loaded here, or the job ended otherwise (a signal, a lost host).
        :raises JobStopped: stopped by a user or at its maximum run time.
        :raises MissingVariables: the job completed and its value was lost, as on a full disk.
        :raises SmxError: the value could not be pickled there or cannot be loaded here; the text has the reason.
        :raises TimeoutError: no verdict within ``timeout`` seconds.
        """
        failure = self.exception(timeout)
        if failure is not None:
            raise failure
        received = self._received_variables()
        lost = lost_variables_of(self.job.latest_record)
        if VALUE not in received and VALUE in lost:
            raise MissingVariables(self.job.latest_record, {VALUE: lost[VALUE]}, received)
        if VALUE not in received:
            reason = received.missing[VALUE]
            raise SmxError(f"{self.job.name} completed, but its value was not returned: {reason}", field=VALUE)
        value: _Value = received[VALUE]
        return value

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait, and give what the function raised, or why the job failed; None when it completed."""
        failure = self.job.exception(timeout)
        return self._function_exception(failure) if isinstance(failure, JobFailed) else failure

    def __await__(self) -> Generator[Any, None, _Value]:
        """Wait without blocking the event loop; return the result of :meth:`result`."""
        return self._wait().__await__()

    def __repr__(self) -> str:
        """Return a description with the job's name."""
        return f"<Reply of {self.job!r}>"

    async def _wait(self) -> _Value:
        import asyncio  # noqa: PLC0415 - a kernel has it loaded, a terminal need not wait for it

        await self.job.ended()
        return await asyncio.to_thread(self.result)

    def _function_exception(self, failure: JobFailed) -> BaseException:
        """Return the function's exception, or the job's failure if that cannot be loaded."""
        if failure.remote is not None:
            spec = failure.job.spec
            trace = remove_call_frame(failure.remote.traceback, spec.filename, spec.source)
            failure.remote = replace(failure.remote, traceback=trace)
        try:
            raised = self._received_variables().get(RAISED)
        except SmxError:
            return failure  # what the job failed of matters more than why its exception cannot be read
        if not isinstance(raised, BaseException):
            return failure
        raised.__cause__ = RemoteTraceback(failure.message, failure.job, failure.remote)
        return raised

    def _received_variables(self) -> payload.Received:
        path = self.job.artifacts.get(RESULT)
        said = [sentence for host in self.job.latest_record.hosts for sentence in host.errors]
        if not path:
            return payload.empty_result(RECEIVE, said)
        return payload.unpack(path, RECEIVE, said, _loads, self.job.latest_record.python_version())


class _Unpickler(VariableUnpickler):
    """Leaves classes of this process as they are: cloudpickle would write the job's copies of methods into them."""

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        if (module, name) != ("cloudpickle.cloudpickle", "_class_setstate"):
            return found
        return lambda kind, state: kind if _is_local_class(kind) else found(kind, state)


def _loads(data: bytes, *, buffers: Iterable[memoryview] = (), writer: str = "") -> Any:
    return _Unpickler(io.BytesIO(data), buffers=buffers, writer=writer).load()


def _is_local_class(kind: type) -> bool:
    found: Any = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is kind
