"""Compare two jobs: code, requests, packages, inputs, hosts and results."""

from __future__ import annotations

import shlex
from difflib import unified_diff
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from jupyter_smx.model.options.table import PLAIN
from jupyter_smx.model.redaction import format_hyperparameters, is_secret, redact_text
from jupyter_smx.model.spec.instance import HOMOGENEOUS
from jupyter_smx.model.spec.mount import format_mounts
from jupyter_smx.model.status import SecondaryStatus, is_final
from jupyter_smx.model.text import format_count, format_duration, format_list, format_options, format_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jupyter_smx.model.options.option import Option
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.results.provenance import InputDigest
    from jupyter_smx.model.spec.channel import Channel
    from jupyter_smx.model.spec.instance import InstanceGroup

_PLACEHOLDER = "(not shown)"
_DIGITS = 12
"""Digits of a hash that are shown, enough to distinguish two."""
_FEW = 4

Facts = dict[str, str]


class Change(Struct, frozen=True, kw_only=True):
    """One difference of two jobs; None on the side without such a value."""

    section: str
    name: str
    before: str | None = None
    after: str | None = None

    def text(self) -> str:
        """Format it in a line: ``hyperparameter lr (0.1 → 0.2)``."""
        what = f"{self.section} {self.name}".strip()
        if self.before is None:
            return f"{what} (new: {self.after})"
        if self.after is None:
            return f"{what} (was {self.before})"
        return f"{what} ({self.before} → {self.after})"


class Comparison(Struct, frozen=True, kw_only=True):
    """Two jobs by name, in what they differ, their code as lines of a unified diff, and what could not be compared."""

    before: str
    after: str
    sentence: str
    code: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    unknown: tuple[str, ...] = ()


def compare(before: Job, after: Job) -> Comparison:
    """Return the differences of two jobs, without secrets in variables and URLs."""
    code = tuple(_code(before, after))
    changes = tuple(_changes(before, after))
    return Comparison(
        before=before.name,
        after=after.name,
        sentence=_unfinished_note(before, after) + _sentence(changes, code_differs=bool(code)),
        code=code,
        changes=changes,
        unknown=tuple(_limitations(before, after)),
    )


def _unfinished_note(before: Job, after: Job) -> str:
    names = [job.name for job in (before, after) if not is_final(job.state)]
    # Two jobs that have not begun have nothing but what they were given.
    if not names or before.state is after.state is SecondaryStatus.PENDING:
        return ""
    verb = "is" if len(names) == 1 else "are"
    return f"{' and '.join(names)} {verb} not over, so results are not compared yet. "


def _sentence(changes: tuple[Change, ...], *, code_differs: bool) -> str:
    named = ["the code"] if code_differs else []
    if len(named) + len(changes) <= _FEW:
        named += [change.text() for change in changes]
    else:
        counts: dict[str, int] = {}
        for change in changes:
            counts[change.section] = counts.get(change.section, 0) + 1
        named += [section if count == 1 else f"{section} ({count})" for section, count in counts.items()]
    if not named:
        return "No differences."
    return f"No differences except {format_list(named, most=len(named))}."


def _code(before: Job, after: Job) -> Iterator[str]:
    # Magics push the code down by their own lines, which are no part of it.
    old, new = (_source(job).strip("\n").splitlines() for job in (before, after))
    return unified_diff(old, new, before.name, after.name, lineterm="")


def _source(job: Job) -> str:
    return redact_text(job.spec.source) if job.spec.is_only_command() else job.spec.source


