"""Copy outputs from the hosts to the job's folder, and from there to the user's destination."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
import tarfile
from contextlib import ExitStack, aclosing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import asdict, replace

from jupyter_smx.agent.errors import is_temporary
from jupyter_smx.agent.system.files import host_layout, rmtree, walk
from jupyter_smx.controller.transfer import upload
from jupyter_smx.controller.transfer.host_spool import PIECE, raise_if_temporary, spool_location
from jupyter_smx.controller.transfer.job_folder import JobFolder, StagingError, atomic_write, wrap_disk_errors
from jupyter_smx.controller.transfer.read_ahead import WINDOW, read_ahead, run_side_by_side
from jupyter_smx.engines import untrusted_files
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.request_texts import fill_values
from jupyter_smx.model.spec.channel import Artifact
from jupyter_smx.policy.hosts import agent_messages
from jupyter_smx.policy.urls import is_url

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from jupyter_smx.controller.agents.stream import AgentStream
    from jupyter_smx.controller.transfer.host_spool import HostSpool
    from jupyter_smx.controller.transfer.read_ahead import ReadPiece
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.results.provenance import Provenance
    from jupyter_smx.model.spec.channel import Output

    AskPiece = Callable[[int], Awaitable[tuple[bytes, int]]]
    """Returns the bytes of a file from an offset on, and the size of the file."""

ARCHIVES = {"model": "model.tar.gz", "data": "output.tar.gz"}
"""Names of a training job's two folders in ``--output``, and their archives."""
_SHORT_RECORD = 1 << 20
_FEW = 4
"""Files that one thread brings home one after another."""
_SMALL_RESULT = PIECE
"""Bytes of variables that the event loop links on the disk of the records: a thread takes several times as long."""
_LONGEST_NAME, _DIGITS = 240, 16
"""Maximum bytes of a file's name, to which its first copy adds some, and of the hash in a longer one."""


@dataclass(frozen=True)
class HostOutputs:
    """Outputs of a job on one host: its end record, and the two ways to its files."""

    host: str
    record: Mapping[str, Any]
    stream: AgentStream | None = None
    spool: HostSpool | None = None
    """The job's spool on the host, read without the agent."""


