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
    """Refuse functions and classes for hosts whose Python cannot run their code; values go to every version.

    ``reported`` is the version of that Python, full or as ``3.9``; "" if unknown.

    :raises ValidationError: the versions differ; names both.
    """
    theirs = ".".join(reported.split(".")[:2])
    for sent in (spec.shared, spec.send):
        code = sent.unusable_code(theirs) if sent is not None else ""
        if sent is None or not code:
            continue
        packed = sent.python_version()
        where = f"image {spec.image} has" if spec.image else f"hosts of the engine {spec.engine} run"
        raise ValidationError(
            f"--send: {code} was packed by Python {packed}, and {where} {theirs}.",
            field="send",
            value=theirs,
            rule="The code of functions and classes runs only in the Python version that compiled it. Values, arrays "
            "and tables travel to any version.",
            cure=f"Choose {'an --image' if spec.image else 'a --python'} of {packed}, bring the code as text in the "
            "cell, a script or --source-dir, or send values only.",
        )
