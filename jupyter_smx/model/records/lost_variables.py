"""Variables that a job was to return and that were lost, which is no doing of its code; pure.

A variable that is not defined at the end of the code, or cannot be pickled, is missing and not lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from jupyter_smx.model.records.job import HostEnd, Job

UNKNOWN_REASON = "did not come back, and its hosts do not say why."
COMPLETED_BUT = "The job completed, but "
"""Beginning of the status of a job that completed and lost variables; the browser compares it, too."""
START = "receive: {name!r} "
"""Beginning of a sentence about a variable in the errors of a host."""
BY_THE_CODE = ("is not defined", "cannot be pickled")
"""Beginnings of reasons for variables that are missing, but not lost."""


def find_reasons(name: str, sentences: Iterable[str]) -> list[str]:
    """Return the reasons in the errors of hosts about a variable, each without the name."""
    start = START.format(name=name)
    return [each[len(start) :] for each in sentences if each.startswith(start)]


def lost_variables(wanted: Iterable[str], received: Collection[str], hosts: Iterable[HostEnd]) -> dict[str, str]:
    """Return the lost variables with reasons; a reason is a sentence without the name at its begin."""
    sentences = [sentence for host in hosts for sentence in host.errors]
    found = {name: find_reasons(name, sentences) for name in wanted if name not in received}
    return {
        name: next((reason for reason in reasons if not reason.startswith(BY_THE_CODE)), UNKNOWN_REASON)
        for name, reasons in found.items()
        if not reasons or not all(reason.startswith(BY_THE_CODE) for reason in reasons)
    }


def lost_variables_of(job: Job) -> dict[str, str]:
    """Return the variables that a job lost, by its record; see :func:`lost_variables`."""
    return lost_variables(job.spec.receive, job.received, job.hosts)


def format_loss(lost: Mapping[str, str]) -> str:
    """Name lost variables and why, those of one reason together; "" where there are none."""
    names: dict[str, list[str]] = {}
    for name, reason in lost.items():
        names.setdefault(reason, []).append(repr(name))
    return " ".join(f"{', '.join(group)} {reason}" for reason, group in names.items())


def completed_message(wanted: Iterable[str], received: Collection[str], hosts: Iterable[HostEnd]) -> str:
    """Return the status message of a job that completed: "" for the usual one, else the lost variables."""
    said = format_loss(lost_variables(wanted, received, hosts))
    return f"{COMPLETED_BUT}{said}" if said else ""
