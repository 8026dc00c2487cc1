"""Protocol from a job's process to its agent; separate, because both sides import only these constants."""

from __future__ import annotations

import struct

EXIT_NOT_READY = 70
"""Exit code of a child whose preparation failed."""
# Two times, awake and first line, before the report. Binary, since it delays the user.
FIRST_LINE = struct.Struct(">Bdd")
FIRST_LINE_TAG = 1
# Its code has ended, processes that it started may run on: exit code, and CPU seconds with those it waited for.
CODE_EXIT = struct.Struct(">BBd")
CODE_EXIT_TAG = 2
# It waits for a disk that gives an error of this number, or does so no longer (0).
DISK_WAIT = struct.Struct(">BH")
DISK_WAIT_TAG = 3
SIZES = {FIRST_LINE_TAG: FIRST_LINE.size, CODE_EXIT_TAG: CODE_EXIT.size, DISK_WAIT_TAG: DISK_WAIT.size}
"""Bytes of each message, its tag included."""
REPORT = "report"
"""Entry of a frame with the report about the end of the job."""
