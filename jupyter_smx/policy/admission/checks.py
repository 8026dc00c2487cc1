"""Check whether a request can become a job: form, catalogue, allowed values, limits."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from jupyter_smx.model import name, unsupported
from jupyter_smx.model.errors import ResourceInUseError, ResourceLimitError, ValidationError, suggest_names
from jupyter_smx.model.options.convert import check_fields, nul_error
from jupyter_smx.model.spec import instance
from jupyter_smx.model.spec.distribution import check_distribution
from jupyter_smx.model.spec.job_spec import is_entry_point
from jupyter_smx.model.spec.metric import check_metrics
from jupyter_smx.model.text import engine_kind
from jupyter_smx.policy.admission import sdk3_rules
from jupyter_smx.policy.admission.path_rules import check_paths
from jupyter_smx.policy.lifecycle import keep_alive, spot

if TYPE_CHECKING:
    from collections.abc import Collection

    from jupyter_smx.model.spec.job_spec import JobSpec
    from jupyter_smx.policy.limits import Limits

MAX_SOURCE = 4 * 1024 * 1024
MAX_GROUPS = 5
MAX_INSTANCES = 1_000
MAX_CHANNELS = 20
MAX_CONTENT_TYPE = 256
MAX_HYPERPARAMETERS = 100
MAX_KEY = 256
MAX_VALUE = 2_500
MAX_WORDS, MAX_WORD = 100, 256
"""Words of a command, and characters of each, as of SageMaker's ContainerEntrypoint."""
MAX_AFTER = 100
_HOUR = 3_600
_CHANNEL = re.compile(r"[A-Za-z0-9.\-_]{1,64}")
_VARIABLE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,511}")


def check(spec: JobSpec, limits: Limits, engines: Collection[str]) -> None:
    """Check a job request.

    :raises ValidationError: a field has a value that no engine supports.
    :raises ResourceLimitError: the administrator does not allow it.
    """
    _check_engine(spec, limits, engines)
    _check_instances(spec, limits)
    name.check_base_name(spec.base_name)
    if spec.job_name:
        name.check_job_name(spec.job_name)
    keep_alive.check(spec.keep_alive, limits)
    check_fields(spec)
    _check_run_time(spec, limits)
    spot.check(spec)
    _check_parameters(spec)
    _check_text(spec)
    _check_channels(spec)
    _check_outputs(spec)
    check_metrics(spec.metrics)
    _check_code(spec)
    check_paths(spec)
    sdk3_rules.check(spec)
    unsupported.check(spec)


def _check_engine(spec: JobSpec, limits: Limits, engines: Collection[str]) -> None:
    kind = engine_kind(spec.engine)
    if kind not in engines:
        raise ValidationError(
            f"--engine: {spec.engine!r} is not an engine.",
            field="engine",
            value=spec.engine,
            rule=f"Installed engines: {', '.join(sorted(engines))}.",
            cure=suggest_names(spec.engine, engines),
        )
    if limits.allowed_engines and not {spec.engine, kind} & set(limits.allowed_engines):
        raise ResourceLimitError(
            f"--engine: {spec.engine!r} is not allowed here.",
            field="engine",
            value=spec.engine,
            rule=f"The administrator allows {', '.join(limits.allowed_engines)} (ControllerApp.allowed_engines).",
            cure="Use one of them.",
        )


