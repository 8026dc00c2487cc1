"""``Job``: the handle that a notebook holds, future-like and awaitable."""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_smx.agent.system.files.host_layout import RESULT
from jupyter_smx.kernel.client.autostart import retry_while_unavailable
from jupyter_smx.kernel.failures.exceptions import JobError, MissingVariables, StillRunning, failure_of
from jupyter_smx.kernel.handles.cost import Cost
from jupyter_smx.kernel.handles.metrics import Metrics
from jupyter_smx.kernel.handles.usage import Usage
from jupyter_smx.kernel.logs import reader
from jupyter_smx.kernel.logs.cell_log import open_cell_log
from jupyter_smx.kernel.request import cell, payload
from jupyter_smx.kernel.text.formats import format_start_reason
from jupyter_smx.kernel.text.pages import advice_sentences
from jupyter_smx.model.errors import SmxError, suggest_names
from jupyter_smx.model.records.log_stream import streams_of
from jupyter_smx.model.records.lost_variables import lost_variables_of
from jupyter_smx.model.status import SecondaryStatus, Status, is_final
from jupyter_smx.model.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from jupyter_smx.kernel.client.client import Client
    from jupyter_smx.model.records.job import Job as Record
    from jupyter_smx.model.records.log_stream import LogStream
    from jupyter_smx.model.results.progress import Progress
    from jupyter_smx.model.results.provenance import Provenance

"""Name of the artefact with the received variables."""

_POLL_SECONDS = 20.0
"""Seconds that one request waits for the end of a job."""

_log = logging.getLogger(__name__)


