"""What the process of a job tells its agent, byte by byte, and by its exit code; both sides read it here."""

from __future__ import annotations

import struct

BROKEN = 70
"""Exit code of a child that could not make itself ready."""
# Two doubles, awake and first line, before the report. Binary, for it delays the user.
FIRST_LINE = struct.Struct(">Bdd")
FIRST_LINE_TAG = 1
ENDING = b"\x02"
"""Its code is over; others that it started may go on."""