class OutputStager:
    """The folders of jobs under one data folder."""

    def __init__(self, jobs_folder: Path) -> None:
        self._jobs_folder = jobs_folder

    def folder(self, job_id: str) -> JobFolder:
        """Return the folder of a job; it need not exist."""
        return JobFolder(self._jobs_folder, job_id)

    def write_job_files(self, job: Job) -> None:
        """Write the code as it ran, and what it ran with, beside the outputs; the record has the same. Blocks.

        :raises StagingError: the disk refuses.
        """
        self._write_code(job)
        if job.provenance is not None:
            self._write_provenance(job, job.provenance)

    def _write_code(self, job: Job) -> None:
        folder = self.folder(job.id)
        folder.make()
        with atomic_write(folder.cell) as part:
            part.write_text(job.spec.source, encoding="utf-8")
        source_dir = job.spec.source_dir
        if source_dir is not None:
            with wrap_disk_errors(folder.source_dir):
                _link_or_copy(Path(source_dir.path), folder.source_dir)

    def _write_provenance(self, job: Job, provenance: Provenance) -> None:
        folder = self.folder(job.id)
        about = {"job": job.name, "id": job.id, "status": job.status().value, "instances": job.spec.instances()}
        hyperparameters = fill_values(job.spec.hyperparameters, job.name)
        told = {**about, "hyperparameters": hyperparameters, **asdict(provenance)}
        with atomic_write(folder.provenance) as part:
            part.write_bytes(msgspec.json.format(msgspec.json.encode(told), indent=2) + b"\n")

    def is_small_local_result(self, everything: Sequence[HostOutputs]) -> bool:
        """Return True if small variables on the disk of the records are all that a job has to bring home."""
        outputs = [artifact for left in everything for artifact in left.record.get("artifacts", ())]
        if len(everything) != 1 or len(outputs) != 1 or outputs[0]["name"] != host_layout.RESULT:
            return False
        spool = everything[0].spool
        is_local = spool is not None and spool.path is not None and spool.path.is_relative_to(self._jobs_folder.parent)
        return is_local and int(outputs[0]["size"]) <= _SMALL_RESULT

    async def stage_out(self, job: Job, everything: Sequence[HostOutputs]) -> tuple[Artifact, ...]:
        """Collect every artifact of every host and put it at its destination; safe to repeat.

        Archives of equal names are merged; of other files of equal names the later host's stays.

        :raises UnavailableError: a host with files does not answer now; nothing is lost.
        :raises StagingError: the disk refuses, or a file no longer exists.
        """
        if not any(left.record.get("artifacts") for left in everything):
            return ()
        folder = self.folder(job.id)
        folder.make()
        result = _link_small_result(folder, everything[0]) if self.is_small_local_result(everything) else None
        if result is not None:
            return (result,)
        job = replace(job, spec=job.spec.fill_job_name(job.name))
        hosts = sorted(everything, key=lambda left: _natural(left.host))
        incoming = folder.path / "incoming"
        if _are_few(job, hosts):
            brought = await asyncio.to_thread(_stage_out_local, job, folder, incoming, hosts)
            if brought is not None:
                return brought
        for left in hosts:
            await self._fetch_all(left, job, incoming / left.host)
        urls = await asyncio.to_thread(_store_outputs, job, folder, incoming, [left.host for left in hosts])
        # Not by a thread: uploads take long, and there are few threads for all jobs.
        await upload.upload(urls, job.spec.environment, folder.artifacts)
        return await asyncio.to_thread(_copy_to_destinations, job, folder)

    async def _fetch_all(self, left: HostOutputs, job: Job, into: Path) -> None:
        requests = asyncio.Semaphore(WINDOW)
        artifacts = left.record.get("artifacts", ())
        await run_side_by_side([partial(self._fetch, left, artifact, job, into, requests) for artifact in artifacts])

    async def _fetch(
        self, left: HostOutputs, artifact: Mapping[str, Any], job: Job, into: Path, requests: asyncio.Semaphore
    ) -> None:
        (target, where), size = _places(artifact, into), int(artifact["size"])
        folder = left.spool.path if left.spool is not None else None
        is_here = folder is not None and await asyncio.to_thread(_fetch_from_spool, folder, str(where), target)
        ask = None if is_here else _asker(left, job, str(where))
        if ask is not None:
            read = partial(_read_piece, ask, f"{where} of {job.name} on {left.host}", size, requests)
            await _download(read, size, target)
        found = target.stat().st_size if target.exists() else 0
        if found != size:
            name = target.relative_to(into)
            raise StagingError(
                f"{name} of {job.name} on {left.host} is lost: {found} of {size} bytes were copied.", value=name
            )


def _link_small_result(folder: JobFolder, left: HostOutputs) -> Artifact | None:
    """Link small variables on the disk of the records to the job's folder; None where a thread must do it.

    This blocks the event loop, so it never copies: the job may have replaced the file by a larger one.
    """
    (artifact,) = left.record["artifacts"]
    (_, where), size = _places(artifact, folder.path), int(artifact["size"])
    if left.spool is None or left.spool.path is None:
        return None
    # A thread reports the error.
    with suppress(OSError), untrusted_files.open_file(left.spool.path, str(where)) as source:
        if source.size() == size and source.link(folder.result):
            return Artifact(name=host_layout.RESULT, path=str(folder.result), size=size)
    return None


def _are_few(job: Job, hosts: Sequence[HostOutputs]) -> bool:
    """Return True for a few small files that stay on this machine: several threads would take longer than one."""
    sizes = [int(artifact["size"]) for left in hosts for artifact in left.record.get("artifacts", ())]
    return len(sizes) <= _FEW and sum(sizes) <= PIECE and not any(is_url(each.destination) for each in job.spec.outputs)


