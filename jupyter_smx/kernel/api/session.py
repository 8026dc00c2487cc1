"""The session of a kernel: one client, one watcher, one screen, and the variables that jobs return."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from jupyter_smx import controller_launch
from jupyter_smx.kernel.api.pool_notices import PoolNotices
from jupyter_smx.kernel.api.watcher import Watcher
from jupyter_smx.kernel.client import autostart
from jupyter_smx.kernel.display.card import card_of
from jupyter_smx.kernel.display.screen import Screen
from jupyter_smx.kernel.display.start_card import StartCard
from jupyter_smx.kernel.failures.exceptions import MissingVariables
from jupyter_smx.kernel.handles.job import Job
from jupyter_smx.kernel.logs import reader as log
from jupyter_smx.kernel.request import interpreters, payload
from jupyter_smx.kernel.request.code_files import CodeFiles
from jupyter_smx.kernel.request.origin import RevisionReader, cell_id_of, notebook_of
from jupyter_smx.kernel.request.request import SubmissionContext, current_folder
from jupyter_smx.model.errors import SmxError
from jupyter_smx.model.name import job_name
from jupyter_smx.model.status import Status, is_final
from jupyter_smx.rerun_spec import spec_for_rerun

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jupyter_smx.kernel.client.client import Client
    from jupyter_smx.kernel.display.screen import CardLike
    from jupyter_smx.kernel.handles.job_array import JobArray
    from jupyter_smx.model.records.job import Job as Record
    from jupyter_smx.model.spec.channel import Payload
    from jupyter_smx.model.spec.job_spec import JobSpec

_ONLY_THE_SCRIPT = CodeFiles()
_CARD_TAIL_LINES = 8
"""Lines of log on the last card of a job."""
_NOTICE_PATIENCE = 0.3
"""Seconds that a cell waits at most for what became of a pool."""
_CELL_START = "pre_run_cell"
_LOG_BUTTON_LINES = 200
"""Lines of log that a card shows when it is asked."""


def with_source_dir(spec: JobSpec, code: CodeFiles) -> JobSpec:
    """Pack the files of code, if there are any besides the script, and name them in the spec.

    :raises ValidationError: they cannot travel; says why.
    """
    if code.is_empty():
        return spec
    from jupyter_smx.kernel.request.source_dir import pack  # noqa: PLC0415 - archives cost milliseconds that few jobs need

    script = "" if code.folder or not spec.entry_point else spec.filename
    found = pack(
        code.folder,
        controller_launch.data_dir() / "payloads",
        spec.entry_point,
        dependencies=code.dependencies,
        script=script,
        # What is ignored concerns a folder in which a user works, and no archive or URL, which is complete.
        sends_all=spec.source_ignore == "none" or code.copy is not None,
    )
    named = msgspec.structs.replace(found, folder=code.origin(script), is_whole=bool(code.folder))
    return msgspec.structs.replace(spec, source_dir=named)


def pickle_variables(spec: JobSpec, variables: Mapping[str, Any], where: str) -> Payload:
    """Pack variables for a job to where it finds them; see :func:`payload.pack`.

    :raises ValidationError: the job's Python cannot run the code of a function or class in them.
    """
    check = partial(interpreters.check_send, spec, payload.python_version())
    return payload.pack(variables, controller_launch.data_dir() / "payloads", where, check)


class Session:
    """Everything that the magics and the functions share in one process."""

    def __init__(self, shell: Any, client: Client) -> None:
        self.shell = shell
        self.client = client
        self.screen = Screen(shell, self, controller_launch.records_id)
        self.watcher = Watcher(client)
        self.latest_handle: Job | JobArray | None = None
        """Last submission: the default of a bare ``%smx stop``."""
        self._pending_bindings: list[Job] = []
        self._jobs_without_tail: set[str] = set()
        self._has_noted_records = False
        self._revisions = RevisionReader()
        self._submission = threading.local()
        """``card`` is of what this thread submits; None after it was shown."""
        client.before_start = self._show_start
        connect = partial(autostart.client_without_autostart, _NOTICE_PATIENCE)
        self._pool_notices = PoolNotices(connect, client.released_pools)
        self._reports_pools = False

    @property
    def namespace(self) -> dict[str, Any]:
        """The notebook's variables; an empty dict where there is no notebook."""
        return {} if self.shell is None else self.shell.user_ns

    def submission_context(self) -> SubmissionContext:
        """Return the notebook, cell and folder of a request that is made now."""
        folder = current_folder()
        return SubmissionContext(
            python=sys.executable,
            python_version=payload.python_version(),
            folder=folder,
            notebook=notebook_of(self.namespace),
            cell_id=cell_id_of(self.shell),
            revision=self._revisions.read(folder),
            namespace=self.namespace,
            interpreters_of=self.client.interpreters_of,
            image_engine=self.client.image_engine,
        )

    def pack(
        self,
        spec: JobSpec,
        variables: Mapping[str, Any],
        where: str = payload.SEND,
        code: CodeFiles = _ONLY_THE_SCRIPT,
    ) -> JobSpec:
        """Pack the variables to send and the files of code, if there are any, and name them in the spec.

        See :func:`payload.pack` and :func:`source_dir.pack`.

        :raises ValidationError: the job's Python cannot run the code of a function or class; nothing was stored.
        """
        if variables:
            spec = msgspec.structs.replace(spec, send=pickle_variables(spec, variables, where))
        return with_source_dir(spec, code)

    def submit(self, spec: JobSpec) -> Job:
        """Hand a job in, show its card and keep the card true from then on.

        :raises SmxError: the controller refuses it; nothing was created.
        """
        job_id = os.urandom(16).hex()
        with self.start_card(job_id, spec.job_name or job_name(spec.base_name or spec.kind, job_id)):
            record = self.client.submit(job_id, spec)
        job = self.attach(record)
        self.latest_handle = job
        self.show(card_of(record, time.time()))
        job.add_listener(self._draw)
        self.watcher.watch(job)
        self.follow_pool(job)
        return job

    @contextmanager
    def start_card(self, submitted_id: str, name: str) -> Iterator[None]:
        """Show a card at once if the request inside has to start a controller, which takes seconds.

        ``submitted_id`` and ``name`` are those of the job or array that the request creates.
        """
        card = StartCard(id=submitted_id, name=name, at=time.time())
        self._submission.card = card
        try:
            yield
        except BaseException:
            # An interrupted cell, too: otherwise the card would say forever that the controller starts.
            if self._submission.card is None:
                self.screen.update(msgspec.structs.replace(card, submission="failed"))
            raise
        finally:
            self._submission.card = None

    def follow_pool(self, handle: Job | JobArray) -> None:
        """Report before a later cell if the pool of a job or an array ends before its keep-alive."""
        if self.shell is None:
            return
        self._pool_notices.follow(handle)
        if not self._reports_pools:
            self._reports_pools = True
            self.shell.events.register(_CELL_START, self.report_ended_pools)

    def report_ended_pools(self, _: object = None) -> None:
        """Print a line for each kept pool that ended early; IPython calls it before a cell runs."""
        for sentence in self._pool_notices.sentences():
            _print_warning(sentence)

    def show(self, card: CardLike) -> None:
        """Show the card of a submission; the first one notes if the records end with this machine."""
        self._note_records()
        self.screen.show(card)

    def stop(self, job_id: str) -> None:
        """Request a job's stop; called by a card's button, like the two methods below."""
        self.client.stop(job_id)

    def log(self, job_id: str) -> str:
        """Return the last lines of a job's log."""
        return "\n".join(log.last_lines(self.client, self.client.job(job_id), _LOG_BUTTON_LINES))

    def rerun(self, job_id: str) -> None:
        """Run a job once more, under a card of its own."""
        self.submit(spec_for_rerun(self.client.job(job_id), time.time()))

    def attach(self, record: Record) -> Job:
        """Make a handle of a job that exists."""
        return Job(record, self.client, self.watcher.refresh_and_watch)

    def omit_log_tail(self, job: Job) -> None:
        """Leave the end of a job's log off its card: the cell under which it stands prints the log itself."""
        self._jobs_without_tail.add(job.id)

    def schedule_binding(self, job: Job) -> None:
        """Bind the received variables of a job between two cells, once it has completed."""
        self._pending_bindings.append(job)

    def bind_finished_jobs(self) -> None:
        """Bind what has come, in the order of the verdicts."""
        # Check here, not in the watcher's thread: a cell that has just waited for a job has its variables, too.
        arrived = [job for job in self._pending_bindings if is_final(job.latest_record.state)]
        self._pending_bindings = [job for job in self._pending_bindings if job not in arrived]
        for job in sorted(arrived, key=lambda job: job.latest_record.ended_at or 0.0):
            self.bind(job)

    def on_cell_boundary(self, _: object = None) -> None:
        """Do what waits for the end of a cell; IPython calls it before and after each."""
        self.bind_finished_jobs()

    def bind(self, job: Job) -> None:
        """Bind the received variables of a finished job in the notebook, and name those that did not come."""
        if job.latest_record.status() is not Status.COMPLETED:
            return
        try:
            found = job.result()
        except MissingVariables as error:
            found = error.received
        except SmxError as error:
            _print_warning(str(error))
            return
        self.namespace.update(found)
        for reason in found.missing.values():
            _print_warning(f"{job.name}: {reason}")

    def close(self) -> None:
        """End the thread and the connections; jobs continue."""
        if self._reports_pools:
            self._reports_pools = False
            self.shell.events.unregister(_CELL_START, self.report_ended_pools)
        self.watcher.close()
        self.client.close()

    def _show_start(self) -> None:
        """Show the card of what this thread submits, once."""
        card = getattr(self._submission, "card", None)
        if card is not None:
            self._submission.card = None
            self._note_records()
            self.screen.show_start(card)

    def _note_records(self) -> None:
        if self.shell is not None and not self._has_noted_records:
            self._has_noted_records = True
            if note := controller_launch.records_note():
                _print_warning(note)

    def _draw(self, job: Job) -> None:
        if self.screen.is_closed(job.id):
            return  # a waiting call and the watcher both report the end; read the log's tail only once
        record = job.latest_record
        tail: tuple[str, ...] = ()
        if is_final(record.state) and self.screen.has_front_end and job.id not in self._jobs_without_tail:
            tail = self._tail(record)
        card = card_of(record, time.time(), news=self.watcher.latest_summary(job.id), tail=tail)
        self.screen.update(card)

    def _tail(self, record: Record) -> tuple[str, ...]:
        try:
            return log.last_lines(self.client, record, _CARD_TAIL_LINES)
        except SmxError:
            return ()  # the card is worth drawing without it


