"""What the Docker engine does for every answer of its daemon: a fake one, whose answers a test chooses."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from fake_dockerd import IMAGE, end, serving
from fake_engine import end_of, engine_at, live, up, wanted
from msgspec.structs import replace

from jupyter_smx.engines.base import ImageMissingError, Observation
from jupyter_smx.engines.docker.daemon import users
from jupyter_smx.engines.machine.cluster_folders import ClusterFolders
from jupyter_smx.model.errors import RefusedError, SmxError, UnavailableError
from jupyter_smx.model.records.cluster import Handle, HostHandle

if TYPE_CHECKING:
    from pathlib import Path

    from fake_dockerd import FakeDockerd


UNLISTED = ("", "GET /containers", "GET /version")
"""Refusals that hide all containers: the library requests the version before anything else."""


@pytest.mark.parametrize(
    "refused",
    [
        "GET /images",
        "GET /version",
        "GET /v1.41/version",
        "GET /info",
        "GET /containers",
        "GET /networks",
        "POST",
        "DELETE",
        "",
    ],
)
@pytest.mark.parametrize("status", [403, 503])
async def test_a_no_of_the_daemon_is_never_anything_but_an_error_of_ours(
    daemon: FakeDockerd, tmp_path: Path, status: int, refused: str
) -> None:
    """A daemon that starts or stops answers 503 to everything, and a restrictive proxy answers 403."""
    handle = Handle(engine="docker", cluster="c1", hosts=(HostHandle(host="algo-1", data={"container": "x"}),))
    (tmp_path / "clusters" / "c1").mkdir(parents=True)
    engine = engine_at(daemon, tmp_path, launch_timeout=0.3, release_timeout=0.3)
    daemon.refuses = {refused: (status, "not today")}
    ends = {
        "pin": await end_of(engine.resolve_image("train:1", lambda _words: None)),
        "acquire": await end_of(up(engine, wanted())),
        "find": await end_of(engine.find("c1")),
        "release": await end_of(engine.release(handle)),
        "doctor": await end_of(engine.doctor()),
        "sweep": await end_of(engine.sweep(list)),
    }
    # Without a list the state is unknown: only a list without the container proves that it is gone.
    seen = Observation.UNKNOWN if refused in UNLISTED else Observation.GONE
    assert await engine.observe_all([handle]) == [seen]
    raised = {name: error for name, error in ends.items() if error is not None}
    assert {name: error for name, error in raised.items() if not isinstance(error, SmxError)} == {}
    # The library requests the version by itself, and its error has only the status of the answer.
    assert [
        error for error in raised.values() if "not today" not in str(error) and f"{status} " not in str(error)
    ] == []
    assert raised
    if not refused:
        assert {*raised} == {*ends}


async def test_hosts_live_also_where_selinux_keeps_containers_from_all_that_has_no_label(
    daemon: FakeDockerd, tmp_path: Path
) -> None:
    """Simulates Fedora with SELinux: a process with the label of a container may not read a user's folder there."""
    daemon.info = {"SecurityOptions": ["name=seccomp,profile=default", "name=selinux"]}

    def labelled(container: dict[str, Any]) -> None:
        config = container["config"]["HostConfig"]
        if "Mounts" in config and "label=disable" not in config["SecurityOpt"]:
            end(container, 1, "PermissionError: [Errno 13] Permission denied: 'token'\n")
        else:
            live(container)

    daemon.live = labelled
    engine = engine_at(daemon, tmp_path)
    handle = await up(engine, wanted())
    [lacks] = handle.hosts[0].given_up
    assert "SELinux" in lacks
    assert (await engine.doctor())["given_up"] == [lacks]
    await engine.release(handle)


async def test_where_nothing_is_refused_hosts_come_up(daemon: FakeDockerd, tmp_path: Path) -> None:
    engine = engine_at(daemon, tmp_path)
    handle = await up(engine, wanted(2))
    assert [host.host for host in handle.hosts] == ["algo-1", "algo-2"]
    assert sorted(daemon.containers) == ["jupyter-smx-c1-algo-1", "jupyter-smx-c1-algo-2"]
    assert sum("/containers/create" in one for one in daemon.asked) == 4, "two looks, once, and two hosts"
    await engine.release(handle)


