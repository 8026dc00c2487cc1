"""Pack the agent as one zip file that any Python from 3.8 on can run, named by its content.

Beside each source lies its bytecode for the Python that packs, because an interpreter keeps no bytecode of its own for
a zip: without it each cold start compiles the agent, which takes longer than everything else. Another version of
Python passes over that bytecode and reads the source. ``agent.system.archive_importer`` loads the bytecode.
"""

from __future__ import annotations

import hashlib
import io
import marshal
import os
import subprocess
import sys
import zipfile
from functools import cache
from importlib.resources import files
from importlib.util import MAGIC_NUMBER, find_spec, source_hash
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_smx.agent.system import archive_importer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from importlib.abc import Traversable

_MAIN = b"""\
from jupyter_smx.agent.__main__ import main

if __name__ == "__main__":
    main()
"""
_PACKAGE = b"""\
from jupyter_smx.agent.system import archive_importer

archive_importer.install(__loader__)
"""
_COMPILED_FOR = "compiled-for"
_UNCHECKED_HASH = (1).to_bytes(4, "little")
"""Flags of bytecode that is never compared with its source (PEP 552): both come and go with the archive."""
# NVML's file alone takes a tenth of a second to compile, in which no other thread of this process could run.
_COMPILER = """
import marshal, sys
sources = marshal.load(sys.stdin.buffer)
codes = {name: marshal.dumps(compile(source, name, "exec", dont_inherit=True)) for name, source in sources.items()}
marshal.dump(codes, sys.stdout.buffer)
"""
_DIGITS = 16
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


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
    """Collect what the archive holds: the agent's package, the one above it, what starts it, what it brings."""
    agent = _sources(files("jupyter_smx").joinpath("agent"), "jupyter_smx/agent/")
    tag = (sys.implementation.cache_tag or "").encode()
    return {
        "__main__.py": _MAIN,
        "jupyter_smx/__init__.py": _PACKAGE,
        _COMPILED_FOR: tag,
        **agent,
        **_nvml(),
        **_cloudpickle(),
    }


def _nvml() -> dict[str, bytes]:
    """Return the single file with which an agent queries NVIDIA's driver, if it is installed here.

    It lies inside the agent's package: at the top of the archive it would come first in the imports of every preload,
    before the user's own installation.
    """
    found = find_spec("pynvml")
    if found is None or found.origin is None or Path(found.origin).name != "pynvml.py":
        return {}
    return {"jupyter_smx/agent/pynvml.py": Path(found.origin).read_bytes()}


def _cloudpickle() -> dict[str, bytes]:
    """Return cloudpickle, which sends functions, for interpreters of hosts without it.

    It is 60 KB without dependencies. Including it is simpler than remembering which interpreters lack it, and its
    version is the one that packs. It is only used if an import of another one fails.
    """
    found = find_spec("cloudpickle")
    folder = Path(found.origin).parent if found is not None and found.origin is not None else None
    names = sorted(folder.glob("*.py")) if folder is not None else []
    return {f"jupyter_smx/agent/carried/cloudpickle/{path.name}": path.read_bytes() for path in names}


def content_hash(content: Mapping[str, bytes]) -> str:
    """Return the name for a content: equal for equal names and bytes, whatever the order, date, machine or zlib."""
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
            entry = zipfile.ZipInfo(name, _ZIP_EPOCH)
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content[name])
    return buffer.getvalue()


def add_bytecode(content: Mapping[str, bytes]) -> dict[str, bytes]:
    """Compile each module with this Python, in a process of its own. Blocks.

    :raises subprocess.CalledProcessError: one of them is no Python.
    """
    sources = {name: source for name, source in content.items() if name.endswith(".py")}
    compiler = [sys.executable, "-I", "-S", "-c", _COMPILER]
    answer = subprocess.run(compiler, input=marshal.dumps(sources), stdout=subprocess.PIPE, check=True)
    codes: dict[str, bytes] = marshal.loads(answer.stdout)  # noqa: S302 - from the process above, our own
    return with_bytecode(content, codes, MAGIC_NUMBER)


def with_bytecode(content: Mapping[str, bytes], codes: Mapping[str, bytes], magic: bytes) -> dict[str, bytes]:
    """Return the content with compiled modules, as the Python with this magic number marshals their code."""
    header = magic + _UNCHECKED_HASH
    compiled = {name + "c": header + source_hash(content[name]) + code for name, code in codes.items()}
    return {**content, **compiled, archive_importer.INDEX: _index(codes, magic)}


def _index(names: Iterable[str], magic: bytes) -> bytes:
    """Return the list from which the agent's importer finds its modules, for the Python that compiled them."""
    paths = sorted(name.removesuffix(".py").removesuffix("__init__") for name in names)
    return magic + "\n".join(paths).encode()


@cache
def file_name() -> str:
    """Return the archive's name, which changes whenever a line of the agent changes."""
    return f"agent-{content_hash(members())}.pyz"


def write_archive(folder: Path) -> Path:
    """Write the archive into ``folder`` unless it exists, and return its path. Concurrent calls do no harm.

    :raises OSError: the folder cannot be written.
    """
    path = folder / file_name()
    if path.exists():
        return path
    temporary = folder / f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}"
    try:
        temporary.write_bytes(pack(add_bytecode(members())))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path