def _check_instances(spec: JobSpec, limits: Limits) -> None:
    if not 1 <= len(spec.instance_groups) <= MAX_GROUPS:
        raise ValidationError(
            f"--group: {len(spec.instance_groups)} instance groups.",
            field="instance_groups",
            value=len(spec.instance_groups),
            rule=f"A job has 1 to {MAX_GROUPS} groups.",
            cure="Put hosts of the same type into one group.",
        )
    names = [group.name for group in spec.instance_groups]
    if len(set(names)) != len(names):
        raise ValidationError(
            "--group: two groups have the same name.",
            field="instance_groups",
            value=", ".join(names),
            rule="Channels and scripts refer to a group by its name.",
            cure="Use a different name for each.",
        )
    instance.check_helpers(spec.instance_groups)
    if spec.distribution is not None:
        check_distribution(spec.distribution, spec.kind, spec.instance_groups, spec.receive, contract=spec.contract)
        _check_ranks(spec)
    for group in spec.instance_groups:
        instance.look_up(group, limits.catalogue)
        if group.instance_count < 1:
            raise ValidationError(
                f"--instance-count: {group.instance_count} hosts of {group.instance_type}.",
                field="instance_count",
                value=group.instance_count,
                rule="A group has at least one host.",
                cure="Use at least one.",
            )
        if group.instance_count > MAX_INSTANCES:
            raise ResourceLimitError(
                f"--instance-count: {group.instance_count} hosts of {group.instance_type}.",
                field="instance_count",
                value=group.instance_count,
                rule=f"A group has at most {MAX_INSTANCES} hosts.",
                cure="Use fewer hosts.",
            )
        if limits.allowed_instance_types and group.instance_type not in limits.allowed_instance_types:
            raise ResourceLimitError(
                f"{instance.type_option(group)}: {group.instance_type} is not allowed here.",
                field="instance_type",
                value=group.instance_type,
                rule=f"The administrator allows {', '.join(limits.allowed_instance_types)} "
                "(ControllerApp.allowed_instance_types).",
                cure="Use one of them.",
            )


def _check_ranks(spec: JobSpec) -> None:
    runner = spec.distribution.runner if spec.distribution else ""
    if runner == "mpi" and (spec.send is not None or spec.shared is not None):
        raise ValidationError(
            "--distribution mpi: variables cannot be sent.",
            field="send",
            rule="mpirun starts new interpreters, which run the script as a file.",
            cure="Use hyperparameters and channels, or torchrun.",
        )


def check_hosts(spec: JobSpec, limits: Limits) -> None:
    """Refuse a job that could never fit on this machine, however long it waits.

    :raises ResourceLimitError: more hosts than the machine may have.
    """
    if spec.instance_count() > limits.max_hosts:
        raise ResourceLimitError(
            f"--instance-count: {spec.instance_count()} hosts.",
            field="instance_count",
            value=spec.instance_count(),
            rule=f"This machine runs at most {limits.max_hosts} hosts (ControllerApp.max_hosts).",
            cure="Use fewer hosts, or another engine.",
        )


def check_slots(spec: JobSpec, slots: int | None) -> None:
    """Refuse a job that its engine could never give its hosts, however long it waits.

    :raises ResourceLimitError: more hosts than the engine can have at once.
    """
    if slots is not None and spec.instance_count() > slots:
        raise ResourceLimitError(
            f"--instance-count: {spec.instance_count()} hosts.",
            field="instance_count",
            value=spec.instance_count(),
            rule=f"The engine {spec.engine} has at most {slots} hosts at once.",
            cure="Use fewer hosts, or another engine.",
        )


def _check_run_time(spec: JobSpec, limits: Limits) -> None:
    if not 1 <= spec.max_run <= limits.max_run_cap:
        raise ValidationError(
            f"--max-run: {spec.max_run} seconds.",
            field="max_run",
            value=spec.max_run,
            rule=f"A job runs for 1 to {limits.max_run_cap} seconds.",
            cure=f"For example --max-run {'1h' if limits.max_run_cap >= _HOUR else limits.max_run_cap}.",
        )
    if len(spec.after) > MAX_AFTER:
        raise ValidationError(
            f"--after: {len(spec.after)} jobs.",
            field="after",
            value=len(spec.after),
            rule=f"A job waits for at most {MAX_AFTER} other jobs.",
            cure="Submit them as one array, and wait for the array.",
        )


