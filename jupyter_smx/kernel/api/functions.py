"""``import jupyter_smx as smx; smx.train(...)``: submit jobs without magics."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from jupyter_smx.kernel.api.array_session import submit_job_or_array, submit_rerun
from jupyter_smx.kernel.api.session import current_session
from jupyter_smx.kernel.client.array_rerun import rerun_request
from jupyter_smx.kernel.client.dependencies import dependency_ids
from jupyter_smx.kernel.client.job_refs import resolve_job_or_array
from jupyter_smx.kernel.display.diff import Diff, diff_by_ref
from jupyter_smx.kernel.failures.exceptions import JobFailed
from jupyter_smx.kernel.handles.cost import format_job_savings
from jupyter_smx.kernel.handles.job_array import JobArray, write_progress
from jupyter_smx.kernel.logs.cell_log import open_cell_log, write
from jupyter_smx.kernel.logs.traceback_buffer import TracebackBuffer
from jupyter_smx.kernel.options.help_pages import document_keywords
from jupyter_smx.kernel.options.keyword_check import check_keywords, keyword_spelling, translate_keywords
from jupyter_smx.kernel.request import interpreters, payload
from jupyter_smx.kernel.request.builders import request_from_keywords
from jupyter_smx.kernel.request.call import RECEIVE, call_of, pickle_by_value
from jupyter_smx.kernel.request.grid import expand_sweep
from jupyter_smx.kernel.request.request import current_folder, keeps_text
from jupyter_smx.kernel.request.script import absolute_folder, entry_point_of, read_script
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.options.table import ProcessOptions, RemoteOptions, TrainOptions, names_for, rows_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from jupyter_smx.kernel.api.session import Session
    from jupyter_smx.kernel.handles.job import Job
    from jupyter_smx.kernel.request.call import Call
    from jupyter_smx.kernel.request.request import JobRequest
    from jupyter_smx.model.options.option import Kind
    from jupyter_smx.model.records.event import PoolSummary
    from jupyter_smx.model.records.job import JobSummary
    from jupyter_smx.model.spec.job_spec import JobSpec

Code = str | Path | Callable[[], Any]

_CODE = inspect.Parameter("code", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=Code | None)
_CODE_HELP = (
    'source, the path of a script, or a function without arguments, whose value is ``job["value"]``; nothing if there '
    "is an ``entry_point``"
)


def train(code: Code | None = None, **options: Unpack[TrainOptions]) -> Job | JobArray:
    """Run code as a training job and return its handle at once.

    :raises ValidationError: an option is wrong; nothing was created.
    :raises JobFailed, JobStopped: with ``wait``.
    :raises UnavailableError: no controller can be started.
    """
    with keyword_spelling():
        return _run("train", code, options)


def process(code: Code | None = None, **options: Unpack[ProcessOptions]) -> Job | JobArray:
    """Run code as a processing job and return its handle at once.

    ``outputs`` has any names, and its values are ``PATH[:DESTINATION]``: the folder in the job (empty:
    ``/opt/ml/processing/output/NAME``) and where it goes. As on SageMaker a processing job has no ``spot``,
    ``max_wait`` and ``checkpoint``.

    :raises ValidationError: an option is wrong; nothing was created.
    :raises JobFailed, JobStopped: with ``wait``.
    :raises UnavailableError: no controller can be started.
    """
    with keyword_spelling():
        return _run("process", code, options)


document_keywords(train, rows_of(TrainOptions), _CODE, _CODE_HELP)
document_keywords(process, rows_of(ProcessOptions), _CODE, _CODE_HELP)


def job(ref: str) -> Job:
    """Find a job again by id, name, unique prefix, or base name (the newest).

    :raises ResourceNotFoundError: there is none.
    """
    session = current_session()
    return session.attach(session.client.job(ref))


def rerun(ref: str | Job | JobArray) -> Job | JobArray:
    """Run a job again with the same code, variables, inputs and hosts; return the new job's handle at once.

    An array runs again as a whole, and its new handle is returned. A task of it runs again alone.

    :param ref: id, name, prefix or handle of a job, a task or an array.
    :raises ResourceNotFoundError: it does not exist, or its sent variables were deleted.
    """
    submitted_at = time.time()
    session = current_session()
    found = resolve_job_or_array(session.client, ref if isinstance(ref, str) else ref.id)
    with keyword_spelling():
        return submit_rerun(session, rerun_request(session.client, found, submitted_at))


def diff(before: str | Job, after: str | Job = "") -> Diff:
    """Return the differences of two jobs; with one job, those from the previous run of its base name.

    :param before: id, name, prefix or handle; so is ``after``.
    :raises ResourceNotFoundError: there is no such job, or no run before it.
    """
    first, other = (ref if isinstance(ref, str) else ref.id for ref in (before, after))
    return diff_by_ref(current_session().client, first, other)


def jobs(limit: int = 20, status: str = "") -> tuple[JobSummary, ...]:
    """List jobs, newest first: ``limit`` at most of all, or of those of a ``status``, as ``Failed``.

    :raises ValidationError: there is no such status.
    """
    return current_session().client.jobs(limit, status)


def pools() -> tuple[PoolSummary, ...]:
    """List live warm pools."""
    return current_session().client.pools()


def submit_call(
    function: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any], options: Mapping[str, Any]
) -> Job:
    """Run one call of a function as a training job; its value or its exception is returned as a variable.

    ``options`` has keywords of :class:`RemoteOptions`.

    :raises TypeError: the arguments do not fit the function.
    :raises ValidationError: an option is wrong, or something cannot be pickled; nothing was created.
    """
    submitted_at = time.time()
    call = call_of(function, arguments, keywords)
    session = current_session()
    with keyword_spelling():
        request, spec = call_spec(session, call, submitted_at, options)
        return session.submit(_pack_call(session, call, {}, request, spec))


def check_options(options: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Check the options of functions whose calls are jobs, and return them by the names of the option table.

    :raises ValidationError: names the nearest right one, or what the keyword takes.
    """
    with keyword_spelling():
        found = translate_keywords(options)
        check_keywords(found, RemoteOptions.__annotations__, "train", where)
        return found


