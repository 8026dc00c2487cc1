"""How an image is downloaded, at a daemon of ours that says what a test lets it: progress, sharing, ends, refusals."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import stat
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.model.errors import RefusedError, SmxError, UnavailableError
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from jupyter_smx.engines.base import Step
    from jupyter_smx.engines.docker_pull import Pulls

NAME = "hub.test:5000/team/train:1"
LAYERS = [f"{number:012x}" for number in range(1, 5)]


def told(layer: str, status: str, current: int = 0, total: int = 0) -> dict[str, Any]:
    detail = {"current": current, "total": total} if total else {}
    return {"id": layer, "status": status, "progressDetail": detail, "progress": "[==>   ]"}


class Daemon:
    """One that takes any question for an image, and answers with what is put in ``lines``; None ends an answer."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: asyncio.Queue[dict[str, Any] | bytes | None] = asyncio.Queue()
        self.asked: list[str] = []
        self.open = 0
        self.status = b"200 OK"
        self.is_chunked = True

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
        self.open += 1
        gone = asyncio.create_task(reader.read())
        try:
            chunked = b"Transfer-Encoding: chunked\r\n" if self.is_chunked else b""
            writer.write(b"HTTP/1.1 " + self.status + b"\r\nContent-Type: application/json\r\n" + chunked + b"\r\n")
            await self._say(writer, gone)
        finally:
            gone.cancel()
            self.open -= 1
            writer.close()

    async def _say(self, writer: asyncio.StreamWriter, gone: asyncio.Task[bytes]) -> None:
        while not gone.done():
            coming = asyncio.create_task(self.lines.get())
            await asyncio.wait({gone, coming}, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                coming.cancel()
                return
            line = coming.result()
            if line is None:
                writer.write(b"0\r\n\r\n" if self.is_chunked else b"")
                return
            if line == b"hang up":
                return
            data = line if isinstance(line, bytes) else json.dumps(line).encode() + b"\r\n"
            writer.write(b"%x\r\n%s\r\n" % (len(data), data) if self.is_chunked else data)
            with suppress(ConnectionError):
                await writer.drain()

    def say(self, *lines: dict[str, Any] | bytes | None) -> None:
        for line in lines:
            self.lines.put_nowait(line)


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Daemon]:
    daemon = Daemon(folder / "d.sock")
    server = await asyncio.start_unix_server(daemon.answer, os.fspath(daemon.path))
    async with server:
        yield daemon


def pulls_of(daemon: Daemon, when: Any = "missing", seconds: float = 20.0) -> Pulls:
    from jupyter_smx.engines.docker_pull import Pulls  # noqa: PLC0415 - imports Docker's library

    return Pulls(f"unix://{daemon.path}", when, seconds)


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any]], None]:
    monkeypatch.setenv("DOCKER_CONFIG", os.fspath(tmp_path / "login"))
    (tmp_path / "login").mkdir()
    return lambda content: (tmp_path / "login" / "config.json").write_text(json.dumps(content)) and None


class Ear:
    """Somebody who waits for an image, and what they heard."""

    def __init__(self, pulls: Pulls, name: str = NAME) -> None:
        self.heard: list[Step] = []
        self.task = asyncio.create_task(pulls.fetch(name, self.heard.append))

    async def hears(self, words: str) -> None:
        await eventually(lambda: bool(self.heard) and self.heard[-1].words == words, within=30)


