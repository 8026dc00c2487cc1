"""The agent as one file: a zip of its source that any Python from 3.8 on can run, named by its content."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.abc import Traversable
    from pathlib import Path

_MAIN = b"""\
from jupyter_smx.agent.__main__ import main

if __name__ == "__main__":
    main()
"""
_DIGITS = 16
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


def _sources(folder: Traversable, prefix: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for entry in folder.iterdir():
        if entry.is_dir() and entry.name != "__pycache__":
            found |= _sources(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".py"):
            found[prefix + entry.name] = entry.read_bytes()
    return found


@cache
def members() -> Mapping[str, bytes]:
    """Collect what the archive holds: the agent's package, the empty package above it, and what starts it."""
    agent = _sources(files("jupyter_smx").joinpath("agent"), "jupyter_smx/agent/")
    return {"__main__.py": _MAIN, "jupyter_smx/__init__.py": b"", **agent}


def content_hash(content: Mapping[str, bytes]) -> str:
    """Give a name to a content: equal for equal names and bytes, whatever the order, date, machine or zlib."""
    digest = hashlib.sha256()
    for name in sorted(content):
        for part in (name.encode(), content[name]):
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:_DIGITS]


def pack(content: Mapping[str, bytes]) -> bytes:
    """Write the archive: the same bytes for the same content, uncompressed because it is read at each cold start."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(content):
            entry = zipfile.ZipInfo(name, _LONG_AGO)
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content[name])
    return buffer.getvalue()


def file_name() -> str:
    """Give the archive's name, which changes whenever a line of the agent changes."""
    return f"agent-{content_hash(members())}.pyz"


def place(folder: Path) -> Path:
    """Put the archive into ``folder`` unless it is there, and give its path. Two at once do no harm.

    :raises OSError: the folder cannot be written.
    """
    path = folder / file_name()
    if path.exists():
        return path
    temporary = folder / f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}"
    try:
        temporary.write_bytes(pack(members()))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path
