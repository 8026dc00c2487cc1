"""The agent's bytecode for another Python: compiled in a container of the image, and used for that image alone."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from functools import partial
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fake_dockerd import IMAGE, end, serving

from jupyter_smx.engines.machine import agent_zipapp
from jupyter_smx.testing.data_folder import provide_archive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fake_dockerd import FakeDockerd

MAGIC = MAGIC_NUMBER.hex()
OTHER_MAGIC = "00000d0a"
CONFIG = {"Image": IMAGE, "Entrypoint": [], "Labels": {}, "HostConfig": {"NetworkMode": "none"}}
WHERE = """
import sys
sys.path.insert(0, sys.argv[1])
import jupyter_smx.agent.wire as wire
print(type(wire.__spec__.loader).__name__)
"""


def compiled(one: dict[str, Any]) -> None:
    """Act as the container that compiles, by this Python, the archive that is mounted in it."""
    words, [mount] = one["config"]["Entrypoint"], one["config"]["HostConfig"]["Mounts"]
    assert mount["ReadOnly"]
    script = words[words.index("-c") + 1]
    command = [sys.executable, "-I", "-S", "-c", script, mount["Source"]]
    end(one, 0, subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def inspected(one: dict[str, Any]) -> None:
    """Act as any container of an image with another Python, or of one with files in ``/opt/ml`` and this Python."""
    if "-S" in one["config"]["Entrypoint"]:
        compiled(one)
        return
    has_files = one["config"]["Image"].endswith("2")
    facts = {"uid": 1, "gid": 1, "groups": [], "name": "", "home": "", "files": has_files}
    report = json.dumps({**facts, "magic": MAGIC if has_files else OTHER_MAGIC})
    end(one, 0, f"{report}\n[3, 12]\n")


@pytest.fixture
def compiler(tmp_path: Path) -> Iterator[FakeDockerd]:
    provide_archive(tmp_path)
    with serving(tmp_path / "d.sock", compiled) as daemon:
        yield daemon


def provide(daemon: FakeDockerd, data_dir: Path, magic: str = MAGIC) -> str | None:
    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon  # noqa: PLC0415 - imports Docker's library
    from jupyter_smx.engines.docker.images import agent_bytecode  # noqa: PLC0415 - the same

    target = agent_bytecode.archive_path(data_dir, IMAGE, magic)

    async def run() -> str | None:
        return await agent_bytecode.provide(Daemon(daemon.url, 10.0), set(), target, magic, ["python3"], CONFIG)

    return asyncio.run(run())


def test_an_image_gets_an_archive_of_its_own_once(compiler: FakeDockerd, tmp_path: Path) -> None:
    old = tmp_path / "images" / IMAGE.removeprefix("sha256:") / "agent-0.pyz"
    old.parent.mkdir(parents=True)
    old.touch()
    path = provide(compiler, tmp_path)
    assert [one.name for one in old.parent.iterdir()] == [Path(path).name]
    assert Path(path).parent == old.parent
    assert Path(path).stat().st_mode & 0o777 == 0o644
    command = [sys.executable, "-I", "-c", WHERE, path]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "ArchiveImporter"
    assert (compiler.containers, sum("/start" in one for one in compiler.asked)) == ({}, 1)
    assert provide(compiler, tmp_path) == path
    assert sum("/start" in one for one in compiler.asked) == 1


def test_what_cannot_be_compiled_is_left_to_the_hosts(compiler: FakeDockerd, tmp_path: Path) -> None:
    compiler.live = partial(end, code=1, said="MemoryError")
    assert provide(compiler, tmp_path) == ""
    assert not [*tmp_path.glob("images/*/*")]
    assert compiler.containers == {}


def test_the_archives_of_two_pythons_of_an_image_stay(compiler: FakeDockerd, tmp_path: Path) -> None:
    """A host of the first one may be between its inspection and its container, which mounts the archive."""
    paths = [provide(compiler, tmp_path, magic) for magic in (MAGIC, OTHER_MAGIC)]
    assert [Path(path).is_file() for path in paths] == [True, True]


def test_a_data_folder_that_does_not_exist_yet_is_made(compiler: FakeDockerd, tmp_path: Path) -> None:
    data_dir = tmp_path / "new" / "smx"
    assert Path(provide(compiler, data_dir)).is_file()
    assert data_dir.stat().st_mode & 0o777 == 0o700


def test_a_daemon_that_does_not_answer_leaves_the_agent_to_the_hosts(tmp_path: Path) -> None:
    provide_archive(tmp_path)
    with serving(tmp_path / "d.sock", compiled) as daemon:
        pass
    assert provide(daemon, tmp_path) is None


@pytest.mark.parametrize(("reason", "compilations"), [("no answer", 2), ("refusal", 1)])
async def test_only_a_daemon_that_did_not_answer_is_asked_to_compile_again(
    compiler: FakeDockerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str, compilations: int
) -> None:
    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon  # noqa: PLC0415 - imports Docker's library
    from jupyter_smx.engines.docker.images.image import Images  # noqa: PLC0415 - the same

    monkeypatch.setattr(Images, "cache", {})
    answer_to, compilation = compiler.answer, 0

    def fail_once(what: str, body: dict[str, Any]) -> tuple[int, object]:
        nonlocal compilation
        if "/containers/create" in what and "-S" in body["Entrypoint"]:
            compilation += 1
            if compilation == 1 and reason == "no answer":
                raise ConnectionAbortedError
            if compilation == 1:
                return 500, {"message": reason}
        return answer_to(what, body)

    monkeypatch.setattr(compiler, "answer", fail_once)
    compiler.live = inspected
    images = Images(Daemon(compiler.url, 10.0), {}, lambda: "1:1", data_dir=tmp_path)
    found = [(await images.inspect("train:1", lambda _step: None)).parts.archive for _ in range(3)]
    assert [bool(one) for one in found] == [False, compilations > 1, compilations > 1]
    assert compilation == compilations


async def test_a_compilation_does_not_wait_for_the_files_of_another_image(
    compiler: FakeDockerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon  # noqa: PLC0415 - imports Docker's library
    from jupyter_smx.engines.docker.images.image import Images  # noqa: PLC0415 - the same

    monkeypatch.setattr(Images, "cache", {})
    is_copying, may_end = threading.Event(), threading.Event()
    answer_to = compiler.answer

    def hold_copy(what: str, body: dict[str, Any]) -> tuple[int, object]:
        if "/archive" in what:
            is_copying.set()
            may_end.wait(20)
            return 404, {"message": "no such folder"}
        image_id = "sha256:" + ("2" if "/images/model" in what else "1") * 64
        return (200, {**compiler.image, "Id": image_id}) if "/images/" in what else answer_to(what, body)

    monkeypatch.setattr(compiler, "answer", hold_copy)
    compiler.live = inspected
    images = Images(Daemon(compiler.url, 10.0), {}, lambda: "1:1", data_dir=tmp_path)
    copy = asyncio.create_task(images.inspect("model:1", lambda _step: None))
    try:
        assert await asyncio.to_thread(is_copying.wait, 20)
        found = await asyncio.wait_for(images.inspect("train:1", lambda _step: None), 10)
        assert found.parts.archive.endswith(f"-{OTHER_MAGIC}.pyz")
    finally:
        may_end.set()
        await copy


@pytest.mark.parametrize("output", [b"", b"{", b'{"a.py": "eJwDAAAAAAE="}', b'{"b.py": "AAAA"}', b'{"b.py": 1}', b"[]"])
def test_output_that_is_not_of_the_agent_is_refused(output: bytes) -> None:
    from jupyter_smx.engines.docker.images.agent_bytecode import parse_codes  # noqa: PLC0415 - imports Docker's library

    with pytest.raises(ValueError, match=r"."):
        parse_codes(output, {"b.py"})


def test_the_list_is_the_last_line_that_can_be_one() -> None:
    from jupyter_smx.engines.docker.images.agent_bytecode import parse_codes  # noqa: PLC0415 - imports Docker's library

    said = b'{"log": "of an entry point"}\n{"b.py": "eJxLBAAAYgBi"}\n'
    assert parse_codes(said, {"b.py"}) == {"b.py": b"a"}


def test_bytecode_of_this_python_needs_no_other_archive() -> None:
    from jupyter_smx.engines.docker.images import agent_bytecode  # noqa: PLC0415 - imports Docker's library

    assert [agent_bytecode.is_needed(magic) for magic in ("", MAGIC, OTHER_MAGIC)] == [False, False, True]


@pytest.mark.parametrize("magic", ["", "xyz", "a70d0d0a00", 7, "../../../"])
def test_a_magic_number_of_an_image_is_eight_digits_or_none(magic: object) -> None:
    from jupyter_smx.engines.docker.images import image_config  # noqa: PLC0415 - imports Docker's library

    facts = {"uid": 1, "gid": 1, "groups": [], "name": "", "home": ""}
    assert image_config.parse_report(json.dumps({**facts, "magic": magic})).magic == ""
    assert image_config.parse_report(json.dumps({**facts, "magic": MAGIC})).magic == MAGIC


def test_bytecode_for_another_python_is_marked_as_such() -> None:
    content = agent_zipapp.with_bytecode({"b.py": b"x = 1"}, {"b.py": b"code"}, bytes.fromhex("00000d0a"))
    assert content["b.pyc"].startswith(bytes.fromhex("00000d0a"))
    assert content["bytecode-index"] == bytes.fromhex("00000d0a") + os.fsencode("b")