async def test_an_image_that_is_there_and_not_for_linux_is_refused(daemon: FakeDockerd, tmp_path: Path) -> None:
    daemon.image["Os"] = "windows"
    with pytest.raises(RefusedError, match="is for windows/amd64") as told:
        await engine_at(daemon, tmp_path).resolve_image("train:1", lambda _words: None)
    assert (told.value.field, told.value.transient) == ("image", False)
    assert "linux/amd64" in told.value.cure
    assert daemon.containers == {}


async def test_an_image_with_a_volume_among_what_is_a_jobs_own_is_refused(daemon: FakeDockerd, tmp_path: Path) -> None:
    daemon.image = {**daemon.image, "Config": {"Volumes": {"/data": {}, "/opt/ml/input/data/../data/train/": {}}}}
    with pytest.raises(RefusedError, match="declares a volume at '/opt/ml/input/data/train'") as told:
        await engine_at(daemon, tmp_path).resolve_image("train:1", lambda _words: None)
    assert (told.value.field, told.value.transient) == ("image", False)
    assert told.value.cure


async def test_a_python_that_says_something_at_its_end_is_one_all_the_same(daemon: FakeDockerd, tmp_path: Path) -> None:
    live = daemon.live

    def noisy(container: dict[str, Any]) -> None:
        live(container)
        container["said"] += "\nException ignored in: <function _end>\n{}\n"

    daemon.live = noisy
    assert (await engine_at(daemon, tmp_path).resolve_image("train:1", lambda _words: None)).id == IMAGE


async def test_the_version_of_the_python_of_an_image_is_known_from_its_inspection(
    daemon: FakeDockerd, tmp_path: Path
) -> None:
    engine = engine_at(daemon, tmp_path)
    looks = [await engine.resolve_image("train:1", lambda _words: None), await engine.peek_image("train:1")]
    looks.append(await engine.cached_image("train:1"))
    assert [found and found.python_version for found in looks] == ["3.11"] * 3


async def test_a_daemon_that_starts_no_container_at_all_is_not_the_images_fault(
    daemon: FakeDockerd, tmp_path: Path
) -> None:
    """As for a user without a session, which has no control group: 'no such file' is not about Python."""
    no_group = "open /sys/fs/cgroup/user.slice/user-7.slice/cgroup.controllers: no such file or directory"
    daemon.refuses["POST /containers/jupyter-smx-probe"] = (500, no_group)
    with pytest.raises(UnavailableError, match="could not start a container of image train:1: open /sys/fs/") as told:
        await engine_at(daemon, tmp_path).resolve_image("train:1", lambda _words: None)
    assert told.value.transient
    assert daemon.containers == {}


@pytest.mark.usefixtures("inspected_image")
async def test_hosts_are_made_of_what_was_looked_at_and_start_its_python(daemon: FakeDockerd, tmp_path: Path) -> None:
    engine = engine_at(daemon, tmp_path)
    await up(engine, wanted(image="train:1"))
    [container] = daemon.containers.values()
    assert container["config"]["Image"] == IMAGE
    assert container["config"]["Entrypoint"][0] == "/opt/conda/bin/python"


@pytest.mark.usefixtures("inspected_image")
async def test_an_image_that_went_is_told_from_all_other_refusals(daemon: FakeDockerd, tmp_path: Path) -> None:
    """A job with the digest on record pulls the image again."""
    daemon.refuses["GET /images"] = (404, "no such image")
    error = await end_of(up(engine_at(daemon, tmp_path), wanted(image=IMAGE)))
    assert isinstance(error, ImageMissingError)
    assert daemon.containers == {}
    daemon.refuses["GET /images"] = (400, "invalid reference format")
    assert not isinstance(await end_of(up(engine_at(daemon, tmp_path), wanted(image=IMAGE))), ImageMissingError)


