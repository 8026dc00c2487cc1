"""The provenance of a job as a page for people."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from jupyter_smx.kernel.text.pages import facts_page, text_page
from jupyter_smx.model.redaction import format_hyperparameters, redact_text
from jupyter_smx.model.text import format_count, format_size

if TYPE_CHECKING:
    from jupyter_smx.kernel.text.tables import Page
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.results.provenance import HostLimits, HostProvenance, InputDigest, Provenance


def provenance_page(job: Job) -> Page:
    """Show what a job ran with."""
    found = job.provenance
    if found is None:
        why = "provenance is recorded when the job ends" if job.ended_at is None else "it ended before it ran"
        return text_page(f"{job.name} is {job.state.value}: {why}.")
    facts = {job.name: _code(job, found) | _python(found) | _data(job, found)}
    facts[job.name]["seeds"] = found.seeds.sentence
    facts[job.name] |= {host.host: _host(host) for host in found.hosts}
    if found.notes:
        facts[job.name]["notes"] = " ".join(found.notes)
    return facts_page(facts)


def _code(job: Job, found: Provenance) -> dict[str, Any]:
    spec = job.spec.fill_job_name(job.name)
    facts: dict[str, Any] = {"code": f"SHA-256 {found.code_sha256}"}
    if spec.command:
        facts["command"] = redact_text(shlex.join(spec.command))
    if spec.source_dir:
        facts["source folder"] = f"{spec.source_dir.folder or 'several folders'}, SHA-256 {found.source_dir_sha256}"
        facts["source ignore"] = spec.source_ignore
    if found.revision:
        on = f" on {found.revision.branch}" if found.revision.branch else ""
        facts["commit"] = f"{found.revision.commit}{on} ({found.revision.folder})"
    if spec.hyperparameters:
        facts["hyperparameters"] = format_hyperparameters(spec.hyperparameters)
    return facts


def _python(found: Provenance) -> dict[str, Any]:
    packages = [f"{name} {version}" for name, version in found.packages.items()]
    own = {one.name: f"{one.path}, SHA-256 {one.sha256 or 'unknown'}" for one in found.own_modules}
    facts: dict[str, Any] = {"image": found.image} if found.image else {}
    facts |= {"python": f"{found.python_version} ({found.python})", "packages": packages}
    return facts | ({"local modules": own} if own else {})


def _data(job: Job, found: Provenance) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if found.inputs:
        names = {one: f"{one.channel} on {one.host}" if one.host else one.channel for one in found.inputs}
        facts["inputs"] = {names[one]: _input(one) for one in found.inputs}
    if job.spec.send:
        facts["variables"] = f"{', '.join(job.spec.send.sizes)}, SHA-256 {found.sent_sha256}"
    return facts


def _input(one: InputDigest) -> str:
    if one.method == "none":
        return f"no digest: {one.reason}"
    of = "content" if one.method == "content" else "names, sizes and times"
    return f"{format_count(one.files, 'file')}, {format_count(one.bytes, 'byte')}, SHA-256 of {of} {one.sha256}"


def _limits(limits: HostLimits) -> str:
    """Describe the limits of a host; "" if it reports none."""
    cpus = format_count(limits.cpus, "CPU") if limits.cpus else ""
    memory = f"{format_size(limits.memory_bytes)} including swap" if limits.memory_bytes else ""
    said = ", ".join(filter(None, (cpus, memory)))
    return f"{said or 'none'} ({limits.reason})" if limits.reason else said


def _host(host: HostProvenance) -> dict[str, Any]:
    machine = host.machine
    facts = {
        "instance type": host.instance_type,
        "isolation": host.isolation + (f" ({host.isolation_reason})" if host.isolation_reason else ""),
        "limitations": list(host.given_up),
        "limits": _limits(host.limits),
        "machine": machine.hostname,
        "platform": machine.platform,
        "CPU": f"{machine.cpu_model}, {machine.vcpus} of {machine.cpus}" if machine.cpus else "",
        "memory": format_size(machine.memory_bytes) if machine.memory_bytes else "",
        "GPUs": list(machine.gpus),
    }
    return {name: value for name, value in facts.items() if value}
