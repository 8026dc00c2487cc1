"""``import jupyter_smx as smx; smx.train(...)``: the magics' work without magic."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from jupyter_smx.kernel.api.array_session import submit_job_or_array
from jupyter_smx.kernel.api.session import current_session
from jupyter_smx.kernel.client.dependencies import dependency_ids
from jupyter_smx.kernel.display.diff import Diff, diff_by_ref
from jupyter_smx.kernel.failures.exceptions import JobFailed
from jupyter_smx.kernel.handles.cost import format_job_savings
from jupyter_smx.kernel.handles.job import write
from jupyter_smx.kernel.handles.job_array import JobArray, write_progress
from jupyter_smx.kernel.logs.traceback_buffer import TracebackBuffer
from jupyter_smx.kernel.options import values
from jupyter_smx.kernel.options.keyword_docs import with_keyword_docs
from jupyter_smx.kernel.options.keyword_types import check_types
from jupyter_smx.kernel.request import interpreters, payload
from jupyter_smx.kernel.request.call import RECEIVE, call_of, pickle_by_value
from jupyter_smx.kernel.request.grid import expand_sweep
from jupyter_smx.kernel.request.request import JobRequest, Kind
from jupyter_smx.kernel.request.script import absolute_folder, read_script
from jupyter_smx.model.errors import ValidationError, suggest_names
from jupyter_smx.model.spec.channel import Channel, Output
from jupyter_smx.rerun_spec import spec_for_rerun

if TYPE_CHECKING:
    from jupyter_smx.kernel.api.session import Session
    from jupyter_smx.kernel.client.dependencies import After
    from jupyter_smx.kernel.handles.job import Job
    from jupyter_smx.kernel.request.call import Call
    from jupyter_smx.kernel.request.interpreters import Requirements
    from jupyter_smx.model.records.event import PoolSummary
    from jupyter_smx.model.records.job import JobSummary
    from jupyter_smx.model.spec.instance import InstanceGroup
    from jupyter_smx.model.spec.job_spec import JobSpec

Inputs = Mapping[str, str | Path | Channel]
Outputs = Mapping[str, str | Path | Output]
Variables = Mapping[str, Any] | Sequence[str]
Code = str | Path | Callable[[], Any]


@with_keyword_docs
def train(  # noqa: PLR0913 - one keyword for each wish, all with defaults
    code: Code | None = None,
    *,
    name: str = "",
    instance_type: str | None = None,
    instance_count: int | None = None,
    instance_groups: Sequence[InstanceGroup] = (),
    distribution: str = "",
    engine: str = "local",
    image: str = "",
    keep_alive: int | str = 0,
    hyperparameters: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    inputs: Inputs | None = None,
    outputs: Outputs | None = None,
    source_dir: str | Path = "",
    entry_point: str | Path = "",
    contract: str = "v2",
    send: Variables = (),
    receive: Sequence[str] = (),
    role: str = "",
    max_run: int | str | None = None,
    python: str | Path = "",
    requirements: Requirements = "",
    metrics: Mapping[str, str] | None = None,
    retries: int = 0,
    spot: bool = False,
    max_wait: int | str | None = None,
    checkpoint: str | Path = "",
    checkpoint_local_path: str = "",
    disable_output_compression: bool = False,
    network_isolation: bool = False,
    after: After = (),
    sweep: bool = False,
    max_concurrent: int | None = None,
    wait: bool = False,
) -> Job | JobArray:
    """Run code as a training job and give its handle at once.

    :raises ValidationError: a field of the wish; nothing was created.
    :raises JobFailed, JobStopped: with ``wait``.
    :raises UnavailableError: no controller can be started.
    """
    arguments = dict(locals())
    return _run("train", **arguments)


def process(  # noqa: PLR0913 - one keyword for each wish, all with defaults
    code: Code | None = None,
    *,
    name: str = "",
    instance_type: str | None = None,
    instance_count: int | None = None,
    instance_groups: Sequence[InstanceGroup] = (),
    distribution: str = "",
    engine: str = "local",
    image: str = "",
    keep_alive: int | str = 0,
    hyperparameters: Mapping[str, Any] | None = None,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    inputs: Inputs | None = None,
    outputs: Outputs | None = None,
    source_dir: str | Path = "",
    entry_point: str | Path = "",
    send: Variables = (),
    receive: Sequence[str] = (),
    role: str = "",
    max_run: int | str | None = None,
    python: str | Path = "",
    requirements: Requirements = "",
    metrics: Mapping[str, str] | None = None,
    retries: int = 0,
    network_isolation: bool = False,
    after: After = (),
    sweep: bool = False,
    max_concurrent: int | None = None,
    wait: bool = False,
) -> Job | JobArray:
    """Run code as a processing job and give its handle at once.

    The parameters are those of :func:`train`, but ``outputs`` has any names, and its values are
    ``PATH[:DESTINATION]``: the folder in the job (empty: ``/opt/ml/processing/output/NAME``) and where it goes.
    ``arguments`` are words that the script gets as they are, behind those of ``hyperparameters``. Like SageMaker's
    processing jobs these have no ``spot``, ``max_wait`` and ``checkpoint``.
    """
    options = dict(locals())
    return _run("process", **options)


def job(ref: str) -> Job:
    """Find a job again by id, name, unique prefix, or base name (the newest).

    :raises ResourceNotFoundError: there is none.
    """
    session = current_session()
    return session.attach(session.client.job(ref))


def rerun(ref: str) -> Job:
    """Run a job again, with the code, variables, inputs and hosts of its wish; gives the new job's handle at once.

    :raises ResourceNotFoundError: there is no such job, or the variables that it was sent are gone.
    """
    submitted_at = time.time()
    session = current_session()
    return session.submit(spec_for_rerun(session.client.job(ref), submitted_at))


def diff(before: str | Job, after: str | Job = "") -> Diff:
    """Say in what two jobs differ; with one job, in what it differs from the run of its base name before it.

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
    """Run one call of a function as a training job; its value and its exception come back as variables.

    ``options`` has keywords of :func:`train`, all but ``send``, ``receive`` and ``wait``.

    :raises TypeError: the arguments do not fit the function.
    :raises ValidationError: a field of the wish, or something that cannot be pickled; nothing was created.
    """
    submitted_at = time.time()
    call = call_of(function, arguments, keywords)
    session = current_session()
    made, spec = call_spec(session, call, submitted_at, options)
    return session.submit(_pack_call(session, call, {}, made, spec))