@pytest.mark.parametrize(
    ("name", "answer", "cure"),
    [
        ("Train:1", (400, "repository name must be lowercase"), "Correct it."),
        ("https://hub/a", (301, ""), "Remove https://."),
    ],
)
async def test_what_cannot_be_the_name_of_an_image_is_not_to_be_built_or_downloaded(
    daemon: FakeDockerd, tmp_path: Path, name: str, answer: tuple[int, str], cure: str
) -> None:
    daemon.refuses["GET /images"] = answer
    error = await end_of(up(engine_at(daemon, tmp_path), wanted(image=name)))
    assert isinstance(error, RefusedError)
    assert (error.field, error.value) == ("image", name)
    assert answer[1] in error.message
    assert "()" not in error.message
    assert "docker build" not in error.cure
    assert cure in error.cure


@pytest.mark.usefixtures("inspected_image")
async def test_a_daemon_that_has_no_gpus_to_give_is_asked_once_and_nothing_of_it_stays(
    daemon: FakeDockerd, tmp_path: Path
) -> None:
    daemon.refuses["POST /containers/jupyter-smx-c1-algo-2/start"] = (500, 'could not select device driver "nvidia"')
    request = wanted(2)
    hosts = tuple(replace(host, gpus=1, devices=(at,)) for at, host in enumerate(request.hosts))
    with pytest.raises(RefusedError, match="cannot give GPUs to hosts of local") as told:
        await up(engine_at(daemon, tmp_path), replace(request, hosts=hosts))
    assert (told.value.field, told.value.transient) == ("instance_type", False)
    assert (daemon.containers, daemon.networks) == ({}, {})
    assert sum(what.endswith("algo-2/start") for what in daemon.asked) == 1


@pytest.mark.usefixtures("inspected_image")
async def test_why_a_host_did_not_come_up_is_told_also_where_it_cannot_be_released_then(
    daemon: FakeDockerd, tmp_path: Path
) -> None:
    daemon.refuses["POST /containers/jupyter-smx-c1-algo-1/start"] = (500, "exec format error")
    daemon.refuses["DELETE"] = (500, "device or resource busy")
    engine = engine_at(daemon, tmp_path)
    with pytest.raises(UnavailableError, match="exec format error"):
        await up(engine, wanted())
    daemon.refuses.clear()
    await engine.release(Handle(engine="docker", cluster="c1"))  # as its controller does, which has the first handle
    assert (daemon.containers, daemon.networks) == ({}, {})


@pytest.mark.usefixtures("inspected_image")
async def test_containers_end_although_the_data_folder_is_away(daemon: FakeDockerd, tmp_path: Path) -> None:
    folder, away = tmp_path / "smx", tmp_path / "away"
    engine = engine_at(daemon, folder)
    handle = await up(engine, wanted(2))
    folder.rename(away)
    folder.touch()
    with pytest.raises(UnavailableError, match="the release of cluster c1 cannot be recorded") as told:
        await engine.release(handle)
    assert (told.value.field, told.value.transient) == ("data_dir", True)
    assert (daemon.containers, daemon.networks) == ({}, {})
    folder.unlink()
    away.rename(folder)
    await engine.release(handle)
    assert ClusterFolders(folder).is_released("c1")
    assert await engine.find("c1") is None


@pytest.mark.usefixtures("inspected_image")
async def test_a_container_that_nobody_can_look_at_holds_up_no_release(daemon: FakeDockerd, tmp_path: Path) -> None:
    engine = engine_at(daemon, tmp_path)
    handle = await up(engine, wanted(2))
    for one in daemon.containers.values():
        end(one, 4)
    daemon.refuses["GET /containers/jupyter-smx-c1-algo-1/json"] = (500, "it is damaged")
    await engine.release(handle)
    assert daemon.containers == {}
    assert [await engine.exit_reason("c1", host) for host in ("algo-1", "algo-2")] == [
        "",
        "its container ended with exit code 4.",
    ]


