"""``import jupyter_smx as smx; smx.train(...)``: the magics' work without magic."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_smx.kernel import fields, payload
from jupyter_smx.kernel.session import current
from jupyter_smx.kernel.wish import Kind, Wish
from jupyter_smx.model.channel import Channel, Output
from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from jupyter_smx.kernel.handle import Job
    from jupyter_smx.kernel.session import Session
    from jupyter_smx.model.event import PoolSummary
    from jupyter_smx.model.instance import InstanceGroup
    from jupyter_smx.model.job import JobSummary

Inputs = Mapping[str, str | Path | Channel]
Outputs = Mapping[str, str | Path | Output]
Variables = Mapping[str, Any] | Sequence[str]


def train(  # noqa: PLR0913 - one keyword for each wish, all with defaults
    code: str | Path,
    *,
    name: str = "",
    instance_type: str | None = None,
    instance_count: int | None = None,
    instance_groups: Sequence[InstanceGroup] = (),
    engine: str = "local",
    keep_alive: int | str = 0,
    hyperparameters: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    inputs: Inputs | None = None,
    outputs: Outputs | None = None,
    send: Variables = (),
    receive: Sequence[str] = (),
    role: str = "",
    max_run: int | str | None = None,
    wait: bool = False,
) -> Job:
    """Run code as a training job and give its handle at once.

    :param code: source, or the path of a script.
    :param keep_alive: seconds, or text like ``10m``: how long the hosts stay warm after the job.
    :param max_run: seconds, or text like ``2h``: when the job is stopped; default one day.
    :param hyperparameters: values that are no strings become JSON.
    :param inputs: source by channel: a path, a glob, a URL, or a :class:`Channel`.
    :param outputs: ``model`` and ``data``: the folder that the archive is copied to.
    :param send: variables by name, or names of notebook variables.
    :param receive: names of the job's variables, which ``job.result()`` gives.
    :param wait: print the log, and come back when the job has completed.
    :raises ValidationError: a field of the wish; nothing was created.
    :raises JobFailed, JobStopped: with ``wait``.
    :raises UnavailableError: no controller can be started.
    """
    arguments = dict(locals())
    return _run("train", **arguments)


def process(  # noqa: PLR0913 - one keyword for each wish, all with defaults
    code: str | Path,
    *,
    name: str = "",
    instance_type: str | None = None,
    instance_count: int | None = None,
    instance_groups: Sequence[InstanceGroup] = (),
    engine: str = "local",
    keep_alive: int | str = 0,
    hyperparameters: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    inputs: Inputs | None = None,
    outputs: Outputs | None = None,
    send: Variables = (),
    receive: Sequence[str] = (),
    role: str = "",
    max_run: int | str | None = None,
    wait: bool = False,
) -> Job:
    """Run code as a processing job and give its handle at once.

    The parameters are those of :func:`train`, but ``outputs`` has any names, and its values are
    ``PATH[:DESTINATION]``: the folder in the job (empty: ``/opt/ml/processing/output/NAME``) and where it goes.
    """
    arguments = dict(locals())
    return _run("process", **arguments)


def job(ref: str) -> Job:
    """Find a job again by id, name, unique prefix, or base name (the newest).

    :raises ResourceNotFoundError: there is none.
    """
    session = current()
    return session.attach(session.client.job(ref))


def jobs(limit: int = 20) -> tuple[JobSummary, ...]:
    """List jobs, newest first."""
    return current().client.jobs(limit)


def pools() -> tuple[PoolSummary, ...]:
    """List live warm pools."""
    return current().client.pools()


def _run(kind: Kind, code: str | Path, *, send: Variables, wait: bool, **arguments: Any) -> Job:
    submitted_at = time.time()
    session = current()
    here = session.surroundings()
    wish = _wish(kind, here.folder, **arguments)
    spec = wish.spec(_source(code), 0, here, submitted_at)
    variables = dict(send) if isinstance(send, Mapping) else payload.choose(tuple(send), session.namespace)
    found = session.submit(session.pack(spec, variables))
    if wait:
        finish(session, found)
    return found


def _wish(kind: Kind, folder: Path, **arguments: Any) -> Wish:
    """Read the arguments as the magics read their line."""
    inputs: Inputs = arguments.pop("inputs") or {}
    outputs: Outputs = arguments.pop("outputs") or {}
    arguments["hyperparameters"] = arguments["hyperparameters"] or {}
    arguments["environment"] = {key: str(value) for key, value in (arguments["environment"] or {}).items()}
    arguments["groups"] = tuple(arguments.pop("instance_groups"))
    arguments["receive"] = tuple(arguments["receive"])
    return Wish(
        kind=kind,
        channels=tuple(_channel(name, source, folder) for name, source in inputs.items()),
        outputs=tuple(_output(kind, name, where, folder) for name, where in outputs.items()),
        **arguments,
    )


def _channel(name: str, source: str | Path | Channel, folder: Path) -> Channel:
    if isinstance(source, Channel):
        return source
    return Channel(name=fields.check_channel_name(name), source=fields.absolute(str(source), folder))


def _output(kind: Kind, name: str, where: str | Path | Output, folder: Path) -> Output:
    if isinstance(where, Output):
        return where
    if kind == "train":
        return fields.training_output(name, str(where), folder)
    return fields.processing_output(name, str(where), folder)


def _source(code: str | Path) -> str:
    if isinstance(code, Path):
        try:
            return code.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ValidationError(f"code: {code} cannot be read: {error}.", field="source", value=code) from error
    if isinstance(code, str):
        return code
    raise ValidationError(
        f"code: a {type(code).__name__} is no source.",
        field="source",
        value=type(code).__name__,
        rule="Give the code as text, or a script as a pathlib.Path.",
    )


def finish(session: Session, found: Job) -> None:
    """Print the log as it comes, wait for the verdict, and bind what came back. Ctrl-C ends the waiting, not the job.

    :raises JobFailed, JobStopped: the verdict is not ``Completed``.
    """
    found.follow()
    found.result()
    session.bind_arrived()
