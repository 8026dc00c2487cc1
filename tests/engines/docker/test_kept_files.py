"""Folders that all hosts of an image share: made once, safe from what jobs put there, and deleted after a month."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jupyter_smx.engines.docker.containers import kept_files
from jupyter_smx.engines.docker.daemon.users import ContainerUser

if TYPE_CHECKING:
    from pathlib import Path

NOW, DAY = 1_800_000_000.0, 86_400
SET, OTHER = "a" * 32, "b" * 32


def age(path: Path, days: float) -> None:
    os.utime(path, (NOW - days * DAY, NOW - days * DAY))


def test_the_folders_of_an_image_are_those_of_one_user_of_jobs() -> None:
    names = {kept_files.folder_name("sha256:12ab", user) for user in ("1000:1000", "0:0")}
    assert names == {"12ab-1000-1000", "12ab-0-0"}


def test_files_take_the_places_of_folders_where_jobs_write(tmp_path: Path) -> None:
    kept_files.make(tmp_path, "1-u", ContainerUser(""))
    folder = tmp_path / kept_files.BYTECODE / "1-u"
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} == {
        "opt/ml",
        "tmp",
        "dev",
    }
    (folder / "usr").mkdir()
    kept_files.make(tmp_path, "1-u", ContainerUser(""))
    assert (folder / "usr").is_dir(), "the second launch takes what is there"


def test_nothing_is_written_through_a_link_that_a_job_put_there(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    kept_files.make(tmp_path, "1-u", ContainerUser(""))
    folder = tmp_path / kept_files.BYTECODE / "1-u"
    (folder / "opt" / "ml").unlink()
    (folder / "opt").rmdir()
    (folder / "opt").symlink_to(elsewhere)
    (folder / "tmp").unlink()
    (folder / "tmp").symlink_to(elsewhere / "new")
    kept_files.make(tmp_path, "1-u", ContainerUser(""))
    kept_files.prune(tmp_path, folder.stat().st_mtime + 31 * DAY)
    assert not folder.exists()
    assert [*elsewhere.iterdir()] == []


def test_packages_that_no_job_used_for_a_month_are_deleted(tmp_path: Path) -> None:
    folder = tmp_path / kept_files.PACKAGES / "1-1000-1000"
    for name, days in ((SET, 31), (OTHER, 29)):
        (folder / name / "packages").mkdir(parents=True)
        (folder / f"{name}.lock").touch()
        age(folder / f"{name}.lock", days)
    age(folder, 40)
    kept_files.prune(tmp_path, NOW)
    assert sorted(path.name for path in folder.iterdir()) == [OTHER, f"{OTHER}.lock"]
    age(folder / f"{OTHER}.lock", 31)
    kept_files.prune(tmp_path, NOW)
    assert not folder.exists(), "a deletion is no use"
    kept_files.prune(tmp_path / "no data", NOW)


def test_names_that_jobs_choose_delete_nothing_else(tmp_path: Path) -> None:
    top = tmp_path / kept_files.PACKAGES
    mine, other = top / "1-u", top / "2-u"
    (other / SET).mkdir(parents=True)
    (mine / "precious").mkdir(parents=True)
    for name in ("...lock", "precious.lock", f"{SET}x.lock"):
        (mine / name).touch()
        age(mine / name, 99)
    (mine / f"{SET}.lock").symlink_to(tmp_path)
    (mine / SET).symlink_to(other)
    os.utime(mine / f"{SET}.lock", (1.0, 1.0), follow_symlinks=False)
    kept_files.prune(tmp_path, NOW)
    assert (mine / "precious").is_dir()
    assert (other / SET).is_dir()
    assert not os.path.lexists(mine / f"{SET}.lock")


def test_what_a_kill_left_is_deleted_after_a_day(tmp_path: Path) -> None:
    top = tmp_path / kept_files.PACKAGES
    for path, days in ((top / "1-u" / f"{SET}.part", 2), (top / "1-u" / f"{OTHER}.part", 0.5), (top / ".abc", 2)):
        path.mkdir(parents=True)
        age(path, days)
    kept_files.prune(tmp_path, NOW)
    assert sorted(path.name for path in top.rglob("*")) == ["1-u", f"{OTHER}.part"]
