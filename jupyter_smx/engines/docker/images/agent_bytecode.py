"""Compile the agent by the Python of an image, once for each image: another version cannot use this Python's bytecode.

The compiled modules are used in containers of this image only. They come from a container that runs nothing but the
image's Python, and hosts can only read them: no job and no other image can change what an agent loads.
"""

from __future__ import annotations

import asyncio
import logging
import os
import zlib
from importlib.util import MAGIC_NUMBER
from typing import TYPE_CHECKING, Any

import msgspec

from jupyter_smx.engines.docker.containers import container_spec, probe_container
from jupyter_smx.engines.docker.daemon.daemon_client import DaemonError
from jupyter_smx.engines.machine import agent_zipapp
from jupyter_smx.model.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon

_log = logging.getLogger(__name__)

COMPILE_SCRIPT = """
import base64, json, marshal, sys, zipfile, zlib
archive, codes = zipfile.ZipFile(sys.argv[1]), {}
for name in archive.namelist():
    if name.endswith(".py"):
        code = marshal.dumps(compile(archive.read(name), name, "exec", dont_inherit=True))
        codes[name] = base64.b64encode(zlib.compress(code, 1)).decode()
print(json.dumps(codes))
"""
"""Prints the compiled modules of an archive, which is its first word."""
_LOG_CONFIG = {"Type": "json-file", "Config": {"max-size": "32m"}}
"""Options for the output of the container, which has a fraction of this."""
_MAX_CODE = 8 << 20
"""Maximum bytes of one compiled module."""
_MAX_REASON = 500
"""Characters of a container's output that a warning quotes."""
_TIMEOUT = 60.0
"""Seconds for each step of the container."""


def is_needed(magic: str) -> bool:
    """Return True if a Python with this magic number, in hexadecimal digits, cannot use this Python's bytecode."""
    return bool(magic) and bytes.fromhex(magic) != MAGIC_NUMBER


def archive_path(data_dir: Path, image: str, magic: str) -> Path:
    """Return the path of the agent's archive for an image, by the image's id and the magic number of its Python."""
    return data_dir / "images" / image.rpartition(":")[2] / f"{_version_name()}-{magic}.pyz"


def _version_name() -> str:
    return agent_zipapp.file_name().removesuffix(".pyz")


def container_config(command: Sequence[str], config: Mapping[str, Any], archive: Path) -> dict[str, Any]:
    """Return the request for the container that compiles ``archive``; ``config`` is that of a probe container.

    ``command`` starts the image's Python.
    """
    mount = container_spec.bind_mount(os.fspath(archive), container_spec.AGENT_ARCHIVE, closed=True)
    words = [*command, "-I", "-S", "-c", COMPILE_SCRIPT, container_spec.AGENT_ARCHIVE]
    host_config = {**config["HostConfig"], "LogConfig": _LOG_CONFIG, "Mounts": [mount]}
    return {**config, "Entrypoint": words, "HostConfig": host_config}


async def provide(
    daemon: Daemon, under_way: set[str], target: Path, magic: str, command: Sequence[str], config: Mapping[str, Any]
) -> str | None:
    """Write the archive with bytecode for an image's Python to ``target``, unless it exists; return its path.

    ``command`` starts that Python in a probe container that is made by ``config``. If that fails, the result is "":
    each host compiles the usual archive for itself. It is None if the daemon does not answer, so that only this start
    does without.
    """
    try:
        if not await asyncio.to_thread(target.is_file):
            archive = await asyncio.to_thread(_usual_archive, target.parents[2])
            output = await _compile(daemon, under_way, container_config(command, config, archive))
            await asyncio.to_thread(_write, target, output, magic)
    except (DaemonError, UnavailableError, asyncio.TimeoutError, ValueError, OSError) as problem:
        why = str(problem) or type(problem).__name__
        _log.warning("The agent was not compiled for image %s: %s", target.parent.name[:12], why)
        return None if isinstance(problem, UnavailableError) else ""
    return os.fspath(target)


def _usual_archive(data_dir: Path) -> Path:
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)  # an inspection may come before the first host
    archive = agent_zipapp.write_archive(data_dir)
    archive.chmod(0o644)
    return archive


async def _compile(daemon: Daemon, under_way: set[str], config: Mapping[str, Any]) -> bytes:
    async with probe_container.Probe(daemon, under_way, _TIMEOUT) as probe:
        await probe.start(config)
        code = await probe.wait_exit(_TIMEOUT)
        output: bytes = await daemon.call(lambda api: api.logs(probe.name, stdout=True, stderr=code != 0))
    if code:
        raise ValueError(output[-_MAX_REASON:].decode(errors="replace").strip() or f"exit code {code}")
    return output


def parse_codes(output: bytes, names: set[str]) -> dict[str, bytes]:
    """Read the compiled modules from a container's output, whose last line has them.

    :raises ValueError: they are not those of the agent, or the output is no such list.
    """
    lines = [line for line in output.splitlines() if line.startswith(b"{")]
    found = msgspec.json.decode(lines[-1] if lines else b"", type=dict[str, bytes])
    if {*found} != names:
        raise ValueError("the compiled modules are not those of the agent")
    return {name: _decompress(code) for name, code in found.items()}


def _decompress(code: bytes) -> bytes:
    stream = zlib.decompressobj()
    try:
        found = stream.decompress(code, _MAX_CODE)
    except zlib.error as problem:
        raise ValueError(str(problem)) from problem
    if not stream.eof:
        raise ValueError("a compiled module is incomplete or too long")
    return found


def _write(target: Path, output: bytes, magic: str) -> None:
    content = agent_zipapp.members()
    codes = parse_codes(output, {name for name in content if name.endswith(".py")})
    packed = agent_zipapp.pack(agent_zipapp.with_bytecode(content, codes, bytes.fromhex(magic)))
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{os.urandom(4).hex()}")
    try:
        temporary.write_bytes(packed)
        temporary.chmod(0o644)  # another user runs in the container
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    version = f"{_version_name()}-"
    for path in target.parent.glob("agent-*.pyz"):
        if not path.name.startswith(version):  # another Python of this image has one, which hosts may be about to mount
            path.unlink(missing_ok=True)