def _stage_out_local(
    job: Job, folder: JobFolder, incoming: Path, hosts: Sequence[HostOutputs]
) -> tuple[Artifact, ...] | None:
    """Do all steps for files that the hosts left on a disk of ours; None if one of them is elsewhere."""
    for left in hosts:
        if left.spool is None or left.spool.path is None:
            return None
        for artifact in left.record.get("artifacts", ()):
            target, where = _places(artifact, incoming / left.host)
            is_here = _fetch_from_spool(left.spool.path, str(where), target)
            if not is_here or target.stat().st_size != int(artifact["size"]):
                return None
    _store_outputs(job, folder, incoming, [left.host for left in hosts])
    return _copy_to_destinations(job, folder)


def _places(artifact: Mapping[str, Any], into: Path) -> tuple[Path, PurePosixPath]:
    """Return where an artefact goes, and its path in what its host kept of the job."""
    # A long record names each file once.
    path = artifact.get("path", f"{host_layout.ARTIFACTS}/{artifact['name']}")
    return into / _safe_path(_printable_name(artifact["name"])), _safe_path(path)


def _printable_name(name: str) -> str:
    """Return the name under which a file is collected: Linux names are bytes, records and most stores need text.

    Each byte that is no text becomes six characters. A part that is then too long for a disk is cut and gets a hash.
    """
    said = agent_messages.printable_text(name)
    return name if said == name else "/".join(map(_shorten, said.split("/")))


def _shorten(part: str) -> str:
    whole = part.encode()
    if len(whole) <= _LONGEST_NAME:
        return part
    digest = hashlib.sha256(whole).hexdigest()[:_DIGITS]
    return f"{whole[: _LONGEST_NAME - _DIGITS - 1].decode(errors='ignore')}-{digest}"


async def read_record(spool: HostSpool) -> dict[str, Any] | None:
    """Read the end record that an agent left; None if there is none or it is incomplete.

    :raises UnavailableError: it cannot be read now.
    """
    content = await spool.read_whole(host_layout.END_RECORD)
    return None if content is None else await asyncio.to_thread(parse_record, content)


def parse_record(content: bytes | bytearray) -> dict[str, Any] | None:
    """Read the text of an end record; None where it is none. A long one takes a while: not in the event loop."""
    try:
        said = _parse_json(content)
    except (ValueError, RecursionError):
        return None
    return agent_messages.parse_record(said) if isinstance(said, dict) else None


def _parse_json(content: bytes | bytearray) -> object:
    """Parse JSON. This blocks the event loop, so a long text uses the faster library if that accepts its characters."""
    if len(content) > _SHORT_RECORD:
        with suppress(msgspec.DecodeError, RecursionError):
            return msgspec.json.decode(content)
    return json.loads(content)  # accepts surrogates, which stand for file names that are no UTF-8


def _safe_path(name: object) -> PurePosixPath:
    path = PurePosixPath(str(name))
    if path.is_absolute() or not path.parts or ".." in path.parts or "\0" in str(name):
        raise StagingError(f"The agent sent the file name {name!r}, which is outside the job's folder.", value=name)
    return path


def _natural(host: str) -> list[int | str]:
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", host)]


def _fetch_from_spool(remains: Path, name: str, target: Path) -> bool:
    """Collect a file from a host's spool on this machine; return False if there is no such file."""
    with ExitStack() as stack:
        try:
            source = stack.enter_context(untrusted_files.open_file(*spool_location(remains, name)))
        except OSError as error:
            raise_if_temporary(error)
            return False
        part = stack.enter_context(atomic_write(target))
        part.unlink(missing_ok=True)
        # The spool's name for it is deleted soon, so a second name is as good as a move; a crash between is harmless.
        try:
            source.link_or_copy(part)
        except untrusted_files.UnreadableError as error:
            raise StagingError(
                f"{name} cannot be read from its host's folder: {error}.",
                field="data_dir",
                value=name,
                rule="Outputs are copied from the disk of their host.",
                cure=f"Check the disk of {remains} for errors.",
                transient=is_temporary(error),
            ) from error
    return True