async def test_it_is_said_how_many_layers_and_bytes_are_here_and_what_was_here_before(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        ear = Ear(pulls_of(daemon))
        await ear.hears("asking its registry")
        daemon.say({"status": "Pulling from team/train", "id": "1"}, told(LAYERS[0], "Already exists"))
        daemon.say(*(told(layer, "Pulling fs layer") for layer in LAYERS[1:]))
        await ear.hears("1 of 4 layers (1 was here)")
        daemon.say(told(LAYERS[1], "Downloading", 20_000_000, 80_000_000))
        await ear.hears("1 of 4 layers (1 was here), 20 of at least 80 MB")
        daemon.say(*(told(layer, "Downloading", 50_000_000, 200_000_000) for layer in LAYERS[2:]))
        await ear.hears("1 of 4 layers (1 was here), 120 of 480 MB")
        daemon.say(told(LAYERS[1], "Download complete"), told(LAYERS[1], "Extracting", 7, 80_000_000))
        daemon.say(told(LAYERS[1], "Pull complete"))
        await ear.hears("2 of 4 layers (1 was here), 180 of 480 MB")
        daemon.say(*(told(layer, "Verifying Checksum") for layer in LAYERS[2:]))
        await ear.hears("2 of 4 layers (1 was here), unpacking")
        daemon.say(*(told(layer, "Pull complete") for layer in LAYERS[2:]), {"status": "Digest: sha256:1"}, None)
        await ear.task
        assert ear.heard[-1].words == "4 of 4 layers (1 was here)"
        assert all(step.downloads for step in ear.heard)
        assert daemon.asked[0].startswith("POST /images/create?fromImage=hub.test%3A5000%2Fteam%2Ftrain&tag=1 HTTP/1.1")


async def test_lines_that_come_in_pieces_and_words_that_nobody_knows_say_what_they_say(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        ear = Ear(pulls_of(daemon))
        line = json.dumps(told(LAYERS[0], "Downloading", 1_234_567, 2_000_000)).encode()
        daemon.say({"status": "Never heard of", "id": "x"}, {"status": 5, "progressDetail": None}, b"\r\n", b"[1]\n")
        daemon.say({"id": "1", "error": ""})
        daemon.say(line[:10], line[10:30], line[30:] + b"\r\n" + json.dumps({"id": LAYERS[0]}).encode() + b"\n")
        daemon.say({"id": LAYERS[1], "status": "Downloading", "progressDetail": {"current": "x", "total": -4}})
        await ear.hears("0 of 2 layers, 1.2 of at least 2.0 MB")
        daemon.say(None)
        await ear.task


@pytest.mark.parametrize("words", [b"hang up", b"{no json\n", b"x" * 3_000_000])
async def test_an_answer_that_breaks_off_is_no_image(tmp_path: Path, words: bytes) -> None:
    async with running(tmp_path) as daemon:
        ear = Ear(pulls_of(daemon))
        daemon.say(told(LAYERS[0], "Pull complete"), words)
        with pytest.raises(UnavailableError, match="broke off the download") as error:
            await ear.task
        assert error.value.transient


async def test_a_daemon_that_ends_its_answer_by_hanging_up_is_believed(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        daemon.is_chunked = False
        ear = Ear(pulls_of(daemon))
        daemon.say(told(LAYERS[0], "Pull complete"), None)
        await ear.task
        assert ear.heard[-1].words == "1 of 1 layers"


async def test_all_who_want_an_image_share_one_download_and_hear_the_same(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        pulls = pulls_of(daemon)
        first = Ear(pulls)
        daemon.say(told(LAYERS[0], "Waiting"))
        await first.hears("0 of 1 layers")
        second, other = Ear(pulls), Ear(pulls, "other:1")
        await second.hears("0 of 1 layers")
        await eventually(lambda: len(daemon.asked) == 2, within=30)
        first.task.cancel()
        with suppress(asyncio.CancelledError):
            await first.task
        assert not second.task.done()
        other.task.cancel()
        await eventually(lambda: daemon.open == 1, within=30)
        daemon.say(told(LAYERS[0], "Pull complete"), None)
        await second.task
        assert second.heard[-1].words == "1 of 1 layers"
        assert first.heard[-1].words == "0 of 1 layers"
        assert len(daemon.asked) == 2


async def test_a_download_that_nobody_wants_any_more_ends_at_the_daemon_and_the_next_one_is_anew(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as daemon:
        pulls = pulls_of(daemon)
        ears = [Ear(pulls), Ear(pulls)]
        await eventually(lambda: daemon.open == 1, within=30)
        for ear in ears:
            ear.task.cancel()
        again = Ear(pulls)
        await asyncio.gather(*(ear.task for ear in ears), return_exceptions=True)
        await eventually(lambda: len(daemon.asked) == 2 and daemon.open == 1, within=30)
        daemon.say(None)
        await again.task


async def test_a_download_that_says_nothing_for_too_long_is_broken_off_and_may_be_tried_again(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        ear = Ear(pulls_of(daemon, seconds=0.2))
        with pytest.raises(RefusedError, match=r"nothing came for 0\.2 s") as error:
            await asyncio.wait_for(ear.task, 10)
        assert error.value.transient
        await eventually(lambda: daemon.open == 0, within=30)


async def test_a_daemon_that_is_away_is_no_registry_that_is(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="Docker does not answer") as error:
        await Ear(pulls_of(Daemon(tmp_path / "nobody"))).task
    assert (error.value.field, error.value.transient) == ("docker_host", True)


async def test_there_are_no_more_downloads_at_once_than_the_daemon_should_have(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        pulls = pulls_of(daemon)
        ears = [Ear(pulls, f"train:{number}") for number in range(6)]
        await eventually(lambda: daemon.open == 4, within=30)
        assert [ear.heard[-1].words for ear in ears[4:]] == ["waiting for other downloads"] * 2
        daemon.say(*[None] * 6)
        await asyncio.gather(*(ear.task for ear in ears))
        assert len(daemon.asked) == 6


REFUSALS = [
    (
        "pull access denied for x, repository does not exist or may require 'docker login'",
        "docker login hub.test:5000",
        0,
    ),
    ("Head http://hub.test:5000/v2/: no basic auth credentials", "docker login hub.test:5000", 0),
    ("manifest for hub.test:5000/team/train:1 not found: manifest unknown: manifest unknown", "name and the tag", 0),
    ("http: server gave HTTP response to HTTPS client", "insecure-registries", 0),
    ("x509: certificate signed by unknown authority", "/etc/docker/certs.d/hub.test:5000/ca.crt", 0),
    ("no matching manifest for linux/amd64 in the manifest list entries", "build this one", 0),
    ("dial tcp: lookup hub.test: no such host", "docker load", 0),
    (
        "dial tcp: lookup hub.test on 10.0.0.1:53: dial udp 10.0.0.1:53: connect: network is unreachable",
        "docker load",
        0,
    ),
    (
        "dial tcp: lookup hub.test on 127.0.0.1:53: read udp 127.0.0.1:4->127.0.0.1:53: connection refused",
        "docker load",
        0,
    ),
    ("dial tcp: lookup hub.test: i/o timeout", "docker pull", 1),
    ("invalid reference format", "Correct it", 0),
    ("write /var/lib/docker/tmp/x: no space left on device", "Free some space", 1),
    ("toomanyrequests: You have reached your pull rate limit", "docker login hub.test:5000", 1),
    ("dial tcp 127.0.0.1:5000: connect: connection refused", "docker pull hub.test:5000/team/train:1", 1),
    ("received unexpected HTTP status: 503 Service Unavailable", "docker pull", 1),
    ("unexpected EOF", "docker pull", 1),
]


@pytest.mark.parametrize("is_begun", [False, True])
@pytest.mark.parametrize(("words", "cure", "transient"), REFUSALS)
async def test_what_a_registry_says_is_told_with_the_rule_and_the_cure(
    tmp_path: Path, words: str, cure: str, transient: int, *, is_begun: bool
) -> None:
    async with running(tmp_path) as daemon:
        if is_begun:
            daemon.say(told(LAYERS[0], "Waiting"), {"errorDetail": {"message": words}, "error": words})
        else:
            daemon.status, daemon.is_chunked = b"500 Internal Server Error", False
            daemon.say({"message": words}, None)
        with pytest.raises(RefusedError) as error:
            await Ear(pulls_of(daemon)).task
        told_of = error.value
        assert words.rstrip(".") in told_of.message
        assert (told_of.field, told_of.value, told_of.transient) == ("image", NAME, bool(transient))
        assert cure in told_of.cure
        assert told_of.rule


def header(asked: str) -> dict[str, Any] | None:
    lines = [line.partition(": ") for line in asked.split("\r\n")]
    found = next((text for name, _, text in lines if name == "X-Registry-Auth"), "")
    return dict(json.loads(base64.urlsafe_b64decode(found))) if found else None


async def said_to(tmp_path: Path, name: str = NAME) -> dict[str, Any] | None:
    async with running(tmp_path) as daemon:
        daemon.say(None)
        await Ear(pulls_of(daemon), name).task
    return header(daemon.asked[0])


async def test_what_docker_login_left_is_given_to_its_registry_only_and_read_anew_each_time(
    tmp_path: Path, config: Callable[[dict[str, Any]], None]
) -> None:
    assert await said_to(tmp_path) is None
    config({"auths": {"hub.test:5000": {"auth": base64.b64encode(b"ann:pass:word").decode()}}})
    said = await said_to(tmp_path)
    assert said is not None
    assert (said["username"], said["password"]) == ("ann", "pass:word")
    assert await said_to(tmp_path, "elsewhere.test/train") is None
    assert await said_to(tmp_path, "train") is None


async def test_a_helper_for_credentials_is_asked(
    tmp_path: Path, config: Callable[[dict[str, Any]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "docker-credential-ours"
    program.write_text('#!/bin/sh\nread host\necho "{\\"Username\\": \\"$1 $host\\", \\"Secret\\": \\"s\\"}"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    config({"credHelpers": {"hub.test:5000": "ours"}})
    said = await said_to(tmp_path)
    assert said is not None
    assert (said["Username"], said["Password"]) == ("get hub.test:5000", "s")


async def test_what_docker_login_left_and_nobody_can_read_is_told_where_it_matters(
    tmp_path: Path, config: Callable[[dict[str, Any]], None]
) -> None:
    config({"auths": {"hub.test:5000": "not a login"}})
    async with running(tmp_path) as daemon:
        daemon.say({"error": "denied"})
        with pytest.raises(SmxError, match="what docker login left cannot be read") as error:
            await Ear(pulls_of(daemon)).task
    assert "docker login hub.test:5000" in error.value.cure


@pytest.mark.parametrize(
    ("when", "name", "is_due", "may_have"),
    [
        ("missing", "train", False, True),
        ("missing", f"train@sha256:{'a' * 64}", False, True),
        ("missing", f"sha256:{'a' * 64}", False, False),
        ("missing", "a" * 64, False, False),
        ("missing", "sha256:abc", False, False),
        ("always", "train:1", True, True),
        ("always", f"train@sha256:{'a' * 64}", False, True),
        ("always", f"sha256:{'a' * 64}", False, False),
        ("never", "train", False, False),
    ],
)
def test_which_names_are_asked_for(tmp_path: Path, when: str, name: str, *, is_due: bool, may_have: bool) -> None:
    pulls = pulls_of(Daemon(tmp_path), when)
    assert (pulls.is_due(name), pulls.may_have(name)) == (is_due, may_have)


@pytest.mark.parametrize(
    ("name", "known", "digest"),
    [
        ("train:1", ["other@sha256:1", "train@sha256:2"], "train@sha256:2"),
        ("hub.test:5000/train", ["hub.test:5000/train@sha256:3"], "hub.test:5000/train@sha256:3"),
        ("train@sha256:2", ["train@sha256:1"], "train@sha256:1"),
        ("local:1", ["train@sha256:1"], "train@sha256:1"),
        ("local:1", [], ""),
        ("local:1", None, ""),
    ],
)
def test_the_digest_is_that_of_the_repository_by_which_it_was_named(
    name: str, known: list[str] | None, digest: str
) -> None:
    from jupyter_smx.engines.docker_registry import digest_of  # noqa: PLC0415 - imports Docker's library

    assert digest_of(name, known) == digest
