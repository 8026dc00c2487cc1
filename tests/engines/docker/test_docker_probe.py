"""Short-lived containers: none remains, even if the caller gave up or the controller was killed."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
from fake_dockerd import answer, end, room, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fake_dockerd import FakeDockerd

    from jupyter_smx.engines.docker.engine import DockerEngine


def live(container: dict[str, Any]) -> None:
    if "Mounts" in container["config"]["HostConfig"]:
        answer(container)
    else:
        end(container, 0, "[3, 11]\n")


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDockerd]:
    from jupyter_smx.engines.docker.images.image import Images  # noqa: PLC0415 - imports Docker's library

    monkeypatch.setattr(Images, "cache", {})
    with serving(tmp_path / "d.sock", live) as daemon:
        yield daemon


def engine_at(daemon: FakeDockerd, folder: Path) -> DockerEngine:
    from jupyter_smx.engines.docker.engine import DockerEngine  # noqa: PLC0415 - imports Docker's library

    return DockerEngine(data_dir=os.fspath(folder), docker_host=daemon.url)


def left(daemon: FakeDockerd, folder: Path, name: str, process: int) -> None:
    """Add a container that a process made as a probe."""
    from jupyter_smx.engines.docker.containers import container_spec  # noqa: PLC0415 - imports Docker's library

    labels = {container_spec.OWNER: container_spec.owner(os.fspath(folder)), container_spec.PROBE: str(process)}
    daemon.containers[name] = {"config": {"Labels": labels}, "state": {"Status": "exited"}, "said": ""}


async def test_what_a_killed_controller_left_is_removed_when_the_next_one_looks_and_nothing_else(
    daemon: FakeDockerd, tmp_path: Path
) -> None:
    gone = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await gone.wait()
    left(daemon, tmp_path, "forsaken", gone.pid)
    left(daemon, tmp_path, "at-work", os.getppid())
    daemon.containers["a-host"] = {"config": {"Labels": {}}, "state": {"Status": "running"}, "said": ""}
    engine = engine_at(daemon, tmp_path)
    await engine.resolve_image("train:1", lambda _step: None)
    assert [*daemon.containers] == ["at-work", "a-host"]
    left(daemon, tmp_path, "forsaken", gone.pid)
    await engine.resolve_image("train:1", lambda _step: None)
    assert "forsaken" in daemon.containers, "it is looked for once, and not before each job"


async def test_a_daemon_that_does_not_say_what_was_left_keeps_no_image_from_anybody(
    daemon: FakeDockerd, tmp_path: Path
) -> None:
    daemon.refuses["GET /containers/json"] = (503, "not today")
    assert (await engine_at(daemon, tmp_path).resolve_image("train:1", lambda _step: None)).id


async def test_a_container_that_cannot_be_removed_now_is_no_trouble_of_the_image(
    daemon: FakeDockerd, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    daemon.refuses["DELETE"] = (500, "device is busy")
    assert (await engine_at(daemon, tmp_path).resolve_image("train:1", lambda _step: None)).id
    assert "remove failed: device is busy" in caplog.text
    assert not any(room(one).exists() for one in daemon.containers.values() if "Mounts" in one["config"]["HostConfig"])


async def test_what_a_python_writes_fills_nobodys_disk(daemon: FakeDockerd, tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []

    def look(container: dict[str, Any]) -> None:
        seen.append(container["config"]["HostConfig"])
        live(container)

    daemon.live = look
    await engine_at(daemon, tmp_path).resolve_image("train:1", lambda _step: None)
    assert [one["LogConfig"]["Config"]["max-size"] for one in seen] == ["1m", "1m"]


async def test_what_is_tried_asks_for_no_more_than_the_daemon_can_do_and_for_no_gpu(
    daemon: FakeDockerd, tmp_path: Path
) -> None:
    seen: list[dict[str, Any]] = []

    def look(container: dict[str, Any]) -> None:
        seen.append(container["config"])
        live(container)

    daemon.live = look
    daemon.info |= {"MemoryLimit": False, "SwapLimit": False, "PidsLimit": False}
    await engine_at(daemon, tmp_path).resolve_image("train:1", lambda _step: None)
    assert len(seen) == 2
    for one in seen:
        assert {"Memory", "MemorySwap", "PidsLimit"}.isdisjoint(one["HostConfig"])
        assert one["Env"] == ["NVIDIA_VISIBLE_DEVICES=void"]
    assert [one["HostConfig"].get("Init", False) for one in seen] == [False, True]
