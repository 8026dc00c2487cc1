"""``JobArray``: the handle of jobs that were submitted together: results in order, or tasks as they end."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import msgspec

from jupyter_smx.kernel.client.autostart import retry_while_unavailable
from jupyter_smx.kernel.failures.exceptions import JobError, MissingVariables, StillRunning
from jupyter_smx.kernel.handles.future import RemoteTraceback, Reply
from jupyter_smx.model.errors import SmxError
from jupyter_smx.model.spec.array import ArrayCounts, format_counts, task_id, task_status
from jupyter_smx.model.status import Status, is_final

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from jupyter_smx.kernel.client.client import ArrayDetail, Client
    from jupyter_smx.kernel.handles.job import Job
    from jupyter_smx.model.records.job import JobSummary
    from jupyter_smx.model.spec.array import ArraySummary

_POLL_SECONDS = 20.0
"""Seconds that one request waits for the end of a task."""
_PER_TASK = 0.000_5
"""Seconds per task, at least, between two requests for all tasks."""
_LIST_SHARE = 0.1
"""Share of the time that these requests may take: the controller answers them instead of starting tasks."""


class JobArray:
    """Tasks by index, as jobs.

    ``watch`` makes the array receive changes until all tasks have their verdict. ``calls`` has what each task calls;
    without it the tasks are no calls.
    """

    def __init__(
        self,
        summary: ArraySummary,
        client: Client,
        attach: Callable[[Any], Job],
        watch: Callable[[JobArray], object],
        calls: Sequence[str] = (),
    ) -> None:
        self._summary = summary
        self._client = client
        self._attach = attach
        self._watch = watch
        self._calls = calls
        self._tasks: dict[int, JobSummary] = {}
        self._deleted_indices: set[int] = set()
        """Finished tasks that were deleted; they are not awaited."""
        self._lock = threading.RLock()
        self._listeners: list[Callable[[JobArray], None]] = []
        self._list_seconds = 0.0
        """Seconds of the last request for all tasks."""

    @property
    def id(self) -> str:
        """Id of the array."""
        return self._summary.id

    @property
    def name(self) -> str:
        """Name of the array; a task's has its index at the end."""
        return self._summary.name

    @property
    def latest_summary(self) -> ArraySummary:
        """The newest summary that this kernel received; sends no request."""
        return self._summary

    @property
    def tasks(self) -> tuple[JobSummary, ...]:
        """The newest summaries of the tasks that this kernel received, in order; sends no request."""
        with self._lock:
            return tuple(self._tasks[index] for index in sorted(self._tasks))

    @property
    def status(self) -> dict[str, int]:
        """Number of tasks by state: ``pending``, ``running``, ``completed``, ``failed``, ``stopped``."""
        return dict(msgspec.structs.asdict(self.refresh().latest_summary.counts))

    def __len__(self) -> int:
        """Count the tasks."""
        return self._summary.size

    @overload
    def __getitem__(self, index: int) -> Job: ...

    @overload
    def __getitem__(self, index: slice) -> list[Job]: ...

    def __getitem__(self, index: int | slice) -> Job | list[Job]:
        """Return the handle of one task, or those of a slice.

        :raises IndexError: there is no task of that number.
        :raises ResourceNotFoundError: it was deleted.
        """
        if isinstance(index, slice):
            return [self[each] for each in range(len(self))[index]]
        # By its id and not by its name, which is shortened where it is long and begins the names of other tasks.
        return self._attach(self._client.job(task_id(self.id, range(len(self))[index])))

    def __iter__(self) -> Iterator[Job]:
        """Yield the handles of all tasks, in order."""
        return (self[index] for index in range(len(self)))

    def refresh(self) -> JobArray:
        """Read the state of every task, unless all have their verdict."""
        if not self.ended():
            self.update(self._client.array(self.id))
        return self

    def update(self, detail: ArrayDetail) -> None:
        """Merge an answer about all tasks, and call the listeners."""
        self._merge(detail.tasks, are_all=True)
        self.notify_listeners()

    def update_tasks(self, tasks: Iterable[JobSummary]) -> None:
        """Apply changes of tasks and notify the listeners; changes after a final status are dropped."""
        self._merge(tasks)
        self.notify_listeners()

    def notify_listeners(self) -> None:
        """Call the listeners with the current state."""
        with self._lock:
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener(self)

    def add_listener(self, listener: Callable[[JobArray], None]) -> None:
        """Call ``listener`` at each change, in the thread that receives it."""
        with self._lock:
            self._listeners.append(listener)

    def remove_listener(self, listener: Callable[[JobArray], None]) -> None:
        """Call ``listener`` no more."""
        with self._lock:
            self._listeners.remove(listener)

    def ended(self) -> bool:
        """Return True if every task is known to have its verdict; sends no request."""
        with self._lock:
            return len(self._finished_tasks()) + len(self._deleted_indices) >= len(self)

    def done(self) -> bool:
        """Return True if every task has its verdict."""
        return self.refresh().ended()

    def wait(self, timeout: float | None = None) -> JobArray:
        """Wait until every task has its verdict, whatever it is. Ctrl-C ends the waiting, not the tasks.

        :raises TimeoutError: some have none within ``timeout`` seconds.
        :raises UnavailableError: no controller can be reached or started any more.
        """
        for _ in self._iter_finished(timeout):
            pass
        return self

    def as_completed(self, timeout: float | None = None) -> Iterator[Job]:
        """Yield the handle of each task when it has its verdict, whatever it is; finished ones come first.

        :raises TimeoutError: no further verdict came within ``timeout`` seconds from now.
        """
        for index, _ in self._iter_finished(timeout):
            yield self[index]

    def ends(self, timeout: float | None = None) -> Iterator[JobSummary]:
        """Yield the summary of each task when it has its verdict, as :meth:`as_completed`; reads no task's record."""
        return (task for _, task in self._iter_finished(timeout))

    def results(self, timeout: float | None = None, *, return_exceptions: bool = False) -> list[Any]:
        """Wait, and return the tasks' results in order; for :func:`jupyter_smx.map`, the function's values.

        The first observed failure is raised, and the other tasks continue; with ``return_exceptions`` the exception is
        in the task's place among the results.

        :raises BaseException: an exception of a task, with its own class; the cause names the task and the array.
        :raises JobError: a task failed otherwise or was stopped.
        :raises TimeoutError: some tasks have no verdict within ``timeout`` seconds.
        """
        found: dict[int, Any] = {}
        for index, _ in self._iter_finished(timeout):
            found[index] = self._outcome(index)
            if isinstance(found[index], _Failure) and not return_exceptions:
                raise found[index].error
        outcomes = (found[index] for index in sorted(found))
        return [each.error if isinstance(each, _Failure) else each for each in outcomes]

    def raise_failure(self) -> None:
        """Raise what :meth:`results` would raise for the first task that is known not to have completed, if one is.

        Reads the record of that one only.
        """
        for index, task in sorted(self._finished_tasks().items()):
            outcome = None if task.status is Status.COMPLETED else self._outcome(index)
            if isinstance(outcome, _Failure):
                raise outcome.error

    def stop(self, *, abandon: bool = False) -> JobArray:
        """Request the stop of every task; those that have not begun end at once; ``abandon`` as for a job."""
        self._client.stop_array(self.id, abandon=abandon)
        return self.refresh()

    def export(self, folder: str | Path = "") -> Path:
        """Write code, packages, inputs and the SageMaker call of the tasks to a folder ("": the array's name, here).

        A full grid of a training job with a metric becomes a tuning job with the strategy Grid, anything else a call
        for each task; ``README.md`` has the reason.

        :raises ValidationError: the folder is not empty.
        :raises ResourceNotFoundError: the tasks' folder of code was deleted.
        """
        from jupyter_smx.kernel.sagemaker.export_array import export_array, load_tasks  # noqa: PLC0415 - archives, which few need

        tasks = load_tasks(self._client, self._client.array(self.id))
        return Path(export_array(tasks, Path(folder or self.name)).folder)

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each task: its index, its own hyperparameters, status, metrics, and seconds of its run."""
        return [_table_row(task) for task in self.refresh().tasks]

    def __await__(self) -> Generator[Any, None, list[Any]]:
        """Wait without blocking the event loop; return what :meth:`results` returns. Cancelling ends only the wait."""
        return self._wait_async().__await__()

    async def _wait_async(self) -> list[Any]:
        import asyncio  # noqa: PLC0415 - a kernel has it loaded, a terminal need not wait for it

        loop = asyncio.get_running_loop()
        decided = asyncio.Event()

        def on_change(_: JobArray) -> None:
            if self._is_decided() and not loop.is_closed():
                loop.call_soon_threadsafe(decided.set)

        self.add_listener(on_change)
        try:
            # No thread waits meanwhile: the event loop has few, and a thread cannot be cancelled.
            await asyncio.to_thread(self._watch, self)
            await decided.wait()
        finally:
            self.remove_listener(on_change)
        return await asyncio.to_thread(self.results)

    def __repr__(self) -> str:
        """Return a description with the known numbers of tasks by state."""
        return f"<JobArray {self.name}: {format_counts(self._summary)}>"

    # Inside

    def _merge(self, tasks: Iterable[JobSummary], *, are_all: bool = False) -> None:
        """Merge summaries of tasks; if they ``are_all``, other tasks were deleted.

        Answers overtake each other between threads, so none removes a verdict, or restores a deleted task.
        """
        with self._lock:
            news = {task.array.index: task for task in tasks if task.array is not None}
            if are_all:
                self._deleted_indices |= set(range(len(self))) - news.keys()
            ended = self._finished_tasks()
            merged = self._tasks | {index: task for index, task in news.items() if index not in ended}
            self._tasks = {index: task for index, task in merged.items() if index not in self._deleted_indices}
            counts = _count(self._tasks.values(), len(self) - len(self._deleted_indices))
            self._summary = msgspec.structs.replace(self._summary, counts=counts)

    def _finished_tasks(self) -> dict[int, JobSummary]:
        with self._lock:
            return {index: task for index, task in self._tasks.items() if is_final(task.secondary_status)}

    def _is_decided(self) -> bool:
        """Return True if the result or exception of :meth:`results` is known."""
        return self.ended() or any(task.status is not Status.COMPLETED for task in self._finished_tasks().values())

    def _iter_finished(self, timeout: float | None) -> Iterator[tuple[int, JobSummary]]:
        """Yield each task and its index once, when it has its verdict."""
        end = None if timeout is None else time.monotonic() + timeout
        told: set[int] = set()
        try:
            self.refresh()
            while True:
                ended = self._finished_tasks()
                yield from ((index, ended[index]) for index in sorted(ended.keys() - told))
                told.update(ended)
                if self.ended():
                    return
                self._poll(len(told | self._deleted_indices), end)
        except KeyboardInterrupt:
            raise StillRunning(self.name, array=True) from None

    def _poll(self, over: int, end: float | None) -> None:
        """Wait until more than ``over`` tasks have a verdict or were deleted, one turn at most, and look at all."""
        left = _POLL_SECONDS if end is None else min(_POLL_SECONDS, end - time.monotonic())
        if left <= 0:
            raise TimeoutError(f"{self.name}: {format_counts(self._summary)}; the other tasks are still running.")
        waiting = self._count_remaining(over, left)
        if len(self) - waiting > over:
            if waiting:
                # The rest may end meanwhile, which ends the pause.
                pause = max(_PER_TASK * len(self), self._list_seconds / _LIST_SHARE)
                self._count_remaining(len(self) - 1, pause if end is None else min(pause, end - time.monotonic()))
            before = time.monotonic()
            self.update(retry_while_unavailable(partial(self._client.array, self.id)))
            self._list_seconds = time.monotonic() - before

    def _count_remaining(self, over: int, seconds: float) -> int:
        """Wait until more than ``over`` tasks have a verdict, or the seconds are over; count those that have none."""
        ask = partial(self._client.array, self.id, ended=over, wait=max(0.0, seconds), tasks=False)
        return retry_while_unavailable(ask).counts.remaining_count()

    def _outcome(self, index: int) -> Any:
        job = self[index]
        reply: Reply[Any] = Reply(job)
        failure: BaseException | None = reply.exception() if self._calls else job.exception()
        if failure is None:
            try:
                return reply.result() if self._calls else job.result()
            except MissingVariables as lost:
                failure = lost
        return _Failure(_add_task_context(failure, self._task_text(index)))

    def _task_text(self, index: int) -> str:
        which = f"task {index} of {len(self)}"
        called = self._calls[index] if self._calls else self._label(index)
        return f"{which}, {called}" if called else which

    def _label(self, index: int) -> str:
        task = self._tasks.get(index)
        return task.array.label if task and task.array else ""


class _Failure:
    """A task's failure, apart from a result that happens to be an exception."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _add_task_context(error: BaseException, where: str) -> BaseException:
    """Add the task to an error's message, or to that of its cause."""
    said = error.__cause__ if isinstance(error.__cause__, RemoteTraceback) else error
    if isinstance(said, (JobError, SmxError)):
        said.message = f"{where[0].upper()}{where[1:]}: {said.message}"
    return error


def _count(tasks: Iterable[JobSummary], there: int) -> ArrayCounts:
    found = Counter[str](task_status(task.secondary_status) for task in tasks)
    found["pending"] += there - sum(found.values())
    return ArrayCounts(**found)


def _table_row(task: JobSummary) -> dict[str, Any]:
    own = task.array
    began, ended = task.started_at, task.ended_at
    return {
        "task": own.index if own else None,
        **({name: _value(text) for name, text in own.values.items()} if own else {}),
        "status": task.status.value,
        **task.metrics,
        "seconds": None if began is None or ended is None else ended - began,
    }


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def format_task_end(task: JobSummary, array: JobArray) -> str:
    """Format how a task ended, and the tasks by state, as ``grid-4f0c21-3: Completed. 4 of 12 done, 2 running``."""
    return f"{task.name}: {task.status.value}. {format_counts(array.latest_summary)}"


def write_progress(array: JobArray) -> None:
    """Print a line when a task ended, until all have; for a waiting cell or terminal. Ctrl-C ends the waiting."""
    for task in array.ends():
        sys.stdout.write(f"{format_task_end(task, array)}\n")
        sys.stdout.flush()