@pytest.mark.usefixtures("inspected_image")
async def test_a_host_whose_container_is_away_before_any_release_was_removed_from_outside(
    daemon: FakeDockerd, tmp_path: Path
) -> None:
    engine = engine_at(daemon, tmp_path)
    handle = await up(engine, wanted(2))
    del daemon.containers["jupyter-smx-c1-algo-2"]
    await engine.release(handle)
    said = [await engine.exit_reason("c1", host) for host in ("algo-1", "algo-2")]
    assert said[0] == ""
    assert said[1].startswith("its container was removed from outside, as by docker rm --force. Run the job again")
    assert "--retries" in said[1]


@pytest.mark.usefixtures("inspected_image")
async def test_containers_that_our_own_release_removed_were_not_removed_from_outside(
    daemon: FakeDockerd, tmp_path: Path
) -> None:
    engine = engine_at(daemon, tmp_path, release_timeout=0.3, separate_network=True)
    handle = await up(engine, wanted())
    daemon.refuses["DELETE /networks"] = (500, "not today")
    with pytest.raises(UnavailableError):
        await engine.release(handle)
    assert daemon.containers == {}
    daemon.refuses = {}
    for again in (engine, engine_at(daemon, tmp_path)):
        await again.release(handle)
    assert await engine.exit_reason("c1", "algo-1") == ""


@pytest.mark.usefixtures("inspected_image")
async def test_how_one_ended_is_known_although_the_daemons_list_is_behind(daemon: FakeDockerd, tmp_path: Path) -> None:
    """Docker 28 once did not report the end of a container that had just been killed: its list was suspected."""
    engine = engine_at(daemon, tmp_path)
    handle = await up(engine, wanted(2))
    end(daemon.containers["jupyter-smx-c1-algo-2"], 137)
    daemon.is_behind = True
    await engine.release(handle)
    said = [await engine.exit_reason("c1", host) for host in ("algo-1", "algo-2")]
    assert said[0] == ""
    assert said[1].startswith("its container was ended from outside")


