"""Where the records are when the data folder is on a network file system, for every program alike."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest
from browser import controller_state

from jupyter_smx import controller_launch, controller_launch_errors
from jupyter_smx.controller.singleton import protect_from_cleaners
from jupyter_smx.data_folder import location

NETWORK = [
    "nfs", "nfs4", "cifs", "smb3", "9p", "afs", "beegfs", "lustre", "gpfs", "ceph", "glusterfs", "virtiofs", "wekafs",
    "fuse.sshfs", "fuse.glusterfs", "fuse.gcsfuse", "fuse.juicefs", "fuse.ceph-fuse", "fuse.s3fs", "fuse.rclone",
]  # fmt: skip
LOCAL = ["ext4", "xfs", "btrfs", "overlay", "tmpfs", "fuseblk", "fuse.fuse-overlayfs", "fuse.gocryptfs", "fuse"]

as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can make what belongs to another user")


class Machine:
    """A network home, two folders of temporary files, and what the system says of mounts."""

    def __init__(self, folder: Path) -> None:
        self.home, self.first, self.second = (folder / name for name in ("home", "first", "second"))
        for parent in (self.first, self.second):
            parent.mkdir()
            parent.chmod(0o1777)
        self.home.mkdir()
        self.chosen = self.home / "smx"
        self.mounts = folder / "mounts"
        self.mount(f"server:/home {self.home} nfs4")

    def mount(self, *lines: str) -> None:
        self.mounts.write_text("".join(f"{line} rw 0 0\n" for line in ("/dev/sda / ext4", *lines)))

    def names(self) -> list[str]:
        return location.local_folder_names(self.chosen, os.getuid(), location.read_token(self.chosen))

    def has_token(self, token: str) -> None:
        """Let the data folder have a token from an earlier start."""
        self.chosen.mkdir(mode=0o700, exist_ok=True)
        (self.chosen / ".records-token").write_text(f"{token}\n")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    (tmp_path / "machine").mkdir()
    made = Machine(tmp_path / "machine")
    monkeypatch.setattr(location, "SYSTEM_MOUNTS", made.mounts)
    monkeypatch.setattr(location, "PARENT_FOLDERS", (made.first, made.second))
    monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, str(made.chosen))
    made.has_token("ab" * 8)
    return made


@pytest.mark.parametrize("kind", NETWORK)
def test_a_type_that_several_machines_mount_is_a_network_one(kind: str) -> None:
    assert location.network_type(Path("/home/me"), f"a / ext4 rw 0 0\nb /home {kind} rw 0 0\n") == kind


@pytest.mark.parametrize("kind", LOCAL)
def test_disks_of_the_machine_are_local(kind: str) -> None:
    assert location.network_type(Path("/home/me"), f"a / nfs rw 0 0\nb /home {kind} rw 0 0\n") == ""


def test_the_nearest_mount_decides_and_the_last_of_one_place() -> None:
    mounts = "a / nfs rw 0 0\nb /home ext4 rw 0 0\nc /home/my\\040net nfs4 rw 0 0\nd /home/a\\134b nfs rw 0 0\n"
    assert location.network_type(Path("/home/me"), mounts) == ""
    assert location.network_type(Path("/home/my net/x"), mounts) == "nfs4"
    assert location.network_type(Path("/home/a\\b"), mounts) == "nfs"
    assert location.network_type(Path("/homes"), mounts) == "nfs"
    automounted = "auto /home autofs rw 0 0\nserver:/home /home nfs4 rw 0 0\n"
    assert location.network_type(Path("/home/me"), automounted) == "nfs4"


def test_the_root_of_a_virtual_machine_is_its_own_disk() -> None:
    mounts = "shared / virtiofs rw 0 0\nhomes /home virtiofs rw 0 0\n"
    assert location.network_type(Path("/var/lib"), mounts) == ""
    assert location.network_type(Path("/home/me"), mounts) == "virtiofs"


def test_a_local_data_folder_holds_everything(machine: Machine) -> None:
    machine.mount()
    assert location.locate(machine.chosen) == (machine.chosen, machine.chosen, "")
    assert controller_launch.records_note() == ""
    assert not [*machine.first.iterdir()]


def test_records_of_a_network_home_are_in_a_private_local_folder(machine: Machine) -> None:
    found = location.locate(machine.chosen)
    assert found == (machine.first / machine.names()[0], machine.chosen, "nfs4")
    assert stat.S_IMODE(found.records.stat().st_mode) == 0o700
    assert controller_launch.data_dir() == controller_launch.lock_path().parent == found.records
    assert controller_launch.jobs_dir() == machine.chosen / "jobs"
    for words in (str(found.records), "nfs4", "lost when this machine", str(machine.chosen / "jobs")):
        assert words in controller_launch.records_note()
    assert "earlier version" not in controller_launch.records_note()
    machine.chosen.mkdir(parents=True, exist_ok=True)
    (machine.chosen / "smx.sqlite").touch()
    assert f"Records of an earlier version are in {machine.chosen}." in controller_launch.records_note()


def test_a_full_network_home_is_named_itself(machine: Machine) -> None:
    full = OSError(errno.EDQUOT, "Disk quota exceeded", str(machine.chosen / "jobs"))
    error = controller_launch_errors.start_error(full)
    assert (error.value, "too long" in error.rule) == (str(machine.chosen), False)
    assert f"{machine.chosen / 'jobs'} cannot be used: Disk quota exceeded." in error.message


def test_the_parent_of_an_unmapped_root_is_safe(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    assert location._is_safe_parent(machine.first, 4242) == (machine.first.stat().st_uid in (0, 4242))
    unmapped = machine.first / "overflowuid"
    unmapped.write_text(f"{machine.first.stat().st_uid}\n")
    monkeypatch.setattr(location, "_UNMAPPED_UID", unmapped)
    assert location._is_safe_parent(machine.first, 4242)


def test_other_users_and_other_data_folders_have_other_names() -> None:
    chosen = Path("/home/me/smx")
    folders = [(chosen, 1000, "a"), (chosen, 1001, "a"), (Path("/b"), 1000, "a"), (chosen, 1000, "b")]
    names = [location.local_folder_names(*folder) for folder in folders]
    assert len({name for each in names for name in each}) == len(names[0]) * 4


def test_containers_with_one_uid_and_one_path_of_their_homes_have_folders_of_their_own(machine: Machine) -> None:
    """Two people whose containers share /var/tmp: each home is mounted at the same path."""
    found = []
    for owner in ("one", "other"):
        (machine.chosen / ".records-token").unlink()
        machine.chosen.rmdir()
        found += [location.locate(machine.chosen).records, location.locate(machine.chosen).records]
        assert re.fullmatch(r"[0-9a-f]{16}", location.read_token(machine.chosen)), owner
        assert stat.S_IMODE(machine.chosen.stat().st_mode) == 0o700
    assert found[0] == found[1]
    assert found[2] == found[3]
    assert found[0] != found[2]


def test_records_of_a_home_that_was_full_stay_where_they_began(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine.chosen / ".records-token").unlink()
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", lambda _file: (_ for _ in ()).throw(OSError(errno.EDQUOT, "full")))
        began = location.locate(machine.chosen).records
    assert not [*machine.chosen.iterdir()]
    assert began.name == machine.names()[0]
    assert location.locate(machine.chosen).records == began


def test_a_token_that_another_process_writes_now_is_waited_for(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine.chosen / ".records-token").write_text("")
    monkeypatch.setattr(location.time, "sleep", lambda _seconds: machine.has_token("cd" * 8))
    assert location.locate(machine.chosen).records.name == machine.names()[0]
    assert location.read_token(machine.chosen) == "cd" * 8


def test_a_link_to_the_data_folder_leads_to_the_same_records(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(machine.chosen)
    assert location.locate(tmp_path / "link").records == location.locate(machine.chosen).records


def test_a_name_that_is_a_link_a_file_or_open_to_others_is_passed_over(machine: Machine, tmp_path: Path) -> None:
    names = machine.names()
    (tmp_path / "trap").mkdir(mode=0o700)
    (machine.first / names[0]).symlink_to(tmp_path / "trap")
    (machine.first / names[1]).touch()
    (machine.first / names[2]).mkdir()
    (machine.first / names[2]).chmod(0o777)
    assert location.locate(machine.chosen).records == machine.first / names[3]
    assert not [*(tmp_path / "trap").iterdir()]


@as_root
def test_a_name_that_another_user_took_is_passed_over_for_good(machine: Machine) -> None:
    names = machine.names()
    taken = machine.first / names[0]
    taken.mkdir(mode=0o700)
    os.chown(taken, 12345, 12345)
    assert location.locate(machine.chosen).records == machine.first / names[1]
    taken.rmdir()
    assert location.locate(machine.chosen).records == machine.first / names[1]


@pytest.mark.parametrize("fault", ["missing", "network", "unprotected", "all names taken"])
def test_a_folder_of_temporary_files_that_is_not_safe_is_passed_over(machine: Machine, fault: str) -> None:
    if fault == "missing":
        machine.first.rmdir()
    elif fault == "network":
        machine.mount(f"server:/home {machine.home} nfs4", f"server:/tmp {machine.first} nfs4")
    elif fault == "unprotected":
        machine.first.chmod(0o777)
    else:
        for name in machine.names():
            (machine.first / name).touch()
    assert location.locate(machine.chosen).records == machine.second / machine.names()[0]


def test_without_any_local_folder_it_stays_the_data_folder(machine: Machine) -> None:
    machine.first.rmdir()
    machine.second.rmdir()
    assert location.locate(machine.chosen) == (machine.chosen, machine.chosen, "nfs4")
    assert controller_launch.records_note() == ""


def test_both_folders_are_made_for_this_user_only(machine: Machine) -> None:
    controller_launch.ensure_folders()
    for folder in (machine.chosen, controller_launch.data_dir()):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_controller_gets_the_data_folder_and_finds_the_records_itself(machine: Machine, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "${controller_launch.DATA_DIR_VARIABLE}" "$PWD"\n')
    python.chmod(0o755)
    assert controller_launch.start_controller(str(python)).wait() == 0
    assert controller_launch.last_log_line() == f"{machine.chosen} {controller_launch.data_dir()}"


async def test_records_have_one_id_for_all_programs(
    machine: Machine, jp_fetch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert controller_launch.records_id() == ""
    controller_launch.ensure_folders()
    first = controller_launch.records_id()
    assert re.fullmatch(r"[0-9a-f]{16}", first)
    controller_launch.ensure_folders()
    state = json.loads((await jp_fetch("jupyter-smx", "controller")).body)
    assert state["records_id"] == controller_launch.records_id() == first
    assert [path.name for path in controller_launch.data_dir().glob("records-id*")] == ["records-id"]
    monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, str(machine.home / "other"))
    controller_launch.ensure_folders()
    assert controller_launch.records_id() not in {"", first}


async def test_the_panel_says_where_the_records_are(machine: Machine, jp_fetch: Any) -> None:
    told = await controller_state(jp_fetch)
    assert told == {"running": False, "records_note": controller_launch.records_note()}
    assert machine.names()[0] in told["records_note"]


def test_cleaners_of_temporary_files_find_a_lock(tmp_path: Path) -> None:
    other = os.open(tmp_path, os.O_RDONLY)
    try:
        with protect_from_cleaners(tmp_path), pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(other)