def _link_or_copy(source: Path, target: Path) -> None:
    with atomic_write(target) as part:
        part.unlink(missing_ok=True)
        try:
            os.link(source, part, follow_symlinks=False) if not source.is_symlink() else shutil.copyfile(source, part)
        except OSError:
            shutil.copyfile(source, part)


def _asker(left: HostOutputs, job: Job, name: str) -> AskPiece | None:
    """Choose what is asked for the pieces of a file: the agent, or the engine where there is no agent any more."""
    stream, spool = left.stream, left.spool
    if stream is not None:

        async def ask_agent(offset: int) -> tuple[bytes, int]:
            reply, piece = await stream.read_file(job=job.id, lease=job.lease, name=name, offset=offset, limit=PIECE)
            return piece, agent_messages.parse_count(reply.get("total"))

        return ask_agent
    return None if spool is None or spool.path is not None else partial(spool.read, name)


async def _read_piece(ask: AskPiece, what: str, size: int, requests: asyncio.Semaphore, offset: int) -> bytes:
    async with requests:
        piece, total = await ask(offset)
    if total > size:
        raise StagingError(f"{what} is lost: it grew from {size} to {total} bytes.", value=what)
    if not piece and offset < total:
        raise UnavailableError(f"{what} cannot be read further.", transient=True)
    return piece


async def _download(read: ReadPiece, size: int, target: Path) -> None:
    """Download a file of ``size`` bytes, or fewer if it ends earlier."""
    with atomic_write(target) as part, part.open("wb", buffering=0) as file:
        async with aclosing(read_ahead(read, 0, lambda: size, piece=PIECE)) as pieces:
            async for piece in pieces:
                await asyncio.to_thread(file.write, piece)


def _store_outputs(job: Job, folder: JobFolder, incoming: Path, hosts: Sequence[str]) -> list[tuple[Path, str]]:
    """Move the collected files of hosts to the job's files; return those that go to URLs."""
    with wrap_disk_errors(folder.path):
        for name, files in _by_name(incoming, hosts).items():
            _store_output(folder, name, files)
        rmtree.remove(os.fspath(incoming))
    return [
        pair
        for output in _outputs_with_destination(job)
        if is_url(output.destination)
        for pair in _urls(job, folder, output)
    ]


def _outputs_with_destination(job: Job) -> list[Output]:
    return [output for output in job.spec.outputs if output.destination]


def _copy_to_destinations(job: Job, folder: JobFolder) -> tuple[Artifact, ...]:
    """Copy files to the user's folders, and return where each file is."""
    here = [output for output in _outputs_with_destination(job) if not is_url(output.destination)]
    goals = {name: path for output in here for name, path in _destinations(job, folder, output)}
    for name, goal in goals.items():
        _copy_to_destination(folder.artifacts / name, goal)
    home = [(name, goals.get(name, path)) for name, path in _files(folder.artifacts)]
    if folder.result.exists():
        home.append((host_layout.RESULT, folder.result))
    return tuple(Artifact(name=name, path=str(path), size=path.stat().st_size) for name, path in home)


def _by_name(incoming: Path, hosts: Sequence[str]) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for host in hosts:
        for name, path in _files(incoming / host):
            found.setdefault(name, []).append(path)
    return found


def _store_output(folder: JobFolder, name: str, files: list[Path]) -> None:
    target = folder.result if name == host_layout.RESULT else folder.artifacts / name
    walk.make_folders(os.fspath(target.parent))
    if name in ARCHIVES.values() and len(files) > 1:
        with atomic_write(target) as part:
            try:
                merge_archives(files, part)
            except tarfile.TarError as error:
                raise StagingError(f"The {name} files of the hosts cannot be merged: {error}.", value=name) from error
        return
    # Variables come from the first host, everything else from the last that wrote it.
    files[0 if name == host_layout.RESULT else -1].replace(target)


