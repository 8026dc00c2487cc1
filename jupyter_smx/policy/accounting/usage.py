"""Read the samples that an agent wrote, and add them up over hosts."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from jupyter_smx.model.results.usage import GpuUsage, HostUsage, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

_Line = TypeVar("_Line")

MIN_INTERVAL = 0.2
"""Minimum seconds between samples; for shorter times, rates from a host's counters are meaningless."""


class Gpu(Struct, frozen=True):
    """A GPU, as the first line names it."""

    id: str
    name: str = ""
    memory: int | None = None


class Head(Struct, frozen=True):
    """The first line of the file, which applies to all others."""

    version: int
    cpus: int | None = None
    memory: int | None = None
    disk: int | None = None
    note: str = ""
    gpus: tuple[Gpu, ...] = ()


class UsageSample(Struct, frozen=True, array_like=True):
    """One line. Counters count from the job's start; fields of later versions are ignored."""

    at: float
    cpu: float | None = None
    memory: int | None = None
    read: int | None = None
    written: int | None = None
    disk: int | None = None
    received: int | None = None
    sent: int | None = None
    gpus: tuple[tuple[float | None, int | None] | None, ...] | None = None


class Note(Struct, frozen=True):
    """A line about a missing measurement and its reason, or about GPUs that were found after the first samples."""

    note: str = ""
    gpus: tuple[Gpu, ...] | None = None


_sample = msgspec.json.Decoder(UsageSample).decode
_note = msgspec.json.Decoder(Note).decode
_head = msgspec.json.Decoder(Head).decode


def read_host_usage(host: str, data: bytes, since: float = 0.0) -> HostUsage:
    """Read a host's file; incomplete lines are ignored.

    ``since`` leaves out samples up to that moment, in seconds since the epoch.
    """
    lines = data.split(b"\n")
    try:
        head = _head(lines[0])
    except msgspec.DecodeError:
        head = Head(version=0)
    said = [*_decode_lines(_note, (line for line in lines[1:-1] if line.startswith(b"{")))]
    notes = [text for text in (head.note, *(one.note for one in said)) if text]
    gpus = [one.gpus for one in said if one.gpus is not None]
    head = replace(head, gpus=gpus[-1]) if gpus else head
    samples = read_samples(lines[1:-1], since)
    return _columns(host, head, [*zip([None, *samples], samples, strict=False)], since, notes)


def read_samples(lines: Sequence[bytes], since: float) -> list[UsageSample]:
    """Read the samples after ``since`` and the one before it, from the end: clients ask each second for the newest."""
    found: list[UsageSample] = []
    for sample in _decode_lines(_sample, (line for line in reversed(lines) if not line.startswith(b"{"))):
        found.append(sample)
        if sample.at <= since:
            break
    return found[::-1]


def _decode_lines(read: Callable[[bytes], _Line], lines: Iterable[bytes]) -> Iterator[_Line]:
    for line in lines:
        with contextlib.suppress(msgspec.DecodeError):
            yield read(line)


def _columns(
    host: str, head: Head, pairs: Sequence[tuple[UsageSample | None, UsageSample]], since: float, notes: Sequence[str]
) -> HostUsage:
    kept = [(before, now) for before, now in pairs if now.at > since]
    whole = [now for _before, now in kept]

    def rate(name: str, unit: float = 1.0) -> tuple[float | None, ...]:
        return tuple(_rate(name, before, now, unit) for before, now in kept)

    return HostUsage(
        host=host,
        at=tuple(now.at for now in whole),
        cpu_percent=rate("cpu", 100.0),
        memory_bytes=tuple(now.memory for now in whole),
        read_rate=rate("read"),
        write_rate=rate("written"),
        receive_rate=rate("received"),
        send_rate=rate("sent"),
        disk_bytes=tuple(now.disk for now in whole),
        gpus=tuple(_gpu(one, number, whole) for number, one in enumerate(head.gpus)),
        cpus=head.cpus,
        memory_total_bytes=head.memory,
        disk_total_bytes=head.disk,
        notes=tuple(dict.fromkeys(notes)),
    )


def _rate(name: str, before: UsageSample | None, now: UsageSample, unit: float) -> float | None:
    old: float | None = getattr(before, name, None)
    new: float | None = getattr(now, name)
    if before is None or old is None or new is None or now.at - before.at < MIN_INTERVAL:
        return None
    return round(max(0.0, unit * (new - old) / (now.at - before.at)), 1)


def _gpu(gpu: Gpu, number: int, samples: Iterable[UsageSample]) -> GpuUsage:
    figures = [(sample.gpus or ())[number : number + 1] for sample in samples]
    pairs = [found[0] if found and found[0] is not None else (None, None) for found in figures]
    return GpuUsage(
        id=gpu.id,
        name=gpu.name,
        memory_total_bytes=gpu.memory,
        percent=tuple(percent for percent, _memory in pairs),
        memory_bytes=tuple(memory for _percent, memory in pairs),
    )


def usage_of(said: Mapping[str, Any]) -> Usage | None:
    """Read the figures of one host, as an event or the record of an end has them; None where there are none."""
    try:
        found = msgspec.convert(said, Usage, strict=False)
    except msgspec.ValidationError:
        return None
    return None if found == Usage() else found


def sum_usage(hosts: Iterable[Usage | None]) -> Usage | None:
    """Add up the figures of the hosts that have some; None where none has."""
    sums: dict[str, float] = {}
    for host in hosts:
        for name, value in asdict(host).items() if host is not None else ():
            if value is not None:
                sums[name] = round(sums.get(name, 0) + value, 2)
    return msgspec.convert(sums, Usage, strict=False) if sums else None
