"""What the doctor ends: at each daemon that hosts of this data folder were made at, and not only at today's."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

import pytest
from fake_dockerd import serving

from jupyter_smx.engines.docker.containers import container_spec
from jupyter_smx.engines.docker.containers.origin import Origin, OriginFilter, read_origin
from jupyter_smx.model.errors import RefusedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fake_dockerd import FakeDockerd

    from jupyter_smx.engines.docker.engine import DockerEngine


def of(cluster: str) -> list[str]:
    """Name what a cluster of one host has, as the doctor does."""
    return [f"jupyter-smx-{cluster}-algo-1", f"network jupyter-smx-{cluster}"]


def leave(
    daemon: FakeDockerd, folder: Path, cluster: str, *, status: str = "exited", has_folder: bool = True, **origin: str
) -> None:
    """Leave a container and a network of a cluster at a daemon, and the cluster's folder if there is one."""
    labels = {
        **Origin(**origin).labels(),
        container_spec.OWNER: container_spec.owner(os.fspath(folder)),
        container_spec.CLUSTER: cluster,
        container_spec.HOST: "algo-1",
    }
    [container] = of(cluster)[:1]
    daemon.containers[container] = {"config": {"Labels": labels}, "state": {"Status": status}, "said": ""}
    network = container_spec.network_name(cluster)
    daemon.networks[network] = {"Id": network, "Name": network, "Labels": labels}
    if not has_folder:
        return
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
    leave(today, folder, "a1")
    leave(before, folder, "b1")
    leave(before, folder, "b2")
    (folder / "clusters" / "b1" / "released").touch()
    ended = await engine_at(today.url, folder).sweep(lambda: ["b2"])
    assert sorted(ended) == sorted([*of("a1"), *(f"{one} at {before.url}" for one in of("b1"))])
    assert (set(today.containers), set(before.containers)) == (set(), {"jupyter-smx-b2-algo-1"})
    assert (set(today.networks), set(before.networks)) == (set(), {"jupyter-smx-b2"})


async def test_a_daemon_that_cannot_be_asked_is_named_and_keeps_none_of_the_others_from_it(
    today: FakeDockerd, before: FakeDockerd, tmp_path: Path
) -> None:
    folder = tmp_path / "smx"
    leave(today, folder, "a1")
    leave(before, folder, "b1")
    before.refuses[""] = (503, "not today")
    *ended, sentence = await engine_at(today.url, folder).sweep(list)
    assert sorted(ended) == of("a1")
    assert sentence.startswith(f"The daemon at {before.url} did not answer: ")
    assert "not today" in sentence or "503" in sentence
    # Nor does it matter that new hosts cannot be made anywhere now.
    before.refuses.clear()
    sentence, *ended = await engine_at("tcp://10.0.0.1:2375", folder).sweep(list)
    assert sentence.startswith("The daemon of new hosts did not answer: docker_host: 'tcp://10.0.0.1:2375'")
    assert sorted(ended) == [f"{one} at {before.url}" for one in of("b1")]
    assert before.containers == {}


async def test_where_there_is_one_daemon_only_its_trouble_is_the_answer(today: FakeDockerd, tmp_path: Path) -> None:
    folder = tmp_path / "smx"
    leave(today, folder, "a1")
    today.refuses[""] = (503, "not today")
    with pytest.raises(UnavailableError):
        await engine_at(today.url, folder).sweep(list)
    with pytest.raises(RefusedError, match="is not the address of a unix socket"):
        await engine_at("tcp://10.0.0.1:2375", tmp_path / "other").sweep(list)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of records that have an ID, with a home on a network, which has a token."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".records-token").write_text("0123456789abcdef\n")
    monkeypatch.setenv("JUPYTER_SMX_DATA_DIR", os.fspath(home))
    records = tmp_path / "smx"
    records.mkdir()
    (records / "records-id").write_text("mine\n")
    return records


def origin_here(folder: Path) -> Origin:
    return read_origin(folder, folder.parent / "home", socket.gethostname())


def remains(daemon: FakeDockerd) -> tuple[set[str], set[str]]:
    """Return the clusters that have containers and networks."""
    return {name.split("-")[2] for name in daemon.containers}, {name.split("-")[2] for name in daemon.networks}


async def test_what_a_controller_on_another_machine_made_is_left_alone(today: FakeDockerd, folder: Path) -> None:
    """Two machines with one network home have the same path of the records, and may use one daemon."""
    here = origin_here(folder)
    assert here.records == "mine"
    leave(today, folder, "a1", records="mine", machine="elsewhere")
    leave(today, folder, "a2", has_folder=False, records="deleted", machine=here.machine)
    leave(today, folder, "a3", has_folder=False)
    leave(today, folder, "b1", has_folder=False, records="other", machine="elsewhere")
    ended = await engine_at(today.url, folder).sweep(list)
    assert sorted(ended) == sorted([*of("a1"), *of("a2"), *of("a3")])
    assert remains(today) == ({"b1"}, {"b1"})


async def test_what_a_former_container_of_the_same_home_made_is_removed_when_it_has_ended(
    today: FakeDockerd, folder: Path
) -> None:
    """A new container of a hub has new records and a new name; another one of the same home may run beside it."""
    home = origin_here(folder).home
    leave(today, folder, "a1", has_folder=False, records="former", machine="former", home=home)
    leave(today, folder, "b1", has_folder=False, records="beside", machine="beside", home=home, status="running")
    leave(today, folder, "b2", has_folder=False, records="other", machine="other", home="0000")
    await engine_at(today.url, folder).sweep(list)
    assert remains(today) == ({"b1", "b2"}, {"b1", "b2"})
    today.containers["jupyter-smx-b1-algo-1"]["state"] = {"Status": "exited"}
    await engine_at(today.url, folder).sweep(list)
    assert remains(today) == ({"b2"}, {"b2"})


async def test_containers_with_one_fixed_name_leave_alone_what_runs(today: FakeDockerd, folder: Path) -> None:
    here = origin_here(folder)
    leave(today, folder, "b1", has_folder=False, records="other", machine=here.machine, status="running")
    leave(today, folder, "b2", has_folder=False, records="other", machine=here.machine, home="0000")
    leave(today, folder, "a1", records="deleted", machine=here.machine, status="running")
    await engine_at(today.url, folder).sweep(list)
    assert remains(today) == ({"b1", "b2"}, {"b1", "b2"}), "the folder of a1 is in these records"


def test_machines_of_one_network_home_have_different_labels(folder: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    first, second = read_origin(folder, home, "node-1"), read_origin(tmp_path / "other", home, "node-2")
    assert first.labels() != second.labels()
    assert first.home == second.home != ""
    assert "node" not in str(first.labels())
    assert "0123456789abcdef" not in str(first.labels())
    row = {"State": "running", "Labels": {**first.labels(), container_spec.CLUSTER: "c1"}}
    assert OriginFilter(second).is_of_other(row)
    assert not OriginFilter(first).is_of_other(row)