def _check_parameters(spec: JobSpec) -> None:
    if len(spec.source) > MAX_SOURCE:
        raise ValidationError(
            f"The code has {len(spec.source)} characters.",
            field="source",
            value=len(spec.source),
            rule=f"{MAX_SOURCE} at most.",
            cure="Pass data with --input, and modules with --source-dir.",
        )
    if len(spec.hyperparameters) > MAX_HYPERPARAMETERS:
        raise ValidationError(
            f"--hp: {len(spec.hyperparameters)} hyperparameters.",
            field="hyperparameters",
            value=len(spec.hyperparameters),
            rule=f"{MAX_HYPERPARAMETERS} at most.",
            cure="Put them into one file, and pass it with --input.",
        )
    for key, value in spec.hyperparameters.items():
        if not 1 <= len(key) <= MAX_KEY or "=" in key:
            raise ValidationError(
                f"--hp: {key[:MAX_KEY]!r} is not a valid hyperparameter name.",
                field="hyperparameters",
                value=key[:MAX_KEY],
                rule=f"A name has 1 to {MAX_KEY} characters and no =.",
                cure="For example --hp lr=0.1.",
            )
        if len(value) > MAX_VALUE:
            raise ValidationError(
                f"--hp {key}: the value has {len(value)} characters.",
                field="hyperparameters",
                value=key,
                rule=f"A hyperparameter has at most {MAX_VALUE} characters.",
                cure="Pass it with --send.",
            )
    for key in spec.environment:
        if not _VARIABLE.fullmatch(key):
            raise ValidationError(
                f"--env: {key!r} is not a name of a variable.",
                field="environment",
                value=key,
                rule="Letters, digits and underscores, not a digit first, 512 characters at most.",
                cure="For example --env LEVEL=debug.",
            )


def _check_text(spec: JobSpec) -> None:
    texts = {
        "python": [spec.python],
        "environment": spec.environment.values(),
        "hyperparameters": [*spec.hyperparameters, *spec.hyperparameters.values()],
        "channels": [part for channel in spec.channels for part in (channel.source, channel.path)],
        "outputs": [part for output in spec.outputs for part in (output.path, output.destination)],
        "working_directory": [spec.working_directory],
        "command": spec.command,
        "arguments": spec.arguments,
    }
    field = next((field for field, parts in texts.items() if any("\0" in part for part in parts)), "")
    if field:
        raise nul_error(field)


def _check_outputs(spec: JobSpec) -> None:
    names = [output.name for output in spec.outputs]
    for word in names:
        if not _CHANNEL.fullmatch(word) or word in {".", ".."} or names.count(word) > 1:
            raise ValidationError(
                f"--output: {word!r} {'is given twice' if names.count(word) > 1 else 'is not a valid output name'}.",
                field="outputs",
                value=word,
                rule="1 to 64 letters, digits, dots, hyphens and underscores, not . or .., and each name once.",
                cure="For example --output model=PATH.",
            )


def _check_channels(spec: JobSpec) -> None:
    names = [channel.name for channel in spec.channels]
    if len(names) > MAX_CHANNELS:
        raise ValidationError(
            f"--input: {len(names)} channels.",
            field="channels",
            value=len(names),
            rule=f"{MAX_CHANNELS} at most.",
            cure="Pass files of the same folder as one channel.",
        )
    for word in names:
        if not _CHANNEL.fullmatch(word) or word in {".", ".."}:
            raise ValidationError(
                f"--input: {word!r} is not a valid channel name.",
                field="channels",
                value=word,
                rule="1 to 64 letters, digits, dots, hyphens and underscores, and neither . nor .. alone.",
                cure="For example --input train=SOURCE.",
            )
    repeated = next((word for word in names if names.count(word) > 1), None)
    if repeated is not None:
        raise ValidationError(
            f"--input: channel {repeated!r} is given twice.",
            field="channels",
            value=repeated,
            rule="A channel has one source and one folder.",
            cure="Use a different name for each.",
        )
    _check_content_types(spec)
    groups = {group.name for group in spec.instance_groups}
    for channel in spec.channels:
        unknown = set(channel.groups) - groups
        if unknown:
            raise ValidationError(
                f"--input {channel.name}: no group is named {', '.join(sorted(unknown))}.",
                field="channels",
                value=channel.name,
                rule=f"The groups of this job are {', '.join(sorted(groups))}.",
                cure=suggest_names(min(unknown), groups) or "Leave groups= out, and each has the channel.",
            )


