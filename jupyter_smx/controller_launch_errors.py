"""Explain why no controller could start, in one sentence for kernels, terminals and the Jupyter server."""

from __future__ import annotations

import errno
import os
import shutil
import sys

from jupyter_smx import controller_launch
from jupyter_smx.model.errors import UnavailableError

_MIN_FREE_BYTES = 1 << 16
"""Bytes; on a disk with less room left not even a reason can be written down."""


def start_error(error: OSError, *, then: str = "") -> UnavailableError:
    """Say why nothing can be started; ``then`` is what to do after the data folder was changed."""
    if error.filename == sys.executable:
        return UnavailableError(
            f"The controller could not be started: {sys.executable} cannot be run: {error.strerror}.",
            field="python",
            value=sys.executable,
            rule="The controller runs with this program's Python.",
            cure="Check whether its environment was moved or deleted, and start this program from an existing one.",
        )
    folder = controller_launch.data_dir()
    reason = "it is a file" if isinstance(error, FileExistsError) else error.strerror or str(error).rstrip(".")
    return UnavailableError(
        f"The controller could not be started, because {folder} cannot be used: {reason}.",
        field="data_dir",
        value=folder,
        rule="The controller stores the records of all jobs in it.",
        cure=f"Make it a folder that you can write to and free some space, "
        f"or set {controller_launch.DATA_DIR_VARIABLE} to another folder{then}.",
    )


def no_answer_error(*, then: str = "") -> UnavailableError:
    """Say why a controller that was started does not listen, by its own last words."""
    if _is_disk_full():
        return start_error(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), then=then)
    # What the controller says of itself has its cure in it.
    return UnavailableError(
        f"The controller could not be started: {controller_launch.last_log_line().rstrip('.') or 'no output'}.",
        field="controller",
        cure=f"Then try again; {controller_launch.log_path().name} in {controller_launch.data_dir()} has details.",
    )


def _is_disk_full() -> bool:
    try:
        return shutil.disk_usage(controller_launch.data_dir()).free < _MIN_FREE_BYTES
    except OSError:
        return False
