"""Interpreters that are not the submitter's: which one a job runs, and whether it can read what the submitter packs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from jupyter_smx.model.spec.job_spec import JobSpec


def apply_remote_default(spec: JobSpec) -> JobSpec:
    """Drop the submitter's interpreter; one that the user named is for the engine and stays.

    So a second kernel with another Python uses the same pool.
    """
    return spec if spec.python_named else replace(spec, python="", python_version="")


def check_send(spec: JobSpec, reported: str) -> None:
    """Refuse variables for hosts whose Python cannot read them; ``reported`` is its full version, "" if unknown.

    :raises ValidationError: the versions differ; names both.
    """
    theirs = _minor(reported)
    sent = next((payload for payload in (spec.send, spec.shared) if payload is not None), None)
    packed = _minor(sent.protocol.partition("/")[0]) if sent is not None else ""
    if not theirs or not packed or theirs == packed:
        return
    raise ValidationError(
        f"--send: the variables were packed by Python {packed}, and hosts of the engine {spec.engine} run {theirs}.",
        field="send",
        value=theirs,
        rule="Pickled variables and functions need the Python version that wrote them.",
        cure=f"Choose {'an --image' if spec.image else 'a --python'} of {packed}, or pass files with --input "
        "and values with --hp.",
    )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