def _check_content_types(spec: JobSpec) -> None:
    for channel in spec.channels:
        if channel.content_type and (spec.kind == "process" or len(channel.content_type) > MAX_CONTENT_TYPE):
            raise ValidationError(
                f"--input {channel.name}: content_type={channel.content_type[:MAX_CONTENT_TYPE]}.",
                field="channels",
                value=channel.name,
                rule=f"It has at most {MAX_CONTENT_TYPE} characters, and training jobs get it in a file.",
                cure="Remove it: jupyter_smx does not use it to read the channel.",
            )


def _check_code(spec: JobSpec) -> None:
    if spec.entry_point and not is_entry_point(spec.entry_point):
        raise ValidationError(
            f"--entry-point: {spec.entry_point!r} is not a valid script path.",
            field="entry_point",
            value=spec.entry_point,
            rule="Use a path within the folder, of letters, digits, dots, hyphens, underscores and plus signs.",
            cure="Rename the file, for example to train.py.",
        )
    _check_command(spec)
    is_program = spec.is_program()
    program = "the program of the image" if spec.image_program else shlex.join(spec.command) or spec.entry_point
    if is_program and spec.distribution is not None and not spec.distribution.runs_once():
        raise ValidationError(
            f"--distribution: {program} is not a Python script.",
            field="distribution",
            value=program,
            rule="A launcher starts a Python script in several processes.",
            cure="Let the program start its processes; it runs once on each host.",
        )
    if is_program and (spec.send or spec.shared or spec.receive):
        option, field = _program_option(spec)
        raise ValidationError(
            f"{option}: {program} cannot send or receive variables.",
            field=field,
            value=program,
            rule="--send and --receive need a Python script.",
            cure="Pass files with --input and values with --hp, and get files with --output.",
        )


def _program_option(spec: JobSpec) -> tuple[str, str]:
    """Return the option that makes the job a program, and its field."""
    if spec.image_program:
        return "--image", "image"
    return ("--command", "command") if spec.command else ("--entry-point", "entry_point")


def _check_command(spec: JobSpec) -> None:
    wrong = "" if all(spec.command) else "an empty word"
    if len(spec.command) > MAX_WORDS:
        wrong = f"{len(spec.command)} words"
    if any(len(word) > MAX_WORD for word in spec.command):
        wrong = "a word that is too long"
    if wrong:
        raise ValidationError(
            f"--command: there is {wrong}.",
            field="command",
            value=len(spec.command),
            rule=f"As on SageMaker, a command has at most {MAX_WORDS} words of 1 to {MAX_WORD} characters.",
            cure="Put the rest into a shell script, and use it as --entry-point.",
        )


def job_name_taken_error(job_name: str) -> ResourceInUseError:
    """Make the refusal of an exact name that another job has."""
    return ResourceInUseError(
        f"--job-name: another job has the name {job_name}.",
        field="job_name",
        value=job_name,
        rule="An exact name is given once, as on SageMaker, also after the job has ended.",
        cure="Use another one, or --name, which adds a suffix.",
    )


def queue_full_error(limits: Limits) -> ResourceLimitError:
    """Make the refusal of a job that would be one too many."""
    return ResourceLimitError(
        f"{limits.max_jobs_queued} jobs are waiting or running.",
        field="job",
        value=limits.max_jobs_queued,
        rule="The administrator sets the limit with ControllerApp.max_jobs_queued.",
        cure="Wait until some of them end.",
    )
