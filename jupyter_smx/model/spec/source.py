"""The folder of code that a job has beside its script."""

from __future__ import annotations

import re

from msgspec import Struct

_ENTRY_POINT = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._+-]*(/[A-Za-z0-9._+-]+)*")  # as sagemaker-training has it


class SourceDir(Struct, frozen=True, kw_only=True):
    """A folder that was packed by the kernel: one archive, named by its content, that the job's hosts unpack.

    ``folder`` is where it was on the submitter's machine; tracebacks name it. ``files`` and ``size`` (bytes) are what
    the archive holds.
    """

    folder: str
    path: str
    sha256: str
    files: int
    size: int


def is_entry_point(name: str) -> bool:
    """Say whether SageMaker would take ``name`` for a script: a path that stays in its folder, of plain letters."""
    return bool(_ENTRY_POINT.fullmatch(name)) and not {".", ".."}.intersection(name.split("/"))
