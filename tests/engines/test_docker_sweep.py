"""What the doctor ends: at each daemon that hosts of this data folder were made at, and not only at today's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from fake_dockerd import serving

from jupyter_smx.engines.docker import orders
from jupyter_smx.model.errors import RefusedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fake_dockerd import FakeDockerd

    from jupyter_smx.engines.docker.engine import DockerEngine


def leave(daemon: FakeDockerd, folder: Path, cluster: str, name: str) -> None:
    """Leave a container and a network of a cluster at a daemon, and the cluster's folder."""
    labels = {orders.OWNER: orders.owner(os.fspath(folder)), orders.CLUSTER: cluster}
    daemon.containers[name] = {"config": {"Labels": labels}, "state": {"Status": "exited"}, "said": ""}
    daemon.networks[name] = {"Id": name, "Name": name, "Labels": labels}
    place = folder / "clusters" / cluster
    place.mkdir(parents=True, exist_ok=True)
    (place / "daemon").write_text(daemon.url)


@pytest.fixture
def today(tmp_path: Path) -> Iterator[FakeDockerd]:
    with serving(tmp_path / "today.sock", lambda _container: None) as daemon:
        yield daemon


@pytest.fixture
def before(tmp_path: Path) -> Iterator[FakeDockerd]:
    with serving(tmp_path / "before.sock", lambda _container: None) as daemon:
        yield daemon


def engine_at(url: str, folder: Path, **traits: Any) -> DockerEngine:
    from jupyter_smx.engines.docker.engine import DockerEngine  # noqa: PLC0415 - imports Docker's library

    return DockerEngine(data_dir=os.fspath(folder), docker_host=url, **traits)


async def test_what_was_left_at_an_earlier_daemon_is_ended_and_named_with_it(
    today: FakeDockerd, before: FakeDockerd, tmp_path: Path
) -> None:
    folder = tmp_path / "smx"
    leave(today, folder, "a1", "here")
    leave(before, folder, "b1", "there")
    leave(before, folder, "b2", "alive")
    (folder / "clusters" / "b1" / "released").touch()
    ended = await engine_at(today.url, folder).sweep(lambda: ["b2"])
    there = [f"there at {before.url}", f"network there at {before.url}"]
    assert sorted(ended) == sorted(["here", "network here", *there])
    assert (set(today.containers), set(before.containers)) == (set(), {"alive"})
    assert (set(today.networks), set(before.networks)) == (set(), {"alive"})


async def test_a_daemon_that_cannot_be_asked_is_named_and_keeps_none_of_the_others_from_it(
    today: FakeDockerd, before: FakeDockerd, tmp_path: Path
) -> None:
    folder = tmp_path / "smx"
    leave(today, folder, "a1", "here")
    leave(before, folder, "b1", "there")
    before.refuses[""] = (503, "not today")
    *ended, sentence = await engine_at(today.url, folder).sweep(list)
    assert sorted(ended) == ["here", "network here"]
    assert sentence.startswith(f"The daemon at {before.url} could not be asked: ")
    assert "not today" in sentence or "503" in sentence
    # Nor does it matter that new hosts cannot be made anywhere now.
    before.refuses.clear()
    sentence, *ended = await engine_at("tcp://10.0.0.1:2375", folder).sweep(list)
    assert sentence.startswith("The daemon of new hosts could not be asked: docker_host: 'tcp://10.0.0.1:2375'")
    assert sorted(ended) == [f"network there at {before.url}", f"there at {before.url}"]
    assert before.containers == {}


async def test_where_there_is_one_daemon_only_its_trouble_is_the_answer(today: FakeDockerd, tmp_path: Path) -> None:
    folder = tmp_path / "smx"
    leave(today, folder, "a1", "here")
    today.refuses[""] = (503, "not today")
    with pytest.raises(UnavailableError):
        await engine_at(today.url, folder).sweep(list)
    with pytest.raises(RefusedError, match="is no address of a unix socket"):
        await engine_at("tcp://10.0.0.1:2375", tmp_path / "other").sweep(list)
