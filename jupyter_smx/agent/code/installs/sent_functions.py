"""Find out if the function that a job calls installs packages, from the text that the notebook sends with it."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Iterator

from jupyter_smx.agent.code import variable_file
from jupyter_smx.agent.code.installs import detection

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import CompleteSpec, PayloadSpec

_CALL = "value = function(*arguments, **keywords)"
"""Part of the code by which a job calls a function of the notebook."""
_NAMES_INSTALLER = "# The file of this function names an installer of packages.\n"
"""Line that the kernel adds to that code; without it the agent skips the variables, whose reading delays warm jobs."""
_TEXTS = "lines"
"""Variable with the text of the function's cell or file, in the form of :mod:`linecache`."""
_MAX_SIZE = 1 << 23
"""Bytes of variables; to read more of them twice would delay a job."""
_DAMAGED = (OSError, EOFError, pickle.UnpicklingError, AttributeError, ImportError, LookupError, TypeError, ValueError)
"""Errors of reading a file that is no file of variables."""


def add_flag(source: str, text: str) -> str:
    """Return the code that calls a function, with the flag if the ``text`` of the function's file names an installer.

    The kernel looks once, so the agent reads no variables of the other jobs.
    """
    return source + _NAMES_INSTALLER if detection.may_install(text) else source


def install_in(spec: CompleteSpec) -> str:
    """Return the command by which a job's function installs packages; "" if its text shows none.

    Return "" for a file that cannot be read, because such a job is refused.
    """
    if _NAMES_INSTALLER not in spec["source"] or _CALL not in spec["source"]:
        return ""
    for packed in (spec.get("shared"), spec["send"]):
        for text in _texts(packed) if packed else ():
            command = detection.install_in("", text)
            if command:
                return command
    return ""


def _texts(packed: PayloadSpec) -> Iterator[str]:
    try:
        with open(packed["path"], "rb") as file:
            if os.fstat(file.fileno()).st_size > _MAX_SIZE:
                return
            for name, head, _buffers in variable_file.read(file):
                if name == _TEXTS:
                    texts = pickle.loads(head)  # noqa: S301 - the user's own variables
                    yield from ("".join(lines) for _size, _time, lines, _name in texts.values())
    except _DAMAGED:  # which is refused when the job reads it
        return