class Job:
    """A job as the notebook sees it. Two handles of one job are equal; a handle outlives nothing but the kernel."""

    def __init__(self, record: Record, client: Client, watch: Callable[[Job], None]) -> None:
        self._record = record
        self._client = client
        self._watch = watch
        self._lock = threading.RLock()
        self._listeners: list[Callable[[Job], None]] = []
        self._received: payload.Received | None = None

    @property
    def id(self) -> str:
        """Id of the job, made in the kernel that submitted it."""
        return self._record.id

    @property
    def name(self) -> str:
        """Name of the job."""
        return self._record.name

    @property
    def record(self) -> Record:
        """The newest record: asked for now, unless the job has its verdict."""
        if not is_final(self._record.state):
            self.update(self._client.job(self.id))
        return self._record

    @property
    def latest_record(self) -> Record:
        """The newest record that this kernel received; sends no request."""
        return self._record

    @property
    def status(self) -> str:
        """``InProgress``, ``Completed``, ``Failed``, ``Stopping`` or ``Stopped``."""
        return self.record.status().value

    @property
    def secondary_status(self) -> str:
        """The exact step, as ``Downloading`` or ``Training``."""
        return self.record.state.value

    @property
    def why(self) -> str:
        """Why the start was warm or cold, with the fields that differed."""
        return format_start_reason(self.record)

    @property
    def provenance(self) -> Provenance | None:
        """Provenance of the job: code, packages, inputs, hosts, seeds; None before its verdict."""
        return self.record.provenance

    @property
    def exit_message(self) -> str:
        """Content of a processing job's ``/opt/ml/output/message``, SageMaker's ``ExitMessage``; "" before its end."""
        return self.record.exit_message

    @property
    def cost(self) -> Cost | None:
        """US dollars so far, a float whose ``cost_per_step`` is dollars for a step; None if a price is unknown."""
        bill = self._client.job_bill(self.id).bill
        return None if bill.cost is None else Cost(bill.cost, bill)

    @property
    def advice(self) -> list[str]:
        """Advice on how it could run better: a sentence for each rule of SageMaker's profiler with a finding."""
        return advice_sentences(self._client.advice(self.id))

    @property
    def log_streams(self) -> tuple[LogStream, ...]:
        """Names of its logs in SageMaker's form, one for each host of each run; :meth:`logs` takes them as well."""
        return streams_of(self.record)

    @property
    def metrics(self) -> Metrics:
        """Metrics so far: newest values by name, and ``metrics.history(name)``; sends a request to the controller."""
        return Metrics(self._client.metrics(self.id))

    @property
    def usage(self) -> Usage:
        """CPU, memory, disk, network and GPUs over its time, in SageMaker's percents; asks the controller."""
        return Usage(self._client.usage(self.id))

    @property
    def progress(self) -> Progress | None:
        """The job's own progress; None without any."""
        return self._client.metrics(self.id).progress

    @property
    def artifacts(self) -> dict[str, Path]:
        """Files that the job brought home, by name: ``model.tar.gz``, ``output.tar.gz``, ``outputs/<name>/…``.

        Without compression the model's are ``outputs/model/…``.
        """
        return {artifact.name: Path(artifact.path) for artifact in self.record.artifacts}

    def update(self, record: Record) -> None:
        """Apply a change of the job and notify the listeners; changes after the final status are dropped."""
        with self._lock:
            old = self._record
            if is_final(old.state) or record == old:
                return
            self._record = record
        self.notify_listeners()

    def notify_listeners(self) -> None:
        """Call the listeners after a change of the record, the progress, or the place in the queue."""
        with self._lock:
            listeners = tuple(self._listeners)
        for listener in listeners:
            self._call_listener(listener)

    def _call_listener(self, listener: Callable[[Job], object]) -> None:
        try:
            listener(self)
        except Exception:  # noqa: BLE001 - border: callbacks are the user's code, and one must not stop the others
            _log.exception("A callback of %s failed", self.name)

    def add_listener(self, listener: Callable[[Job], None]) -> None:
        """Call ``listener`` at each change, in the thread that receives it."""
        with self._lock:
            self._listeners.append(listener)

    def done(self) -> bool:
        """Return True if the job has its verdict."""
        return is_final(self.record.state)

    def wait(self, timeout: float | None = None) -> Job:
        """Wait for the verdict and give the handle back, whatever it is. Ctrl-C ends the waiting, not the job.

        :raises TimeoutError: no verdict within ``timeout`` seconds.
        :raises UnavailableError: no controller can be reached or started any more.
        """
        end = None if timeout is None else time.monotonic() + timeout
        try:
            while not is_final(self._record.state):
                left = _POLL_SECONDS if end is None else min(_POLL_SECONDS, end - time.monotonic())
                if left <= 0:
                    waited = format_duration(timeout or 0)
                    raise TimeoutError(f"{self.name} is {self._record.state.value} after {waited} and still running.")
                self.update(retry_while_unavailable(partial(self._client.wait, self.id, left)))
        except KeyboardInterrupt:
            raise StillRunning(self.name) from None
        return self

    def result(self, timeout: float | None = None) -> payload.Received:
        """Wait, and return the received variables, by key and by attribute.

        Variables that the code did not define, or that cannot be pickled, are in ``missing`` with the reason.

        :raises JobFailed: with the remote traceback.
        :raises JobStopped: stopped by a user or at its maximum run time.
        :raises MissingVariables: the job completed and a variable was lost, as on a full disk.
        :raises TimeoutError: no verdict within ``timeout`` seconds.
        """
        received = self._wait_for_variables(timeout)
        lost = self._lost_variables(received)
        if lost:
            raise MissingVariables(self._record, lost, received)
        return received

    def _wait_for_variables(self, timeout: float | None = None) -> payload.Received:
        """Do what :meth:`result` does, and leave lost variables to ``missing``."""
        failure = self.exception(timeout)
        if failure is not None:
            raise failure
        if self._received is None:
            path = self.artifacts.get(RESULT)
            wanted = self._record.spec.receive
            said = [sentence for host in self._record.hosts for sentence in host.errors]
            received = (
                payload.unpack(path, wanted, said, writer=self._record.python_version())
                if path
                else payload.empty_result(wanted, said)
            )
            for name, reason in received.missing.items():
                received.missing[name] = (
                    f"{reason} {cell.missing_variable_hint(name, self._record.spec.source)}".rstrip()
                )
            self._received = received
        return self._received

    def _lost_variables(self, received: payload.Received) -> dict[str, str]:
        return {name: why for name, why in lost_variables_of(self._record).items() if name not in received}

    def exception(self, timeout: float | None = None) -> JobError | None:
        """Wait, and give what :meth:`result` would raise for the job's failure, or None."""
        return failure_of(self.wait(timeout).latest_record)

    def add_done_callback(self, callback: Callable[[Job], object]) -> None:
        """Call ``callback(job)`` once when the job has its verdict, from another thread; at once if it has it.

        What it raises is logged, as in ``concurrent.futures``.
        """
        once = threading.Lock()

        def when_final(job: Job) -> None:
            if is_final(job.latest_record.state) and once.acquire(blocking=False):
                callback(job)

        self.add_listener(when_final)
        self._call_listener(when_final)
        self._watch(self)

    def logs(self, host: str = "", *, tail: int | None = None) -> str:
        """Read the log so far, of one host (``algo-1``), one stream or all: the last ``tail`` lines, None for all.

        :raises ValidationError: ``tail`` is no number of lines.
        """
        last = None if tail is None else reader.parse_line_count(tail, "tail")
        return "".join(reader.read_all(self._client, self.record, host, last))

    def follow(self, out: Callable[[str], object] | None = None) -> None:
        """Print the log as it comes until the job ends, or pass it to ``out``. Ctrl-C ends that, not the job.

        A cell shows the first and the last lines of a long log; ``out`` gets all of it.
        """
        try:
            if out is not None:
                reader.follow(self._client, self.record, out)
                return
            with open_cell_log(self.name) as cell:
                reader.follow(self._client, self.record, cell)
        except KeyboardInterrupt:
            raise StillRunning(self.name) from None

    def stop(self, *, abandon: bool = False) -> Job:
        """Request the job's stop (SIGTERM, then SIGKILL after the grace period); return at once.

        With ``abandon`` the job ends now even if its hosts cannot be reached; its processes end when they are.
        """
        self.update(self._client.stop(self.id, abandon=abandon))
        return self

    def interrupt(self) -> Job:
        """Interrupt this spot job: its hosts are taken away, as by a spot market, and it begins again; return at once.

        :raises ValidationError: it is no spot job.
        :raises ResourceInUseError: it is neither Downloading nor Training.
        """
        self.update(self._client.interrupt(self.id))
        return self

    def describe(self) -> dict[str, Any]:
        """Describe the job as boto3's ``describe_training_job`` or ``describe_processing_job`` would.

        Names, texts and enums are SageMaker's, times are datetimes of UTC, durations seconds. Unknown values have no
        key; paths of this machine are URLs of ``file://``; the account in the ARN is ``000000000000``. Variables with
        the name of a secret are there without a value.
        """
        from jupyter_smx.kernel.sagemaker.describe import description, local_context  # noqa: PLC0415 - which few need

        return description(self.record, local_context(), self._client.job_bill(self.id).bill)

    def events(self) -> list[dict[str, Any]]:
        """Return the steps of the job so far as events of EventBridge, in order, in the form for a Lambda handler.

        ``time`` is ISO 8601; times in ``detail`` are milliseconds since the epoch, of a training job as text. An event
        has the same ``id`` each time.
        """
        from jupyter_smx.kernel.sagemaker.describe import local_context  # noqa: PLC0415 - as above
        from jupyter_smx.kernel.sagemaker.events import events_of  # noqa: PLC0415 - as above

        return events_of(self.record, local_context())

    def export(self, folder: str | Path = "") -> Path:
        """Write code, packages, inputs and the SageMaker call of the job to a folder ("": its name, here).

        :raises ValidationError: the folder is not empty.
        :raises ResourceNotFoundError: the job's folder of code was deleted.
        """
        from jupyter_smx.kernel.sagemaker.export import export  # noqa: PLC0415 - archives, which few need

        return Path(export(self.record, Path(folder or self.name)).folder)

    def __await__(self) -> Generator[Any, None, payload.Received]:
        """Wait without blocking the event loop; return the result of :meth:`result`."""
        return self._wait_async().__await__()

    async def _wait_async(self) -> payload.Received:
        import asyncio  # noqa: PLC0415 - a kernel has it loaded, a terminal need not wait for it

        await self.ended()
        return await asyncio.to_thread(self.result)

    async def ended(self) -> None:
        """Wait for the verdict, whatever it is, without blocking the event loop."""
        import asyncio  # noqa: PLC0415 - as above

        loop = asyncio.get_running_loop()
        ended = asyncio.Event()

        def on_done(_: Job) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(ended.set)

        await asyncio.to_thread(self.add_done_callback, on_done)
        await ended.wait()

    def __getitem__(self, name: str) -> Any:
        """Return a received variable, or the path of an artifact; waits for the job.

        :raises MissingVariables: the job lost it.
        :raises KeyError: neither has that name.
        """
        received = self._wait_for_variables()
        lost = self._lost_variables(received)
        if name in lost:
            raise MissingVariables(self._record, {name: lost[name]}, received)
        if name in received or name in received.missing:
            return received[name]
        artifacts = self.artifacts
        if name in artifacts:
            return artifacts[name]
        hint = suggest_names(str(name), [*received, *artifacts])
        raise KeyError(f"{self.name} returned no variable or artifact {name!r}. {hint}".strip())

    def __contains__(self, name: object) -> bool:
        """Return True if a variable or an artifact of that name was received; waits for the job."""
        received = self._wait_for_variables()
        return name in received or name in received.missing or name in self.artifacts

    def __eq__(self, other: object) -> bool:
        """Two handles of one job are equal."""
        return isinstance(other, Job) and other.id == self.id

    def __hash__(self) -> int:
        """Hash by the job's id."""
        return hash(self.id)

    def __repr__(self) -> str:
        """Describe the current state, with a request to the controller; note it if the controller is unreachable."""
        try:
            record = self.record
        except SmxError:
            return f"<Job {self.name}: last state {self._record.state.value}, the controller does not respond>"
        word = record.state if record.status() is Status.IN_PROGRESS else record.status()
        reason = f": {failure}" if (failure := failure_of(record)) else ""
        shown = word.value if isinstance(word, (SecondaryStatus, Status)) else str(word)
        return f"<Job {self.name}: {shown}{reason}>"
