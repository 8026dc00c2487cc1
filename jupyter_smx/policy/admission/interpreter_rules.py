"""Which interpreter a job of an engine with interpreters of its own runs: never one of the submitter's machine.

It is a file of its own because it grows with what an engine can say of its interpreters before a job is on record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from jupyter_smx.model.spec.job_spec import JobSpec


def apply_remote_default(spec: JobSpec) -> JobSpec:
    """Drop the interpreter of the submitter; one that the user named is a word for the engine and stays.

    So a second kernel with another Python takes the same pool.
    """
    return spec if spec.python_named else replace(spec, python="", python_version="")
