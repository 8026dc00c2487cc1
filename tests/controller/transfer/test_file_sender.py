"""Files over the stream: an unchanged one costs no request, a new one one round trip, and what broke goes on."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.host.provided_files import ProvidedFiles, ProvisionError
from jupyter_smx.agent.wire import MAX_BODY, Frame
from jupyter_smx.controller.transfer import file_items, file_sender
from jupyter_smx.controller.transfer.file_sender import FileSender
from jupyter_smx.model.errors import RefusedError, UnavailableError

if TYPE_CHECKING:
    from pathlib import Path

LARGE = bytes(range(256)) * (MAX_BODY // 100)
"""Longer than two pieces."""


class Host:
    """The other end of a stream: what an agent does with these requests, each answered at once."""

    def __init__(self, top: Path) -> None:
        self.files = ProvidedFiles(str(top), str(top))
        self.ops: list[str] = []
        self.top = top
        self.room = 1 << 40
        """Bytes that the disk takes."""
        self.broken_after = -1
        """Number of pieces after which the stream is broken; -1 is never."""

    def _answer(self, op: str, act: Any) -> asyncio.Future[Frame]:
        self.ops.append(op)
        answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda done: done.exception())
        if self.broken_after == 0:
            answer.set_exception(UnavailableError("The stream broke.", transient=True))
            return answer
        self.broken_after -= 1
        try:
            answer.set_result(Frame(act()))
        except (ProvisionError, OSError) as error:
            answer.set_exception(UnavailableError(str(error)))
        return answer

    def have(self, **fields: Any) -> asyncio.Future[Frame]:
        return self._answer(
            "have", lambda: dict(self.files.have(fields["items"], fields["files"], only=fields["only"]))
        )

    def put(self, data: bytes, timeout: float, **fields: Any) -> asyncio.Future[Frame]:
        del timeout
        return self._answer("put", lambda: {"offset": self._put(fields, data)})

    def _put(self, fields: dict[str, Any], data: bytes) -> int:
        if sum(path.stat().st_size for path in (self.top / "files").glob("*")) + len(data) > self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.files.put(**fields, data=data)

    def place(self, timeout: float, **fields: Any) -> asyncio.Future[Frame]:
        del timeout
        return self._answer("place", lambda: {"path": self.files.place(**fields)})

    def new_ops(self) -> list[str]:
        ops, self.ops = self.ops, []
        return ops


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path / "host")


class Source:
    """A file of the controller's machine."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write(b"first")

    def write(self, content: bytes) -> None:
        self.path.write_bytes(content)


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path / "variable.pkl")


async def send(sender: FileSender, host: Host, *paths: Path) -> dict[str, str]:
    found = await sender.send(host, [*map(str, paths)])  # type: ignore[arg-type]  # a stream that answers at once
    return dict(found)


async def test_a_file_comes_with_its_name_and_bytes(host: Host, source: Source) -> None:
    (place,) = (await send(FileSender(), host, source.path)).values()
    assert place.endswith("/variable.pkl")
    with open(place, "rb") as file:  # noqa: ASYNC230, PTH123 - a small one
        assert file.read() == b"first"


async def test_an_unchanged_source_asks_nothing_and_a_new_one_no_more_than_once(host: Host, source: Source) -> None:
    sender = FileSender()
    await send(sender, host, source.path)
    assert host.new_ops() == ["have", "put", "place"]
    source.write(b"first")  # as a kernel does that packs equal variables again
    await send(sender, host, source.path)
    assert host.new_ops() == []
    source.write(b"second")
    await send(sender, host, source.path)
    assert host.new_ops() == ["put", "place"], "both are under way at once"


async def test_a_new_controller_asks_once_and_sends_nothing_again(host: Host, source: Source) -> None:
    await send(FileSender(), host, source.path)
    host.new_ops()
    await send(FileSender(), host, source.path)
    assert host.new_ops() == ["have"]


async def test_equal_contents_of_a_folder_are_sent_once(host: Host, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    for name in ("one", "two", "deep/three"):
        (folder / name).write_bytes(b"same")
    (place,) = (await send(FileSender(), host, folder)).values()
    assert host.new_ops() == ["have", "put", "place"]
    assert place.endswith("/folder")


async def test_a_long_file_goes_on_where_the_stream_broke(host: Host, source: Source) -> None:
    source.write(LARGE)
    sender = FileSender()
    host.broken_after = 2
    with pytest.raises(UnavailableError) as raised:
        await send(sender, host, source.path)
    assert raised.value.transient
    host.broken_after = -1
    host.new_ops()
    await send(sender, host, source.path)
    pieces = -(-len(LARGE) // MAX_BODY)
    assert host.new_ops() == ["have", *["put"] * (pieces - 1), "place"]
    assert host.files.have([], [hashlib.sha256(LARGE).hexdigest()], only=False)["files"]


async def test_a_source_that_is_not_there_is_refused_with_its_path(host: Host, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="gone"):
        await send(FileSender(), host, tmp_path / "gone")


async def test_what_no_job_needs_goes_when_the_host_has_much(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_sender, "MAX_BYTES", 10)
    sender = FileSender()
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        path.write_bytes(path.name.encode() * 8)
        await send(sender, host, path)
    first = hashlib.sha256(b"a" * 8).hexdigest()
    assert host.files.have([], [first], only=False)["files"] == []


async def test_what_no_job_needs_goes_when_the_disk_of_the_host_is_full(host: Host, tmp_path: Path) -> None:
    sender, host.room = FileSender(), 10
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        path.write_bytes(path.name.encode() * 8)
    await send(sender, host, paths[0])
    first = hashlib.sha256(b"a" * 8).hexdigest()
    for _ in range(2):
        with pytest.raises(UnavailableError, match="No space left"):
            await send(sender, host, paths[1])
        assert host.files.have([], [first], only=False)["files"] == [first], "one failure may have another cause"
    (place,) = (await send(sender, host, paths[1])).values()
    assert place.endswith("/b")
    assert host.files.have([], [first], only=False)["files"] == []
    host.new_ops()
    await send(sender, host, paths[1])
    assert host.new_ops() == []


async def test_a_file_with_too_many_names_is_copied(
    host: Host, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_source: str, _path: str) -> None:
        raise OSError(errno.EMLINK, os.strerror(errno.EMLINK))

    monkeypatch.setattr(os, "link", refuse)
    paths = await send(FileSender(), host, source.path)
    assert type(source.path)(paths[str(source.path)]).read_bytes() == b"first"
    assert host.files.changed_file() == ""


def test_a_file_that_grows_is_described_as_it_was(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = file_items._sha256

    def grow_first(path: str, size: int) -> str:
        with source.path.open("ab") as file:
            file.write(b" and more")
        return digest(path, size)

    monkeypatch.setattr(file_items, "_sha256", grow_first)
    (item,) = file_items.FileDigests().items([str(source.path)], {})
    assert item.contents == {hashlib.sha256(b"first").hexdigest(): (str(source.path), 5)}
