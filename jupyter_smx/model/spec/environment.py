"""What a job's Python has beyond its interpreter: requirements, as the lines of a file that pip and uv read."""

from __future__ import annotations

from msgspec import Struct


class PythonEnvironment(Struct, frozen=True, kw_only=True):
    """Requirements over a base interpreter, or alone.

    ``requirements`` are lines in pip's format without comments and without names of other files: ``-c NAME<2`` is a
    constraint itself, local paths are absolute, and ``# content …`` behind one changes when what lies there does.
    ``only`` leaves the packages of the base out. ``python_version`` is the base's, as ``3.11``.
    """

    requirements: tuple[str, ...]
    only: bool = False
    python_version: str = ""