@pytest.mark.usefixtures("inspected_image")
async def test_what_is_made_while_nobody_can_see_whether_it_was_released_does_not_stay(
    daemon: FakeDockerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_at(daemon, tmp_path)
    is_released = ClusterFolders.is_released

    def look(folders: ClusterFolders, cluster: str) -> bool:
        if daemon.containers:
            raise OSError(116, "Stale file handle")
        return is_released(folders, cluster)

    monkeypatch.setattr(ClusterFolders, "is_released", look)
    with pytest.raises(UnavailableError, match="Stale file handle"):
        await up(engine, wanted())
    assert daemon.containers == {}


@pytest.mark.usefixtures("inspected_image")
async def test_who_dies_before_a_host_is_described_leaves_the_next_one_to_make_its_folder(
    daemon: FakeDockerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At whichever step it ends: the marker of completion exists only if the container's user owns every file."""
    from jupyter_smx.engines.docker.containers.folders import prepare  # noqa: PLC0415 - beside the engine
    from jupyter_smx.engines.docker.daemon.users import ContainerUser  # noqa: PLC0415 - the same

    class Killed(BaseException):
        pass

    chown, folder = ContainerUser.chown, tmp_path / "clusters" / "c1" / "algo-1"
    for moment in range(1, 40):
        left = moment

        def dying(users: ContainerUser, *paths: Path) -> None:
            nonlocal left
            for path in paths:
                left -= 1
                if left == 0:
                    raise Killed
                chown(users, path)

        monkeypatch.setattr(ContainerUser, "chown", dying)
        engine = engine_at(daemon, tmp_path)
        try:
            prepare(ClusterFolders(tmp_path), wanted(image=IMAGE), engine._settings(), engine._users, daemon.url)
        except Killed:
            assert not (folder / "host.json").exists()
            continue
        break
    assert moment > 5, "each of its folders is one such moment"
    uid = os.getuid() or users.unused_id()
    owned = [folder, folder / "ml", folder / "tmp", folder / "ml" / "input", folder / "host.json"]
    assert {path.stat().st_uid for path in owned} == {uid}


async def test_where_a_cluster_is_stands_there_also_after_a_disk_that_had_no_room_for_it(
    daemon: FakeDockerd, tmp_path: Path
) -> None:
    from jupyter_smx.engines.docker.containers.folders import prepare, read_daemon_url  # noqa: PLC0415 - beside the engine

    engine, folders = engine_at(daemon, tmp_path), ClusterFolders(tmp_path)
    (tmp_path / "clusters" / "c1").mkdir(parents=True)
    (tmp_path / "clusters" / "c1" / "daemon").touch()  # created, but never written
    prepare(folders, wanted(image=IMAGE), engine._settings(), engine._users, daemon.url)
    assert read_daemon_url(folders, "c1") == daemon.url


async def test_a_host_that_is_described_is_not_made_anew_whatever_its_jobs_took_away(
    daemon: FakeDockerd, tmp_path: Path
) -> None:
    """Otherwise a link in place of a folder would make the container's user the owner of its target."""
    from jupyter_smx.engines.docker.containers.folders import prepare  # noqa: PLC0415 - beside the engine

    engine, mine, folder = engine_at(daemon, tmp_path), tmp_path / "mine", tmp_path / "clusters" / "c1" / "algo-1"
    mine.mkdir(mode=0o700)
    again = partial(
        prepare, ClusterFolders(tmp_path), wanted(image=IMAGE), engine._settings(), engine._users, daemon.url
    )
    again()
    (folder / "host.json").unlink()
    (folder / "tmp").rmdir()
    (folder / "tmp").symlink_to(mine)
    again()
    assert (mine.stat().st_mode & 0o777, mine.stat().st_uid) == (0o700, os.getuid())


@pytest.mark.usefixtures("inspected_image")
async def test_hosts_are_found_at_their_daemon_by_a_controller_that_uses_another(
    daemon: FakeDockerd, tmp_path: Path
) -> None:
    """After ``docker context use``, or in another shell: hosts of one daemon exist although the other lacks them."""
    handle = await up(engine_at(daemon, tmp_path), wanted(2))
    with serving(tmp_path / "other.sock", live) as other:
        later = engine_at(other, tmp_path)
        assert await later.observe_all([handle]) == [Observation.RUNNING]
        assert await later.find("c1") == handle
        command = await later.shell(handle, "algo-1")
        assert command is not None
        assert f"--host={daemon.url}" in command
        daemon.refuses[""] = (503, "not today")
        assert await later.observe_all([handle]) == [Observation.UNKNOWN]
        with pytest.raises(UnavailableError):
            await later.release(handle)
        daemon.refuses.clear()
        # A launch that a controller began at one daemon is not continued at the other.
        with pytest.raises(UnavailableError, match="was started at") as told:
            await up(later, wanted(2))
        assert told.value.transient
        assert other.containers == {}
        await later.release(Handle(engine="docker", cluster="c1"))
        assert (daemon.containers, daemon.networks) == ({}, {})


@pytest.mark.usefixtures("inspected_image")
async def test_hosts_of_which_nobody_wrote_down_where_they_are_are_at_the_usual_daemon(
    daemon: FakeDockerd, tmp_path: Path
) -> None:
    engine = engine_at(daemon, tmp_path)
    handle = await up(engine, wanted())
    (tmp_path / "clusters" / "c1" / "daemon").unlink()
    old = Handle(
        engine="docker",
        cluster="c1",
        hosts=tuple(HostHandle(host=one.host, data={"container": one.data["container"]}) for one in handle.hosts),
    )
    assert await engine.observe_all([old, handle]) == [Observation.RUNNING] * 2
    assert await engine.find("c1") == handle
    await engine.release(old)
    assert daemon.containers == {}
