"""Copy into an export what a ``.gitignore`` kept out of the job: SageMaker's SDK sends all files of a folder."""

from __future__ import annotations

import os
import shutil
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_smx.kernel.request import source_dir
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.text import format_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.kernel.request.source_archive import SourceFile
    from jupyter_smx.model.spec.job_spec import SourceDir

_MAX_NAMED = 10
"""Ignored files that the README names."""
_COPY = "Copy what the script needs to `code/`: SageMaker's SDK sends all files of that folder."


def copy(source: SourceDir, code: Path) -> str:
    """Copy the ignored files of a folder, as they are now, beside the job's code; return a note about them.

    All files of a job's folder together have the limits of a packed folder; beyond these nothing is copied.

    :raises OSError: a file cannot be copied.
    """
    named = f"A `.gitignore` kept these files of the source folder out of the job: {_format_names(source.ignored)}. "
    try:
        found = list(islice(source_dir.ignored_files(source), source_dir.MAX_FILES + 1))
    except ValidationError as error:
        return f"{named}They were not copied: {error.message} {_COPY}"
    size = sum(file.state.size for file in found)
    if len(found) + source.files > source_dir.MAX_FILES or size + source.size > source_dir.MAX_BYTES:
        number = f"{len(found)} files" if len(found) <= source_dir.MAX_FILES else f"more than {len(found) - 1} files"
        return f"{named}They were not copied, as they are {number} with {format_size(size)}. {_COPY}"
    here = {file.name for file in found if _copy_file(file, code / file.name)}
    gone = [name for name in source.ignored if not any(f"{each}/".startswith(f"{name.rstrip('/')}/") for each in here)]
    return (
        f"{named}SageMaker's SDK sends all files of that folder, so `code/` has those that `{source.folder}` had at "
        f"the export{f', but not {_format_names(gone)}' if gone else ''}."
    )


def _copy_file(file: SourceFile, path: Path) -> bool:
    """Copy a file, unless the job has one of that name; return False if it cannot be read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        return True
    try:
        content = Path(file.path).open("rb")  # noqa: SIM115 - an error of the export's own disk is none of the file's
    except OSError:
        return False
    with content, path.open("wb") as copy:
        shutil.copyfileobj(content, copy)
    path.chmod(0o755 if os.access(file.path, os.X_OK) else 0o644)
    return True


def _format_names(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:_MAX_NAMED])
    return f"{shown} and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else shown
