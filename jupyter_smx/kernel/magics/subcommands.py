"""What ``%smx`` can do: one table of subcommands."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct, json

from jupyter_smx.kernel.client import job_refs
from jupyter_smx.kernel.client.client import Client
from jupyter_smx.kernel.display.advice import advice_page
from jupyter_smx.kernel.display.diff import diff_by_ref, diff_page
from jupyter_smx.kernel.display.provenance import provenance_page
from jupyter_smx.kernel.failures.exceptions import StillRunning
from jupyter_smx.kernel.handles.cost import cost_page
from jupyter_smx.kernel.handles.job import write
from jupyter_smx.kernel.logs import options, reader
from jupyter_smx.kernel.options import events
from jupyter_smx.kernel.options.defaults import Defaults
from jupyter_smx.kernel.request.rerun import spec_for_rerun
from jupyter_smx.kernel.text.instance_types import types_page
from jupyter_smx.kernel.text.pages import facts_page, format_keep_alive, jobs_page, pools_page, text_page
from jupyter_smx.kernel.text.start_reason import format_start_reason
from jupyter_smx.model import duration
from jupyter_smx.model.errors import ResourceNotFoundError, ValidationError, suggest_names
from jupyter_smx.model.spec.array import ArraySummary, format_counts
from jupyter_smx.model.spec.job_spec import JobSpec

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


def run(words: list[str], desk: CommandContext) -> None:
    """Run one subcommand; none shows the manual.

    :raises ValidationError: there is no such subcommand, or its arguments are not what it takes.
    :raises SmxError: whatever the controller answers.
    """
    if not words or words[0] in ("-h", "--help", "help"):
        desk.show(*text_page(manual(desk.prog)))
        return
    name, *arguments = words
    command = COMMANDS.get(name)
    if command is None:
        raise ValidationError(
            f"{desk.prog}: {name!r} is not a subcommand.",
            field="line",
            value=name,
            cure=suggest_names(name, COMMANDS) or f"There are {', '.join(COMMANDS)}.",
        )
    command.run(arguments, desk)


def manual(prog: str) -> str:
    """Write the page that lists the subcommands."""
    rows = [(f"{prog} {name} {command.usage}".rstrip(), command.help) for name, command in COMMANDS.items()]
    width = max(len(usage) for usage, _ in rows)
    return "Jobs and warm pools.\n\n" + "\n".join(f"  {usage.ljust(width)}  {text}" for usage, text in rows)


def _jobs(arguments: list[str], desk: CommandContext) -> None:
    _check_count("jobs", arguments, desk, 0)
    desk.show(*jobs_page(desk.client.jobs(tasks=False), time.time(), desk.client.arrays()))


def _logs(arguments: list[str], desk: CommandContext) -> None:
    wish = options.read(arguments, desk.prog)
    job = _resolve_job("logs", [wish.job] if wish.job else [], desk)
    host = wish.host_of(job)
    if wish.names:
        write("".join(f"{stream.name}\n" for stream in wish.streams_of(job)))
        return
    if not wish.follows:
        for piece in reader.read_all(desk.client, job, host, wish.last):
            write(piece)
        return
    try:
        reader.follow(desk.client, job, write, host, wish.last)
    except KeyboardInterrupt:
        raise StillRunning(job.name) from None


def _stop(arguments: list[str], desk: CommandContext) -> None:
    found = job_refs.stop_job_or_array(desk.client, _resolve_ref("stop", arguments, desk))
    said = format_counts(found) if isinstance(found, ArraySummary) else found.status().value
    desk.show(*text_page(f"{found.name}: {said}."))


def _interrupt(arguments: list[str], desk: CommandContext) -> None:
    job = desk.client.interrupt(_resolve_job("interrupt", arguments, desk).id)
    desk.show(*text_page(f"{job.name}: {job.state.value}."))


def _why(arguments: list[str], desk: CommandContext) -> None:
    desk.show(*text_page(format_start_reason(_resolve_job("why", arguments, desk))))


def _cost(arguments: list[str], desk: CommandContext) -> None:
    found = desk.client.job_bill(_resolve_job("cost", arguments, desk).id)
    desk.show(*cost_page(found.name, found.bill))


def _advice(arguments: list[str], desk: CommandContext) -> None:
    desk.show(*advice_page(desk.client.advice(_resolve_job("advice", arguments, desk).id)))


def _diff(arguments: list[str], desk: CommandContext) -> None:
    if len(arguments) > _PAIR:
        _check_count("diff", arguments, desk, _PAIR)
    first = _resolve_ref("diff", arguments[:1], desk)
    other = _resolve_ref("diff", arguments[1:], desk) if arguments[1:] else ""
    desk.show(*diff_page(diff_by_ref(desk.client, first, other)))


def _provenance(arguments: list[str], desk: CommandContext) -> None:
    desk.show(*provenance_page(_resolve_job("provenance", arguments, desk)))


def _describe(arguments: list[str], desk: CommandContext) -> None:
    from jupyter_smx.kernel.sagemaker.describe import description, format_description, local_context  # noqa: PLC0415 - which few need

    job = _resolve_job("describe", arguments, desk)
    desk.show(*text_page(format_description(description(job, local_context(), desk.client.job_bill(job.id).bill))))


def _events(arguments: list[str], desk: CommandContext) -> None:
    from jupyter_smx.kernel.sagemaker.describe import local_context  # noqa: PLC0415 - as above
    from jupyter_smx.kernel.sagemaker.events import events_of, follow_events  # noqa: PLC0415 - as above

    wish = events.read(arguments, desk.prog)
    job = _resolve_job("events", [wish.job] if wish.job else [], desk)
    try:
        for event in (
            follow_events(desk.client, job, local_context()) if wish.follow else events_of(job, local_context())
        ):
            write(f"{json.encode(event).decode()}\n")
    except KeyboardInterrupt:
        raise StillRunning(job.name) from None


def _rerun(arguments: list[str], desk: CommandContext) -> None:
    submitted_at = time.time()
    desk.submit(spec_for_rerun(_resolve_job("rerun", arguments, desk), submitted_at))


def _export(arguments: list[str], desk: CommandContext) -> None:
    from jupyter_smx.kernel.sagemaker.export_array import export_by_ref  # noqa: PLC0415 - archives, which few need

    if not arguments or len(arguments) > 2:  # noqa: PLR2004 - a job and a folder
        _check_count("export", arguments, desk, 2)
    name, made = export_by_ref(desk.client, _resolve_ref("export", arguments[:1], desk), "".join(arguments[1:]))
    desk.show(*text_page(f"{name} is in {made.folder}: {', '.join(made.files)}"))


def _config(arguments: list[str], desk: CommandContext) -> None:
    desk.defaults.set_options(arguments)
    desk.show(*desk.defaults.page())


def _pools(arguments: list[str], desk: CommandContext) -> None:
    _check_count("pools", arguments, desk, 0)
    desk.show(*pools_page(desk.client.pools(), time.time()))


def _extend(arguments: list[str], desk: CommandContext) -> None:
    ref, period = _check_count("extend", arguments, desk, 2)
    pool = desk.client.set_keep_alive(ref, duration.parse(period))
    desk.show(*text_page(format_keep_alive(pool, time.time())))


def _release(arguments: list[str], desk: CommandContext) -> None:
    pool = desk.client.release(_check_count("release", arguments, desk, 1)[0])
    desk.show(*text_page(f"{pool.name}: {pool.state}."))


def _instance_types(arguments: list[str], desk: CommandContext) -> None:
    _check_count("types", arguments, desk, 0)
    desk.show(*types_page(desk.client.instance_types()))


def _doctor(arguments: list[str], desk: CommandContext) -> None:
    _check_count("doctor", arguments, desk, 0)
    from jupyter_smx.kernel.display.doctor import collect_facts  # noqa: PLC0415 - reads package metadata, which nobody else needs

    desk.show(*facts_page(collect_facts(desk.client)))


COMMANDS = {
    "jobs": Command("", "the newest jobs", _jobs),
    "logs": Command(options.USAGE, options.HELP, _logs),
    "stop": Command("[JOB]", "stop a job", _stop),
    "interrupt": Command("[JOB]", "take the hosts of a spot job away, as a spot market does", _interrupt),
    "why": Command("[JOB]", "why its start was warm or cold", _why),
    "cost": Command("[JOB]", "what it costs, and what one of its steps costs", _cost),
    "advice": Command("[JOB]", "how it could run better, as far as what it used tells", _advice),
    "diff": Command("[JOB] [OTHER]", "in what two jobs differ; one name compares it with the run before it", _diff),
    "provenance": Command("[JOB]", "what a job ran with: code, packages, inputs, hosts, seeds", _provenance),
    "describe": Command("[JOB]", "the job as DescribeTrainingJob or DescribeProcessingJob would", _describe),
    "events": Command(events.USAGE, events.HELP, _events),
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


def _check_count(name: str, arguments: list[str], desk: CommandContext, count: int) -> list[str]:
    if len(arguments) == count:
        return arguments
    usage = COMMANDS[name].usage
    raise ValidationError(
        f"{desk.prog} {name} takes {usage or 'no arguments'}, not {' '.join(arguments)!r}.",
        field="line",
        value=" ".join(arguments),
        rule="Each word is one of them, and one with blanks stands in quotes.",
        cure=f"{desk.prog} help lists the subcommands.",
    )


def _resolve_job(name: str, arguments: list[str], desk: CommandContext) -> Job:
    """Read the job that is meant, as :func:`_resolve_ref`.

    :raises ValidationError: a whole array is meant, and this takes one job.
    """
    return job_refs.resolve_job(desk.client, _resolve_ref(name, arguments, desk))


def _resolve_ref(name: str, arguments: list[str], desk: CommandContext) -> str:
    """Say which job or array is meant; no word means the last one of this kernel, or the newest job of all."""
    if len(arguments) > 1:
        _check_count(name, arguments, desk, 1)
    ref = desk.refer(arguments[0] if arguments else "")
    if ref:
        return ref
    newest = desk.client.jobs(limit=1)
    if not newest:
        raise ResourceNotFoundError(
            f"{desk.prog} {name}: there is no job yet.",
            field="job",
            rule="Without a name it is about the newest one.",
            cure="%%train makes one.",
        )
    return newest[0].id