def check_options(options: Mapping[str, Any], where: str) -> None:
    """Refuse keywords that no job has, and values of another type than theirs.

    :raises ValidationError: names the nearest right one, or what the keyword takes.
    """
    wrong = next((name for name in options if name not in _DEFAULTS), None)
    if wrong is not None:
        raise ValidationError(
            f"{where}: {wrong} is not an option.",
            field=wrong,
            value=options[wrong],
            cure=suggest_names(wrong, _DEFAULTS) or f"There are {', '.join(_DEFAULTS)}.",
        )
    check_types(options)


_DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(train).parameters.items()
    if name not in ("code", "entry_point", "distribution", "send", "receive", "sweep", "max_concurrent", "wait")
}
"""Options of a job that any front door has, with what they are when nobody sets them."""
_SIGNATURE_DEFAULTS = {
    name: parameter.default
    for front_door in (process, train)
    for name, parameter in inspect.signature(front_door).parameters.items()
}


def _run(
    kind: Kind,
    code: Code | None,
    *,
    send: Variables,
    sweep: bool,
    max_concurrent: int | None,
    wait: bool,
    **arguments: Any,
) -> Job | JobArray:
    submitted_at = time.time()
    check_types({**arguments, "send": send})
    # Whoever hands a keyword on that nobody set to them has None.
    arguments = {name: _SIGNATURE_DEFAULTS.get(name) if value is None else value for name, value in arguments.items()}
    send = () if send is None else send
    session = current_session()
    variables = dict(send) if isinstance(send, Mapping) else payload.select_variables(tuple(send), session.namespace)
    if (code is None or (isinstance(code, str) and not code.strip())) and not arguments["entry_point"]:
        raise ValidationError(
            "code: there is nothing to run.",
            field="source",
            value=code or "",
            rule="A job runs text, a script, a function, or an entry_point.",
            cure="Give code, or an entry_point.",
        )
    arguments["hyperparameters"], grid = expand_sweep(arguments["hyperparameters"] or {}, max_concurrent, sweep=sweep)
    code = code or ""
    made = _source(code) if isinstance(code, (str, Path)) or not callable(code) else call_of(code)
    found = submit_job_or_array(session, _pack_spec(session, kind, made, variables, submitted_at, arguments), grid)
    if wait:
        wait_with_logs(session, found)
    return found


def _pack_spec(
    session: Session,
    kind: Kind,
    code: str | Call,
    variables: Mapping[str, Any],
    submitted_at: float,
    arguments: dict[str, Any],
) -> JobSpec:
    if isinstance(code, str):
        here = session.submission_context()
        request = _request_from_arguments(session, kind, here.folder, **arguments)
        return session.pack(request.build_spec(code, 0, here, submitted_at), variables, source_dir=request.source_dir)
    request, spec = _call_spec(session, kind, code, submitted_at, arguments)
    return _pack_call(session, code, variables, request, spec)