_sessions: list[Session] = []
"""The session of this process, once there is one."""
_session_lock = threading.Lock()
"""Calls that are awaited side by side begin in several threads; the second would close the session of the first."""


def open_session(shell: Any) -> Session:
    """Create a new session of this process, for ``shell`` (None: a plain Python process)."""
    close_session()
    _sessions.append(Session(shell, autostart.client()))
    return _sessions[0]


def get_or_open_session(shell: Any) -> Session:
    """Return the session of this process if it belongs to ``shell``, else create a new one."""
    return _sessions[0] if _sessions and _sessions[0].shell is shell else open_session(shell)


def close_session() -> None:
    """End the session of this process, if there is one."""
    while _sessions:
        _sessions.pop().close()


def current_session() -> Session:
    """Return the session of this process, created at the first call, with the running shell, if any."""
    with _session_lock:
        if _sessions:
            return _sessions[0]
        shell = None
        if "IPython" in sys.modules:
            from IPython.core.getipython import get_ipython  # noqa: PLC0415 - loaded already, or not needed

            shell = get_ipython()
        return open_session(shell)


def _print_warning(sentence: str) -> None:
    """Write a sentence where the user sees it without ending the cell that runs."""
    print(sentence, file=sys.stderr)  # noqa: T201 - what the user reads
