"""Build the provenance of a job from its request, its hosts and their end records. Pure."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import ValidationError, convert
from msgspec.structs import replace

from jupyter_smx.model import redaction
from jupyter_smx.model.results.provenance import HostLimits, HostProvenance, InputDigest, Machine, OwnModule, Provenance
from jupyter_smx.policy.hosts.seeds import seed_note

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from jupyter_smx.model.records.cluster import Host
    from jupyter_smx.model.records.job import Job


_Row = TypeVar("_Row")


def provenance_of(job: Job, hosts: Sequence[Host], records: Mapping[str, Mapping[str, Any]]) -> Provenance:
    """Assemble the provenance of a job; ``records`` are the end records by host, for hosts that have one."""
    spec = job.spec
    records = _in_order(hosts, records)
    first = next(iter(records.values()), {})
    packages = {name: version for record in reversed([*records.values()]) for name, version in _packages(record)}
    machine = hosts[0].machine if hosts else Machine()
    return Provenance(
        code_sha256=hashlib.sha256(spec.source.encode(errors="surrogatepass")).hexdigest(),
        image=job.image.display_name_with_digest() if job.image else "",
        python=machine.executable or spec.python,
        python_version=hosts[0].python_version if hosts else "",
        packages=dict(sorted(packages.items(), key=lambda item: item[0].lower())),
        own_modules=_rows(first, "own_modules", tuple[OwnModule, ...]),
        inputs=_inputs(records),
        sent_sha256=spec.send.sha256 if spec.send else "",
        source_dir_sha256=spec.source_dir.sha256 if spec.source_dir else "",
        hosts=tuple(_host(host) for host in hosts),
        seeds=seed_note(spec, first.get("modules", ()), str(first.get("hash_seed", ""))),
        revision=spec.revision,
        notes=tuple(_notes(hosts, records)),
    )


def _in_order(hosts: Sequence[Host], records: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
    """Sort records, which arrive as hosts end, in the order of the hosts."""
    names = [host.name for host in hosts if host.name in records]
    return {name: records[name] for name in dict.fromkeys([*names, *records])}


def _packages(record: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    return dict(record.get("packages", {})).items()


def machine_of(greeting: Mapping[str, Any]) -> Machine:
    """Read the machine from an agent's reply to ``hello``; an older agent reports none."""
    try:
        return convert(greeting.get("machine", {}), Machine)
    except ValidationError:
        return Machine()


def limits_of(greeting: Mapping[str, Any]) -> HostLimits:
    """Read the limits of jobs from an agent's reply; an older agent reports none."""
    said = greeting.get("limits", {})
    try:
        return convert({**said, "memory_bytes": said.get("memory", 0)}, HostLimits)
    except (ValidationError, TypeError, AttributeError):
        return HostLimits()


def _host(host: Host) -> HostProvenance:
    return HostProvenance(
        host=host.name,
        instance_type=host.instance_type,
        isolation=host.isolation,
        isolation_reason=host.isolation_reason,
        given_up=host.given_up,
        limits=host.limits,
        machine=host.machine,
    )


def _rows(record: Mapping[str, Any], field: str, kind: type[tuple[_Row, ...]]) -> tuple[_Row, ...]:
    try:
        return convert(record.get(field, ()), kind)
    except ValidationError:
        return ()  # an agent of another version: leave its data out instead of using a part


def _inputs(records: Mapping[str, Mapping[str, Any]]) -> tuple[InputDigest, ...]:
    """Return one digest for each channel, or one for each host if they differ."""
    found: dict[str, dict[str, InputDigest]] = {}
    for host, record in records.items():
        for digest in _rows(record, "inputs", tuple[InputDigest, ...]):
            found.setdefault(digest.channel, {})[host] = replace(digest, reason=redaction.redact_text(digest.reason))
    rows: list[InputDigest] = []
    for by_host in found.values():
        if len(set(by_host.values())) == 1:
            rows.append(next(iter(by_host.values())))
        else:
            rows += [replace(digest, host=host) for host, digest in by_host.items()]
    return tuple(rows)


def _notes(hosts: Sequence[Host], records: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for host in hosts:
        if host.name not in records:
            yield f"{host.name} left no record, so its imports are not listed."
    yield from dict.fromkeys(
        redaction.redact_text(str(note)) for record in records.values() for note in record.get("notes", ())
    )
    said = {host: dict(_packages(record)) for host, record in records.items()}
    first_host, first = next(iter(said.items()), ("", {}))
    for name, packages in said.items():
        differing = sorted(one for one in packages.keys() & first if packages[one] != first[one])
        if differing:
            yield f"{name} and {first_host} had different versions of {', '.join(differing)}."
