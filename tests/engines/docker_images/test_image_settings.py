"""Settings and files of an image that count for hosts, at a daemon that makes no containers."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import os
import re
import sys
import tarfile
from typing import TYPE_CHECKING, Any

import pytest
from fake_dockerd import IMAGE, end
from fake_engine import engine_at, up, wanted
from msgspec.structs import replace

from jupyter_smx.engines.docker.containers import container_spec, image_parts, probe_container
from jupyter_smx.engines.docker.containers.image_parts import ImageParts, ImageUser
from jupyter_smx.engines.docker.daemon import users
from jupyter_smx.engines.docker.daemon.daemon_info import DaemonInfo
from jupyter_smx.engines.docker.images import image_config
from jupyter_smx.engines.docker.images.python_errors import ImageProblem
from jupyter_smx.model.errors import RefusedError

if TYPE_CHECKING:
    from pathlib import Path

    from fake_dockerd import FakeDockerd

ENTRY = ["/entry.sh", "--quiet"]
REPORT = {"uid": 1000, "gid": 100, "groups": [100, 27], "name": "app", "home": "/home/app"}
FACTS = {"closed": [], "train": False, "files": False, "bytecode": True}


def report(**facts: Any) -> str:
    return json.dumps({**REPORT, **FACTS, **facts}) + "\n[3, 11]\n"


def is_look(container: dict[str, Any]) -> bool:
    return "Mounts" not in container["config"]["HostConfig"]


def looked_as(daemon: FakeDockerd, said: dict[str, tuple[int, str]]) -> list[dict[str, Any]]:
    """Let containers that look at the image as a user write this, by the user; return their requests."""
    live, asked = daemon.live, []

    def answer(container: dict[str, Any]) -> None:
        if not is_look(container):
            live(container)
            return
        asked.append(container["config"])
        end(container, *said[container["config"]["User"]])

    daemon.live = answer
    return asked


@pytest.fixture
def of_image(daemon: FakeDockerd) -> FakeDockerd:
    config = {"User": "app", "WorkingDir": "/app", "Entrypoint": ENTRY, "Cmd": ["serve"]}
    daemon.image = {**daemon.image, "Config": config}
    return daemon


async def test_the_record_of_an_image_has_its_settings(of_image: FakeDockerd, tmp_path: Path) -> None:
    looked_as(of_image, {users.ContainerUser("").name(): (0, report(train=True))})
    found = await engine_at(of_image, tmp_path).resolve_image("ml:1", lambda _step: None)
    assert (found.user, found.workdir, found.has_train) == ("app", "/app", True)
    assert (found.entrypoint, found.cmd) == (tuple(ENTRY), ("serve",))


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files to others")
async def test_a_host_that_follows_all_settings_runs_as_the_images_user_through_its_entry_point(
    of_image: FakeDockerd, tmp_path: Path
) -> None:
    looks = looked_as(of_image, {"": (0, report())})
    engine = engine_at(of_image, tmp_path)
    await up(engine, replace(wanted(image="ml:1"), image_settings=("entrypoint", "user")))
    own, look = looks
    assert (own["Entrypoint"][0], own["User"]) == ("python3", ""), "it reports the numbers of the image's user"
    assert look["Entrypoint"][:3] == [*ENTRY, "python3"], "the look goes the way of the host"
    assert (look["User"], look["WorkingDir"]) == ("", "/app")
    folders = {"/tmp": "", "/opt/ml": "mode=1777,uid=1000,gid=100"}  # noqa: S108
    assert look["HostConfig"]["Tmpfs"] == folders, "what it may write to in a host"
    [made] = [one["config"] for one in of_image.containers.values()]
    assert made["Entrypoint"][:4] == [*ENTRY, "python3", "-I"]
    assert (made["User"], made["WorkingDir"], made["HostConfig"]["GroupAdd"]) == ("1000:100", "/app", ["27"])
    assert {"HOME=/home/app", "USER=app", "LOGNAME=app"} <= {*made["Env"]}
    assert made["HostConfig"]["NetworkMode"] == "jupyter-smx-c1", "an entry point may use the network"
    folder = tmp_path / "clusters" / "c1" / "algo-1"
    assert {(path.stat().st_uid, path.stat().st_gid) for path in (folder, folder / "ml")} == {(1000, 100)}
    found = await engine.find("c1")
    assert found is not None
    assert found.hosts[0].data["user"] == "1000:100", "another controller gives it files of that user"


@pytest.mark.parametrize(
    ("user", "looks", "options"),
    [("1000:100", 1, "mode=1777,uid=1000,gid=100"), ("root", 1, "mode=1777"), ("app", 6, "mode=1777")],
    ids=["numbers", "root", "a name whose numbers no container without the entry point reports"],
)
async def test_an_entry_point_is_tried_also_where_it_alone_brings_a_python(
    of_image: FakeDockerd, tmp_path: Path, user: str, looks: int, options: str
) -> None:
    of_image.image["Config"]["User"] = user
    asked, live = [], of_image.live

    def answer(container: dict[str, Any]) -> None:
        if not is_look(container):
            live(container)
            return
        asked.append(container["config"])
        has_python = container["config"]["Entrypoint"][0] == ENTRY[0]
        end(container, *((0, report(uid=os.getuid())) if has_python else (1, "no module named json")))

    of_image.live = answer
    await engine_at(of_image, tmp_path).resolve_image("ml:1", lambda _step: None, settings=("entrypoint", "user"))
    assert len(asked) == looks
    assert asked[-1]["HostConfig"]["Tmpfs"]["/opt/ml"] == options


async def test_without_an_option_nothing_of_the_image_counts(of_image: FakeDockerd, tmp_path: Path) -> None:
    name = users.ContainerUser("").name()
    looks = looked_as(of_image, {name: (0, report())})
    await up(engine_at(of_image, tmp_path), wanted(image="ml:1"))
    [made] = [one["config"] for one in of_image.containers.values()]
    assert (looks[0]["User"], looks[0]["Entrypoint"][0]) == (name, "python3")
    assert (made["User"], made["WorkingDir"], made["Entrypoint"][0]) == (name, "/", "python3")
    assert "HOME=/tmp" in made["Env"]
    assert "GroupAdd" not in made["HostConfig"]


async def test_settings_are_looked_at_each_for_themselves(of_image: FakeDockerd, tmp_path: Path) -> None:
    name = users.ContainerUser("").name()
    looks = looked_as(of_image, {name: (0, report(uid=os.getuid())), "": (0, report(uid=os.getuid()))})
    engine = engine_at(of_image, tmp_path)
    for settings in ((), ("user",), ("entrypoint",), ("user",)):
        await engine.resolve_image("ml:1", lambda _step: None, settings=settings)
    assert [(one["User"], one["Entrypoint"][0]) for one in looks] == [
        (name, "python3"),
        ("", "python3"),
        (name, "/entry.sh"),
    ]
    assert await engine.cached_image("ml:1", settings=("user",)) is not None
    assert await engine.cached_image("ml:1", settings=("entrypoint", "user")) is None


def test_configuration_names_settings_by_the_name_of_the_image(daemon: FakeDockerd, tmp_path: Path) -> None:
    patterns = {"hub/lab/*": ["user", "workdir"], "hub/*": ["entrypoint"]}
    engine = engine_at(daemon, tmp_path, image_settings=patterns)
    assert engine.image_defaults("hub/lab/train:1") == ["entrypoint", "user", "workdir"]
    assert engine.image_defaults("hub/x:1") == ["entrypoint"]
    assert engine.image_defaults("other:1") == []


async def test_a_python_that_only_the_images_user_can_use_is_named_with_the_cure(
    of_image: FakeDockerd, tmp_path: Path
) -> None:
    """Of ``uv python install`` as root: the interpreter is below a folder of mode 700."""
    name = users.ContainerUser("").name()
    closed = report(uid=os.getuid(), name="root", closed=["/root"])
    looked_as(of_image, {name: (127, "python3: not found"), "": (0, closed)})
    with pytest.raises(RefusedError, match=r"python3 of 'uvroot:1' can be used by root, the image's user") as refused:
        await engine_at(of_image, tmp_path).resolve_image("uvroot:1", lambda _step: None)
    assert f"and not by {name}, the user of jobs: /root is closed to other users." in str(refused.value)
    assert "--user image" in refused.value.cure
    assert "RUN chmod o+x /root" in refused.value.cure
    assert of_image.containers == {}


@pytest.mark.parametrize(("first", "is_closed"), [("/root/venv/bin/python3", True), ("/usr/bin/python3", False)])
async def test_a_python_of_the_system_does_not_take_the_place_of_a_closed_one_before_it(
    of_image: FakeDockerd, tmp_path: Path, first: str, *, is_closed: bool
) -> None:
    mine = report(executable="/usr/bin/python3", hides=True)
    own = report(uid=os.getuid(), name="root", closed=["/root"], executable=first)
    looks = looked_as(of_image, {users.ContainerUser("").name(): (0, mine), "": (0, own)})
    engine = engine_at(of_image, tmp_path)
    if is_closed:
        with pytest.raises(
            RefusedError, match=r"/root/venv/bin/python3 of 'uv:1' can be used by root.* /root is closed"
        ):
            await engine.resolve_image("uv:1", lambda _step: None)
    else:
        assert (await engine.resolve_image("uv:1", lambda _step: None)).python_version == "3.11"
    assert len(looks) == 2


async def test_an_image_without_any_python_is_said_to_have_none(of_image: FakeDockerd, tmp_path: Path) -> None:
    looked_as(of_image, {users.ContainerUser("").name(): (127, "not found"), "": (127, "not found")})
    with pytest.raises(RefusedError, match="has no Python that can run hosts"):
        await engine_at(of_image, tmp_path).resolve_image("bare:1", lambda _step: None)


async def test_an_image_of_another_user_is_refused_where_files_cannot_be_given_to_that_user(
    of_image: FakeDockerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(users.ContainerUser, "can_own_files", lambda _self, uid: uid == 7)
    looked_as(of_image, {"": (0, report())})
    with pytest.raises(RefusedError, match="jobs of 'ml:1' cannot run as its user 1000:100") as refused:
        await engine_at(of_image, tmp_path).resolve_image("ml:1", lambda _step: None, settings=("user",))
    assert (refused.value.field, bool(refused.value.cure), refused.value.transient) == ("user", True, False)


@pytest.mark.parametrize(("code", "said"), [(0, "set up"), (1, "cannot write /etc/app.conf")])
async def test_an_entry_point_that_ends_without_its_arguments_is_refused(
    of_image: FakeDockerd, tmp_path: Path, code: int, said: str
) -> None:
    looks = looked_as(of_image, {users.ContainerUser("").name(): (code, said)})
    with pytest.raises(
        RefusedError, match=r"--entrypoint: /entry.sh --quiet of 'ml:1' ended with exit code"
    ) as refused:
        await engine_at(of_image, tmp_path).resolve_image("ml:1", lambda _step: None, settings=("entrypoint",))
    assert said in str(refused.value)
    assert 'exec "$@"' in refused.value.cure
    assert (len(looks), of_image.containers, refused.value.transient) == (1, {}, False)


@pytest.mark.parametrize(
    ("entrypoint", "said", "cure"),
    [
        (["/e.sh"], "/e.sh: 3: cannot create /etc/app: Read-only file system", "Let it write to /tmp, or do this when"),
        (
            ["/e.sh"],
            "error: failed switching to app: operation not permitted",
            "Set USER in the image, add --user image",
        ),
        (["/e.sh"], "curl: (6) Could not resolve host: hub", "Let it go on without a network"),
        (["/bin/sh", "-c", "/e.sh"], "", r'Write ENTRYPOINT as a list without a shell, as \["/entry.sh"\]'),
        (
            ["python3", "/opt/ml/code/e.py"],
            "python3: can't open file '/opt/ml/code/e.py': [Errno 2] No such file or directory",
            "Copy what it needs to another folder",
        ),
        (["/e.sh"], "bad", 'End it with exec "[$]@"'),
    ],
)
def test_a_failed_entry_point_has_the_cure_of_its_cause(entrypoint: list[str], said: str, cure: str) -> None:
    error = ImageProblem("ml:1", "docker").entrypoint_ended(entrypoint, 1, said)
    assert re.search(f"{cure}.*Or leave out --entrypoint image", error.cure)


@pytest.mark.parametrize(
    ("kind", "options"),
    [(DaemonInfo(), "mode=1777,uid=1000,gid=100"), (DaemonInfo(podman=(4, 3, 1)), "mode=1777,U")],
)
def test_an_entry_point_is_tried_with_an_opt_ml_of_its_user_as_the_daemon_can(kind: DaemonInfo, options: str) -> None:
    config = probe_container.container_config("ml:1", ENTRY, "1000:100", {}, kind)
    probe_container.prepare_entrypoint(config, "/app", kind)
    assert config["HostConfig"]["Tmpfs"]["/opt/ml"] == options


async def test_an_entry_point_that_never_ends_is_refused_and_its_container_removed(
    of_image: FakeDockerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jupyter_smx.engines.docker.containers.probe_container import Probe  # noqa: PLC0415 - Docker's library

    async def wait_long(_probe: Probe, _seconds: float) -> int:
        raise TimeoutError

    monkeypatch.setattr(Probe, "wait_exit", wait_long)
    with pytest.raises(RefusedError, match="did not start Python within 1 min") as refused:
        await engine_at(of_image, tmp_path).resolve_image("ml:1", lambda _step: None, settings=("entrypoint",))
    assert (refused.value.field, refused.value.transient, of_image.containers) == ("entrypoint", False, {})


async def test_an_entry_point_that_is_not_there_is_refused(of_image: FakeDockerd, tmp_path: Path) -> None:
    said = 'exec: "/entry.sh": stat /entry.sh: no such file or directory: unknown'
    of_image.refuses["POST /containers/jupyter-smx-probe"] = (400, said)
    with pytest.raises(RefusedError, match=r"/entry.sh --quiet of 'ml:1' cannot be started"):
        await engine_at(of_image, tmp_path).resolve_image("ml:1", lambda _step: None, settings=("entrypoint",))


async def test_an_image_whose_user_is_unknown_is_refused(of_image: FakeDockerd, tmp_path: Path) -> None:
    looked_as(of_image, {"": (0, "[3, 11]\n")})
    with pytest.raises(RefusedError, match="the user of 'ml:1' is unknown") as refused:
        await engine_at(of_image, tmp_path).resolve_image("ml:1", lambda _step: None, settings=("user",))
    assert refused.value.cure


@pytest.mark.parametrize(
    ("user", "recorded"), [("root", ""), ("0:0", ""), ("0", ""), ("app", "app"), ("1000:0", "1000:0")]
)
def test_the_user_root_is_the_one_of_images_without_user(user: str, recorded: str) -> None:
    assert image_config.parse_config({"Config": {"User": user}}).user == recorded


@pytest.mark.parametrize(
    ("said", "has_user"), [(report(), True), ("warning\n{}\n[3, 11]\n", False), ('{"uid": 1}', False), ("", False)]
)
def test_the_report_of_a_container_is_found_among_what_it_writes(said: str, *, has_user: bool) -> None:
    assert (image_config.parse_report(said).user is not None) == has_user


def test_the_report_of_this_machine_tells_the_user_and_what_is_closed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train").write_text("#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = []
    for mode in (0o644, 0o755):
        (tmp_path / "train").chmod(mode)
        exec(compile(image_config.REPORT_SCRIPT, "<look>", "exec"), {})  # noqa: S102 - as an image's Python does
        found.append(image_config.parse_report(capsys.readouterr().out))
    assert [one.has_train for one in found] == [False, True]
    assert found[0].user is not None
    assert found[0].user.numbers() == f"{os.getuid()}:{os.getgid()}"


@pytest.mark.parametrize(
    ("folders", "hides"),
    [(("closed", "own"), True), (("own", "closed"), False), (("gone", "own"), False), (("closed",), True)],
)
def test_a_report_tells_if_a_place_before_its_python_is_closed(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    folders: tuple[str, ...],
    *,
    hides: bool,
) -> None:
    def stat(path: str) -> os.stat_result:
        if str(path).startswith(f"{tmp_path}/closed/"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real(path)

    real = os.stat
    monkeypatch.setattr(os, "stat", stat)
    monkeypatch.setattr(sys, "executable", f"{tmp_path}/own/python3")
    monkeypatch.setenv("PATH", os.pathsep.join(f"{tmp_path}/{name}" for name in folders))
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "python3").touch()
    exec(compile(image_config.REPORT_SCRIPT, "<look>", "exec"), {})  # noqa: S102 - as an image's Python does
    found = image_config.parse_report(capsys.readouterr().out)
    assert (found.may_hide_python, found.executable) == (hides, f"{tmp_path}/own/python3")


@pytest.mark.parametrize(
    ("config", "entrypoint"),
    [
        ({"Entrypoint": None}, ()),
        ({"Entrypoint": ["/e"]}, ("/e",)),
        ({"Entrypoint": "/e"}, ("/e",)),
        ({"Entrypoint": [""]}, ()),
        ({}, ()),
    ],
)
def test_an_entry_point_is_read_in_each_of_its_forms(config: dict[str, Any], entrypoint: tuple[str, ...]) -> None:
    assert image_config.parse_config({"Config": config}).entrypoint == entrypoint
    assert image_config.parse_config({}).entrypoint == ()


def packed(*members: tuple[str, bytes, str]) -> tarfile.TarFile:
    """Return the archive that a daemon sends of ``/opt/ml``: names, types, and contents or targets."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, kind, text in members:
            info = tarfile.TarInfo(name)
            info.type, info.mode, info.mtime = kind, 0o600, 1_600_000_000
            info.linkname = text if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
            info.size = len(text) if kind == tarfile.REGTYPE else 0
            archive.addfile(info, io.BytesIO(text.encode()) if kind == tarfile.REGTYPE else None)
    file.seek(0)
    return tarfile.open(fileobj=file, mode="r|")