def _changes(before: Job, after: Job) -> Iterator[Change]:
    learnt = before.provenance is not None and after.provenance is not None
    is_over = is_final(before.state) and is_final(after.state)
    if not learnt:
        # What only one of the two has of its hosts, as the last digit of a version, is no difference.
        before, after = (replace(job, provenance=None) for job in (before, after))
    incomparable = {channel for channel, methods in _methods(before, after).items() if len(methods) > 1}
    for section, facts in _SECTIONS.items():
        if (section in _PROVENANCE_SECTIONS and not learnt) or (section in _RESULT_SECTIONS and not is_over):
            continue
        old, new = facts(before), facts(after)
        for name in sorted({*old, *new}, key=lambda name: (name not in old, name not in new, name)):
            if old.get(name) == new.get(name) or (section == "input" and name in incomparable):
                continue
            hide = section == _ENVIRONMENT and is_secret(name)
            yield Change(
                section=section,
                name=name,
                before=_PLACEHOLDER if hide and name in old else old.get(name),
                after=_PLACEHOLDER if hide and name in new else new.get(name),
            )


def _drop_empty(facts: Mapping[str, object]) -> Facts:
    """Drop empty values."""
    return {name: str(value) for name, value in facts.items() if value not in (None, "", ())}


def _request(job: Job) -> Facts:
    spec = job.spec
    return _drop_empty(
        {
            "kind": spec.kind,
            "instances": spec.instances(),
            "instance groups": ", ".join(filter(None, map(_group, spec.instance_groups))),
            "distribution": spec.distribution.option_value() if spec.distribution else "",
            "image": job.image.display_name() if job.image else spec.image,
            "mounts": format_mounts(spec.mounts),
            "engine options": format_options(spec.engine_options),
            **{option.label: _plain_value(option, getattr(spec, option.field)) for option in PLAIN if option.label},
            "entry point": spec.entry_point,
            "command": redact_text(shlex.join(spec.command)),
            "arguments": redact_text(shlex.join(spec.arguments)),
            "received variables": ", ".join(sorted(spec.receive)),
            **{f"metric {name}": regex for name, regex in spec.metrics.items()},
        }
    )


def _plain_value(option: Option, value: str | int | bool) -> str:
    """Write the value of a plain option; "" for none."""
    if not value:
        return ""
    if option.value == "duration":
        return format_duration(int(value))
    if option.value == "size":
        return format_size(int(value))
    return "yes" if option.is_flag else redact_text(str(value))


def _group(group: InstanceGroup) -> str:
    """Return the name of a group and of the group that it helps; "" for the only group of a plain job."""
    helps = f" helps {group.until}" if group.until else ""
    return "" if group.name == HOMOGENEOUS else f"{group.name}{helps}"


def _variables(environment: Mapping[str, str]) -> Facts:
    # A secret is compared and not shown.
    return {name: value if is_secret(name) else redact_text(value) for name, value in environment.items()}


def _python(job: Job) -> Facts:
    version = job.python_version() or job.spec.python_version
    alone = "none" if job.spec.requirements_only else ""
    interpreter = job.spec.python if job.interpreter is None else job.interpreter
    return _drop_empty({"interpreter": interpreter, "version": version, "packages of the interpreter": alone}) | {
        f"requirement {line}": "asked for" for line in job.spec.requirements
    }


def _packages(job: Job) -> Facts:
    return dict(job.provenance.packages) if job.provenance else {}


def _files(job: Job) -> Facts:
    spec, found = job.spec, job.provenance
    facts = {one.name: _short(one.sha256) or one.path for one in found.own_modules} if found else {}
    return facts | _drop_empty({"source folder": _short(spec.source_dir.sha256) if spec.source_dir else ""})


def _inputs(job: Job) -> Facts:
    facts = {f"{one.name} from": f"{redact_text(one.source)} ({_format_channel(one)})" for one in job.spec.channels}
    return facts | {_channel(one): _digest(one) for one in (job.provenance.inputs if job.provenance else ())}


def _format_channel(one: Channel) -> str:
    """Format how a job gets a channel: its usual properties, and those that were set besides."""
    asked = {
        "groups": "+".join(one.groups),
        "type": one.data_type if one.data_type != "S3Prefix" else "",
        "content_type": one.content_type,
        "path": one.path,
    }
    return ", ".join([one.mode, one.distribution, *(f"{name}={value}" for name, value in asked.items() if value)])


def _outputs(job: Job) -> Facts:
    return {
        one.name: f"{one.path}{f' to {redact_text(one.destination)}' if one.destination else ''} ({one.mode})"
        for one in job.spec.outputs
    }