def _run(kind: Kind, code: Code | None, options: Mapping[str, Any]) -> Job | JobArray:
    submitted_at = time.time()
    options = translate_keywords(options)
    check_keywords(options, names_for(kind), kind, f"smx.{kind}")
    options = {name: value for name, value in options.items() if value is not None}
    has_program = any(options.get(name) for name in ("entry_point", "command", "image", "build"))
    if (code is None or (isinstance(code, str) and not code.strip())) and not has_program:
        raise ValidationError(
            "code: there is nothing to run.",
            field="source",
            value=code or "",
            rule="A job runs text, a script, a function, an entry_point, or the program of an image.",
            cure="Give code, an entry_point or an image.",
        )
    if isinstance(code, Path) and not options.get("entry_point"):
        code, options = _script(code, options)
    session = current_session()
    send = options.get("send", ())
    variables = dict(send) if isinstance(send, Mapping) else payload.select_variables(tuple(send), session.namespace)
    fixed, grid = expand_sweep(
        options.get("hyperparameters", {}),
        options.get("max_concurrent"),
        sweep=options.get("sweep", False),
        keep_text=keeps_text("keyword", options.get("contract")),
    )
    options["hyperparameters"] = fixed
    code = code or ""
    source = _source(code) if isinstance(code, (str, Path)) or not callable(code) else call_of(code)
    handle = submit_job_or_array(session, _pack_spec(session, kind, source, variables, submitted_at, options), grid)
    if options.get("wait"):
        wait_with_logs(session, handle)
    return handle