def test_files_of_the_image_are_copied_for_every_user(tmp_path: Path) -> None:
    from jupyter_smx.engines.docker.images.opt_ml_files import extract  # noqa: PLC0415 - Docker's library

    archive = packed(
        ("ml", tarfile.DIRTYPE, ""),
        ("ml/code", tarfile.DIRTYPE, ""),
        ("ml/code/train.py", tarfile.REGTYPE, "print()"),
        ("ml/code/same.py", tarfile.LNKTYPE, "ml/code/train.py"),
        ("ml/code/link.py", tarfile.SYMTYPE, "/opt/program/train.py"),
        ("ml/secret", tarfile.SYMTYPE, "/etc/hostname"),
        ("ml/again", tarfile.LNKTYPE, "ml/secret"),
        ("ml/pipe", tarfile.FIFOTYPE, ""),
    )
    assert extract(archive, tmp_path) == 5
    assert (tmp_path / "again").is_symlink(), "a second name of a link is none of the file of this machine"
    found = tmp_path / "code" / "train.py"
    assert (found.read_text(), found.stat().st_mode & 0o777, found.stat().st_mtime) == ("print()", 0o644, 1_600_000_000)
    assert (tmp_path / "code" / "same.py").read_text() == "print()"
    assert (tmp_path / "code" / "link.py").readlink().as_posix() == "/opt/program/train.py"
    assert not (tmp_path / "pipe").exists()


