"""What ``%smx`` can do: one table of subcommands."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct, json

from jupyter_smx.kernel.client import job_refs
from jupyter_smx.kernel.client.client import Client
from jupyter_smx.kernel.display.diff import diff_by_ref, diff_page
from jupyter_smx.kernel.display.provenance import provenance_page
from jupyter_smx.kernel.failures.exceptions import StillRunning
from jupyter_smx.kernel.handles.cost import cost_page
from jupyter_smx.kernel.handles.job import write
from jupyter_smx.kernel.logs import reader
from jupyter_smx.kernel.magics import subcommand_options
from jupyter_smx.kernel.options.defaults import Defaults
from jupyter_smx.kernel.text.formats import format_start_reason
from jupyter_smx.kernel.text.pages import (
    advice_page,
    facts_page,
    format_keep_alive,
    jobs_page,
    pools_page,
    text_page,
    types_page,
)
from jupyter_smx.model import duration
from jupyter_smx.model.errors import ResourceNotFoundError, ValidationError, suggest_names
from jupyter_smx.model.spec.array import ArraySummary, format_counts
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.rerun_spec import spec_for_rerun

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import Job

_PAIR = 2


class CommandContext(Struct, frozen=True):
    """What a subcommand works with.

    The controller, where its page goes, which job a word means, who hands a job in, the kernel's defaults.
    """

    client: Client
    show: Callable[[str, str], None]
    refer: Callable[[str], str]
    submit: Callable[[JobSpec], object]
    defaults: Defaults
    prog: str = "%smx"


class Command(Struct, frozen=True):
    """One subcommand: its arguments, what it does, and the function that does it."""

    usage: str
    help: str
    run: Callable[[list[str], CommandContext], None]


def run(words: list[str], context: CommandContext) -> None:
    """Run one subcommand; none shows the manual.

    :raises ValidationError: there is no such subcommand, or its arguments are not what it takes.
    :raises SmxError: whatever the controller answers.
    """
    if not words or words[0] in ("-h", "--help", "help"):
        context.show(*text_page(manual(context.prog)))
        return
    name, *arguments = words
    command = COMMANDS.get(name)
    if command is None:
        raise ValidationError(
            f"{context.prog}: {name!r} is not a subcommand.",
            field="line",
            value=name,
            cure=suggest_names(name, COMMANDS) or f"There are {', '.join(COMMANDS)}.",
        )
    command.run(arguments, context)


def manual(prog: str) -> str:
    """Write the page that lists the subcommands."""
    rows = [(f"{prog} {name} {command.usage}".rstrip(), command.help) for name, command in COMMANDS.items()]
    width = max(len(usage) for usage, _ in rows)
    return "Jobs and warm pools.\n\n" + "\n".join(f"  {usage.ljust(width)}  {text}" for usage, text in rows)


def _jobs(arguments: list[str], context: CommandContext) -> None:
    _check_count("jobs", arguments, context, 0)
    context.show(*jobs_page(context.client.jobs(tasks=False), time.time(), context.client.arrays()))


def _logs(arguments: list[str], context: CommandContext) -> None:
    request = subcommand_options.parse_log_words(arguments, context.prog)
    job = _resolve_job("logs", [request.job] if request.job else [], context)
    host = request.host_of(job)
    if request.names:
        write("".join(f"{stream.name}\n" for stream in request.streams_of(job)))
        return
    if not request.follows:
        for piece in reader.read_all(context.client, job, host, request.last):
            write(piece)
        return
    try:
        reader.follow(context.client, job, write, host, request.last)
    except KeyboardInterrupt:
        raise StillRunning(job.name) from None


def _stop(arguments: list[str], context: CommandContext) -> None:
    found = job_refs.stop_job_or_array(context.client, _resolve_ref("stop", arguments, context))
    said = format_counts(found) if isinstance(found, ArraySummary) else found.status().value
    context.show(*text_page(f"{found.name}: {said}."))


def _interrupt(arguments: list[str], context: CommandContext) -> None:
    job = context.client.interrupt(_resolve_job("interrupt", arguments, context).id)
    context.show(*text_page(f"{job.name}: {job.state.value}."))


def _why(arguments: list[str], context: CommandContext) -> None:
    context.show(*text_page(format_start_reason(_resolve_job("why", arguments, context))))


def _cost(arguments: list[str], context: CommandContext) -> None:
    found = context.client.job_bill(_resolve_job("cost", arguments, context).id)
    context.show(*cost_page(found.name, found.bill))


def _advice(arguments: list[str], context: CommandContext) -> None:
    context.show(*advice_page(context.client.advice(_resolve_job("advice", arguments, context).id)))


def _diff(arguments: list[str], context: CommandContext) -> None:
    if len(arguments) > _PAIR:
        _check_count("diff", arguments, context, _PAIR)
    first = _resolve_ref("diff", arguments[:1], context)
    other = _resolve_ref("diff", arguments[1:], context) if arguments[1:] else ""
    context.show(*diff_page(diff_by_ref(context.client, first, other)))


def _provenance(arguments: list[str], context: CommandContext) -> None:
    context.show(*provenance_page(_resolve_job("provenance", arguments, context)))


def _describe(arguments: list[str], context: CommandContext) -> None:
    from jupyter_smx.kernel.sagemaker.describe import description, format_description, local_context  # noqa: PLC0415 - which few need

    job = _resolve_job("describe", arguments, context)
    context.show(
        *text_page(format_description(description(job, local_context(), context.client.job_bill(job.id).bill)))
    )


def _events(arguments: list[str], context: CommandContext) -> None:
    from jupyter_smx.kernel.sagemaker.describe import local_context  # noqa: PLC0415 - as above
    from jupyter_smx.kernel.sagemaker.events import events_of, follow_events  # noqa: PLC0415 - as above

    request = subcommand_options.parse_event_words(arguments, context.prog)
    job = _resolve_job("events", [request.job] if request.job else [], context)
    try:
        for event in (
            follow_events(context.client, job, local_context()) if request.follow else events_of(job, local_context())
        ):
            write(f"{json.encode(event).decode()}\n")
    except KeyboardInterrupt:
        raise StillRunning(job.name) from None


def _rerun(arguments: list[str], context: CommandContext) -> None:
    submitted_at = time.time()
    context.submit(spec_for_rerun(_resolve_job("rerun", arguments, context), submitted_at))


def _export(arguments: list[str], context: CommandContext) -> None:
    from jupyter_smx.kernel.sagemaker.export_array import export_by_ref  # noqa: PLC0415 - archives, which few need

    if not arguments or len(arguments) > 2:  # noqa: PLR2004 - a job and a folder
        _check_count("export", arguments, context, 2)
    name, made = export_by_ref(context.client, _resolve_ref("export", arguments[:1], context), "".join(arguments[1:]))
    context.show(*text_page(f"{name} is in {made.folder}: {', '.join(made.files)}"))


def _config(arguments: list[str], context: CommandContext) -> None:
    context.defaults.set_options(arguments)
    context.show(*context.defaults.page())


def _pools(arguments: list[str], context: CommandContext) -> None:
    _check_count("pools", arguments, context, 0)
    context.show(*pools_page(context.client.pools(), time.time()))


def _extend(arguments: list[str], context: CommandContext) -> None:
    ref, period = _check_count("extend", arguments, context, 2)
    pool = context.client.set_keep_alive(ref, duration.parse(period))
    context.show(*text_page(format_keep_alive(pool, time.time())))


def _release(arguments: list[str], context: CommandContext) -> None:
    pool = context.client.release(_check_count("release", arguments, context, 1)[0])
    context.show(*text_page(f"{pool.name}: {pool.state}."))


def _instance_types(arguments: list[str], context: CommandContext) -> None:
    _check_count("types", arguments, context, 0)
    context.show(*types_page(context.client.instance_types()))


def _doctor(arguments: list[str], context: CommandContext) -> None:
    _check_count("doctor", arguments, context, 0)
    from jupyter_smx.kernel.display.doctor import collect_facts  # noqa: PLC0415 - reads package metadata, which nobody else needs

    context.show(*facts_page(collect_facts(context.client)))


COMMANDS = {
    "jobs": Command("", "the newest jobs", _jobs),
    "logs": Command(subcommand_options.LOGS_USAGE, subcommand_options.LOGS_HELP, _logs),
    "stop": Command("[JOB]", "stop a job", _stop),
    "interrupt": Command("[JOB]", "take the hosts of a spot job away, as a spot market does", _interrupt),
    "why": Command("[JOB]", "why its start was warm or cold", _why),
    "cost": Command("[JOB]", "what it costs, and what one of its steps costs", _cost),
    "advice": Command("[JOB]", "how it could run better, as far as what it used tells", _advice),
    "diff": Command("[JOB] [OTHER]", "in what two jobs differ; one name compares it with the run before it", _diff),
    "provenance": Command("[JOB]", "what a job ran with: code, packages, inputs, hosts, seeds", _provenance),
    "describe": Command("[JOB]", "the job as DescribeTrainingJob or DescribeProcessingJob would", _describe),
    "events": Command(subcommand_options.EVENTS_USAGE, subcommand_options.EVENTS_HELP, _events),
    "rerun": Command("[JOB]", "run a job again: same code, variables, inputs and hosts", _rerun),
    "export": Command(
        "JOB [FOLDER]", "a job or an array as a folder: code, packages, inputs and SageMaker call", _export
    ),
    "pools": Command("", "the warm pools", _pools),
    "extend": Command("POOL DURATION", "keep a pool so long from now, as 15m", _extend),
    "release": Command("POOL", "let a pool go", _release),
    "config": Command("[OPTION=VALUE …]", "defaults of this kernel: engine, image, instance_type, keep_alive", _config),
    "types": Command("", "what hosts can be, and what they cost", _instance_types),
    "doctor": Command("", "what is found and what works here", _doctor),
}


def _check_count(name: str, arguments: list[str], context: CommandContext, count: int) -> list[str]:
    if len(arguments) == count:
        return arguments
    usage = COMMANDS[name].usage
    raise ValidationError(
        f"{context.prog} {name} takes {usage or 'no arguments'}, not {' '.join(arguments)!r}.",
        field="line",
        value=" ".join(arguments),
        rule="Each word is one of them, and one with blanks stands in quotes.",
        cure=f"{context.prog} help lists the subcommands.",
    )


def _resolve_job(name: str, arguments: list[str], context: CommandContext) -> Job:
    """Read the job that is meant, as :func:`_resolve_ref`.

    :raises ValidationError: a whole array is meant, and this takes one job.
    """
    return job_refs.resolve_job(context.client, _resolve_ref(name, arguments, context))


def _resolve_ref(name: str, arguments: list[str], context: CommandContext) -> str:
    """Say which job or array is meant; no word means the last one of this kernel, or the newest job of all."""
    if len(arguments) > 1:
        _check_count(name, arguments, context, 1)
    ref = context.refer(arguments[0] if arguments else "")
    if ref:
        return ref
    newest = context.client.jobs(limit=1)
    if not newest:
        raise ResourceNotFoundError(
            f"{context.prog} {name}: there is no job yet.",
            field="job",
            rule="Without a name it is about the newest one.",
            cure="%%train makes one.",
        )
    return newest[0].id
