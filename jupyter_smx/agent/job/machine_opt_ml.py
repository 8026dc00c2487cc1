"""Find files that a job wrote in the machine's ``/opt/ml``, where its host has no ``/opt/ml`` of its own."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Dict, List

from jupyter_smx.agent.job.working_folder import format_list
from jupyter_smx.agent.paths import ML, format_name

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import CompleteSpec

_FOLDERS = ("model", os.path.join("output", "data"), "checkpoints", os.path.join("processing", "output"))
"""Folders of ``/opt/ml`` that are collected or kept."""
_MAX_ENTRIES = 100
"""Entries of a folder that are looked at: a warm job must not take longer for it."""
_NAMED = 3

FileTimes = Dict[str, int]
"""Paths with the time of their last change in nanoseconds."""


def list_files(top: str = ML) -> Dict[str, FileTimes]:
    """Return the first entries of each folder.

    A job compares two lists, since the times of files are coarser than a warm job is short.
    """
    return {folder: _entries(os.path.join(top, folder)) for folder in _FOLDERS}


def _entries(folder: str) -> FileTimes:
    try:
        with os.scandir(folder) as entries:
            return {entry.path: _changed_at(entry) for entry in itertools.islice(entries, _MAX_ENTRIES)}
    except OSError:
        return {}


def _changed_at(entry: "os.DirEntry[str]") -> int:
    try:
        return entry.stat(follow_symlinks=False).st_mtime_ns
    except OSError:
        return 0


def new_files(before: Dict[str, FileTimes], after: Dict[str, FileTimes]) -> List[str]:
    """Return paths that are new or were changed, in folders whose earlier list is complete."""
    both = [(before[folder], files) for folder, files in after.items() if len(before[folder]) < _MAX_ENTRIES]
    return sorted(path for old, new in both for path, moment in new.items() if old.get(path) != moment)


def describe(spec: CompleteSpec, paths: List[str], missing_reason: str = "") -> str:
    """Write a sentence that names the files, which are not collected; "" if there are none.

    With ``missing_reason``, why the job goes without the ``/opt/ml`` that others of its host have, it says that.
    """
    if missing_reason:
        return (
            f"The job ran without {ML}, because {missing_reason}. What it wrote to paths there is not its own. "
            "Use the folders in SM_MODEL_DIR and the other variables, or run one job at a time."
        )
    if not paths:
        return ""
    named = [format_name(path) for path in paths[:_NAMED]]
    if len(paths) > _NAMED:
        named.append("others")
    train = "to the folders in the variables SM_MODEL_DIR and SM_OUTPUT_DATA_DIR"
    target = train if spec["kind"] == "train" else "below the folder in the variable SAGEMAKER_BASE_DIR"
    verb = "was" if len(paths) == 1 else "were"
    return (
        f"{format_list(named)} {verb} written to the {ML} of the machine while the job ran, and not collected: "
        f"the host has no {ML} of its own. Write {target}."
    )