def test_nothing_of_an_archive_is_written_outside(tmp_path: Path) -> None:
    from jupyter_smx.engines.docker.images.opt_ml_files import extract  # noqa: PLC0415 - Docker's library

    target = tmp_path / "in"
    target.mkdir()
    archive = packed(
        ("ml", tarfile.DIRTYPE, ""),
        ("ml/out", tarfile.SYMTYPE, str(tmp_path)),
        ("ml/out/evil", tarfile.REGTYPE, "x"),
        ("ml/../evil", tarfile.REGTYPE, "x"),
        ("ml/../../evil", tarfile.REGTYPE, "x"),
        ("/evil", tarfile.REGTYPE, "x"),
        ("ml/hard", tarfile.LNKTYPE, "ml/../../etc/passwd"),
    )
    extract(archive, target)
    assert [path.name for path in tmp_path.rglob("*") if not path.is_symlink()] in (["in"], ["in", "evil"])
    assert not (tmp_path / "evil").exists()


def test_files_of_the_image_can_only_be_read_in_a_host() -> None:
    parts = ImageParts(files="/home/me/images/1/ml", workdir="/app", user=ImageUser(1000, 100))
    request = wanted()
    settings = container_spec.Settings(
        data_dir="/home/me", user="1000:100", network_isolation=False, pids=99, grace=1.0, variables={}
    )
    from pathlib import Path  # noqa: PLC0415 - above only for types

    from jupyter_smx.engines.machine.host_folder import HostFolder  # noqa: PLC0415 - one test

    folder = HostFolder(Path("/home/me/clusters/c1/algo-1"))
    plan = request.hosts[0]
    made = container_spec.container_plan(request, plan, folder, Path("/a"), "python3", settings, parts=parts)
    [mount] = [one for one in made.container["HostConfig"]["Mounts"] if one["Target"] == image_parts.IMAGE_ML]
    assert (mount["Source"], mount["ReadOnly"]) == (parts.files, True)
    told = container_spec.host_json(request, plan, settings, parts)
    assert (told["image_files"], told["image_workdir"]) == (image_parts.IMAGE_ML, "/app")
    assert "image_files" not in container_spec.host_json(request, plan, settings)