def _channel(one: InputDigest) -> str:
    return f"{one.channel} on {one.host}" if one.host else one.channel


def _digest(one: InputDigest) -> str:
    return f"{one.method} {_short(one.sha256)}, {format_count(one.files, 'file')}, {format_count(one.bytes, 'byte')}"


def _sent_variables(job: Job) -> Facts:
    facts: Facts = {}
    for name, sent in (("all together", job.spec.send), ("of all tasks together", job.spec.shared)):
        if sent is not None:
            facts |= {each: f"{size} bytes" for each, size in sent.sizes.items()} | {name: _short(sent.sha256)}
    return facts


def _hosts(job: Job) -> Facts:
    facts: Facts = {}
    for host in job.provenance.hosts if job.provenance else ():
        machine = host.machine
        about = {
            "isolation": host.isolation,
            "limitations": " ".join(host.given_up),
            "machine": machine.hostname,
            "platform": machine.platform,
            "CPU": machine.cpu_model,
            "vCPUs": machine.vcpus or "",
            "memory": format_size(machine.memory_bytes) if machine.memory_bytes else "",
            "GPUs": ", ".join(machine.gpus),
        }
        facts |= _drop_empty({f"{host.host} {name}": value for name, value in about.items()})
    return facts


def _revision(job: Job) -> Facts:
    found = job.spec.revision
    return {} if found is None else _drop_empty({"commit": found.commit[:_DIGITS], "branch": found.branch})


def _outcome(job: Job) -> Facts:
    ran = "" if job.started_at is None or job.ended_at is None else format_duration(job.ended_at - job.started_at)
    return _drop_empty({"status": job.status().value, "failure": job.failure_cause(), "duration": ran})


def _metrics(job: Job) -> Facts:
    several = len({metric.host for metric in job.metrics}) > 1
    facts = {}
    for metric in job.metrics:
        name = f"{metric.name} on {metric.host}" if several else metric.name
        facts[name] = "nan" if metric.value is None else f"{metric.value:g}"
    return facts


def _short(sha256: str) -> str:
    return sha256[:_DIGITS]


_ENVIRONMENT = "environment variable"
_SECTIONS = {
    "option": _request,
    "hyperparameter": lambda job: format_hyperparameters(job.spec.hyperparameters),
    _ENVIRONMENT: lambda job: _variables(job.spec.environment),
    "Python": _python,
    "package": _packages,
    "own code": _files,
    "input": _inputs,
    "output": _outputs,
    "variable": _sent_variables,
    "git": _revision,
    "host": _hosts,
    "outcome": _outcome,
    "metric": _metrics,
}
"""Compared sections, in the order in which they are shown: inputs, machines, results."""


_PROVENANCE_SECTIONS = ("package", "own code", "host")
"""Sections that only a job with provenance has."""

_RESULT_SECTIONS = ("outcome", "metric")
"""Sections that a job has at its end."""


def _methods(before: Job, after: Job) -> dict[str, set[str]]:
    """Return, for each channel that both jobs had, the methods by which its digests were made."""
    old, new = (
        {_channel(one): one.method for one in (job.provenance.inputs if job.provenance else ())}
        for job in (before, after)
    )
    return {channel: {old[channel], new[channel]} for channel in sorted(old.keys() & new.keys())}


def _limitations(before: Job, after: Job) -> Iterator[str]:
    for job in (before, after):
        if not is_final(job.state):
            yield f"{job.name} is {job.state.value}: its imports and results are not known yet."
        elif job.provenance is None:
            yield f"{job.name} has no provenance record, so its packages, inputs and hosts are not compared."
    for channel, methods in _methods(before, after).items():
        if methods == {"listing"}:
            yield f"Input {channel} was compared by names, sizes and times, because its content is too large to read."
        elif len(methods) > 1 or "none" in methods:
            yield f"Input {channel} cannot be compared: its digests were made by {' and '.join(sorted(methods))}."