def _copy_to_destination(source: Path, goal: Path) -> None:
    try:
        with atomic_write(goal) as part:
            shutil.copyfile(source, part)
    except StagingError as error:
        # Only our own disk is worth waiting for; for the user's disk, the files stay in the job's folder.
        error.transient = False
        raise


def _archive(job: Job, output: Output) -> str:
    """Return the name of the archive that an output becomes, "" if its files are collected as they are."""
    if job.spec.kind != "train" or (output.name == "model" and job.spec.disable_output_compression):
        return ""
    return ARCHIVES.get(output.name, "")


def _urls(job: Job, folder: JobFolder, output: Output) -> Iterator[tuple[Path, str]]:
    top = output.destination.rstrip("/")
    archive = _archive(job, output)
    if archive:
        if (folder.artifacts / archive).is_file():
            yield folder.artifacts / archive, top if top.endswith((".tar.gz", ".tgz")) else f"{top}/{archive}"
        return
    for name, path in _files(folder.artifacts / "outputs" / output.name):
        yield path, f"{top}/{name}"


def _destinations(job: Job, folder: JobFolder, output: Output) -> Iterator[tuple[str, Path]]:
    destination = Path(job.spec.working_directory or folder.path, output.destination).absolute()
    archive = _archive(job, output)
    if archive:
        if (folder.artifacts / archive).exists():
            is_file = destination.name.endswith((".tar.gz", ".tgz")) and not destination.is_dir()
            yield archive, destination if is_file else destination / archive
        return
    tree = folder.artifacts / "outputs" / output.name
    for name, _ in _files(tree):
        yield f"outputs/{output.name}/{name}", destination / name


def _files(tree: Path) -> Iterator[tuple[str, Path]]:
    if not tree.is_dir():
        return
    levels = walk.descend(os.fspath(tree))
    found = [(level.inner(entry), entry.path) for level in levels for entry in level.files if entry.is_file()]
    for name, path in sorted(found):
        yield name, Path(path)


def merge_archives(archives: Sequence[Path], target: Path) -> None:
    """Write the members of all ``archives`` to ``target``; of equal names the last archive's stays.

    Blocks. Nothing is unpacked and no member is held in memory.

    :raises OSError: the disk is full.
    :raises tarfile.TarError: one of them is no archive.
    """
    taken = _MergedNames()
    with tarfile.open(target, "w:gz", compresslevel=6) as merged:
        for archive in reversed(archives):
            with tarfile.open(archive, "r:gz") as source:
                for member in source:
                    if taken.add(member):
                        if member.islnk() and taken.hides(member.linkname):
                            _replace_hard_link(member, source)
                        merged.addfile(member, source.extractfile(member) if member.isreg() else None)
            taken.next_archive()


def _replace_hard_link(member: tarfile.TarInfo, source: tarfile.TarFile) -> None:
    """Make a second name of a file a file of its own: its first name has what a later archive put there."""
    first = source.getmember(member.linkname)
    member.type, member.size, member.offset_data, member.linkname = first.type, first.size, first.offset_data, ""
    member.pax_headers = {name: value for name, value in member.pax_headers.items() if name != "linkpath"}


class _MergedNames:
    """The names that later archives have given: a file hides whatever an earlier one had at or under its path."""

    def __init__(self) -> None:
        self._files: set[PurePosixPath] = set()
        self._folders: set[PurePosixPath] = set()
        self._new_files: set[PurePosixPath] = set()
        self._new_folders: set[PurePosixPath] = set()

    def add(self, member: tarfile.TarInfo) -> bool:
        path = PurePosixPath(member.name)
        if self.hides(member.name):
            return False
        (self._new_folders if member.isdir() else self._new_files).add(path)
        self._new_folders.update(path.parents)
        return True

    def hides(self, name: str) -> bool:
        path = PurePosixPath(name)
        return path in self._files or not self._files.isdisjoint(path.parents) or path in self._folders

    def next_archive(self) -> None:
        self._files |= self._new_files
        self._folders |= self._new_folders