def _pack_call(
    session: Session, code: Call, variables: Mapping[str, Any], request: JobRequest, spec: JobSpec
) -> JobSpec:
    with pickle_by_value(code.variables["function"]):
        return session.pack(spec, {**variables, **code.variables}, f"{code.label}: ", request.source_dir)


def call_spec(
    session: Session, code: Call, submitted_at: float, options: Mapping[str, Any]
) -> tuple[JobRequest, JobSpec]:
    """Make the spec of a call as a training job; ``options`` as for :func:`submit_call`. Nothing is packed."""
    asked = {name: value for name, value in options.items() if value is not None}
    return _call_spec(session, "train", code, submitted_at, {"name": "", **_DEFAULTS, **asked, "receive": ()})


def _call_spec(
    session: Session, kind: Kind, code: Call, submitted_at: float, arguments: dict[str, Any]
) -> tuple[JobRequest, JobSpec]:
    here = session.submission_context()
    arguments["name"] = arguments["name"] or code.name
    arguments["receive"] = (*RECEIVE, *arguments["receive"])
    request = _request_from_arguments(session, kind, here.folder, **arguments)
    spec = request.build_spec(code.source, 0, here, submitted_at)
    imports = request.exclude_own_modules(code.imports)
    spec = msgspec.structs.replace(
        interpreters.add_cloudpickle(spec), filename=code.filename or spec.filename, imports=imports
    )
    return request, spec


def _request_from_arguments(session: Session, kind: Kind, folder: Path, **arguments: Any) -> JobRequest:
    """Read the arguments as the magics read their line."""
    inputs: Inputs = arguments.pop("inputs") or {}
    outputs: Outputs = arguments.pop("outputs") or {}
    arguments["hyperparameters"] = arguments["hyperparameters"] or {}
    environment = arguments["environment"] or {}
    arguments["environment"] = {key: values.to_text(value, f"--env {key}") for key, value in environment.items()}
    arguments["metrics"] = values.check_metric_definitions(arguments["metrics"] or {})
    arguments["source_dir"] = absolute_folder(str(arguments["source_dir"]), folder)
    arguments["entry_point"] = str(arguments.get("entry_point", ""))
    arguments["python"] = str(arguments["python"])
    arguments["distribution"] = values.parse_distribution(arguments.get("distribution", ""))
    arguments["groups"] = tuple(arguments.pop("instance_groups"))
    arguments["receive"] = tuple(arguments["receive"])
    checkpoint = str(arguments.get("checkpoint", ""))
    arguments["checkpoint"] = values.absolute_path(checkpoint, folder) if checkpoint else ""
    arguments["after"] = dependency_ids(arguments["after"], session.namespace, session.client)
    arguments["arguments"] = tuple(arguments.get("arguments", ()))
    return JobRequest(
        kind=kind,
        channels=tuple(_channel(name, source, folder) for name, source in inputs.items()),
        outputs=tuple(_output(kind, name, where, folder) for name, where in outputs.items()),
        **arguments,
    )


def _channel(name: str, source: str | Path | Channel, folder: Path) -> Channel:
    if isinstance(source, Channel):
        return source
    return Channel(name=values.check_channel_name(name), source=values.absolute_path(str(source), folder))


def _output(kind: Kind, name: str, where: str | Path | Output, folder: Path) -> Output:
    if isinstance(where, Output):
        return where
    if kind == "train":
        return values.training_output(name, str(where), folder)
    return values.processing_output(name, str(where), folder)


def _source(code: object) -> str:
    if isinstance(code, Path):
        return read_script(str(code), "code")
    if isinstance(code, str):
        return code
    raise ValidationError(
        f"code: a {type(code).__name__} is no source.",
        field="source",
        value=type(code).__name__,
        rule="A job runs text, a script, a function, or an entry_point.",
        cure="Give the code as text, a script as a pathlib.Path, or a function.",
    )


def _follow(session: Session, found: Job) -> None:
    if session.shell is None:
        found.follow()  # what is raised is one sentence there
        return
    session.omit_log_tail(found)
    held = TracebackBuffer(write)
    try:
        found.follow(held)
        failure = found.exception()
        held.flush(failure.remote_traceback if isinstance(failure, JobFailed) else "")
    finally:
        held.flush()


def wait_with_logs(session: Session, found: Job | JobArray) -> None:
    """Print the log as it comes, wait for the verdict, and bind what came back. Ctrl-C ends the waiting, not the job.

    Of an array a line is printed when a task ends.

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