async def test_files_of_images_that_no_daemon_has_are_deleted(daemon: FakeDockerd, tmp_path: Path) -> None:
    engine = engine_at(daemon, tmp_path)
    folder = image_parts.files_folder(tmp_path, IMAGE)
    folder.mkdir(parents=True)
    await engine.sweep(list)
    assert folder.is_dir()
    daemon.refuses["GET /images"] = (404, "no such image")
    await engine.sweep(list)
    assert not folder.parent.exists()


async def test_files_of_an_image_that_were_deleted_are_copied_again(
    daemon: FakeDockerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after ``docker image prune`` and a download of the same image."""
    from jupyter_smx.engines.docker.images import opt_ml_files  # noqa: PLC0415 - Docker's library

    copies = []

    async def copy(*arguments: Any) -> str:
        folder = image_parts.files_folder(tmp_path, IMAGE)
        copies.append(arguments)
        folder.mkdir(parents=True)
        return str(folder)

    monkeypatch.setattr(opt_ml_files, "provide", copy)
    looked_as(daemon, {users.ContainerUser("").name(): (0, report(files=True))})
    engine = engine_at(daemon, tmp_path)
    for _ in range(2):
        await engine.resolve_image("ml:1", lambda _step: None)
    assert len(copies) == 1
    image_parts.files_folder(tmp_path, IMAGE).rmdir()
    await engine.resolve_image("ml:1", lambda _step: None)
    assert len(copies) == 2


async def test_two_names_of_one_image_are_copied_once(
    daemon: FakeDockerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jupyter_smx.engines.docker.images import opt_ml_files  # noqa: PLC0415 - Docker's library

    fetched = []

    def fetch(_api: Any, _container: str, part: Path) -> tuple[int, None]:
        fetched.append(part)
        part.mkdir(parents=True)
        (part / "model.bin").write_text("weights")
        return 1, None

    monkeypatch.setattr(opt_ml_files, "_fetch", fetch)
    name = users.ContainerUser("").name()
    looked_as(daemon, {name: (0, report(files=True)), "": (0, report(files=True, uid=os.getuid()))})
    engine = engine_at(daemon, tmp_path)
    await asyncio.gather(
        *(engine.resolve_image("ml:1", lambda _step: None, settings=settings) for settings in ((), ("user",)))
    )
    assert len(fetched) == 1
    assert (image_parts.files_folder(tmp_path, IMAGE) / "model.bin").read_text() == "weights"


async def test_a_full_disk_of_this_machine_is_not_an_error_of_the_daemon(
    daemon: FakeDockerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jupyter_smx.engines.docker.images import opt_ml_files  # noqa: PLC0415 - Docker's library

    def fetch(*_arguments: Any) -> tuple[int, OSError]:
        return 0, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(opt_ml_files, "_fetch", fetch)
    looked_as(daemon, {users.ContainerUser("").name(): (0, report(files=True))})
    with pytest.raises(RefusedError, match=r"data_dir: .*No space left on device"):
        await engine_at(daemon, tmp_path).resolve_image("ml:1", lambda _step: None)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_errors_of_the_disk_are_returned_and_those_of_the_connection_are_raised(tmp_path: Path, number: int) -> None:
    from jupyter_smx.engines.docker.images.opt_ml_files import _fetch  # noqa: PLC0415 - Docker's library

    def chunks(error: OSError) -> Any:
        raise error
        yield b""

    class Api:
        def get_archive(self, *_words: str) -> Any:
            return chunks(self.error), {}

        error: OSError = OSError(number, os.strerror(number))

    count, trouble = _fetch(Api(), "c1", tmp_path / "part")
    assert (count, trouble is not None and trouble.errno) == (0, number)
    Api.error = ConnectionResetError(errno.ECONNRESET, "reset")
    with pytest.raises(ConnectionResetError):
        _fetch(Api(), "c1", tmp_path / "other")
