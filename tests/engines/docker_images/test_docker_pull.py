"""How an image is downloaded, at a daemon of ours that says what a test lets it: progress, sharing, ends."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from fake_registry import LAYERS, NAME, Daemon, Ear, pulls_of, running, told

from jupyter_smx.model.errors import RefusedError, UnavailableError
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this user have no login anywhere."""
    monkeypatch.setenv("DOCKER_CONFIG", os.fspath(tmp_path / "login"))


async def test_it_is_said_how_many_layers_and_bytes_are_here_and_what_was_here_before(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        ear = Ear(pulls_of(daemon))
        await ear.hears("contacting its registry")
        daemon.say({"status": "Pulling from team/train", "id": "1"}, told(LAYERS[0], "Already exists"))
        daemon.say(*(told(layer, "Pulling fs layer") for layer in LAYERS[1:]))
        await ear.hears("1 of 4 layers (1 was here)")
        daemon.say(told(LAYERS[1], "Downloading", 20_000_000, 80_000_000))
        await ear.hears("1 of 4 layers (1 was here), 19 of at least 76 MiB")
        daemon.say(*(told(layer, "Downloading", 50_000_000, 200_000_000) for layer in LAYERS[2:]))
        await ear.hears("1 of 4 layers (1 was here), 114 of 458 MiB")
        daemon.say(told(LAYERS[1], "Download complete"), told(LAYERS[1], "Extracting", 7, 80_000_000))
        daemon.say(told(LAYERS[1], "Pull complete"))
        await ear.hears("2 of 4 layers (1 was here), 172 of 458 MiB")
        daemon.say(*(told(layer, "Verifying Checksum") for layer in LAYERS[2:]))
        await ear.hears("2 of 4 layers (1 was here), unpacking")
        daemon.say(*(told(layer, "Pull complete") for layer in LAYERS[2:]), {"status": "Digest: sha256:1"}, None)
        await ear.task
        assert ear.heard[-1].text == "4 of 4 layers (1 was here)"
        # Nothing comes from elsewhere before a layer does.
        before = {"waiting for other downloads", "contacting its registry", "1 of 1 layers (1 was here)"}
        assert {step.text for step in ear.heard if not step.downloads} == before
        assert ear.heard[-1].downloads
        assert daemon.asked[0].startswith("POST /images/create?fromImage=hub.test%3A5000%2Fteam%2Ftrain&tag=1 HTTP/1.1")


async def test_an_image_that_is_up_to_date_is_not_downloaded(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        ear = Ear(pulls_of(daemon, "always"))
        daemon.say({"status": "Pulling from team/train", "id": "1"}, *(told(one, "Already exists") for one in LAYERS))
        daemon.say({"status": "Status: Image is up to date for train:1"}, None)
        await ear.task
        assert [step for step in ear.heard if step.downloads] == []


async def test_a_registry_that_is_away_takes_nothing_away_of_what_is_here(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        daemon.say({"error": "dial tcp 127.0.0.1:5000: connect: connection refused"})
        with pytest.raises(RefusedError) as error:
            await pulls_of(daemon, "always").pull(NAME, lambda _step: None, is_here=True)
    assert f"{NAME!r} is an image of Docker at" in error.value.message
    assert "cannot be downloaded again" in error.value.message
    assert error.value.transient


async def test_lines_that_come_in_pieces_and_words_that_nobody_knows_say_what_they_say(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        ear = Ear(pulls_of(daemon))
        line = json.dumps(told(LAYERS[0], "Downloading", 1_234_567, 2_000_000)).encode()
        daemon.say({"status": "Never heard of", "id": "x"}, {"status": 5, "progressDetail": None}, b"\r\n", b"[1]\n")
        daemon.say({"id": "1", "error": ""})
        daemon.say(line[:10], line[10:30], line[30:] + b"\r\n" + json.dumps({"id": LAYERS[0]}).encode() + b"\n")
        daemon.say({"id": LAYERS[1], "status": "Downloading", "progressDetail": {"current": "x", "total": -4}})
        await ear.hears("0 of 2 layers, 1.2 of at least 1.9 MiB")
        daemon.say(None)
        await ear.task


@pytest.mark.parametrize("words", [b"hang up", b"{no json\n", b"x" * 3_000_000])
async def test_an_answer_that_breaks_off_is_no_image(tmp_path: Path, words: bytes) -> None:
    async with running(tmp_path) as daemon:
        ear = Ear(pulls_of(daemon))
        daemon.say(told(LAYERS[0], "Pull complete"), words)
        with pytest.raises(UnavailableError, match="aborted the download") as error:
            await ear.task
        assert error.value.transient


async def test_a_daemon_that_ends_its_answer_by_hanging_up_is_believed(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        daemon.is_chunked = False
        ear = Ear(pulls_of(daemon))
        daemon.say(told(LAYERS[0], "Pull complete"), None)
        await ear.task
        assert ear.heard[-1].text == "1 of 1 layers"


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
        assert second.heard[-1].text == "1 of 1 layers"
        assert first.heard[-1].text == "0 of 1 layers"
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
        with pytest.raises(RefusedError, match=r"no data for 200 ms") as error:
            await asyncio.wait_for(ear.task, 10)
        assert error.value.transient
        await eventually(lambda: daemon.open == 0, within=30)


async def test_a_daemon_that_takes_no_connection_is_no_registry_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_where: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio, "open_unix_connection", never)
    with pytest.raises(UnavailableError, match=r"did not accept a connection within 100 ms"):
        await asyncio.wait_for(pulls_of(Daemon(tmp_path), seconds=0.1).pull(NAME, lambda _step: None), 10)


async def test_a_daemon_that_is_away_is_no_registry_that_is(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="Docker does not answer") as error:
        await Ear(pulls_of(Daemon(tmp_path / "nobody"))).task
    assert (error.value.field, error.value.transient) == ("docker_host", True)


async def test_there_are_no_more_downloads_at_once_than_the_daemon_should_have(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        pulls = pulls_of(daemon)
        ears = [Ear(pulls, f"train:{number}") for number in range(6)]
        await eventually(lambda: daemon.open == 4, within=30)
        assert [ear.heard[-1].text for ear in ears[4:]] == ["waiting for other downloads"] * 2
        daemon.say(*[None] * 6)
        await asyncio.gather(*(ear.task for ear in ears))
        assert len(daemon.asked) == 6


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
    assert (pulls.is_due(name), pulls.can_pull(name)) == (is_due, may_have)


@pytest.mark.parametrize(
    ("name", "known", "digest"),
    [
        ("train:1", ["other@sha256:1", "train@sha256:2"], "train@sha256:2"),
        ("hub.test:5000/train", ["hub.test:5000/train@sha256:3"], "hub.test:5000/train@sha256:3"),
        ("train@sha256:2", ["train@sha256:1"], "train@sha256:1"),
        ("local:1", ["train@sha256:1"], "train@sha256:1"),
        ("docker.io/library/train:1", ["hub.test/train@sha256:1", "train@sha256:2"], "train@sha256:2"),
        (
            "train:1",
            ["hub.test/train@sha256:1", "docker.io/library/train@sha256:2"],
            "docker.io/library/train@sha256:2",
        ),
        ("me/train", ["hub.test/me/train@sha256:1", "docker.io/me/train@sha256:2"], "docker.io/me/train@sha256:2"),
        ("train:1@sha256:3", ["hub.test/train@sha256:1", "train@sha256:2", "train@sha256:3"], "train@sha256:3"),
        (
            "hub.test:5000/train@sha256:2",
            ["train@sha256:1", "hub.test:5000/train@sha256:2"],
            "hub.test:5000/train@sha256:2",
        ),
        ("sha256:0123", ["train@sha256:1"], "train@sha256:1"),
        ("local:1", [], ""),
        ("local:1", None, ""),
    ],
)
def test_the_digest_is_that_of_the_repository_by_which_it_was_named(
    name: str, known: list[str] | None, digest: str
) -> None:
    from jupyter_smx.engines.docker.images.registry import repo_digest  # noqa: PLC0415 - imports Docker's library

    assert repo_digest(name, known) == digest