def _pack_spec(
    session: Session,
    kind: Kind,
    code: str | Call,
    variables: Mapping[str, Any],
    submitted_at: float,
    options: Mapping[str, Any],
) -> JobSpec:
    if isinstance(code, str):
        here = session.submission_context()
        request = _request(session, kind, here.folder, options)
        return session.pack(request.build_spec(code, 0, here, submitted_at), variables, code=request.code_files())
    request, spec = _call_spec(session, kind, code, submitted_at, options)
    return _pack_call(session, code, variables, request, spec)


def _pack_call(
    session: Session, code: Call, variables: Mapping[str, Any], request: JobRequest, spec: JobSpec
) -> JobSpec:
    with pickle_by_value(code.variables["function"]):
        return session.pack(spec, {**variables, **code.variables}, f"{code.label}: ", request.code_files())


def call_spec(
    session: Session, code: Call, submitted_at: float, options: Mapping[str, Any]
) -> tuple[JobRequest, JobSpec]:
    """Build the spec of a call as a training job; ``options`` as for :func:`submit_call`. Nothing is packed."""
    return _call_spec(session, "train", code, submitted_at, options)


def _call_spec(
    session: Session, kind: Kind, code: Call, submitted_at: float, options: Mapping[str, Any]
) -> tuple[JobRequest, JobSpec]:
    here = session.submission_context()
    own = {"name": options.get("name") or code.name, "receive": (*RECEIVE, *(options.get("receive") or ()))}
    request = _request(session, kind, here.folder, {**options, **own})
    spec = request.build_spec(code.source, 0, here, submitted_at)
    imports = request.exclude_own_modules(code.imports)
    spec = msgspec.structs.replace(
        interpreters.add_cloudpickle(spec), filename=code.filename or spec.filename, imports=imports
    )
    return request, spec


def _request(session: Session, kind: Kind, folder: Path, options: Mapping[str, Any]) -> JobRequest:
    after = dependency_ids(options.get("after") or (), session.namespace, session.client)
    return request_from_keywords(kind, options, after, folder)


def _script(path: Path, options: dict[str, Any]) -> tuple[Path | None, dict[str, Any]]:
    """Return a script to read and the options, or no script if it is an entry point, which is an option then."""
    if options.get("command"):
        return None, {**options, "entry_point": str(path)}
    folder = current_folder()
    source_dir = absolute_folder(str(options.get("source_dir", "")), folder)
    found = entry_point_of(str(path), source_dir, folder, "code")
    return (None, {**options, "entry_point": found}) if found else (path, options)


def _source(code: object) -> str:
    if isinstance(code, Path):
        return read_script(str(code), "code")
    if isinstance(code, str):
        return code
    raise ValidationError(
        f"code: a {type(code).__name__} is not code that a job can run.",
        field="source",
        value=type(code).__name__,
        rule="A job runs text, a script, a function or an entry_point.",
        cure="Give the code as text, a script as a pathlib.Path, or a function.",
    )


def _follow(session: Session, found: Job) -> None:
    if session.shell is None:
        found.follow()  # what is raised is one sentence there
        return
    session.omit_log_tail(found)
    with open_cell_log(found.name) as cell:
        held = TracebackBuffer(cell)
        try:
            found.follow(held)
            failure = found.exception()
            held.flush(failure.remote_traceback if isinstance(failure, JobFailed) else "")
        finally:
            held.flush()


def wait_with_logs(session: Session, found: Job | JobArray) -> None:
    """Print the log as it comes, wait for the outcome, and bind the returned variables. Ctrl-C ends the waiting only.

    For an array, print a line when a task ends.

    :raises JobFailed, JobStopped: the verdict is not ``Completed``.
    """
    try:
        if isinstance(found, JobArray):
            write_progress(found)
            found.raise_failure()
            return
        _follow(session, found)
        write(format_job_savings(session.client, found.latest_record))
        found.result()
        session.bind_finished_jobs()
    finally:
        # The thread that watches may not be done with the last news, and what the cell shows now is what is saved.
        found.notify_listeners()
